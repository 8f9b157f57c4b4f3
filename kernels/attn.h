/* Causal attention over segments of a packed stream, without the matrix of
 * scores: blocks of it are made, used and forgotten.
 */
#ifndef BN_KERNELS_ATTN_H
#define BN_KERNELS_ATTN_H

#include <stddef.h>

#include "base/dtype.h"
#include "kernels/segment.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One attention call over segments (segment.h says who sees whom). q rows
 * hold 'heads' heads of hd, k and v rows 'kv_heads'; head h reads kv head
 * h / (heads / kv_heads). Row i of q begins at q + i * ldq, and so on. */
struct bn_attn {
    const void *q, *k, *v;
    void *o;    /* [nq, heads * hd]; rows in no segment are left alone */
    float *lse; /* [heads, nq] log-sum-exp of scaled scores */
    int ldq, ldk, ldv, ldo;
    int nq, nkv; /* rows of q, and of k and v */
    int heads, kv_heads, hd;
    float scale; /* > 0 */
    int window; /* keys seen, the query's own included; 0: all */
    const struct bn_attn_seg *host_seg; /* the same list in host memory ... */
    const struct bn_attn_seg *seg;      /* ... and in the device's */
    int nseg;
    void *work; /* attn_work bytes of scratch; contents undefined */
};

/* Backward: o and lse as forward left them. dq rows in no segment are left
 * alone; dk and dv are first zeroed over all nkv rows. */
struct bn_attn_grad {
    const void *d_o;    /* [nq, ldo] */
    void *dq, *dk, *dv; /* with ldq, ldk, ldv of the forward call */
};

/* Bytes of scratch that forward and backward need, at 64-byte alignment: a
 * function of nq, nkv, heads, kv_heads, hd and nseg (CPU: and of the number
 * of threads), never of the pointers or of the segments' contents, and not
 * decreasing in any of them; so a plan can ask with the largest sizes. */
size_t bn_attn_work_cpu(const struct bn_attn *a);
size_t bn_attn_work_cuda(const struct bn_attn *a);

/* o[i] = sum_j p_j v_j, p = softmax over the keys that query i sees of scale
 * * q_i . k_j; lse[h * nq + i] = log sum_j exp(scale q_i . k_j). A query that
 * sees no key gets o = 0 and lse = -inf, and adds nothing in backward.
 *
 * q, k, v, o of type t, hd even; segments may be empty; rows in no segment
 * have their o and lse left alone. The reference works in double. CPU and
 * CUDA: scores and sums in float, and with BF16 the probabilities are
 * rounded to BF16 before they meet v (and dS before it meets q and k), as
 * every flash attention does. Tolerance against the reference on the same
 * inputs, relative to the largest magnitude of the output row: 1e-5 (F32),
 * 2e-2 (BF16); lse 1e-5 absolute + relative (F32), 2e-3 (BF16). Same bits
 * every time on the same device; on the CPU for any number of threads.
 * FLOP: 4 hd per pair of a query and a key seen, and head. Bytes (CUDA): q
 * and o once; k and v once a head for each tile of 64 queries (F32: 32), in
 * tiles of up to 64 rows, as far as one of its queries sees.
 * The CPU form reads host_seg, the CUDA form reads seg (and may read
 * host_seg before it returns). Work of the reference: none.
 */
void bn_attn_ref(enum bn_dtype t, const struct bn_attn *a);
void bn_attn_cpu(enum bn_dtype t, const struct bn_attn *a);
int bn_attn_cuda(enum bn_dtype t, const struct bn_attn *a, void *stream);

/* With P as above, dP = d_o v^T, D_i = d_o_i . o_i, dS = scale P (dP - D):
 *   dq = dS k; dk = dS^T q, dv = P^T d_o, summed over the heads of the group
 *   and over all segments that see the row, in a fixed order, in float, and
 *   rounded to t once.
 * dq, dk, dv: =. None may alias an input. Tolerance for inputs of unit size,
 * relative to the largest magnitude of the output and at least 0.5 (terms
 * cancel, and o is rounded): 2e-5 (F32), 3e-2 (BF16). FLOP: 10 hd a pair.
 * CUDA: one kernel makes dq, dk and dv, after two small ones for D and a list
 * of tiles. Bytes (CUDA): dq, dk and dv once each; q and d_o once, and k and v
 * once a head for each tile of 64 queries (F32: 32), as above; k and v once,
 * and q and d_o once for each tile of as many keys that any of them sees;
 * d_o and o once more for D.
 */
void bn_attn_grad_ref(enum bn_dtype t, const struct bn_attn *a,
                      const struct bn_attn_grad *g);
void bn_attn_grad_cpu(enum bn_dtype t, const struct bn_attn *a,
                      const struct bn_attn_grad *g);
int bn_attn_grad_cuda(enum bn_dtype t, const struct bn_attn *a,
                      const struct bn_attn_grad *g, void *stream);

#ifdef __cplusplus
}
#endif

#endif
