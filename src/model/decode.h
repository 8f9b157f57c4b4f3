/* Decoding with a cache: some sequences, each in a slot of its own, that
 * grow by any number of tokens a step.
 *
 * One step takes the new tokens of all slots as one packed stream, so prompts
 * and single tokens share every matrix product, and what is computed for a
 * slot does not depend on who else is there. With the CPU's own matrix
 * products (ops/gemm.c) logits are the same bits in any company and for any
 * way of cutting a sequence into steps; a library's products (oneDNN, cuBLAS)
 * may round differently for another number of rows.
 *
 * Several ranks (tensor and pipeline parallel; not context parallel): every
 * rank makes the same calls with the same feeds, holds the keys and values of
 * its heads and layers, and gets all logits or tokens.
 */
#ifndef BN_MODEL_DECODE_H
#define BN_MODEL_DECODE_H

#include "kernels/sample.h"
#include "model/cache.h"

/* Sizes; memory follows from them. */
struct bn_decode_size {
    int slots;      /* sequences at a time */
    int capacity;   /* tokens of a slot; at most the model's max_pos */
    int max_tokens; /* new tokens of a step, all slots together; >= slots */
};

struct bn_decode {
    struct bn_model *m; /* borrowed */
    struct bn_decode_size size;
    int *length; /* [slots] tokens in the cache */
    struct bn_cache cache;
    struct bn_acts acts;
    /* device memory */
    int32_t *last; /* [slots] rows of the stream whose logits are wanted */
    void *h;       /* [slots, hidden] */
    float *logits; /* [slots, vocab of this rank] */
    float *all;    /* [slots, vocab_size]: the same on one rank */
    /* tensor parallel: logits as they travel, rows of the widest shard, this
     * rank's and all ranks'; NULL on one rank */
    float *shard, *shards;
    int32_t *token;    /* [slots] drawn */
    double *u;         /* [slots], and what the rows have seen: */
    int32_t *seen_ptr; /* [slots + 1] */
    int32_t *seen;     /* [slots * capacity] */
    void *sample_work;
    /* host memory */
    struct bn_batch batch;
    int wanted; /* rows of logits of the last step */
    double *host_u;
    int32_t *host_seen_ptr, *host_seen;
    int32_t *at, *host_last;
    float *host_logits; /* [slots, vocab] */
    int64_t *range; /* [tp][2] tensor parallel: first id and ids of each rank */
};

/* New tokens of one slot. */
struct bn_feed {
    int slot;
    const int32_t *ids;
    int n;     /* >= 1 */
    bool want; /* logits after the last of them */
};

/* Bytes that bn_decode_init takes from its arena (device memory). */
size_t bn_decode_bytes(const struct bn_model *m,
                       const struct bn_decode_size *size);
/* Lay everything out; slots are empty. The model must outlive it. Class data
 * where a slot is to hold more than the model's positions. Collective. */
int bn_decode_init(struct bn_decode *d, struct bn_model *m,
                   const struct bn_decode_size *size, struct bn_arena *arena,
                   struct bn_err *err);
/* Frees host memory; the arena is the caller's. A zeroed struct is fine. */
void bn_decode_release(struct bn_decode *d);

/* Run the feeds (each slot at most once) and give the logits of those that
 * want them: '*logits' is [wanted, vocab_size] in their order, host memory
 * valid until the next step. NULL: they stay where they are, for
 * bn_decode_draw. Nothing is allocated. Too many tokens or a full slot are a
 * bug of the caller; ids outside the vocabulary class data. Collective. */
int bn_decode_step(struct bn_decode *d, const struct bn_feed *feeds, int n,
                   const float **logits, struct bn_err *err);

/* What a draw takes beside logits. */
struct bn_draw {
    const int32_t *seen; /* [nseen] at most 'capacity'; read if there is a */
    int nseen;           /* repetition penalty */
    double u;            /* uniform in [0, 1) */
};

/* After a step whose logits stayed: a token for each feed that wanted them,
 * in their order, -1 where its logits are not finite (kernels/sample.h). The
 * device draws, in a tensor-parallel group each rank's from the shards of all,
 * and only tokens come to the host. The same token everywhere. Collective. */
int bn_decode_draw(struct bn_decode *d, const struct bn_sample *s,
                   const struct bn_draw *draws, int32_t *tokens,
                   struct bn_err *err);
/* Forget a slot's tokens, all but the first 'length'. */
void bn_decode_cut(struct bn_decode *d, int slot, int length);

#endif
