/* A model's memory: one flat buffer of weights, one of gradients, and the
 * views into them.
 */
#include "config.h"
#include "model/model.h"
#include "base/mem.h"
#include "model/rope.h"
#include "model/shard.h"

#include <stdlib.h>
#include <string.h>

static size_t rope_elems(const struct bn_model_config *cfg, int max_pos)
{
    if (cfg->rope.type == BN_ROPE_DYNAMIC)
        return 0; /* each batch makes its own: acts.c */
    return (size_t)max_pos * (size_t)(cfg->head_dim / 2);
}

/* Take the memory from an arena; in a plan only count. */
static void carve(struct bn_model *m, struct bn_arena *a, bool training)
{
    size_t n = m->params.elems, r = rope_elems(&m->cfg, m->max_pos);

    float **g = m->adapter != NULL ? &m->adapter_g : &m->g;

    m->w = bn_arena_get(a, n * bn_dtype_size(m->t));
    m->g = m->adapter_g = NULL;
    if (m->adapter != NULL) {
        n = m->adapter->params.elems;
        m->adapter_w = bn_arena_get(a, n * bn_dtype_size(m->t));
    }
    if (training && m->shard != NULL)
        bn_shard_carve(m->shard, a);
    else if (training)
        *g = bn_arena_get(a, n * sizeof(float));
    m->cosine = bn_arena_get(a, r * sizeof(float));
    m->sine = bn_arena_get(a, r * sizeof(float));
}

size_t bn_model_bytes(const struct bn_model_config *cfg,
                      const struct bn_params *params,
                      const struct bn_adapter *adapter, enum bn_dtype t,
                      int max_pos, bool training)
{
    const struct bn_params *trained = adapter != NULL ? &adapter->params
                                                      : params;
    struct bn_shard shard;
    struct bn_model m = {.cfg = *cfg, .params = *params, .adapter = adapter,
                         .t = t, .max_pos = max_pos,
                         .shard = trained->kept > 0 ? &shard : NULL};
    struct bn_arena plan;

    bn_shard_sizes(&shard, trained);
    bn_arena_plan(&plan, "model");
    carve(&m, &plan, training);
    return plan.used;
}

size_t bn_model_grad_bytes(const struct bn_params *params)
{
    struct bn_shard shard;
    struct bn_arena plan;

    bn_arena_plan(&plan, "gradients");
    if (params->kept == 0) {
        bn_arena_get(&plan, params->elems * sizeof(float));
        return plan.used;
    }
    bn_shard_sizes(&shard, params);
    bn_shard_carve(&shard, &plan);
    return plan.used;
}

float *bn_model_grad(const struct bn_model *m, size_t offset)
{
    return m->shard != NULL ? m->shard->kept + (offset - m->shard->params->keep)
                            : bn_model_trained(m).g + offset;
}

struct bn_trained bn_model_trained(const struct bn_model *m)
{
    if (m->adapter == NULL)
        return (struct bn_trained){&m->params, m->w, m->g};
    return (struct bn_trained){&m->adapter->params, m->adapter_w,
                               m->adapter_g};
}

static const void *weight(const struct bn_model *m, const struct bn_param *p)
{
    if (p == NULL)
        return NULL;
    return (const char *)m->w + p->offset * bn_dtype_size(m->t);
}

/* Of a parameter that is trained. */
static float *trained_grad(const struct bn_model *m, const struct bn_param *p)
{
    float *g = m->adapter != NULL ? m->adapter_g : m->g;

    if (m->shard != NULL)
        return bn_shard_grad(m->shard, p);
    return g != NULL ? g + p->offset : NULL;
}

/* Of one of the model's own. */
static float *grad(const struct bn_model *m, const struct bn_param *p)
{
    return p == NULL || m->adapter != NULL ? NULL : trained_grad(m, p);
}

/* The adapter's parameter, its weights and gradient; NULL if it has none. */
static const struct bn_param *adapted(const struct bn_model *m,
                                      enum bn_param_kind kind, int l,
                                      const void **w, float **g)
{
    const struct bn_param *p = NULL;

    if (m->adapter != NULL)
        p = bn_param_find(&m->adapter->params, kind, l);
    if (p != NULL) {
        *w = (const char *)m->adapter_w + p->offset * bn_dtype_size(m->t);
        *g = trained_grad(m, p);
    }
    return p;
}

/* What can be saved whole with an adapter: a norm, the embedding or the head
 * of layer l (-1: of no layer), and its gradient. */
static const struct bn_param *single(const struct bn_model *m,
                                     enum bn_param_kind kind, int l,
                                     const void **w, float **g)
{
    const struct bn_param *p = adapted(m, kind, l, w, g);

    if (p != NULL)
        return p;
    p = bn_param_find(&m->params, kind, l);
    *w = weight(m, p);
    *g = grad(m, p);
    return p;
}

static void factors(const struct bn_model *m, struct bn_adapted *v,
                    enum bn_param_kind kind, int l)
{
    const struct bn_param *a, *b;

    a = adapted(m, bn_param_a(kind), l, &v->a.data, &v->g_a);
    b = adapted(m, bn_param_b(kind), l, &v->b.data, &v->g_b);
    if (a == NULL || b == NULL)
        return;
    v->a.rows = a->rows;
    v->a.cols = a->cols;
    v->b.rows = b->rows;
    v->b.cols = b->cols;
    v->col0 = a->col0;
}

/* The matrix made of 'n' kinds that lie one after the other. */
static void matrix(const struct bn_model *m, enum bn_param_kind first, int n,
                   int l, struct bn_mat *w, float **g)
{
    const struct bn_param *p = bn_param_find(&m->params, first, l);

    *w = (struct bn_mat){.data = weight(m, p), .cols = p->cols};
    *g = grad(m, p);
    for (int i = 0; i < n; i++)
        w->rows += bn_param_find(&m->params,
                                 (enum bn_param_kind)(first + i), l)->rows;
}

static void layer_views(struct bn_model *m, int i)
{
    struct bn_layer *v = &m->layer[i];
    int l = m->params.part.first_layer + i;

    matrix(m, BN_P_Q, 3, l, &v->qkv, &v->g_qkv);
    matrix(m, BN_P_O, 1, l, &v->o, &v->g_o);
    matrix(m, BN_P_GATE, 2, l, &v->gate_up, &v->g_gate_up);
    matrix(m, BN_P_DOWN, 1, l, &v->down, &v->g_down);
    single(m, BN_P_ATTN_NORM, l, &v->norm_a, &v->g_norm_a);
    single(m, BN_P_MLP_NORM, l, &v->norm_m, &v->g_norm_m);
    single(m, BN_P_Q_NORM, l, &v->norm_q, &v->g_norm_q);
    single(m, BN_P_K_NORM, l, &v->norm_k, &v->g_norm_k);
    single(m, BN_P_Q_BIAS, l, &v->qkv_bias, &v->g_qkv_bias);
    single(m, BN_P_O_BIAS, l, &v->o_bias, &v->g_o_bias);
    for (int k = 0; k < BN_NLINEAR; k++)
        factors(m, &v->adapted[k], (enum bn_param_kind)(BN_P_Q + k), l);
}

static void sizes(struct bn_model *m)
{
    const struct bn_param *any = bn_param_find(&m->params, BN_P_EMBED, -1);
    int hd = m->cfg.head_dim, l0 = m->params.part.first_layer;

    if (any == NULL)
        any = bn_param_head(&m->params);
    m->nlayers = m->params.part.end_layer - l0;
    m->heads = bn_param_find(&m->params, BN_P_Q, l0)->rows / hd;
    m->kv_heads = bn_param_find(&m->params, BN_P_K, l0)->rows / hd;
    m->ffn = bn_param_find(&m->params, BN_P_GATE, l0)->rows;
    m->vocab = any != NULL ? any->rows : 0;
    m->vocab_first = any != NULL ? any->row0 : 0;
}

void bn_model_plan(struct bn_model *m, const struct bn_model_config *cfg,
                   const struct bn_params *params,
                   const struct bn_adapter *adapter, enum bn_dtype t,
                   struct bn_dev *dev, const struct bn_mesh *mesh)
{
    *m = (struct bn_model){.cfg = *cfg, .params = *params, .dev = dev,
                           .adapter = adapter, .mesh = mesh, .t = t};
    sizes(m);
}

static void views(struct bn_model *m)
{
    const struct bn_param *head = bn_param_head(&m->params);

    for (int i = 0; i < m->nlayers; i++)
        layer_views(m, i);
    single(m, BN_P_EMBED, -1, &m->embed, &m->g_embed);
    single(m, BN_P_FINAL_NORM, -1, &m->norm_f, &m->g_norm_f);
    if (head != NULL) {
        m->head = (struct bn_mat){.rows = head->rows, .cols = head->cols};
        single(m, head->kind, -1, &m->head.data, &m->g_head);
    }
}

static void fill_rope(struct bn_model *m)
{
    size_t n = rope_elems(&m->cfg, m->max_pos);
    float *host;

    if (n == 0)
        return;
    host = bn_realloc(NULL, 2 * n, sizeof(float));
    bn_rope_init(&m->cfg, m->max_pos, host, host + n);
    m->dev->op.from_host(m->dev, m->cosine, BN_F32, host, BN_F32, n);
    m->dev->op.from_host(m->dev, m->sine, BN_F32, host + n, BN_F32, n);
    m->dev->op.sync(m->dev);
    free(host);
}

struct bn_model *bn_model_create(const struct bn_model_config *cfg,
                                 struct bn_params *params,
                                 const struct bn_adapter *adapter,
                                 enum bn_dtype t, int max_pos, bool training,
                                 struct bn_dev *dev,
                                 const struct bn_mesh *mesh,
                                 struct bn_arena *arena, struct bn_err *err)
{
    struct bn_model *m = BN_NEW(struct bn_model);

    m->cfg = *cfg;
    m->params = *params;
    *params = (struct bn_params){0};
    m->adapter = adapter;
    m->dev = dev;
    m->mesh = mesh;
    m->t = t;
    m->max_pos = max_pos;
    sizes(m);
    m->layer = BN_NEWN(struct bn_layer, (size_t)m->nlayers);
    const struct bn_params *trained = bn_model_trained(m).params;
    if (training && trained->kept > 0) {
        m->shard = BN_NEW(struct bn_shard);
        bn_shard_sizes(m->shard, trained);
    }
    carve(m, arena, training);
    views(m);
    fill_rope(m);
    /* Padding between groups is never written again. */
    dev->op.zero(dev, m->w, m->params.elems * bn_dtype_size(t));
    if (adapter != NULL)
        dev->op.zero(dev, m->adapter_w,
                     adapter->params.elems * bn_dtype_size(t));
    bn_model_zero_grad(m);
    if (bn_dev_check(dev, err) < 0) {
        bn_model_destroy(m);
        return NULL;
    }
    return m;
}

typedef void each_f(struct bn_model *, struct bn_mat *);

static void each_factor(struct bn_model *m, each_f *f)
{
    for (int i = 0; i < m->nlayers; i++)
        for (int k = 0; k < BN_NLINEAR; k++) {
            struct bn_adapted *v = &m->layer[i].adapted[k];

            if (v->a.data != NULL) {
                f(m, &v->a);
                f(m, &v->b);
            }
        }
}

/* Every matrix that is multiplied with. */
static void each_mat(struct bn_model *m, each_f *f)
{
    each_factor(m, f);
    for (int i = 0; i < m->nlayers; i++) {
        f(m, &m->layer[i].qkv);
        f(m, &m->layer[i].o);
        f(m, &m->layer[i].gate_up);
        f(m, &m->layer[i].down);
    }
    if (m->head.data != NULL)
        f(m, &m->head);
}

static void changed(struct bn_model *m, struct bn_mat *w)
{
    m->dev->op.mat_changed(m->dev, m->t, w);
}

static void released(struct bn_model *m, struct bn_mat *w)
{
    m->dev->op.mat_release(m->dev, w);
}

void bn_model_changed(struct bn_model *m)
{
    each_mat(m, changed);
}

void bn_model_adapter_changed(struct bn_model *m)
{
    bool head = bn_param_find(&m->adapter->params, BN_P_HEAD, -1) != NULL;

    each_factor(m, changed);
    if (head)
        changed(m, &m->head);
}

void bn_model_zero_grad(struct bn_model *m)
{
    struct bn_trained t = bn_model_trained(m);

    if (m->shard != NULL)
        bn_shard_zero(m);
    if (t.g != NULL)
        m->dev->op.zero(m->dev, t.g, t.params->elems * sizeof(float));
}

void bn_model_destroy(struct bn_model *m)
{
    if (m == NULL)
        return;
    each_mat(m, released);
    bn_params_release(&m->params);
    free(m->shard);
    free(m->layer);
    free(m);
}
