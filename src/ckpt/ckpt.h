/* Checkpoints: a directory that exists whole or not at all
 * (doc/formats/checkpoint.md).
 *
 *   OUTPUT/checkpoint-STEP/manifest.json
 *   OUTPUT/checkpoint-STEP/config.json
 *   OUTPUT/checkpoint-STEP/state-ppP-tpT-dpD.bin   one a distinct shard
 *
 * A shard holds fp32 masters and both Adam moments of a range of one rank's
 * flat parameters: those of the model, or with an adapter those of the adapter
 * alone, beside which the manifest names the frozen model by its hash. The
 * manifest names every shard with its place in the model, its size and its
 * hash, so it can be read back onto any layout. All of it is written to a
 * temporary directory, synced, then renamed.
 */
#ifndef BN_CKPT_CKPT_H
#define BN_CKPT_CKPT_H

#include <jansson.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "ckpt/runs.h"
#include "model/config.h"
#include "model/lora.h"
#include "model/params.h"
#include "ops/ops.h"

/* The range of one part's flat parameters that a shard holds. */
struct bn_ckpt_shard {
    struct bn_part part;
    int pp, dp; /* coordinates, for the name */
    size_t begin, count;
    size_t bytes;
    struct bn_hash hash;
    bool tree; /* it is one of pieces (tree.h); before version 3, of the file
                  as a whole */
};

/* Where the state of a range lies: device memory, fp32. */
struct bn_ckpt_state {
    float *master, *m, *v; /* [count] */
};

/* What is written; what is read: 1 to that. */
enum { BN_CKPT_VERSION = 4 };

enum { BN_CKPT_NAME = 64 };
/* "state-pp0-tp1-dp2.bin"; returns 'out'. */
char *bn_ckpt_shard_name(const struct bn_ckpt_shard *s,
                         char out[BN_CKPT_NAME]);

/* --- Writing: begin (rank 0), shard (its one writer), commit (rank 0) ---- */

/* Malloc'ed: the path of the temporary directory of checkpoint 'step'. */
char *bn_ckpt_tmp(const char *output_dir, long step);
/* Make it, empty: what an interrupted save of the same step left there is
 * removed. Local. */
int bn_ckpt_begin(const char *tmp, struct bn_err *err);
/* Write one shard into 'tmp', synced; data: masters and both moments
 * [s->count] in host memory. One behind the other in memory that begins at a
 * page, they take the least of the processors. Sets s->bytes and s->hash. A
 * failure names the path; the file is removed. Local. */
int bn_ckpt_write_shard(const char *tmp, struct bn_ckpt_shard *s,
                        const float *const data[3], struct bn_err *err);
/* What all shards are about. */
struct bn_ckpt_of {
    const struct bn_model_config *cfg;
    const struct bn_lora *lora; /* NULL: the model itself is trained */
    const char *base; /* with an adapter: the hash of the model's weights */
};

/* Write config and manifest (shards[n] of all ranks; 'loop' is stored as it
 * is, 'trajectory' is the run's fingerprint text, see conf.h), sync, and
 * rename 'tmp' to OUTPUT/checkpoint-STEP. If that exists already it is
 * replaced. On failure 'tmp' is removed and older checkpoints are as they
 * were. Local. */
int bn_ckpt_commit(const char *tmp, const char *output_dir, long step,
                   const struct bn_ckpt_shard *shards, size_t n,
                   const struct bn_ckpt_of *of, const char *trajectory,
                   const json_t *loop, struct bn_err *err);

/* Remove checkpoints of OUTPUT so that 'limit' (0: all) stay, the newest and
 * step 'keep' (-1: none) among them. Only directories with a manifest that
 * this library wrote are touched. A directory that cannot be removed is a
 * warning. Local. */
void bn_ckpt_prune(const char *output_dir, long limit, long keep);

/* --- Reading ------------------------------------------------------------ */

struct bn_ckpt {
    char *path;
    long step;
    struct bn_model_config cfg;
    struct bn_lora lora; /* r 0: the model itself was trained */
    char *base;          /* hash of the frozen model; NULL without adapter */
    char *trajectory;
    json_t *loop; /* owned */
    struct bn_ckpt_shard *shard;
    struct bn_map *map; /* of each shard */
    size_t n;
};

/* Open a checkpoint directory: manifest, and size and mapping of every shard;
 * no checksum is looked at. Something torn, truncated or foreign is class
 * data and is named. NULL on failure. Local. */
struct bn_ckpt *bn_ckpt_open(const char *path, struct bn_err *err);
void bn_ckpt_close(struct bn_ckpt *c);

/* The checksums of those shards that fall to checker 'mine' of 'checkers'
 * (shard i to i modulo checkers; 0 checkers: none). One that differs is class
 * data and names the shard. Local. */
int bn_ckpt_check(const struct bn_ckpt *c, int checkers, int mine,
                  struct bn_err *err);

/* Copy the state of range [begin, begin + count) of the parameters 'params'
 * (any layout of the same model) out of the shards into host memory,
 * to[parts][count]: masters alone (1), or with both moments (3); elements of
 * padding become 0. Something that no shard holds is an error. Needs no
 * device. Local. */
int bn_ckpt_read_host(const struct bn_ckpt *c, const struct bn_params *params,
                      size_t begin, size_t count, float *const *to, int parts,
                      struct bn_err *err);
/* The same and bn_ckpt_check in one pass over the bytes. On failure 'to' may
 * hold anything. */
int bn_ckpt_load_host(const struct bn_ckpt *c, const struct bn_params *params,
                      size_t begin, size_t count, float *const *to, int parts,
                      int checkers, int mine, struct bn_err *err);

/* State in host memory on its way to a device: it goes there only when every
 * rank has found its share of the checksums good. What lies in the shards as
 * it belongs is left in their mapping: it has been read and checked, and is
 * copied once, to the device. */
struct bn_ckpt_stage {
    const struct bn_ckpt *of; /* borrowed */
    struct bn_ckpt_runs runs; /* of the mapping */
    struct bn_arena own;
    float *part[3]; /* [count]: the rest */
    size_t count;
};
/* Read what bn_ckpt_load_host reads, as far as it has to be copied into mem[3
 * * count] (borrowed), or with NULL into memory of its own, which is touched
 * only there. 'c' must stay open, and its files what they are.
 * bn_ckpt_unstage releases it; after a failure there is nothing to release.
 * Local. */
int bn_ckpt_stage(struct bn_ckpt_stage *g, const struct bn_ckpt *c,
                  const struct bn_params *params, size_t begin, size_t count,
                  int checkers, int mine, float *mem, struct bn_err *err);
/* To device memory; synchronous. Local. */
int bn_ckpt_place_stage(const struct bn_ckpt_stage *g,
                        const struct bn_ckpt_state *to, struct bn_dev *dev,
                        struct bn_err *err);
void bn_ckpt_unstage(struct bn_ckpt_stage *g);

/* Put what a shard in memory, 'master' [shard->count], has of 'params' (any
 * layout of the same model, or of its adapter) into flat[params->elems].
 * Local. */
int bn_ckpt_place(float *flat, const struct bn_params *params,
                  const struct bn_ckpt_of *of,
                  const struct bn_ckpt_shard *shard, const float *master,
                  struct bn_err *err);

/* Steps of the checkpoints in OUTPUT that have a manifest, ascending;
 * malloc'ed '*steps'. An absent directory has none; a checkpoint that may not
 * be looked into is an error. Local. */
int bn_ckpt_list(const char *output_dir, long **steps, size_t *n,
                 struct bn_err *err);

#endif
