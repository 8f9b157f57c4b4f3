#include "config.h"
#include "kernels/cpu/dispatch.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/adamw.h"
#include "kernels/add.h"
#include "kernels/attn.h"
#include "kernels/cast.h"
#include "kernels/dropout.h"
#include "kernels/embed.h"
#include "kernels/gemm.h"
#include "kernels/head.h"
#include "kernels/headnorm.h"
#include "kernels/peak.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/rows.h"
#include "kernels/sample.h"
#include "kernels/sqnorm.h"
#include "kernels/swiglu.h"

static const char *const names[BN_CPU_NISA] = {"base", "v3", "v4", "v4bf16"};
static int chosen = -1;

const char *bn_cpu_isa_name(enum bn_cpu_isa isa)
{
    return names[isa];
}

enum bn_cpu_isa bn_cpu_isa_best(void)
{
#if defined(__x86_64__)
    /* The compiler's run-time asks the operating system too (XGETBV). */
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
              && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f")
              && __builtin_cpu_supports("avx512bw")
              && __builtin_cpu_supports("avx512cd")
              && __builtin_cpu_supports("avx512dq")
              && __builtin_cpu_supports("avx512vl");

    if (v4 && __builtin_cpu_supports("avx512bf16"))
        return BN_CPU_V4BF16;
    return v4 ? BN_CPU_V4 : v3 ? BN_CPU_V3 : BN_CPU_BASE;
#else
    return BN_CPU_BASE;
#endif
}

enum bn_cpu_isa bn_cpu_isa(void)
{
    if (chosen < 0) {
        const char *env = getenv("BURNISH_CPU_ISA");
        int isa = bn_cpu_isa_best();

        for (int i = 0; env != NULL && i < isa; i++)
            if (strcmp(env, names[i]) == 0)
                isa = i;
        chosen = isa;
    }
    return (enum bn_cpu_isa)chosen;
}

int bn_cpu_isa_set(enum bn_cpu_isa isa)
{
    if (isa > bn_cpu_isa_best())
        return -1;
    chosen = isa;
    return 0;
}

/* bn_NAME_cpu calls the chosen form. */
#if defined(__x86_64__)
#define DECLARE(name)                                                          \
    extern __typeof__(bn_##name##_cpu) bn_##name##_base, bn_##name##_v3,       \
        bn_##name##_v4, bn_##name##_v4bf16
#define CHOOSE(name)                                                           \
    ((__typeof__(&bn_##name##_base)[]){bn_##name##_base, bn_##name##_v3,       \
                                       bn_##name##_v4,                         \
                                       bn_##name##_v4bf16}[bn_cpu_isa()])
#else
#define DECLARE(name) extern __typeof__(bn_##name##_cpu) bn_##name##_base
#define CHOOSE(name) bn_##name##_base
#endif
#define FORWARD(name, params, args)                                            \
    DECLARE(name);                                                             \
    void bn_##name##_cpu params                                                \
    {                                                                          \
        CHOOSE(name) args;                                                     \
    }
#define FORWARD_INT(name, params, args)                                        \
    DECLARE(name);                                                             \
    int bn_##name##_cpu params                                                 \
    {                                                                          \
        return CHOOSE(name) args;                                              \
    }

FORWARD(embed,
        (enum bn_dtype t, void *y, const void *table, const int32_t *ids,
         int first, int count, int cols, int n),
        (t, y, table, ids, first, count, cols, n))
FORWARD(embed_grad,
        (enum bn_dtype t, float *dtable, const void *dy, const int32_t *ids,
         int first, int count, int cols, int n),
        (t, dtable, dy, ids, first, count, cols, n))
FORWARD(rmsnorm,
        (enum bn_dtype t, void *y, float *rstd, void *xo, const void *x,
         const void *delta, const void *w, float eps, int cols, int n),
        (t, y, rstd, xo, x, delta, w, eps, cols, n))
FORWARD(rmsnorm_grad,
        (enum bn_dtype t, void *dx, float *dw, const void *dy, const void *dres,
         const void *x, const void *w, const float *rstd, int cols, int n),
        (t, dx, dw, dy, dres, x, w, rstd, cols, n))
FORWARD(headnorm,
        (enum bn_dtype t, void *y, int ldy, float *rstd, const void *x, int ldx,
         const void *w, float eps, int heads, int hd, int n),
        (t, y, ldy, rstd, x, ldx, w, eps, heads, hd, n))
FORWARD(headnorm_grad,
        (enum bn_dtype t, void *dx, int lddx, float *dw, const void *dy,
         int lddy, const void *x, int ldx, const void *w, const float *rstd,
         int heads, int hd, int n),
        (t, dx, lddx, dw, dy, lddy, x, ldx, w, rstd, heads, hd, n))
FORWARD(rope,
        (enum bn_dtype t, void *x, int ldx, const float *cosine,
         const float *sine, const int32_t *pos, int heads, int hd, int n,
         bool inverse),
        (t, x, ldx, cosine, sine, pos, heads, hd, n, inverse))
FORWARD(attn, (enum bn_dtype t, const struct bn_attn *a), (t, a))
FORWARD(attn_grad,
        (enum bn_dtype t, const struct bn_attn *a,
         const struct bn_attn_grad *g),
        (t, a, g))
FORWARD(swiglu, (enum bn_dtype t, void *y, const void *gu, int f, int n),
        (t, y, gu, f, n))
FORWARD(swiglu_grad,
        (enum bn_dtype t, void *dgu, void *y, const void *dy, const void *gu,
         int f, int n),
        (t, dgu, y, dy, gu, f, n))
FORWARD(head_stats,
        (const struct bn_head_rows *h, const float *logits, float *max,
         float *sum, float *total, float *target_logit),
        (h, logits, max, sum, total, target_logit))
FORWARD(head_grad,
        (enum bn_dtype t, const struct bn_head_rows *h, void *dlogits,
         int ld_out, const float *logits, const float *lse, const float *g,
         float smoothing),
        (t, h, dlogits, ld_out, logits, lse, g, smoothing))
FORWARD(adamw,
        (enum bn_dtype t, const struct bn_adamw *a, void *w, float *master,
         float *m, float *v, const float *grad, const struct bn_adamw_now *now,
         size_t n),
        (t, a, w, master, m, v, grad, now, n))
FORWARD(sqnorm, (double *out, const float *g, size_t n), (out, g, n))
FORWARD(clip_scale, (float *scale, const double *sq, float max_norm),
        (scale, sq, max_norm))
FORWARD(gather,
        (enum bn_dtype t, void *y, const void *x, const int32_t *rows, int cols,
         int n),
        (t, y, x, rows, cols, n))
FORWARD(scatter,
        (enum bn_dtype t, void *dx, const void *dy, const int32_t *rows,
         int cols, int n),
        (t, dx, dy, rows, cols, n))
FORWARD(sample,
        (const struct bn_sample *s, const struct bn_sample_rows *r,
         int32_t *token, void *work),
        (s, r, token, work))
FORWARD(dropout,
        (enum bn_dtype t, void *y, const void *x, const struct bn_dropout *p,
         bool acc, int cols, int n),
        (t, y, x, p, acc, cols, n))
FORWARD(add, (enum bn_dtype t, void *y, const void *x, size_t n), (t, y, x, n))
FORWARD(bias_grad,
        (enum bn_dtype t, float *db, const void *dy, int lddy, int cols, int n),
        (t, db, dy, lddy, cols, n))
FORWARD_INT(cast,
            (void *dst, enum bn_dtype dst_type, const void *src,
             enum bn_dtype src_type, size_t n),
            (dst, dst_type, src, src_type, n))
FORWARD(gemm, (const struct bn_gemm *g), (g))

FORWARD(gemm_pack, (const struct bn_gemm *g, void *to), (g, to))

DECLARE(gemm_packed);
size_t bn_gemm_packed_cpu(enum bn_dtype t, int n, int k)
{
    return CHOOSE(gemm_packed)(t, n, k);
}

DECLARE(gemm_halves);
bool bn_gemm_halves_cpu(const struct bn_gemm *g)
{
    return CHOOSE(gemm_halves)(g);
}

DECLARE(gemm_work);
size_t bn_gemm_work_cpu(int threads)
{
    return CHOOSE(gemm_work)(threads);
}

DECLARE(attn_work);
size_t bn_attn_work_cpu(const struct bn_attn *a)
{
    return CHOOSE(attn_work)(a);
}

DECLARE(sample_work);
size_t bn_sample_work_cpu(int vocab, int rows)
{
    return CHOOSE(sample_work)(vocab, rows);
}

DECLARE(peak);
double bn_peak_cpu(enum bn_dtype t)
{
    return CHOOSE(peak)(t);
}
