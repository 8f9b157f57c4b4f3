#include "config.h"
#include "kernels/gemm.h"
#include "kernels/ref/ref.h"

void bn_gemm_ref(const struct bn_gemm *g)
{
    for (int i = 0; i < g->m; i++) {
        for (int j = 0; j < g->n; j++) {
            size_t at = (size_t)i * g->ldc + j;
            double sum = g->acc ? ref_get(g->tc, g->c, at) : 0;

            if (g->bias != NULL)
                sum += ref_get(g->t, g->bias, j);
            for (int p = 0; p < g->k; p++) {
                size_t ai =
                    g->a_by_k ? (size_t)p * g->lda + i : (size_t)i * g->lda + p;
                size_t bi =
                    g->b_by_k ? (size_t)p * g->ldb + j : (size_t)j * g->ldb + p;

                sum += ref_get(g->t, g->a, ai) * ref_get(g->t, g->b, bi);
            }
            ref_put(g->tc, g->c, at, sum);
        }
    }
}
