/* What the processor could do at most. */
#ifndef BN_KERNELS_PEAK_H
#define BN_KERNELS_PEAK_H

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* FLOP/s of all threads of a parallel region together, in multiply-adds on
 * registers: of the widest vectors that the kernels use here, and of pairs of
 * bf16 for BN_BF16 where there are such. Measured, in a few milliseconds: the
 * clock that the machine really has is told nowhere, and how many of them fit
 * a cycle differs between makes. Other work on the processors makes it less.
 */
double bn_peak_cpu(enum bn_dtype t);

#ifdef __cplusplus
}
#endif

#endif
