/* Slots of a GPU device on the CPU: every buffer is copied to the host, the
 * CPU back end's slot runs, and what it wrote is copied back. Slow, and asked
 * for by name or counted; never silent.
 */
#include "config.h"
#include "ops/cuda_loan.h"

#include <stdlib.h>

#include "base/mem.h"

static void cast(struct bn_dev *d, void *dst, enum bn_dtype dst_type,
                 const void *src, enum bn_dtype src_type, size_t n)
{
    struct loan l = loan_begin(d);
    const void *s = in(&l, src, vector(src_type, n));
    void *to = out(&l, dst, vector(dst_type, n));

    l.cpu->op.cast(l.cpu, to, dst_type, s, src_type, n);
    bn_loan_end(&l);
}

static struct bn_mat mat(struct loan *l, enum bn_dtype t,
                         const struct bn_mat *w)
{
    return (struct bn_mat){
        .data = in(l, w->data, rows_of(t, w->rows, w->cols, w->cols)),
        .rows = w->rows,
        .cols = w->cols};
}

static void linear(struct bn_dev *d, enum bn_dtype t, void *y, int ldy,
                   const void *x, const struct bn_mat *w, const void *bias,
                   int n, bool acc)
{
    struct loan l = loan_begin(d);
    struct bn_mat m = mat(&l, t, w);
    const void *hx = in(&l, x, rows_of(t, n, w->cols, w->cols));
    const void *hb = in(&l, bias, vector(t, (size_t)w->rows));
    void *hy = out(&l, y, rows_of(t, n, ldy, w->rows));

    l.cpu->op.mat_changed(l.cpu, t, &m);
    l.cpu->op.linear(l.cpu, t, hy, ldy, hx, &m, hb, n, acc);
    l.cpu->op.mat_release(l.cpu, &m);
    bn_loan_end(&l);
}

static void linear_f32(struct bn_dev *d, enum bn_dtype t, float *y, int ldy,
                       const void *x, const struct bn_mat *w, int n)
{
    struct loan l = loan_begin(d);
    struct bn_mat m = mat(&l, t, w);
    const void *hx = in(&l, x, rows_of(t, n, w->cols, w->cols));
    float *hy = out(&l, y, rows_of(BN_F32, n, ldy, w->rows));

    l.cpu->op.mat_changed(l.cpu, t, &m);
    l.cpu->op.linear_f32(l.cpu, t, hy, ldy, hx, &m, n);
    l.cpu->op.mat_release(l.cpu, &m);
    bn_loan_end(&l);
}

static void linear_dx(struct bn_dev *d, enum bn_dtype t, void *dx,
                      const void *dy, int lddy, const struct bn_mat *w, int n,
                      bool acc)
{
    struct loan l = loan_begin(d);
    struct bn_mat m = mat(&l, t, w);
    const void *hdy = in(&l, dy, rows_of(t, n, lddy, w->rows));
    void *hdx = out(&l, dx, rows_of(t, n, w->cols, w->cols));

    l.cpu->op.mat_changed(l.cpu, t, &m);
    l.cpu->op.linear_dx(l.cpu, t, hdx, hdy, lddy, &m, n, acc);
    l.cpu->op.mat_release(l.cpu, &m);
    bn_loan_end(&l);
}

static void linear_dw(struct bn_dev *d, enum bn_dtype t, float *dw,
                      const void *dy, int lddy, const void *x, int rows,
                      int cols, int n)
{
    struct loan l = loan_begin(d);
    const void *hdy = in(&l, dy, rows_of(t, n, lddy, rows));
    const void *hx = in(&l, x, rows_of(t, n, cols, cols));
    float *hdw = out(&l, dw, rows_of(BN_F32, rows, cols, cols));

    l.cpu->op.linear_dw(l.cpu, t, hdw, hdy, lddy, hx, rows, cols, n);
    bn_loan_end(&l);
}

static void bias_grad(struct bn_dev *d, enum bn_dtype t, float *db,
                      const void *dy, int lddy, int rows, int n)
{
    struct loan l = loan_begin(d);
    const void *hdy = in(&l, dy, rows_of(t, n, lddy, rows));
    float *hdb = out(&l, db, vector(BN_F32, (size_t)rows));

    l.cpu->op.bias_grad(l.cpu, t, hdb, hdy, lddy, rows, n);
    bn_loan_end(&l);
}

static void embed(struct bn_dev *d, enum bn_dtype t, void *y,
                  const void *table, const int32_t *ids, int first, int count,
                  int cols, int n)
{
    struct loan l = loan_begin(d);
    const void *ht = in(&l, table, rows_of(t, count, cols, cols));
    const int32_t *hi = in(&l, ids, vector(BN_I32, (size_t)n));
    void *hy = out(&l, y, rows_of(t, n, cols, cols));

    l.cpu->op.embed(l.cpu, t, hy, ht, hi, first, count, cols, n);
    bn_loan_end(&l);
}

static void embed_grad(struct bn_dev *d, enum bn_dtype t, float *dtable,
                       const void *dy, const int32_t *ids, int first,
                       int count, int cols, int n)
{
    struct loan l = loan_begin(d);
    const void *hdy = in(&l, dy, rows_of(t, n, cols, cols));
    const int32_t *hi = in(&l, ids, vector(BN_I32, (size_t)n));
    float *ht = out(&l, dtable, rows_of(BN_F32, count, cols, cols));

    l.cpu->op.embed_grad(l.cpu, t, ht, hdy, hi, first, count, cols, n);
    bn_loan_end(&l);
}

static void rmsnorm(struct bn_dev *d, enum bn_dtype t, void *y, float *rstd,
                    void *xo, const void *x, const void *delta, const void *w,
                    float eps, int cols, int n)
{
    struct loan l = loan_begin(d);
    struct block all = rows_of(t, n, cols, cols);
    const void *hx = in(&l, x, all), *hd = in(&l, delta, all);
    const void *hw = in(&l, w, vector(t, (size_t)cols));
    void *hxo = delta != NULL ? out(&l, xo, all) : NULL;
    void *hy = out(&l, y, all);
    float *hr = out(&l, rstd, vector(BN_F32, (size_t)n));

    l.cpu->op.rmsnorm(l.cpu, t, hy, hr, hxo, hx, hd, hw, eps, cols, n);
    bn_loan_end(&l);
}

static void rmsnorm_grad(struct bn_dev *d, enum bn_dtype t, void *dx,
                         float *dw, const void *dy, const void *dres,
                         const void *x, const void *w, const float *rstd,
                         int cols, int n)
{
    struct loan l = loan_begin(d);
    struct block all = rows_of(t, n, cols, cols);
    const void *hdy = in(&l, dy, all), *hdres = in(&l, dres, all);
    const void *hx = in(&l, x, all);
    const void *hw = in(&l, w, vector(t, (size_t)cols));
    const float *hr = in(&l, rstd, vector(BN_F32, (size_t)n));
    void *hdx = out(&l, dx, all);
    float *hdw = out(&l, dw, vector(BN_F32, (size_t)cols));

    l.cpu->op.rmsnorm_grad(l.cpu, t, hdx, hdw, hdy, hdres, hx, hw, hr, cols,
                           n);
    bn_loan_end(&l);
}

static void headnorm(struct bn_dev *d, enum bn_dtype t, void *y, int ldy,
                     float *rstd, const void *x, int ldx, const void *w,
                     float eps, int heads, int hd, int n)
{
    struct loan l = loan_begin(d);
    const void *hx = in(&l, x, rows_of(t, n, ldx, heads * hd));
    const void *hw = in(&l, w, vector(t, (size_t)hd));
    void *hy = out(&l, y, rows_of(t, n, ldy, heads * hd));
    float *hr = out(&l, rstd, vector(BN_F32, (size_t)n * heads));

    l.cpu->op.headnorm(l.cpu, t, hy, ldy, hr, hx, ldx, hw, eps, heads, hd, n);
    bn_loan_end(&l);
}

static void headnorm_grad(struct bn_dev *d, enum bn_dtype t, void *dx,
                          int lddx, float *dw, const void *dy, int lddy,
                          const void *x, int ldx, const void *w,
                          const float *rstd, int heads, int hd, int n)
{
    struct loan l = loan_begin(d);
    const void *hdy = in(&l, dy, rows_of(t, n, lddy, heads * hd));
    const void *hx = in(&l, x, rows_of(t, n, ldx, heads * hd));
    const void *hw = in(&l, w, vector(t, (size_t)hd));
    const float *hr = in(&l, rstd, vector(BN_F32, (size_t)n * heads));
    void *hdx = out(&l, dx, rows_of(t, n, lddx, heads * hd));
    float *hdw = out(&l, dw, vector(BN_F32, (size_t)hd));

    l.cpu->op.headnorm_grad(l.cpu, t, hdx, lddx, hdw, hdy, lddy, hx, ldx, hw,
                            hr, heads, hd, n);
    bn_loan_end(&l);
}

static void rope(struct bn_dev *d, enum bn_dtype t, void *x, int ldx,
                 const float *cosine, const float *sine, const int32_t *pos,
                 int heads, int hd, int n, bool inverse)
{
    struct loan l = loan_begin(d);
    const int32_t *hp = in(&l, pos, vector(BN_I32, (size_t)n));
    int rows = 0;

    for (int i = 0; i < n && !d->failed; i++)
        rows = hp[i] >= rows ? hp[i] + 1 : rows;
    struct block table = rows_of(BN_F32, rows, hd / 2, hd / 2);
    const float *hc = in(&l, cosine, table), *hs = in(&l, sine, table);
    void *hx = out(&l, x, rows_of(t, n, ldx, heads * hd));

    if (!d->failed)
        l.cpu->op.rope(l.cpu, t, hx, ldx, hc, hs, hp, heads, hd, n, inverse);
    bn_loan_end(&l);
}

/* The call with host memory in the place of the device's; 'work' is to be
 * freed. */
static struct bn_attn attn_lend(struct loan *l, enum bn_dtype t,
                                const struct bn_attn *a, bool forward)
{
    struct bn_attn h = *a;
    int q = a->heads * a->hd, kv = a->kv_heads * a->hd;

    h.q = in(l, a->q, rows_of(t, a->nq, a->ldq, q));
    h.k = in(l, a->k, rows_of(t, a->nkv, a->ldk, kv));
    h.v = in(l, a->v, rows_of(t, a->nkv, a->ldv, kv));
    h.o = bn_loan_lend(l, a->o, rows_of(t, a->nq, a->ldo, q), forward);
    h.lse = bn_loan_lend(l, a->lse,
                         rows_of(BN_F32, a->heads, a->nq, a->nq), forward);
    h.seg = a->host_seg;
    if (posix_memalign(&h.work, BN_ARENA_ALIGN,
                       l->cpu->op.attn_work(l->cpu, &h) + 1) != 0)
        bn_dev_fail(l->d, BN_ERR_AGAIN, "no memory for attention on the CPU");
    return h;
}

static void attn(struct bn_dev *d, enum bn_dtype t, const struct bn_attn *a)
{
    struct loan l = loan_begin(d);
    struct bn_attn h = attn_lend(&l, t, a, true);

    if (!d->failed)
        l.cpu->op.attn(l.cpu, t, &h);
    free(h.work);
    bn_loan_end(&l);
}

static void attn_grad(struct bn_dev *d, enum bn_dtype t,
                      const struct bn_attn *a, const struct bn_attn_grad *g)
{
    struct loan l = loan_begin(d);
    struct bn_attn h = attn_lend(&l, t, a, false);
    int q = a->heads * a->hd, kv = a->kv_heads * a->hd;
    struct bn_attn_grad hg = {
        .d_o = in(&l, g->d_o, rows_of(t, a->nq, a->ldo, q)),
        .dq = out(&l, g->dq, rows_of(t, a->nq, a->ldq, q)),
        .dk = out(&l, g->dk, rows_of(t, a->nkv, a->ldk, kv)),
        .dv = out(&l, g->dv, rows_of(t, a->nkv, a->ldv, kv))};

    if (!d->failed)
        l.cpu->op.attn_grad(l.cpu, t, &h, &hg);
    free(h.work);
    bn_loan_end(&l);
}

static void swiglu(struct bn_dev *d, enum bn_dtype t, void *y, const void *gu,
                   int f, int n)
{
    struct loan l = loan_begin(d);
    const void *hgu = in(&l, gu, rows_of(t, n, 2 * f, 2 * f));
    void *hy = out(&l, y, rows_of(t, n, f, f));

    l.cpu->op.swiglu(l.cpu, t, hy, hgu, f, n);
    bn_loan_end(&l);
}

static void swiglu_grad(struct bn_dev *d, enum bn_dtype t, void *dgu, void *y,
                        const void *dy, const void *gu, int f, int n)
{
    struct loan l = loan_begin(d);
    const void *hgu = in(&l, gu, rows_of(t, n, 2 * f, 2 * f));
    const void *hdy = in(&l, dy, rows_of(t, n, f, f));
    void *hdgu = out(&l, dgu, rows_of(t, n, 2 * f, 2 * f));
    void *hy = out(&l, y, rows_of(t, n, f, f));

    l.cpu->op.swiglu_grad(l.cpu, t, hdgu, hy, hdy, hgu, f, n);
    bn_loan_end(&l);
}

static void add(struct bn_dev *d, enum bn_dtype t, void *y, const void *x,
                size_t n)
{
    struct loan l = loan_begin(d);
    const void *hx = in(&l, x, vector(t, n));
    void *hy = out(&l, y, vector(t, n));

    l.cpu->op.add(l.cpu, t, hy, hx, n);
    bn_loan_end(&l);
}

static void dropout(struct bn_dev *d, enum bn_dtype t, void *y, const void *x,
                    const struct bn_dropout *p, bool acc, int cols, int n)
{
    struct loan l = loan_begin(d);
    struct block all = rows_of(t, n, cols, cols);
    struct bn_dropout hp = *p;
    const void *hx = in(&l, x, all);
    void *hy = out(&l, y, all);

    hp.key = in(&l, p->key, vector(BN_I32, 2 * (size_t)n));
    l.cpu->op.dropout(l.cpu, t, hy, hx, &hp, acc, cols, n);
    bn_loan_end(&l);
}

/* Rows that an index names: up to the largest. */
static struct block indexed(enum bn_dtype t, const int32_t *rows, int cols,
                            int n)
{
    int most = 0;

    for (int i = 0; i < n; i++)
        most = rows[i] >= most ? rows[i] + 1 : most;
    return rows_of(t, most, cols, cols);
}

static void gather(struct bn_dev *d, enum bn_dtype t, void *y, const void *x,
                   const int32_t *rows, int cols, int n)
{
    struct loan l = loan_begin(d);
    const int32_t *hr = in(&l, rows, vector(BN_I32, (size_t)n));
    const void *hx = d->failed ? NULL
                               : in(&l, x, indexed(t, hr, cols, n));
    void *hy = out(&l, y, rows_of(t, n, cols, cols));

    if (!d->failed)
        l.cpu->op.gather(l.cpu, t, hy, hx, hr, cols, n);
    bn_loan_end(&l);
}

static void scatter(struct bn_dev *d, enum bn_dtype t, void *dx,
                    const void *dy, const int32_t *rows, int cols, int n)
{
    struct loan l = loan_begin(d);
    const int32_t *hr = in(&l, rows, vector(BN_I32, (size_t)n));
    const void *hdy = in(&l, dy, rows_of(t, n, cols, cols));
    void *hdx = d->failed ? NULL : out(&l, dx, indexed(t, hr, cols, n));

    if (!d->failed)
        l.cpu->op.scatter(l.cpu, t, hdx, hdy, hr, cols, n);
    bn_loan_end(&l);
}

static struct bn_head_rows head_lend(struct loan *l,
                                     const struct bn_head_rows *h, int *n)
{
    struct bn_head_rows r = *h;

    r.row_ptr = in(l, h->row_ptr, vector(BN_I32, (size_t)h->rows + 1));
    *n = l->d->failed ? 0 : r.row_ptr[h->rows];
    r.target = in(l, h->target, vector(BN_I32, (size_t)*n));
    return r;
}

static void head_stats(struct bn_dev *d, const struct bn_head_rows *h,
                       const float *logits, float *max, float *sum,
                       float *total, float *target_logit)
{
    struct loan l = loan_begin(d);
    int n;
    struct bn_head_rows hr = head_lend(&l, h, &n);
    struct block row = vector(BN_F32, (size_t)h->rows);
    const float *hx = in(&l, logits, rows_of(BN_F32, h->rows, h->ld, h->cols));
    float *hm = out(&l, max, row), *hs = out(&l, sum, row);
    float *ht = out(&l, total, row);
    float *hl = out(&l, target_logit, vector(BN_F32, (size_t)n));

    if (!d->failed)
        l.cpu->op.head_stats(l.cpu, &hr, hx, hm, hs, ht, hl);
    bn_loan_end(&l);
}

static void head_grad(struct bn_dev *d, enum bn_dtype t,
                      const struct bn_head_rows *h, void *dlogits, int ld_out,
                      const float *logits, const float *lse, const float *g,
                      float smoothing)
{
    struct loan l = loan_begin(d);
    int n;
    struct bn_head_rows hr = head_lend(&l, h, &n);
    const float *hlse = in(&l, lse, vector(BN_F32, (size_t)h->rows));
    const float *hg = in(&l, g, vector(BN_F32, (size_t)n));

    (void)in(&l, logits, rows_of(BN_F32, h->rows, h->ld, h->cols));
    void *hd = out(&l, dlogits, rows_of(t, h->rows, ld_out, h->cols));
    if (!d->failed)
        l.cpu->op.head_grad(l.cpu, t, &hr, hd, ld_out,
                            bn_loan_again(&l, logits), hlse, hg, smoothing);
    bn_loan_end(&l);
}

/* Statistics of the last shard end with the last target. */
static void score_logp(struct bn_dev *d, const struct bn_score_stats *s,
                       float *lse, const struct bn_score_values *v)
{
    struct loan l = loan_begin(d);
    struct bn_score_stats h = *s;
    struct bn_score_values hv = {0};
    int rows = s->rows, end;

    h.row_ptr = in(&l, s->row_ptr, vector(BN_I32, (size_t)rows + 1));
    end = d->failed ? 0 : h.row_ptr[rows];
    h.max = in(&l, s->max, rows_of(BN_F32, s->shards, (int)s->stride, rows));
    h.sum = in(&l, s->sum, rows_of(BN_F32, s->shards, (int)s->stride, rows));
    h.total = in(&l, s->total, rows_of(BN_F32, s->shards, (int)s->stride,
                                       rows));
    h.logit = in(&l, s->logit, rows_of(BN_F32, s->shards, (int)s->stride,
                                       end));
    float *hl = out(&l, lse, vector(BN_F32, (size_t)rows));
    if (v != NULL) {
        hv.logp = out(&l, v->logp, vector(BN_F64, (size_t)end));
        hv.smooth = out(&l, v->smooth, vector(BN_F64, (size_t)end));
        hv.hit = out(&l, v->hit, vector(BN_F64, (size_t)end));
    }
    if (!d->failed)
        l.cpu->op.score_logp(l.cpu, &h, hl, v != NULL ? &hv : NULL);
    bn_loan_end(&l);
}

static struct bn_score_range range_lend(struct loan *l,
                                        const struct bn_score_range *r)
{
    return (struct bn_score_range){
        r->begin, r->end, in(l, r->seq, vector(BN_I32, (size_t)r->end))};
}

static void score_sums(struct bn_dev *d, double *sums, size_t stride,
                       int first, int n, const struct bn_score_range *r,
                       const struct bn_score_values *v)
{
    struct loan l = loan_begin(d);
    struct bn_score_range hr = range_lend(&l, r);
    struct block all = vector(BN_F64, (size_t)r->end);
    struct bn_score_values hv = {(void *)(uintptr_t)in(&l, v->logp, all),
                                 (void *)(uintptr_t)in(&l, v->smooth, all),
                                 (void *)(uintptr_t)in(&l, v->hit, all)};
    double *hs = out(&l, sums, rows_of(BN_F64, 3, (int)stride, first + n));

    if (!d->failed)
        l.cpu->op.score_sums(l.cpu, hs, stride, first, n, &hr, &hv);
    bn_loan_end(&l);
}

static void score_spread(struct bn_dev *d, float *g, const double *dlogp,
                         const struct bn_score_range *r)
{
    struct loan l = loan_begin(d);
    struct bn_score_range hr = range_lend(&l, r);
    int most = -1;

    for (int e = r->begin; !d->failed && e < r->end; e++)
        most = hr.seq[e] > most ? hr.seq[e] : most;
    const double *hd = in(&l, dlogp, vector(BN_F64, (size_t)(most + 1)));
    float *hg = out(&l, g, vector(BN_F32, (size_t)r->end));

    if (!d->failed)
        l.cpu->op.score_spread(l.cpu, hg, hd, &hr);
    bn_loan_end(&l);
}

static void loss(struct bn_dev *d, enum bn_loss_kind kind,
                 const struct bn_loss_params *p, const struct bn_loss_seqs *s,
                 const struct bn_loss_denom *denom, double *dlogp,
                 struct bn_loss_acc *acc, int batch, int first)
{
    struct loan l = loan_begin(d);
    struct block n = vector(BN_F64, (size_t)s->n);
    struct bn_loss_seqs h = {s->n, in(&l, s->logp, n), in(&l, s->smooth, n),
                             in(&l, s->hits, n),
                             in(&l, s->ntok, vector(BN_I32, (size_t)s->n))};
    const struct bn_loss_denom *hd = in(&l, denom, vector(BN_F64, 2));
    double *hg = out(&l, dlogp, n);
    struct bn_loss_acc *ha = out(&l, acc, vector(BN_U8, sizeof(*acc)));

    if (!d->failed)
        l.cpu->op.loss(l.cpu, kind, p, &h, hd, hg, ha, batch, first);
    bn_loan_end(&l);
}

static void sample(struct bn_dev *d, const struct bn_sample *s,
                   const struct bn_sample_rows *r, int32_t *token, void *work)
{
    struct loan l = loan_begin(d);
    struct bn_sample_rows h = *r;
    size_t n = (size_t)r->rows;
    int32_t *hid = out(&l, token, vector(BN_I32, n));

    (void)work; /* the device's; the CPU wants another */
    h.logits = in(&l, r->logits, rows_of(BN_F32, r->rows, r->ld, r->vocab));
    h.u = in(&l, r->u, vector(BN_F64, n));
    h.seen_ptr = in(&l, r->seen_ptr, vector(BN_I32, n + 1));
    h.seen = in(&l, r->seen,
                vector(BN_I32, d->failed ? 0 : (size_t)h.seen_ptr[n]));
    void *mine = bn_malloc(l.cpu->op.sample_work(l.cpu, r->vocab, r->rows));
    if (!d->failed)
        l.cpu->op.sample(l.cpu, s, &h, hid, mine);
    free(mine);
    bn_loan_end(&l);
}

static void sqnorm(struct bn_dev *d, double *sum, const float *g, size_t n)
{
    struct loan l = loan_begin(d);
    const float *hg = in(&l, g, vector(BN_F32, n));
    double *hs = out(&l, sum, vector(BN_F64, 1));

    l.cpu->op.sqnorm(l.cpu, hs, hg, n);
    bn_loan_end(&l);
}

static void clip_scale(struct bn_dev *d, float *scale, const double *sq,
                       float max_norm)
{
    struct loan l = loan_begin(d);
    const double *hsq = in(&l, sq, vector(BN_F64, 1));
    float *hs = out(&l, scale, vector(BN_F32, 1));

    l.cpu->op.clip_scale(l.cpu, hs, hsq, max_norm);
    bn_loan_end(&l);
}

static void adamw(struct bn_dev *d, enum bn_dtype t, const struct bn_adamw *a,
                  void *w, float *master, float *m, float *v, const float *g,
                  const struct bn_adamw_now *now, size_t n)
{
    struct loan l = loan_begin(d);
    struct block bytes = vector(BN_F32, n);
    const float *hg = in(&l, g, bytes);
    const struct bn_adamw_now *hn = in(&l, now, vector(BN_F32, 4));
    void *hw = out(&l, w, vector(t, n));
    float *hm = out(&l, m, bytes), *hv = out(&l, v, bytes);
    float *hp = out(&l, master, bytes);

    l.cpu->op.adamw(l.cpu, t, a, w == master ? hp : hw, hp, hm, hv, hg, hn,
                    n);
    bn_loan_end(&l);
}

const struct bn_ops bn_cuda_on_host = {
    .cast = cast,
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
    .attn = attn,
    .attn_grad = attn_grad,
    .swiglu = swiglu,
    .swiglu_grad = swiglu_grad,
    .add = add,
    .dropout = dropout,
    .gather = gather,
    .scatter = scatter,
    .head_stats = head_stats,
    .head_grad = head_grad,
    .score_logp = score_logp,
    .score_sums = score_sums,
    .score_spread = score_spread,
    .loss = loss,
    .sample = sample,
    .sqnorm = sqnorm,
    .clip_scale = clip_scale,
    .adamw = adamw,
};
