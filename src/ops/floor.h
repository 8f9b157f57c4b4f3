/* The least time that a step's matrix products could take on this machine:
 * each shape at the best rate of the best library at hand.
 */
#ifndef BN_OPS_FLOOR_H
#define BN_OPS_FLOOR_H

#include "ops/ops.h"

enum bn_gemm_kind { BN_GEMM_FORWARD, BN_GEMM_DX, BN_GEMM_DW };

/* A product of a weight [rows, cols] with n rows of activations, 'count'
 * times a step. */
struct bn_gemm_shape {
    int rows, cols, n, count;
    enum bn_gemm_kind kind;
};

/* Sum over the list of count times the seconds of the shape, each the least
 * of several runs on random-like data, with the device's threads: oneDNN's
 * with b packed beforehand or not, whichever is faster, or where it has no
 * such product our own. The time of packing is not in it. -1 on failure. Takes tens of times
 * as long as its result. */
double bn_gemm_floor_seconds(struct bn_dev *d, enum bn_dtype t,
                             const struct bn_gemm_shape *list, int nlist,
                             struct bn_err *err);

/* The same of one shape; *own, if not NULL, receives the seconds of the op
 * table's product, taken in turn. */
double bn_gemm_shape_seconds(struct bn_dev *d, enum bn_dtype t,
                             const struct bn_gemm_shape *s, double *own,
                             struct bn_err *err);

#endif
