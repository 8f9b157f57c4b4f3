/* Gradients under ZeRO stage 2. A rank keeps those of its range of what is
 * trained; whole ones live only until they have been summed over the ranks
 * that hold the same parameters: a layer's when its backward pass is done, in
 * memory that layers use in turn, those of embedding, final norm and head at
 * the end of the step. With room for two layers ('whole' of the table) a
 * layer's are summed while those of the next are made; the same bits.
 */
#ifndef BN_MODEL_SHARD_H
#define BN_MODEL_SHARD_H

#include "model/model.h"

enum { BN_SHARD_WHOLE = 2 }; /* layers at most */

struct bn_shard {
    const struct bn_params *params; /* of what is trained; borrowed */
    float *kept;  /* [params->kept]: sums of passes and ranks */
    float *layer[BN_SHARD_WHOLE]; /* [as the largest layer]; the same if 1 */
    float *ends;  /* what lies before the layers, then what lies behind */
    size_t first, last; /* the layers' range of the flat parameters */
    size_t most;        /* elements of the largest layer */
    int pending; /* layer that is being summed; -1: none */
};

/* The sizes of the parts, from the table. */
void bn_shard_sizes(struct bn_shard *s, const struct bn_params *params);
/* Take the memory; a plan only counts. */
void bn_shard_carve(struct bn_shard *s, struct bn_arena *arena);
/* Where a whole gradient is made. */
float *bn_shard_grad(const struct bn_shard *s, const struct bn_param *p);
void bn_shard_zero(struct bn_model *m);
/* Sum a layer's gradients (counted from this part's first) to the ranks that
 * keep them, or begin to. Failures are the device's. Collective over data. */
void bn_shard_layer_done(struct bn_model *m, int layer);
/* Until what was begun is there. Of every pass the first thing. */
void bn_shard_settle(struct bn_model *m);
/* The same of the ends, once all passes of a step are done: bn_shard_grad of
 * theirs holds the step's until then. */
void bn_shard_ends_done(struct bn_model *m);

#endif
