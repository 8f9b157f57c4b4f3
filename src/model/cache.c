#include "config.h"
#include "model/cache.h"

#include "base/mem.h"

#include <stdlib.h>

static size_t row_elems(const struct bn_model *m)
{
    return (size_t)m->kv_heads * (size_t)m->cfg.head_dim;
}

/* For token i and key/value head h: head number i * per_row + first + h. */
static void fill_heads(const struct bn_model *m, int32_t *to, int per_row,
                       int first, int tokens)
{
    size_t n = (size_t)tokens * (size_t)m->kv_heads;
    int32_t *host = BN_NEWN(int32_t, n);

    for (int i = 0; i < tokens; i++)
        for (int h = 0; h < m->kv_heads; h++)
            host[i * m->kv_heads + h] = i * per_row + first + h;
    m->dev->op.from_host(m->dev, to, BN_I32, host, BN_I32, n);
    m->dev->op.sync(m->dev);
    free(host);
}

void bn_cache_init(struct bn_cache *c, const struct bn_model *m, int rows,
                   int max_tokens, struct bn_arena *arena)
{
    size_t n = (size_t)max_tokens, elem = bn_dtype_size(m->t);
    size_t heads = n * (size_t)m->kv_heads * sizeof(int32_t);
    int q = m->heads, kv = m->kv_heads;

    *c = (struct bn_cache){.rows = rows};
    c->kv = bn_arena_get(arena, 2 * (size_t)m->nlayers * (size_t)rows
                                    * row_elems(m) * elem);
    c->step = bn_arena_get(arena, n * row_elems(m) * elem);
    c->at = bn_arena_get(arena, n * sizeof(int32_t));
    c->k_heads = bn_arena_get(arena, heads);
    c->v_heads = bn_arena_get(arena, heads);
    if (arena->base == NULL)
        return;
    fill_heads(m, c->k_heads, m->cfg.qk_norm ? q + kv : q + 2 * kv, q,
               max_tokens);
    fill_heads(m, c->v_heads, q + 2 * kv, q + kv, max_tokens);
}

void *bn_cache_rows(const struct bn_cache *c, const struct bn_model *m, int l,
                    bool v)
{
    size_t part = 2 * (size_t)l + (v ? 1 : 0);

    return (char *)c->kv
           + part * (size_t)c->rows * row_elems(m) * bn_dtype_size(m->t);
}

void bn_cache_put(const struct bn_cache *c, struct bn_model *m,
                  const struct bn_acts *a, int l, const void *keys)
{
    const struct bn_ops *op = &m->dev->op;
    int cols = (int)row_elems(m), heads = a->n * m->kv_heads;

    op->gather(m->dev, m->t, c->step, keys, c->k_heads, m->cfg.head_dim,
               heads);
    op->scatter(m->dev, m->t, bn_cache_rows(c, m, l, false), c->step, c->at,
                cols, a->n);
    op->gather(m->dev, m->t, c->step, a->layer[l].qkv, c->v_heads,
               m->cfg.head_dim, heads);
    op->scatter(m->dev, m->t, bn_cache_rows(c, m, l, true), c->step, c->at,
                cols, a->n);
}
