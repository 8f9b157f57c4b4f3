/* Random starting weights. */
#ifndef BN_MODEL_INIT_H
#define BN_MODEL_INIT_H

#include "model/params.h"

/* Fill the flat buffer of 'ps' (dtype F32 or BF16): matrices normal with
 * mean 0 and c->init_std, norms 1, biases 0, padding 0. Each value is a
 * function of (seed, tensor name, element of the whole tensor) alone, so any
 * split over ranks gives the same model. Local; uses all CPUs.
 */
void bn_params_randomize(const struct bn_params *ps,
                         const struct bn_model_config *c, uint64_t seed,
                         void *flat, enum bn_dtype dtype);

#endif
