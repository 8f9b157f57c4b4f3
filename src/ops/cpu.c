/* The CPU back end: every slot of the op table, over kernels/cpu. */
#include "config.h"
#include "ops/cpu.h"

#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/mem.h"
#include "base/thread.h"
#include "kernels/add.h"
#include "kernels/cast.h"
#include "kernels/embed.h"
#include "kernels/headnorm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/rows.h"
#include "kernels/sqnorm.h"
#include "kernels/swiglu.h"

static int arena_init(struct bn_dev *d, struct bn_arena *a, const char *name,
                      size_t size, struct bn_err *err)
{
    (void)d;
    return bn_arena_init(a, name, size, err);
}

static void arena_release(struct bn_dev *d, struct bn_arena *a)
{
    (void)d;
    bn_arena_release(a);
}

static void cast(struct bn_dev *d, void *dst, enum bn_dtype dst_type,
                 const void *src, enum bn_dtype src_type, size_t n)
{
    if (!d->failed && bn_cast_cpu(dst, dst_type, src, src_type, n) < 0)
        bn_dev_fail(d, BN_ERR_BUG, "no conversion from %s to %s",
                    bn_dtype_name(src_type), bn_dtype_name(dst_type));
}

static void zero(struct bn_dev *d, void *p, size_t bytes)
{
    enum { PIECE = 1 << 18 };

    if (d->failed)
        return;
#pragma omp parallel for schedule(static) if (bytes > PIECE)
    for (size_t at = 0; at < bytes; at += PIECE)
        memset((char *)p + at, 0, bytes - at < PIECE ? bytes - at : PIECE);
}

static void mail(struct bn_dev *d, size_t at, const void *src, size_t bytes)
{
    if (!d->failed)
        memcpy(((struct bn_cpu *)d->state)->mail + at, src, bytes);
}

static const void *collect(struct bn_dev *d)
{
    return ((struct bn_cpu *)d->state)->mail;
}

static void nothing_to_wait_for(struct bn_dev *d)
{
    (void)d;
}

static size_t attn_work(struct bn_dev *d, const struct bn_attn *a)
{
    (void)d;
    return bn_attn_work_cpu(a);
}

static void attn(struct bn_dev *d, enum bn_dtype t, const struct bn_attn *a)
{
    if (!d->failed)
        bn_attn_cpu(t, a);
}

static void attn_grad(struct bn_dev *d, enum bn_dtype t,
                      const struct bn_attn *a, const struct bn_attn_grad *g)
{
    if (!d->failed)
        bn_attn_grad_cpu(t, a, g);
}

static void bias_grad(struct bn_dev *d, enum bn_dtype t, float *db,
                      const void *dy, int lddy, int rows, int n)
{
    if (!d->failed)
        bn_bias_grad_cpu(t, db, dy, lddy, rows, n);
}

static void embed(struct bn_dev *d, enum bn_dtype t, void *y, const void *table,
                  const int32_t *ids, int first, int count, int cols, int n)
{
    if (!d->failed)
        bn_embed_cpu(t, y, table, ids, first, count, cols, n);
}

static void embed_grad(struct bn_dev *d, enum bn_dtype t, float *dtable,
                       const void *dy, const int32_t *ids, int first, int count,
                       int cols, int n)
{
    if (!d->failed)
        bn_embed_grad_cpu(t, dtable, dy, ids, first, count, cols, n);
}

static void rmsnorm(struct bn_dev *d, enum bn_dtype t, void *y, float *rstd,
                    void *xo, const void *x, const void *delta, const void *w,
                    float eps, int cols, int n)
{
    if (!d->failed)
        bn_rmsnorm_cpu(t, y, rstd, xo, x, delta, w, eps, cols, n);
}

static void rmsnorm_grad(struct bn_dev *d, enum bn_dtype t, void *dx, float *dw,
                         const void *dy, const void *dres, const void *x,
                         const void *w, const float *rstd, int cols, int n)
{
    if (!d->failed)
        bn_rmsnorm_grad_cpu(t, dx, dw, dy, dres, x, w, rstd, cols, n);
}

static void headnorm(struct bn_dev *d, enum bn_dtype t, void *y, int ldy,
                     float *rstd, const void *x, int ldx, const void *w,
                     float eps, int heads, int hd, int n)
{
    if (!d->failed)
        bn_headnorm_cpu(t, y, ldy, rstd, x, ldx, w, eps, heads, hd, n);
}

static void headnorm_grad(struct bn_dev *d, enum bn_dtype t, void *dx, int lddx,
                          float *dw, const void *dy, int lddy, const void *x,
                          int ldx, const void *w, const float *rstd, int heads,
                          int hd, int n)
{
    if (!d->failed)
        bn_headnorm_grad_cpu(t, dx, lddx, dw, dy, lddy, x, ldx, w, rstd, heads,
                             hd, n);
}

static void rope(struct bn_dev *d, enum bn_dtype t, void *x, int ldx,
                 const float *cosine, const float *sine, const int32_t *pos,
                 int heads, int hd, int n, bool inverse)
{
    if (!d->failed)
        bn_rope_cpu(t, x, ldx, cosine, sine, pos, heads, hd, n, inverse);
}

static void swiglu(struct bn_dev *d, enum bn_dtype t, void *y, const void *gu,
                   int f, int n)
{
    if (!d->failed)
        bn_swiglu_cpu(t, y, gu, f, n);
}

static void swiglu_grad(struct bn_dev *d, enum bn_dtype t, void *dgu, void *y,
                        const void *dy, const void *gu, int f, int n)
{
    if (!d->failed)
        bn_swiglu_grad_cpu(t, dgu, y, dy, gu, f, n);
}

static void add(struct bn_dev *d, enum bn_dtype t, void *y, const void *x,
                size_t n)
{
    if (!d->failed)
        bn_add_cpu(t, y, x, n);
}

static void dropout(struct bn_dev *d, enum bn_dtype t, void *y, const void *x,
                    const struct bn_dropout *p, bool acc, int cols, int n)
{
    if (!d->failed)
        bn_dropout_cpu(t, y, x, p, acc, cols, n);
}

static void gather(struct bn_dev *d, enum bn_dtype t, void *y, const void *x,
                   const int32_t *rows, int cols, int n)
{
    if (!d->failed)
        bn_gather_cpu(t, y, x, rows, cols, n);
}

static void scatter(struct bn_dev *d, enum bn_dtype t, void *dx, const void *dy,
                    const int32_t *rows, int cols, int n)
{
    if (!d->failed)
        bn_scatter_cpu(t, dx, dy, rows, cols, n);
}

static void copy_rows(struct bn_dev *d, enum bn_dtype t, void *y, int ldy,
                      const void *x, int ldx, int cols, int n)
{
    size_t es = bn_dtype_size(t);

    if (d->failed)
        return;
#pragma omp parallel for schedule(static) if (n > 256)
    for (int i = 0; i < n; i++)
        memcpy((char *)y + (size_t)i * (size_t)ldy * es,
               (const char *)x + (size_t)i * (size_t)ldx * es,
               (size_t)cols * es);
}

static void head_stats(struct bn_dev *d, const struct bn_head_rows *h,
                       const float *logits, float *max, float *sum,
                       float *total, float *target_logit)
{
    if (!d->failed)
        bn_head_stats_cpu(h, logits, max, sum, total, target_logit);
}

static void head_grad(struct bn_dev *d, enum bn_dtype t,
                      const struct bn_head_rows *h, void *dlogits, int ld_out,
                      const float *logits, const float *lse, const float *g,
                      float smoothing)
{
    if (!d->failed)
        bn_head_grad_cpu(t, h, dlogits, ld_out, logits, lse, g, smoothing);
}

/* Short loops in double: the reference is good enough. */
static void score_logp(struct bn_dev *d, const struct bn_score_stats *s,
                       float *lse, const struct bn_score_values *v)
{
    if (!d->failed)
        bn_score_logp_ref(s, lse, v);
}

static void score_sums(struct bn_dev *d, double *sums, size_t stride,
                       int first, int n, const struct bn_score_range *r,
                       const struct bn_score_values *v)
{
    if (!d->failed)
        bn_score_sums_ref(sums, stride, first, n, r, v);
}

static void score_spread(struct bn_dev *d, float *g, const double *dlogp,
                         const struct bn_score_range *r)
{
    if (!d->failed)
        bn_score_spread_ref(g, dlogp, r);
}

static void loss(struct bn_dev *d, enum bn_loss_kind kind,
                 const struct bn_loss_params *p, const struct bn_loss_seqs *s,
                 const struct bn_loss_denom *denom, double *dlogp,
                 struct bn_loss_acc *acc, int batch, int first)
{
    if (!d->failed)
        bn_loss_ref(kind, p, s, denom, dlogp, acc, batch, first);
}

static size_t sample_work(struct bn_dev *d, int vocab, int rows)
{
    (void)d;
    return bn_sample_work_cpu(vocab, rows);
}

static void sample(struct bn_dev *d, const struct bn_sample *s,
                   const struct bn_sample_rows *r, int32_t *token, void *work)
{
    if (!d->failed)
        bn_sample_cpu(s, r, token, work);
}

static void sqnorm(struct bn_dev *d, double *out, const float *g, size_t n)
{
    if (!d->failed)
        bn_sqnorm_cpu(out, g, n);
}

static void clip_scale(struct bn_dev *d, float *scale, const double *sq,
                       float max_norm)
{
    if (!d->failed)
        bn_clip_scale_cpu(scale, sq, max_norm);
}

static void adamw(struct bn_dev *d, enum bn_dtype t, const struct bn_adamw *a,
                  void *w, float *master, float *m, float *v, const float *g,
                  const struct bn_adamw_now *now, size_t n)
{
    if (!d->failed)
        bn_adamw_cpu(t, a, w, master, m, v, g, now, n);
}

static const struct bn_ops cpu_ops = {
    .arena_init = arena_init,
    .arena_release = arena_release,
    .from_host = cast,
    .to_host = cast,
    .mail = mail,
    .collect = collect,
    .zero = zero,
    .cast = cast,
    .sync = nothing_to_wait_for,
    .bias_grad = bias_grad,
    .embed = embed,
    .embed_grad = embed_grad,
    .rmsnorm = rmsnorm,
    .rmsnorm_grad = rmsnorm_grad,
    .headnorm = headnorm,
    .headnorm_grad = headnorm_grad,
    .rope = rope,
    .attn_work = attn_work,
    .attn = attn,
    .attn_grad = attn_grad,
    .swiglu = swiglu,
    .swiglu_grad = swiglu_grad,
    .add = add,
    .dropout = dropout,
    .gather = gather,
    .scatter = scatter,
    .copy_rows = copy_rows,
    .head_stats = head_stats,
    .head_grad = head_grad,
    .score_logp = score_logp,
    .score_sums = score_sums,
    .score_spread = score_spread,
    .loss = loss,
    .sample_work = sample_work,
    .sample = sample,
    .sqnorm = sqnorm,
    .clip_scale = clip_scale,
    .adamw = adamw,
};

static void destroy(struct bn_dev *d)
{
    struct bn_cpu *cpu = d->state;

    bn_cpu_gemm_release(cpu);
    free(cpu);
    free(d);
}

struct bn_dev *bn_dev_cpu(int threads, struct bn_err *err)
{
    struct bn_dev *d = BN_NEW(struct bn_dev);
    struct bn_cpu *cpu = BN_NEW(struct bn_cpu);

    *d = (struct bn_dev){.op = cpu_ops,
                         .name = "cpu",
                         .threads = bn_compute_threads(threads, 1),
                         .state = cpu,
                         .destroy = destroy};
#ifdef _OPENMP
    omp_set_num_threads(d->threads);
#else
    d->threads = 1;
#endif
    if (bn_cpu_gemm_init(d, err) < 0) {
        destroy(d);
        return NULL;
    }
    return d;
}
