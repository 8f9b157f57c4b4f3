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

/* Open a checkpoint on all ranks, each checking its share of the hashes.
 * NULL with *failed true if a rank could not: that one says why. Collective.
 */
struct bn_ckpt *bn_saved_open(struct bn_session *s, const char *path,
                              bool *failed, struct bn_err *err);
/* Weights, masters and moments of an open checkpoint. Collective. */
int bn_saved_restore(struct bn_trainer *t, const struct bn_ckpt *c,
                     struct bn_err *err);

#endif
