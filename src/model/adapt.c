#include "config.h"
#include "model/adapt.h"

#include "base/rng.h"

static void *at(const struct bn_model *m, const void *p, size_t n)
{
    return (char *)(uintptr_t)p + n * bn_dtype_size(m->t);
}

/* Where the part of matrix number i of the group begins in a row of y. */
static int column(const struct bn_model *m, enum bn_param_kind first, int i)
{
    int hd = m->cfg.head_dim;

    if (i == 0)
        return 0;
    if (first == BN_P_GATE)
        return m->ffn;
    return m->heads * hd + (i - 1) * m->kv_heads * hd;
}

static const struct bn_adapted *find(const struct bn_model *m, int l,
                                     enum bn_param_kind kind)
{
    const struct bn_adapted *p = &m->layer[l].adapted[kind - BN_P_Q];

    return m->adapter != NULL && p->a.data != NULL ? p : NULL;
}

/* Multiply by s, without a mask. */
static void scale(struct bn_model *m, void *h, int n)
{
    struct bn_dropout p = {.scale = (float)bn_lora_scale(&m->adapter->lora)};
    int r = m->adapter->lora.r;

    if (p.scale != 1)
        m->dev->op.dropout(m->dev, m->t, h, h, &p, false, r, n);
}

/* The mask of matrix 'kind' of layer l: of the whole model's numbers, so that
 * every rank has the same. */
static struct bn_dropout mask(const struct bn_model *m,
                              const struct bn_acts *a, int l,
                              enum bn_param_kind kind)
{
    double p = m->adapter->lora.dropout;
    uint64_t layer = (uint64_t)(m->params.part.first_layer + l);
    uint64_t bits = bn_rng_u64(m->dropout.seed, layer, kind);

    return (struct bn_dropout){
        .scale = (float)(1 / (1 - p)),
        .below = (uint32_t)(p * 0x1p32),
        .salt = {(uint32_t)bits, (uint32_t)(bits >> 32)},
        .key = a->key,
        .col0 = m->layer[l].adapted[kind - BN_P_Q].col0,
    };
}

static bool drops(const struct bn_model *m)
{
    return m->dropout.on && m->adapter->lora.dropout > 0;
}

/* What A reads. */
static const void *dropped(struct bn_model *m, struct bn_acts *a, int l,
                           enum bn_param_kind kind, const void *x)
{
    struct bn_dropout p;

    if (!drops(m))
        return x;
    p = mask(m, a, l, kind);
    m->dev->op.dropout(m->dev, m->t, a->lora_x, x, &p, false,
                       m->layer[l].adapted[kind - BN_P_Q].a.cols, a->n);
    return a->lora_x;
}

void bn_adapt_forward(struct bn_model *m, struct bn_acts *a, int l,
                      enum bn_param_kind first, int n, const void *x, void *y,
                      int ld)
{
    const struct bn_ops *op = &m->dev->op;

    for (int i = 0; i < n; i++) {
        enum bn_param_kind kind = (enum bn_param_kind)(first + i);
        const struct bn_adapted *p = find(m, l, kind);

        if (p == NULL)
            continue;
        op->linear(m->dev, m->t, a->lora_h, p->a.rows,
                   dropped(m, a, l, kind, x), &p->a, NULL, a->n, false);
        scale(m, a->lora_h, a->n);
        op->linear(m->dev, m->t, at(m, y, (size_t)column(m, first, i)), ld,
                   a->lora_h, &p->b, NULL, a->n, true);
    }
}

/* Each matrix of a group has its own dh. */
static void *dh_of(const struct bn_model *m, const struct bn_acts *a, int i)
{
    size_t one = (size_t)a->max_tokens * (size_t)m->adapter->lora.r;

    return at(m, a->lora_dh, (size_t)i * one);
}

void bn_adapt_dx(struct bn_model *m, struct bn_acts *a, int l,
                 enum bn_param_kind first, int n, void *dx, const void *dy,
                 int ld)
{
    const struct bn_ops *op = &m->dev->op;

    for (int i = 0; i < n; i++) {
        enum bn_param_kind kind = (enum bn_param_kind)(first + i);
        const struct bn_adapted *p = find(m, l, kind);

        if (p == NULL)
            continue;
        void *dh = dh_of(m, a, i);
        op->linear_dx(m->dev, m->t, dh,
                      at(m, dy, (size_t)column(m, first, i)), ld, &p->b, a->n,
                      false);
        scale(m, dh, a->n);
        if (drops(m)) {
            struct bn_dropout d = mask(m, a, l, kind);

            op->linear_dx(m->dev, m->t, a->lora_x, dh, p->a.rows, &p->a, a->n,
                          false);
            op->dropout(m->dev, m->t, dx, a->lora_x, &d, true, p->a.cols,
                        a->n);
        } else {
            op->linear_dx(m->dev, m->t, dx, dh, p->a.rows, &p->a, a->n, true);
        }
    }
}

void bn_adapt_dw(struct bn_model *m, struct bn_acts *a, int l,
                 enum bn_param_kind first, int n, const void *x,
                 const void *dy, int ld)
{
    const struct bn_ops *op = &m->dev->op;

    for (int i = 0; i < n; i++) {
        enum bn_param_kind kind = (enum bn_param_kind)(first + i);
        const struct bn_adapted *p = find(m, l, kind);

        if (p == NULL)
            continue;
        const void *in = dropped(m, a, l, kind, x);
        int r = p->a.rows;

        /* h is made again: it is little work, and would be kept n times. */
        op->linear(m->dev, m->t, a->lora_h, r, in, &p->a, NULL, a->n, false);
        scale(m, a->lora_h, a->n);
        op->linear_dw(m->dev, m->t, p->g_b,
                      at(m, dy, (size_t)column(m, first, i)), ld, a->lora_h,
                      p->b.rows, r, a->n);
        op->linear_dw(m->dev, m->t, p->g_a, dh_of(m, a, i), r, in, r,
                      p->a.cols, a->n);
    }
}
