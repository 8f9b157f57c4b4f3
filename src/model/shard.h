/* Gradients under ZeRO stage 2. A rank keeps those of its range of the flat
 * parameters; whole ones live only until they have been summed over the ranks
 * that hold the same parameters: a layer's when its backward pass is done, in
 * memory that all layers use in turn, those of embedding, final norm and head
 * at the end of the pass.
 */
#ifndef BN_MODEL_SHARD_H
#define BN_MODEL_SHARD_H

#include "model/model.h"

struct bn_shard {
    float *kept;  /* [params.kept]: sums of passes and ranks */
    float *layer; /* [as the largest layer]: of the layer in work */
    float *ends;  /* what lies before the layers, then what lies behind */
    size_t first, last; /* the layers' range of the flat parameters */
    size_t most;        /* elements of the largest layer */
};

/* The sizes of the parts, from the table. */
void bn_shard_sizes(struct bn_shard *s, const struct bn_params *params);
/* Take the memory; a plan only counts. */
void bn_shard_carve(struct bn_shard *s, const struct bn_params *params,
                    struct bn_arena *arena);
/* Where a whole gradient is made. */
float *bn_shard_grad(const struct bn_shard *s, const struct bn_params *params,
                     const struct bn_param *p);
void bn_shard_zero(struct bn_model *m);
/* Sum a layer's gradients (counted from this part's first), or those of the
 * ends, to the ranks that keep them. Failures are the device's. Collective
 * over data. */
void bn_shard_layer_done(struct bn_model *m, int layer);
void bn_shard_ends_done(struct bn_model *m);

#endif
