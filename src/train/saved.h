/* What a checkpoint remembers of the loop, and what it belongs to; used by
 * save.c, resume.c and export.c.
 */
#ifndef BN_TRAIN_SAVED_H
#define BN_TRAIN_SAVED_H

#include <jansson.h>

#include "ckpt/ckpt.h"
#include "train/save.h"

/* With the folders that the run began with, for an export. */
json_t *bn_saved_json(const struct bn_saved *s, const struct bn_run *run);
int bn_saved_parse(const json_t *o, const char *where, struct bn_saved *s,
                   struct bn_err *err);

/* What must be the same for a run to go on: the keys that decide the
 * trajectory, the global batch, and the data itself. Malloc'ed. */
char *bn_saved_fingerprint(const struct bn_session *s);

/* What a checkpoint of this run is about; borrowed from the session. */
struct bn_ckpt_of bn_saved_of(const struct bn_session *s);
/* What this rank writes: nobody else holds it. */
struct bn_ckpt_shard bn_saved_shard(const struct bn_session *s);

/* Open a checkpoint on all ranks; its checksums are looked at when it is
 * read. NULL with *failed true if a rank could not: that one says why.
 * Collective. */
struct bn_ckpt *bn_saved_open(struct bn_session *s, const char *path,
                              bool *failed, struct bn_err *err);
/* Weights, masters and moments of an open checkpoint, each rank checking its
 * share of the checksums on the way, through mem[3 * count] in host memory
 * (NULL: its own), count as of this rank's bn_saved_shard. All ranks have them
 * then, or all fail. With *failed true (and -1) it is not whole: the trainer
 * is as it was, and the rank that found it says why. Collective. */
int bn_saved_restore(struct bn_session *s, const struct bn_ckpt *c,
                     float *mem, bool *failed, struct bn_err *err);

#endif
