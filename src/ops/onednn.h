/* Matrix products by oneDNN: the yardstick of a machine, and the faster way
 * where it has units (AMX) that kernels/cpu does not use.
 */
#ifndef BN_OPS_ONEDNN_H
#define BN_OPS_ONEDNN_H

#include <stdbool.h>

#include "base/err.h"
#include "kernels/gemm.h"

struct bn_onednn;

/* An engine with a cache of primitives. NULL on failure, as when this build
 * has no oneDNN. */
struct bn_onednn *bn_onednn_create(struct bn_err *err);
void bn_onednn_destroy(struct bn_onednn *o);

/* Can it multiply matrices of this type here? On a machine without AVX-512
 * it has no products of bf16. */
bool bn_onednn_has(struct bn_onednn *o, enum bn_dtype t);

/* As bn_gemm_cpu (work and threads are not used), m, n, k >= 1; threads are
 * OpenMP's. The primitive of a shape is made once and kept while it is among
 * the 512 last used. */
int bn_onednn_gemm(struct bn_onednn *o, const struct bn_gemm *g,
                   struct bn_err *err);

/* Seconds of one product of this shape, the least of 'tries', b being
 * repacked beforehand or not, whichever is faster. Writes c. */
double bn_onednn_time(struct bn_onednn *o, const struct bn_gemm *g, int tries,
                      struct bn_err *err);

/* Does this machine have AMX for bf16? */
bool bn_onednn_amx(void);

#endif
