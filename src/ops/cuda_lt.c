/* Matrix products by cublasLt. Its matrices are column-major, so it computes
 * the transpose: c^T [n, m] = b^T a^T, of which the first operand is our b.
 */
#include "config.h"
#include "ops/cuda_state.h"

#include <cublasLt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* All that the choice of an algorithm depends on. */
struct key {
    int32_t t, tc, m, n, k, lda, ldb, ldc;
    int32_t a_by_k, b_by_k, bias, acc;
    int32_t align[4]; /* of a, b, c, bias */
};

/* A product as cublasLt wants it, kept for the next of the same key. */
struct plan {
    struct key key;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c; /* of b, a and c of struct bn_gemm */
    cublasLtMatmulAlgo_t algo;
    struct plan *next;
};

enum { BUCKETS = 256 };

struct bn_cuda_gemm {
    cublasLtHandle_t lt;
    cudaStream_t stream;
    size_t bytes;
    struct plan *plans[BUCKETS];
};

struct bn_cuda_gemm *bn_cuda_gemm_create(size_t bytes, cudaStream_t stream,
                                         struct bn_err *err)
{
    struct bn_cuda_gemm *s = BN_NEW(struct bn_cuda_gemm);
    cublasStatus_t st = cublasLtCreate(&s->lt);

    if (st != CUBLAS_STATUS_SUCCESS) {
        bn_fail(err, BN_ERR_AGAIN, "cannot start cublasLt: %s",
                cublasLtGetStatusString(st));
        free(s);
        return NULL;
    }
    s->stream = stream;
    s->bytes = bytes;
    return s;
}

static void plan_release(struct plan *p)
{
    if (p->op != NULL)
        cublasLtMatmulDescDestroy(p->op);
    if (p->a != NULL)
        cublasLtMatrixLayoutDestroy(p->a);
    if (p->b != NULL)
        cublasLtMatrixLayoutDestroy(p->b);
    if (p->c != NULL)
        cublasLtMatrixLayoutDestroy(p->c);
    free(p);
}

void bn_cuda_gemm_destroy(struct bn_cuda_gemm *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < BUCKETS; i++)
        while (s->plans[i] != NULL) {
            struct plan *p = s->plans[i];

            s->plans[i] = p->next;
            plan_release(p);
        }
    cublasLtDestroy(s->lt);
    free(s);
}

/* The largest power of two up to 256 that divides an address. */
static int32_t alignment(const void *p)
{
    uintptr_t u = (uintptr_t)p | 256;

    return (int32_t)(u & -u);
}

static struct key key_of(const struct bn_gemm *g)
{
    struct key k = {.t = (int32_t)g->t,
                    .tc = (int32_t)g->tc,
                    .m = g->m,
                    .n = g->n,
                    .k = g->k,
                    .lda = g->lda,
                    .ldb = g->ldb,
                    .ldc = g->ldc,
                    .a_by_k = g->a_by_k,
                    .b_by_k = g->b_by_k,
                    .bias = g->bias != NULL,
                    .acc = g->acc,
                    .align = {alignment(g->a), alignment(g->b),
                              alignment(g->c), alignment(g->bias)}};
    return k;
}

static cudaDataType_t type_of(enum bn_dtype t)
{
    return t == BN_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasStatus_t describe(struct plan *p, const struct bn_gemm *g)
{
    cublasOperation_t ta = g->b_by_k ? CUBLAS_OP_N : CUBLAS_OP_T;
    cublasOperation_t tb = g->a_by_k ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t with_bias = CUBLASLT_EPILOGUE_BIAS;
    cudaDataType_t t = type_of(g->t);
    uint64_t m = (uint64_t)g->m, n = (uint64_t)g->n, k = (uint64_t)g->k;
    cublasStatus_t st;

    /* F32 sums, and no TF32 in place of F32. */
    st = cublasLtMatmulDescCreate(&p->op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulDescSetAttribute(
            p->op, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof(ta));
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulDescSetAttribute(
            p->op, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof(tb));
    if (st == CUBLAS_STATUS_SUCCESS && g->bias != NULL)
        st = cublasLtMatmulDescSetAttribute(
            p->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &with_bias,
            sizeof(with_bias));
    if (st == CUBLAS_STATUS_SUCCESS && g->bias != NULL)
        st = cublasLtMatmulDescSetAttribute(
            p->op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &t, sizeof(t));
    if (st == CUBLAS_STATUS_SUCCESS && g->bias != NULL) /* for the choice */
        st = cublasLtMatmulDescSetAttribute(
            p->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias,
            sizeof(g->bias));
    if (st == CUBLAS_STATUS_SUCCESS)
        st = g->b_by_k ? cublasLtMatrixLayoutCreate(&p->a, t, n, k, g->ldb)
                       : cublasLtMatrixLayoutCreate(&p->a, t, k, n, g->ldb);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = g->a_by_k ? cublasLtMatrixLayoutCreate(&p->b, t, m, k, g->lda)
                       : cublasLtMatrixLayoutCreate(&p->b, t, k, m, g->lda);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatrixLayoutCreate(&p->c, type_of(g->tc), n, m, g->ldc);
    return st;
}

/* Ask for an algorithm. Where a sum is computed in parts, these are to be
 * added as floats, not rounded to the type of the output in between. */
static cublasStatus_t choose(struct bn_cuda_gemm *s, struct plan *p)
{
    static const cublasLtMatmulPreferenceAttributes_t align[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    uint32_t bytes[] = {(uint32_t)p->key.align[1], (uint32_t)p->key.align[0],
                        (uint32_t)p->key.align[2], (uint32_t)p->key.align[2]};
    uint32_t parts = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint64_t work = s->bytes;
    cublasLtMatmulPreference_t pref = NULL;
    cublasLtMatmulHeuristicResult_t found;
    int n = 0;
    cublasStatus_t st = cublasLtMatmulPreferenceCreate(&pref);

    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulPreferenceSetAttribute(
            pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &work,
            sizeof(work));
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulPreferenceSetAttribute(
            pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &parts,
            sizeof(parts));
    for (int i = 0; i < 4 && st == CUBLAS_STATUS_SUCCESS; i++)
        st = cublasLtMatmulPreferenceSetAttribute(pref, align[i], &bytes[i],
                                                  sizeof(bytes[i]));
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulAlgoGetHeuristic(s->lt, p->op, p->a, p->b, p->c,
                                            p->c, pref, 1, &found, &n);
    if (st == CUBLAS_STATUS_SUCCESS && n == 0)
        st = CUBLAS_STATUS_NOT_SUPPORTED;
    if (st == CUBLAS_STATUS_SUCCESS)
        p->algo = found.algo;
    if (pref != NULL)
        cublasLtMatmulPreferenceDestroy(pref);
    return st;
}

static unsigned bucket_of(const struct key *k)
{
    const int32_t *v = (const int32_t *)k;
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < sizeof(*k) / sizeof(*v); i++)
        h = (h ^ (uint32_t)v[i]) * 16777619u;
    return (h ^ h >> 16) % BUCKETS;
}

static struct plan *plan_for(struct bn_cuda_gemm *s, const struct bn_gemm *g,
                             cublasStatus_t *st)
{
    struct key key = key_of(g);
    struct plan **at = &s->plans[bucket_of(&key)], *p;

    *st = CUBLAS_STATUS_SUCCESS;
    for (p = *at; p != NULL; p = p->next)
        if (memcmp(&p->key, &key, sizeof(key)) == 0)
            return p;
    p = BN_NEW(struct plan);
    p->key = key;
    *st = describe(p, g);
    if (*st == CUBLAS_STATUS_SUCCESS)
        *st = choose(s, p);
    if (*st != CUBLAS_STATUS_SUCCESS) {
        plan_release(p);
        return NULL;
    }
    p->next = *at;
    *at = p;
    return p;
}

int bn_cuda_gemm_run(struct bn_cuda_gemm *s, const struct bn_gemm *g,
                     void *work, char *why, size_t size)
{
    float one = 1, beta = g->acc ? 1 : 0;
    cublasStatus_t st;
    struct plan *p = plan_for(s, g, &st);

    if (p != NULL && g->bias != NULL)
        st = cublasLtMatmulDescSetAttribute(
            p->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias,
            sizeof(g->bias));
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmul(s->lt, p->op, &one, g->b, p->a, g->a, p->b, &beta,
                            g->c, p->c, g->c, p->c, &p->algo, work,
                            s->bytes, s->stream);
    if (st == CUBLAS_STATUS_SUCCESS)
        return 0;
    snprintf(why, size, "%s", cublasLtGetStatusString(st));
    return -1;
}
