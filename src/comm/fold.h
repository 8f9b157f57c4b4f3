/* Sums of several ranks' numbers in the order of the ranks. */
#ifndef BN_COMM_FOLD_H
#define BN_COMM_FOLD_H

#include "comm/comm.h"

/* out[i] = in[0][i] op in[1][i] op ..., n elements of F32, BF16 (added in
 * float, rounded once), F64 or I64. 'out' may be one of the inputs. -1 for
 * any other type. */
int bn_fold(void *out, const void *const *in, int count, enum bn_dtype type,
            size_t n, enum bn_comm_op op, struct bn_err *err);

#endif
