/* The matrix product that stands on nothing but a C compiler. */
#ifndef BN_KERNELS_GEMM_H
#define BN_KERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/dtype.h"

/* c[i, j] = sum_p a[i, p] b[p, j] (+ bias[j]) (+ c[i, j] if acc),
 * 0 <= i < m, 0 <= j < n, 0 <= p < k, where
 *   a[i, p] is a[i * lda + p], or a[p * lda + i] if a_by_k;
 *   b[p, j] is b[j * ldb + p], or b[p * ldb + j] if b_by_k;
 *   c[i, j] is c[i * ldc + j].
 *
 * a, b and bias (NULL: none) are of type t, c of type tc: t, or F32. k may be
 * 0. Any alignment of whole elements; c apart from all.
 * Sums run in float over p in order (BF16 where the machine multiplies pairs:
 * over pairs), in pieces that depend on k and t only: the same bits for any
 * number of threads. Tolerance: 1e-6 sqrt(k) of the root of the sums of
 * squares of the terms, plus one rounding to tc.
 */
struct bn_gemm {
    enum bn_dtype t, tc;
    int m, n, k;
    const void *a, *b, *bias;
    void *c;
    int lda, ldb, ldc;
    bool a_by_k, b_by_k, acc;
    /* The CPU form's: at most so many threads, and bn_gemm_work_cpu (threads)
     * bytes aligned to 64. */
    int threads;
    void *work;
    const void *packed; /* b as bn_gemm_pack_cpu left it, or NULL */
    bool packed_half;   /* in half the space */
};

/* Scratch for 'threads' threads, whatever the sizes. */
size_t bn_gemm_work_cpu(int threads);

/* A copy of b in the order in which the CPU form reads it, for a b that is
 * used often: few rows of a take as long as packing b takes. Of g only t, n,
 * k, b, ldb and b_by_k count; 'to' has bn_gemm_packed_cpu bytes, aligned to
 * 64, and is good for the instruction set in force. Results are the same bits
 * with it and without. Uses all OpenMP threads. */
size_t bn_gemm_packed_cpu(enum bn_dtype t, int n, int k);
/* Whether the copy can be had in half of that space, and so be read in half
 * the time (g->packed_half, here and with bn_gemm_cpu), with results that are
 * the same bits: where elements become floats but all are bf16's, as weights
 * are that were stored so. Reads b; uses all OpenMP threads. */
bool bn_gemm_halves_cpu(const struct bn_gemm *g);
void bn_gemm_pack_cpu(const struct bn_gemm *g, void *to);

void bn_gemm_ref(const struct bn_gemm *g);
void bn_gemm_cpu(const struct bn_gemm *g);

#endif
