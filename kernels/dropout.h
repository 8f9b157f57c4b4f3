/* Dropout whose mask is a function of a row's key and the column alone. */
#ifndef BN_KERNELS_DROPOUT_H
#define BN_KERNELS_DROPOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What stays, and how it is scaled. */
struct bn_dropout {
    float scale;         /* of what stays */
    uint32_t below;      /* probability to drop * 2^32; 0: all stays */
    uint32_t salt[2];    /* tells masks of the same rows apart */
    const uint32_t *key; /* [n][2] of the rows; NULL if nothing is dropped */
    int col0;            /* column of the whole matrix that column 0 is */
};

/* 32 random bits of (k0, k1, column): two rounds of MurmurHash3's finalizer,
 * the second keyed anew. An element is dropped if they are less than 'below'.
 */
#define BN_DROPOUT_MIX(h) \
    ((h) ^= (h) >> 16, (h) *= 0x85ebca6bu, (h) ^= (h) >> 13, \
     (h) *= 0xc2b2ae35u, (h) ^= (h) >> 16)
#define BN_DROPOUT_BITS(h, k0, k1, col) \
    ((h) = (uint32_t)(col) * 0x9e3779b1u + (k0), BN_DROPOUT_MIX(h), \
     (h) += (k1), BN_DROPOUT_MIX(h))

/* y[i, c] = (acc ? y[i, c] : 0) + scale * x[i, c], or without the second term
 * where bits(key[i] ^ salt, col0 + c) < below. In float, rounded once to t.
 *
 * x, y: [n, cols] of type t, the same or apart. Any alignment. The same bits
 * on any number of threads and for any division of the columns. Bytes: 2 (3)
 * * n * cols * size of t.
 */
void bn_dropout_ref(enum bn_dtype t, void *y, const void *x,
                    const struct bn_dropout *p, bool acc, int cols, int n);
void bn_dropout_cpu(enum bn_dtype t, void *y, const void *x,
                    const struct bn_dropout *p, bool acc, int cols, int n);
int bn_dropout_cuda(enum bn_dtype t, void *y, const void *x,
                    const struct bn_dropout *p, bool acc, int cols, int n,
                    void *stream);

#ifdef __cplusplus
}
#endif

#endif
