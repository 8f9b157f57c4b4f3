/* The slots on the GPU: each launches its kernel, and hands over to the CPU's
 * where there is no kernel for a shape.
 */
#include "config.h"
#include "ops/cuda_state.h"

#include <stdarg.h>
#include <stdio.h>

#include "kernels/add.h"
#include "kernels/cast.h"
#include "kernels/embed.h"
#include "kernels/headnorm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/rows.h"
#include "kernels/sqnorm.h"
#include "kernels/swiglu.h"

/* True if the slot is left to the CPU: rc is what its launcher returned. */
static bool declined(struct bn_dev *d, const void *caller, int rc,
                     const char *slot, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

static bool declined(struct bn_dev *d, const void *caller, int rc,
                     const char *slot, const char *fmt, ...)
{
    struct bn_cuda_call call;
    char text[200];
    va_list ap;

    va_start(ap, fmt);
    bn_cuda_call_keep(&call, slot, fmt, ap);
    va_end(ap);
    if (rc == cudaErrorInvalidValue) {
        /* A refusal by the runtime, too, must not stay behind as an error. */
        (void)cudaGetLastError();
        bn_cuda_call_shapes(&call, text, sizeof(text));
        return bn_cuda_lend(d, slot, text, caller);
    }
    bn_cuda_of(d)->last = call;
    if (rc != 0) {
        bn_cuda_call_text(&call, text, sizeof(text));
        bn_cuda_failed(d, (cudaError_t)rc, text);
    }
    return false;
}

/* The launch (rc) is not even tried for a slot that was sent to the CPU. */
#define DECLINED(d, rc, slot, ...) \
    declined(d, __builtin_return_address(0), \
             bn_cuda_forced(d, slot) ? (int)cudaErrorInvalidValue : (rc), \
             slot, __VA_ARGS__)

static void *stream(struct bn_dev *d)
{
    return bn_cuda_of(d)->stream;
}

static void *scratch(struct bn_dev *d)
{
    return bn_cuda_of(d)->scratch;
}

/* Partial sums of 'parts' rows of 'cols' floats fit in the scratch memory. */
static bool has_room(int parts, int cols)
{
    return (size_t)parts * (size_t)cols * sizeof(float) <= BN_CUDA_SCRATCH;
}

static const char *name(enum bn_dtype t)
{
    return bn_dtype_name(t);
}

static void cast(struct bn_dev *d, void *dst, enum bn_dtype dst_type,
                 const void *src, enum bn_dtype src_type, size_t n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_cast_cuda(dst, dst_type, src, src_type, n,
                                    stream(d)),
                    "cast", "%s to %s, %zu", name(src_type), name(dst_type),
                    n))
        bn_cuda_on_host.cast(d, dst, dst_type, src, src_type, n);
}

/* --- matrix products ----------------------------------------------------- */

/* 0; failures are kept. */
static int gemm(struct bn_dev *d, const char *slot, const struct bn_gemm *g)
{
    struct bn_cuda *s = bn_cuda_of(d);
    char why[160];

    if (!bn_cuda_runs(d) || g->m == 0 || g->n == 0
        || (g->k == 0 && g->acc))
        return 0;
    if (bn_cuda_gemm_run(s->gemm, g, s->scratch + BN_CUDA_SCRATCH, why,
                         sizeof(why)) < 0)
        bn_dev_fail(d, BN_ERR_BUG, "%s (%s to %s [%d, %d, %d]) on rank %d, "
                    "device %d: %s", slot, name(g->t), name(g->tc), g->m,
                    g->n, g->k, s->o.rank, s->o.ordinal, why);
    return 0;
}

static void mat_changed(struct bn_dev *d, enum bn_dtype t, struct bn_mat *m)
{
    (void)d;
    (void)t;
    (void)m; /* the library reads weights as they are */
}

static void mat_release(struct bn_dev *d, struct bn_mat *m)
{
    (void)d;
    m->pack = NULL;
}

static void linear(struct bn_dev *d, enum bn_dtype t, void *y, int ldy,
                   const void *x, const struct bn_mat *w, const void *bias,
                   int n, bool acc)
{
    struct bn_gemm g = {.t = t,
                        .tc = t,
                        .m = n,
                        .n = w->rows,
                        .k = w->cols,
                        .a = x,
                        .lda = w->cols,
                        .b = w->data,
                        .ldb = w->cols,
                        .bias = bias,
                        .c = y,
                        .ldc = ldy,
                        .acc = acc};

    if (bn_cuda_runs(d)
        && DECLINED(d, gemm(d, "linear", &g), "linear", "%s [%d, %d, %d]",
                    name(t), g.m, g.n, g.k))
        bn_cuda_on_host.linear(d, t, y, ldy, x, w, bias, n, acc);
}

static void linear_f32(struct bn_dev *d, enum bn_dtype t, float *y, int ldy,
                       const void *x, const struct bn_mat *w, int n)
{
    struct bn_gemm g = {.t = t,
                        .tc = BN_F32,
                        .m = n,
                        .n = w->rows,
                        .k = w->cols,
                        .a = x,
                        .lda = w->cols,
                        .b = w->data,
                        .ldb = w->cols,
                        .c = y,
                        .ldc = ldy};

    if (bn_cuda_runs(d)
        && DECLINED(d, gemm(d, "linear_f32", &g), "linear_f32",
                    "%s [%d, %d, %d]", name(t), g.m, g.n, g.k))
        bn_cuda_on_host.linear_f32(d, t, y, ldy, x, w, n);
}

static void linear_dx(struct bn_dev *d, enum bn_dtype t, void *dx,
                      const void *dy, int lddy, const struct bn_mat *w, int n,
                      bool acc)
{
    struct bn_gemm g = {.t = t,
                        .tc = t,
                        .m = n,
                        .n = w->cols,
                        .k = w->rows,
                        .a = dy,
                        .lda = lddy,
                        .b = w->data,
                        .ldb = w->cols,
                        .b_by_k = true,
                        .c = dx,
                        .ldc = w->cols,
                        .acc = acc};

    if (bn_cuda_runs(d)
        && DECLINED(d, gemm(d, "linear_dx", &g), "linear_dx", "%s [%d, %d, %d]",
                    name(t), g.m, g.n, g.k))
        bn_cuda_on_host.linear_dx(d, t, dx, dy, lddy, w, n, acc);
}

static void linear_dw(struct bn_dev *d, enum bn_dtype t, float *dw,
                      const void *dy, int lddy, const void *x, int rows,
                      int cols, int n)
{
    struct bn_gemm g = {.t = t,
                        .tc = BN_F32,
                        .m = rows,
                        .n = cols,
                        .k = n,
                        .a = dy,
                        .lda = lddy,
                        .a_by_k = true,
                        .b = x,
                        .ldb = cols,
                        .b_by_k = true,
                        .c = dw,
                        .ldc = cols,
                        .acc = true};

    if (bn_cuda_runs(d)
        && DECLINED(d, gemm(d, "linear_dw", &g), "linear_dw", "%s [%d, %d, %d]",
                    name(t), g.m, g.n, g.k))
        bn_cuda_on_host.linear_dw(d, t, dw, dy, lddy, x, rows, cols, n);
}

static void bias_grad(struct bn_dev *d, enum bn_dtype t, float *db,
                      const void *dy, int lddy, int rows, int n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, has_room(BN_BIAS_PARTS, rows)
                           ? bn_bias_grad_cuda(t, db, dy, lddy, rows, n,
                                               scratch(d), stream(d))
                           : (int)cudaErrorInvalidValue,
                    "bias_grad", "%s [%d, %d]", name(t), n, rows))
        bn_cuda_on_host.bias_grad(d, t, db, dy, lddy, rows, n);
}

/* --- layers -------------------------------------------------------------- */

static void embed(struct bn_dev *d, enum bn_dtype t, void *y,
                  const void *table, const int32_t *ids, int first, int count,
                  int cols, int n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_embed_cuda(t, y, table, ids, first, count, cols, n,
                                     stream(d)),
                    "embed", "%s [%d, %d]", name(t), n, cols))
        bn_cuda_on_host.embed(d, t, y, table, ids, first, count, cols, n);
}

static void embed_grad(struct bn_dev *d, enum bn_dtype t, float *dtable,
                       const void *dy, const int32_t *ids, int first,
                       int count, int cols, int n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_embed_grad_cuda(t, dtable, dy, ids, first, count,
                                          cols, n, stream(d)),
                    "embed_grad", "%s [%d, %d]", name(t), n, cols))
        bn_cuda_on_host.embed_grad(d, t, dtable, dy, ids, first, count, cols,
                                   n);
}

static void rmsnorm(struct bn_dev *d, enum bn_dtype t, void *y, float *rstd,
                    void *xo, const void *x, const void *delta, const void *w,
                    float eps, int cols, int n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_rmsnorm_cuda(t, y, rstd, xo, x, delta, w, eps, cols,
                                       n, stream(d)),
                    "rmsnorm", "%s [%d, %d]", name(t), n, cols))
        bn_cuda_on_host.rmsnorm(d, t, y, rstd, xo, x, delta, w, eps, cols, n);
}

static void rmsnorm_grad(struct bn_dev *d, enum bn_dtype t, void *dx,
                         float *dw, const void *dy, const void *dres,
                         const void *x, const void *w, const float *rstd,
                         int cols, int n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, has_room(BN_NORM_PARTS, cols)
                           ? bn_rmsnorm_grad_cuda(t, dx, dw, dy, dres, x, w,
                                                  rstd, cols, n, scratch(d),
                                                  stream(d))
                           : (int)cudaErrorInvalidValue,
                    "rmsnorm_grad", "%s [%d, %d]", name(t), n, cols))
        bn_cuda_on_host.rmsnorm_grad(d, t, dx, dw, dy, dres, x, w, rstd, cols,
                                     n);
}

static void headnorm(struct bn_dev *d, enum bn_dtype t, void *y, int ldy,
                     float *rstd, const void *x, int ldx, const void *w,
                     float eps, int heads, int hd, int n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_headnorm_cuda(t, y, ldy, rstd, x, ldx, w, eps,
                                        heads, hd, n, stream(d)),
                    "headnorm", "%s [%d, %d, %d]", name(t), n, heads, hd))
        bn_cuda_on_host.headnorm(d, t, y, ldy, rstd, x, ldx, w, eps, heads,
                                 hd, n);
}

static void headnorm_grad(struct bn_dev *d, enum bn_dtype t, void *dx,
                          int lddx, float *dw, const void *dy, int lddy,
                          const void *x, int ldx, const void *w,
                          const float *rstd, int heads, int hd, int n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_headnorm_grad_cuda(t, dx, lddx, dw, dy, lddy, x,
                                             ldx, w, rstd, heads, hd, n,
                                             scratch(d), stream(d)),
                    "headnorm_grad", "%s [%d, %d, %d]", name(t), n, heads,
                    hd))
        bn_cuda_on_host.headnorm_grad(d, t, dx, lddx, dw, dy, lddy, x, ldx, w,
                                      rstd, heads, hd, n);
}

static void rope(struct bn_dev *d, enum bn_dtype t, void *x, int ldx,
                 const float *cosine, const float *sine, const int32_t *pos,
                 int heads, int hd, int n, bool inverse)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_rope_cuda(t, x, ldx, cosine, sine, pos, heads, hd,
                                    n, inverse, stream(d)),
                    "rope", "%s [%d, %d, %d]", name(t), n, heads, hd))
        bn_cuda_on_host.rope(d, t, x, ldx, cosine, sine, pos, heads, hd, n,
                             inverse);
}

static size_t attn_work(struct bn_dev *d, const struct bn_attn *a)
{
    (void)d;
    return bn_attn_work_cuda(a);
}

static void attn(struct bn_dev *d, enum bn_dtype t, const struct bn_attn *a)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_attn_cuda(t, a, stream(d)), "attn",
                    "%s %d rows, %d/%d heads of %d", name(t), a->nq, a->heads,
                    a->kv_heads, a->hd))
        bn_cuda_on_host.attn(d, t, a);
}

static void attn_grad(struct bn_dev *d, enum bn_dtype t,
                      const struct bn_attn *a, const struct bn_attn_grad *g)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_attn_grad_cuda(t, a, g, stream(d)), "attn_grad",
                    "%s %d rows, %d/%d heads of %d", name(t), a->nq, a->heads,
                    a->kv_heads, a->hd))
        bn_cuda_on_host.attn_grad(d, t, a, g);
}

static void swiglu(struct bn_dev *d, enum bn_dtype t, void *y, const void *gu,
                   int f, int n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_swiglu_cuda(t, y, gu, f, n, stream(d)), "swiglu",
                    "%s [%d, %d]", name(t), n, f))
        bn_cuda_on_host.swiglu(d, t, y, gu, f, n);
}

static void swiglu_grad(struct bn_dev *d, enum bn_dtype t, void *dgu, void *y,
                        const void *dy, const void *gu, int f, int n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_swiglu_grad_cuda(t, dgu, y, dy, gu, f, n,
                                           stream(d)),
                    "swiglu_grad", "%s [%d, %d]", name(t), n, f))
        bn_cuda_on_host.swiglu_grad(d, t, dgu, y, dy, gu, f, n);
}

static void add(struct bn_dev *d, enum bn_dtype t, void *y, const void *x,
                size_t n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_add_cuda(t, y, x, n, stream(d)), "add", "%s %zu",
                    name(t), n))
        bn_cuda_on_host.add(d, t, y, x, n);
}

static void dropout(struct bn_dev *d, enum bn_dtype t, void *y, const void *x,
                    const struct bn_dropout *p, bool acc, int cols, int n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_dropout_cuda(t, y, x, p, acc, cols, n, stream(d)),
                    "dropout", "%s [%d, %d]", name(t), n, cols))
        bn_cuda_on_host.dropout(d, t, y, x, p, acc, cols, n);
}

static void gather(struct bn_dev *d, enum bn_dtype t, void *y, const void *x,
                   const int32_t *rows, int cols, int n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_gather_cuda(t, y, x, rows, cols, n, stream(d)),
                    "gather", "%s [%d, %d]", name(t), n, cols))
        bn_cuda_on_host.gather(d, t, y, x, rows, cols, n);
}

static void scatter(struct bn_dev *d, enum bn_dtype t, void *dx,
                    const void *dy, const int32_t *rows, int cols, int n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_scatter_cuda(t, dx, dy, rows, cols, n, stream(d)),
                    "scatter", "%s [%d, %d]", name(t), n, cols))
        bn_cuda_on_host.scatter(d, t, dx, dy, rows, cols, n);
}

static void copy_rows(struct bn_dev *d, enum bn_dtype t, void *y, int ldy,
                      const void *x, int ldx, int cols, int n)
{
    size_t es = bn_dtype_size(t);
    cudaError_t e;

    if (!bn_cuda_runs(d) || n == 0 || cols == 0)
        return;
    e = cudaMemcpy2DAsync(y, (size_t)ldy * es, x, (size_t)ldx * es,
                          (size_t)cols * es, (size_t)n,
                          cudaMemcpyDeviceToDevice, bn_cuda_of(d)->stream);
    if (e != cudaSuccess)
        bn_cuda_failed(d, e, "copy_rows");
}

/* --- head and optimizer -------------------------------------------------- */

static void head_stats(struct bn_dev *d, const struct bn_head_rows *h,
                       const float *logits, float *max, float *sum,
                       float *total, float *target_logit)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_head_stats_cuda(h, logits, max, sum, total,
                                          target_logit, stream(d)),
                    "head_stats", "[%d, %d]", h->rows, h->cols))
        bn_cuda_on_host.head_stats(d, h, logits, max, sum, total,
                                   target_logit);
}

static void head_grad(struct bn_dev *d, enum bn_dtype t,
                      const struct bn_head_rows *h, void *dlogits, int ld_out,
                      const float *logits, const float *lse, const float *g,
                      float smoothing)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_head_grad_cuda(t, h, dlogits, ld_out, logits, lse,
                                         g, smoothing, stream(d)),
                    "head_grad", "%s [%d, %d]", name(t), h->rows, h->cols))
        bn_cuda_on_host.head_grad(d, t, h, dlogits, ld_out, logits, lse, g,
                                  smoothing);
}

static void score_logp(struct bn_dev *d, const struct bn_score_stats *s,
                       float *lse, const struct bn_score_values *v)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_score_logp_cuda(s, lse, v, stream(d)), "score_logp",
                    "[%d] of %d shards", s->rows, s->shards))
        bn_cuda_on_host.score_logp(d, s, lse, v);
}

static void score_sums(struct bn_dev *d, double *sums, size_t stride,
                       int first, int n, const struct bn_score_range *r,
                       const struct bn_score_values *v)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_score_sums_cuda(sums, stride, first, n, r, v,
                                          stream(d)), "score_sums",
                    "%d of %d", n, r->end - r->begin))
        bn_cuda_on_host.score_sums(d, sums, stride, first, n, r, v);
}

static void score_spread(struct bn_dev *d, float *g, const double *dlogp,
                         const struct bn_score_range *r)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_score_spread_cuda(g, dlogp, r, stream(d)),
                    "score_spread", "%d", r->end - r->begin))
        bn_cuda_on_host.score_spread(d, g, dlogp, r);
}

static void loss(struct bn_dev *d, enum bn_loss_kind kind,
                 const struct bn_loss_params *p, const struct bn_loss_seqs *s,
                 const struct bn_loss_denom *denom, double *dlogp,
                 struct bn_loss_acc *acc, int batch, int first)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_loss_cuda(kind, p, s, denom, dlogp, acc, batch,
                                    first, stream(d)), "loss", "%d", s->n))
        bn_cuda_on_host.loss(d, kind, p, s, denom, dlogp, acc, batch, first);
}

static size_t sample_work(struct bn_dev *d, int vocab, int rows)
{
    (void)d;
    return bn_sample_work_cuda(vocab, rows);
}

static void sample(struct bn_dev *d, const struct bn_sample *s,
                   const struct bn_sample_rows *r, int32_t *token, void *work)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_sample_cuda(s, r, token, work, stream(d)), "sample",
                    "[%d, %d]", r->rows, r->vocab))
        bn_cuda_on_host.sample(d, s, r, token, work);
}

static void sqnorm(struct bn_dev *d, double *out, const float *g, size_t n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_sqnorm_cuda(out, g, n, scratch(d), stream(d)),
                    "sqnorm", "%zu", n))
        bn_cuda_on_host.sqnorm(d, out, g, n);
}

static void clip_scale(struct bn_dev *d, float *scale, const double *sq,
                       float max_norm)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_clip_scale_cuda(scale, sq, max_norm, stream(d)),
                    "clip_scale", "%g", (double)max_norm))
        bn_cuda_on_host.clip_scale(d, scale, sq, max_norm);
}

static void adamw(struct bn_dev *d, enum bn_dtype t, const struct bn_adamw *a,
                  void *w, float *master, float *m, float *v, const float *g,
                  const struct bn_adamw_now *now, size_t n)
{
    if (bn_cuda_runs(d)
        && DECLINED(d, bn_adamw_cuda(t, a, w, master, m, v, g, now, n,
                                     stream(d)),
                    "adamw", "%s %zu", name(t), n))
        bn_cuda_on_host.adamw(d, t, a, w, master, m, v, g, now, n);
}

const struct bn_ops bn_cuda_ops = {
    .cast = cast,
    .mat_changed = mat_changed,
    .mat_release = mat_release,
    .linear = linear,
    .linear_f32 = linear_f32,
    .linear_dx = linear_dx,
    .linear_dw = linear_dw,
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
