#include "config.h"
#include "model/layer.h"
#include "model/adapt.h"
#include "model/cache.h"
#include "model/seq.h"

#include <math.h>

/* Elements of type t after p. */
static void *at(const struct bn_model *m, const void *p, size_t n)
{
    return (char *)(uintptr_t)p + n * bn_dtype_size(m->t);
}

static void comm_failed(struct bn_model *m, const struct bn_err *err)
{
    bn_dev_fail(m->dev, err->code, "%s", err->text);
}

struct dims {
    int hidden, hd, q, kv, ld; /* elements of q, of k; of a qkv row */
};

static struct dims dims(const struct bn_model *m)
{
    struct dims d = {.hidden = m->cfg.hidden_size, .hd = m->cfg.head_dim};

    d.q = m->heads * d.hd;
    d.kv = m->kv_heads * d.hd;
    d.ld = d.q + 2 * d.kv;
    return d;
}

static struct bn_attn attn_args(const struct bn_model *m, struct bn_acts *a,
                                int l)
{
    const struct bn_layer_acts *k = &a->layer[l];
    struct dims d = dims(m);
    struct bn_attn t = {
        .q = k->qkv,
        .k = at(m, k->qkv, (size_t)d.q),
        .v = at(m, k->qkv, (size_t)(d.q + d.kv)),
        .o = k->o,
        .lse = k->lse,
        .ldq = d.ld,
        .ldk = d.ld,
        .ldv = d.ld,
        .ldo = d.q,
        .nq = a->n,
        .nkv = a->n,
        .heads = m->heads,
        .kv_heads = m->kv_heads,
        .hd = d.hd,
        .scale = (float)(1 / sqrt((double)d.hd)),
        .window = bn_model_window(&m->cfg, m->params.part.first_layer + l),
        .host_seg = a->host_seg,
        .seg = a->seg,
        .nseg = a->nseg,
        .work = a->attn_work,
    };

    if (m->cfg.qk_norm) {
        t.q = k->qk;
        t.k = at(m, k->qk, (size_t)d.q);
        t.ldq = t.ldk = d.q + d.kv;
    }
    if (a->cache != NULL) {
        t.k = bn_cache_rows(a->cache, m, l, false);
        t.v = bn_cache_rows(a->cache, m, l, true);
        t.ldk = t.ldv = d.kv;
        t.nkv = a->cache->rows;
    }
    if (m->mesh->cp.size > 1) {
        t.k = a->kv;
        t.v = at(m, a->kv, (size_t)d.kv);
        t.ldk = t.ldv = 2 * d.kv;
        t.nkv = a->nkv;
    }
    return t;
}

/* Keys and values of all context-parallel ranks into a->kv. They are not
 * kept: backward gathers them again. */
static void gather_kv(struct bn_model *m, struct bn_acts *a, int l)
{
    const struct bn_layer_acts *k = &a->layer[l];
    const struct bn_ops *op = &m->dev->op;
    struct bn_comm *c = m->mesh->cp.comm;
    struct dims d = dims(m);
    const void *key = at(m, k->qkv, (size_t)d.q);
    int ldk = d.ld;
    struct bn_err err;

    if (c->size == 1 || m->dev->failed)
        return;
    if (m->cfg.qk_norm) {
        key = at(m, k->qk, (size_t)d.q);
        ldk = d.q + d.kv;
    }
    op->copy_rows(m->dev, m->t, a->kv_mine, 2 * d.kv, key, ldk, d.kv, a->n);
    op->copy_rows(m->dev, m->t, at(m, a->kv_mine, (size_t)d.kv), 2 * d.kv,
                  at(m, k->qkv, (size_t)(d.q + d.kv)), d.ld, d.kv, a->n);
    if (c->ops->allgather(c, a->kv_ranks, a->kv_mine, m->t,
                          (size_t)a->pad_rows * 2 * (size_t)d.kv, &err) < 0)
        comm_failed(m, &err);
    op->gather(m->dev, m->t, a->kv, a->kv_ranks, a->kv_row, 2 * d.kv, a->nkv);
}

/* The sum over the ranks of a->d_kv, this rank's rows of it, to dk and dv. */
static void scatter_kv(struct bn_model *m, struct bn_acts *a, void *dk,
                       int lddk, void *dv, int lddv)
{
    const struct bn_ops *op = &m->dev->op;
    struct bn_comm *c = m->mesh->cp.comm;
    struct dims d = dims(m);
    size_t n = (size_t)a->pad_rows * 2 * (size_t)d.kv;
    struct bn_err err;

    op->zero(m->dev, a->kv_ranks,
             n * (size_t)c->size * bn_dtype_size(m->t));
    op->scatter(m->dev, m->t, a->kv_ranks, a->d_kv, a->kv_row, 2 * d.kv,
                a->nkv);
    if (!m->dev->failed
        && c->ops->reduce_scatter(c, a->kv_mine, a->kv_ranks, m->t, n, &err)
               < 0)
        comm_failed(m, &err);
    op->copy_rows(m->dev, m->t, dk, lddk, a->kv_mine, 2 * d.kv, d.kv, a->n);
    op->copy_rows(m->dev, m->t, dv, lddv,
                  at(m, a->kv_mine, (size_t)d.kv), 2 * d.kv, d.kv, a->n);
}

/* y_a -> qkv -> o: everything that recompute 'attention' makes again. */
static void attention(struct bn_model *m, struct bn_acts *a, int l)
{
    const struct bn_layer *w = &m->layer[l];
    const struct bn_layer_acts *k = &a->layer[l];
    const struct bn_ops *op = &m->dev->op;
    struct dims d = dims(m);
    float eps = (float)m->cfg.rms_eps;
    const void *y = bn_seq_all(m, a, k->y_a);
    void *rot = k->qkv;
    int ld = d.ld;

    op->linear(m->dev, m->t, k->qkv, d.ld, y, &w->qkv, w->qkv_bias, a->n,
               false);
    bn_adapt_forward(m, a, l, BN_P_Q, 3, y, k->qkv, d.ld);
    if (m->cfg.qk_norm) {
        rot = k->qk;
        ld = d.q + d.kv;
        op->headnorm(m->dev, m->t, k->qk, ld, k->rstd_q, k->qkv, d.ld,
                     w->norm_q, eps, m->heads, d.hd, a->n);
        op->headnorm(m->dev, m->t, at(m, k->qk, (size_t)d.q), ld, k->rstd_k,
                     at(m, k->qkv, (size_t)d.q), d.ld, w->norm_k, eps,
                     m->kv_heads, d.hd, a->n);
    }
    /* q and k lie side by side: one rotation does both. */
    op->rope(m->dev, m->t, rot, ld, a->cosine, a->sine, a->pos,
             m->heads + m->kv_heads, d.hd, a->n, false);
    if (a->cache != NULL)
        bn_cache_put(a->cache, m, a, l, rot);
    gather_kv(m, a, l);
    struct bn_attn t = attn_args(m, a, l);
    op->attn(m->dev, m->t, &t);
}

/* o -> x_m, y_m -> gate_up. */
static void middle(struct bn_model *m, struct bn_acts *a, int l)
{
    const struct bn_layer *w = &m->layer[l];
    const struct bn_layer_acts *k = &a->layer[l];
    const struct bn_ops *op = &m->dev->op;
    struct dims d = dims(m);
    /* A row-parallel product is summed over the shards: one adds the bias. */
    const void *bias = m->mesh->tp.index == 0 ? w->o_bias : NULL;

    op->linear(m->dev, m->t, a->h, d.hidden, k->o, &w->o, bias, a->n, false);
    bn_adapt_forward(m, a, l, BN_P_O, 1, k->o, a->h, d.hidden);
    bn_seq_sum(m, a, a->h);
    op->rmsnorm(m->dev, m->t, k->y_m, k->rstd_m, k->x_m, k->x_a,
                bn_seq_mine(m, a, a->h), w->norm_m, (float)m->cfg.rms_eps,
                d.hidden, a->rows);
    const void *y = bn_seq_all(m, a, k->y_m);
    op->linear(m->dev, m->t, k->gate_up, 2 * m->ffn, y, &w->gate_up, NULL,
               a->n, false);
    bn_adapt_forward(m, a, l, BN_P_GATE, 2, y, k->gate_up, 2 * m->ffn);
}

void bn_layer_forward(struct bn_model *m, struct bn_acts *a, int l)
{
    const struct bn_layer *w = &m->layer[l];
    const struct bn_layer_acts *k = &a->layer[l];
    const struct bn_ops *op = &m->dev->op;
    int hidden = m->cfg.hidden_size;

    attention(m, a, l);
    middle(m, a, l);
    op->swiglu(m->dev, m->t, a->act, k->gate_up, m->ffn, a->n);
    op->linear(m->dev, m->t, a->h, hidden, a->act, &w->down, NULL, a->n,
               false);
    bn_adapt_forward(m, a, l, BN_P_DOWN, 1, a->act, a->h, hidden);
    bn_seq_sum(m, a, a->h);
}

/* Make again what the recompute mode did not keep. */
static void again(struct bn_model *m, struct bn_acts *a, int l)
{
    const struct bn_layer *w = &m->layer[l];
    const struct bn_layer_acts *k = &a->layer[l];

    if (a->recompute == BN_RECOMPUTE_NONE)
        return;
    m->dev->op.rmsnorm(m->dev, m->t, k->y_a, k->rstd_a, NULL, k->x_a, NULL,
                       w->norm_a, (float)m->cfg.rms_eps, m->cfg.hidden_size,
                       a->rows);
    attention(m, a, l);
    if (a->recompute == BN_RECOMPUTE_FULL)
        middle(m, a, l);
}

/* The gradient of a matrix of the model, unless it is frozen. */
static void weight_grad(struct bn_model *m, float *dw, const void *dy, int lddy,
                        const void *x, int cols, int n)
{
    if (dw != NULL)
        m->dev->op.linear_dw(m->dev, m->t, dw, dy, lddy, x, lddy, cols, n);
}

static void mlp_backward(struct bn_model *m, struct bn_acts *a, int l)
{
    const struct bn_layer *w = &m->layer[l];
    const struct bn_layer_acts *k = &a->layer[l];
    const struct bn_ops *op = &m->dev->op;
    struct bn_dev *dev = m->dev;
    int hidden = m->cfg.hidden_size, f = m->ffn, n = a->n;
    const void *d_x = bn_seq_all(m, a, a->d_x);

    /* d_act in act; then dgu over gate_up and the activation over act. */
    op->linear_dx(dev, m->t, a->act, d_x, hidden, &w->down, n, false);
    bn_adapt_dx(m, a, l, BN_P_DOWN, 1, a->act, d_x, hidden);
    op->swiglu_grad(dev, m->t, k->gate_up, a->act, a->act, k->gate_up, f, n);
    weight_grad(m, w->g_down, d_x, hidden, a->act, f, n);
    bn_adapt_dw(m, a, l, BN_P_DOWN, 1, a->act, d_x, hidden);
    op->linear_dx(dev, m->t, a->h, k->gate_up, 2 * f, &w->gate_up, n, false);
    bn_adapt_dx(m, a, l, BN_P_GATE, 2, a->h, k->gate_up, 2 * f);
    const void *y = bn_seq_all(m, a, k->y_m);
    weight_grad(m, w->g_gate_up, k->gate_up, 2 * f, y, hidden, n);
    bn_adapt_dw(m, a, l, BN_P_GATE, 2, y, k->gate_up, 2 * f);
    bn_seq_sum(m, a, a->h);
    op->rmsnorm_grad(dev, m->t, a->d_x, w->g_norm_m, bn_seq_mine(m, a, a->h),
                     a->d_x, k->x_m, w->norm_m, k->rstd_m, hidden, a->rows);
}

/* d_qkv from d_o: attention, rotation and head norms backward. */
static void qkv_backward(struct bn_model *m, struct bn_acts *a, int l)
{
    const struct bn_layer *w = &m->layer[l];
    const struct bn_layer_acts *k = &a->layer[l];
    const struct bn_ops *op = &m->dev->op;
    struct bn_dev *dev = m->dev;
    struct dims d = dims(m);
    struct bn_attn t = attn_args(m, a, l);
    void *rot = m->cfg.qk_norm ? a->d_qk : a->d_qkv;
    int ldrot = m->cfg.qk_norm ? d.q + d.kv : d.ld;
    void *dk = at(m, rot, (size_t)d.q);
    void *dv = at(m, a->d_qkv, (size_t)(d.q + d.kv));
    struct bn_attn_grad g = {.d_o = a->d_o, .dq = rot, .dk = dk, .dv = dv};

    if (m->mesh->cp.size > 1) {
        if (a->recompute == BN_RECOMPUTE_NONE)
            gather_kv(m, a, l); /* else 'again' has just done it */
        g.dk = a->d_kv;
        g.dv = at(m, a->d_kv, (size_t)d.kv);
    }
    op->attn_grad(dev, m->t, &t, &g);
    if (m->mesh->cp.size > 1)
        scatter_kv(m, a, dk, ldrot, dv, d.ld);
    op->rope(dev, m->t, rot, ldrot, a->cosine, a->sine, a->pos,
             m->heads + m->kv_heads, d.hd, a->n, true);
    if (!m->cfg.qk_norm)
        return;
    op->headnorm_grad(dev, m->t, a->d_qkv, d.ld, w->g_norm_q, rot, ldrot,
                      k->qkv, d.ld, w->norm_q, k->rstd_q, m->heads, d.hd,
                      a->n);
    op->headnorm_grad(dev, m->t, at(m, a->d_qkv, (size_t)d.q), d.ld,
                      w->g_norm_k, dk, ldrot, at(m, k->qkv, (size_t)d.q),
                      d.ld, w->norm_k, k->rstd_k, m->kv_heads, d.hd, a->n);
}

static void attention_backward(struct bn_model *m, struct bn_acts *a, int l)
{
    const struct bn_layer *w = &m->layer[l];
    const struct bn_layer_acts *k = &a->layer[l];
    const struct bn_ops *op = &m->dev->op;
    struct bn_dev *dev = m->dev;
    struct dims d = dims(m);
    int n = a->n;
    const void *d_x = bn_seq_all(m, a, a->d_x);

    op->linear_dx(dev, m->t, a->d_o, d_x, d.hidden, &w->o, n, false);
    bn_adapt_dx(m, a, l, BN_P_O, 1, a->d_o, d_x, d.hidden);
    weight_grad(m, w->g_o, d_x, d.hidden, k->o, d.q, n);
    bn_adapt_dw(m, a, l, BN_P_O, 1, k->o, d_x, d.hidden);
    if (w->g_o_bias != NULL)
        op->bias_grad(dev, m->t, w->g_o_bias, d_x, d.hidden, d.hidden, n);
    qkv_backward(m, a, l);
    op->linear_dx(dev, m->t, a->h, a->d_qkv, d.ld, &w->qkv, n, false);
    bn_adapt_dx(m, a, l, BN_P_Q, 3, a->h, a->d_qkv, d.ld);
    const void *y = bn_seq_all(m, a, k->y_a);
    weight_grad(m, w->g_qkv, a->d_qkv, d.ld, y, d.hidden, n);
    bn_adapt_dw(m, a, l, BN_P_Q, 3, y, a->d_qkv, d.ld);
    if (w->g_qkv_bias != NULL)
        op->bias_grad(dev, m->t, w->g_qkv_bias, a->d_qkv, d.ld, d.ld, n);
    bn_seq_sum(m, a, a->h);
    op->rmsnorm_grad(dev, m->t, a->d_x, w->g_norm_a, bn_seq_mine(m, a, a->h),
                     a->d_x, k->x_a, w->norm_a, k->rstd_a, d.hidden, a->rows);
}

void bn_layer_backward(struct bn_model *m, struct bn_acts *a, int l)
{
    again(m, a, l);
    mlp_backward(m, a, l);
    attention_backward(m, a, l);
}
