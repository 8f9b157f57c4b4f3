/* Where activations lie. One list says what is kept a layer and what is
 * shared, so that a plan and the real arena cannot differ.
 */
#include "config.h"
#include "model/model.h"
#include "base/mem.h"
#include "model/seq.h"

#include <stdlib.h>

struct layout {
    struct bn_arena *arena;
    size_t n, elem; /* tokens; bytes of type t */
    size_t mine;    /* rows of the residual stream that this rank holds */
};

static void *rows(const struct layout *l, int cols)
{
    return bn_arena_get(l->arena, l->n * (size_t)cols * l->elem);
}

/* Of the residual stream. */
static void *stream(const struct layout *l, const struct bn_model *m)
{
    return bn_arena_get(l->arena,
                        l->mine * (size_t)m->cfg.hidden_size * l->elem);
}

static float *stream_stats(const struct layout *l)
{
    return bn_arena_get(l->arena, l->mine * sizeof(float));
}

/* All of its rows, padded so that ranks have equal shares. */
static void *whole_stream(const struct layout *l, const struct bn_model *m)
{
    size_t ranks = m->mesh->sequence ? (size_t)m->mesh->tp.size : 1;

    return bn_arena_get(l->arena, ranks * l->mine
                                      * (size_t)m->cfg.hidden_size * l->elem);
}

static float *stats(const struct layout *l, int per_token)
{
    return bn_arena_get(l->arena,
                        l->n * (size_t)per_token * sizeof(float));
}

static void residuals(struct bn_layer_acts *k, const struct layout *l,
                      const struct bn_model *m)
{
    k->x_a = stream(l, m);
}

static void attention_part(struct bn_layer_acts *k, const struct layout *l,
                           const struct bn_model *m)
{
    int hd = m->cfg.head_dim;

    k->rstd_a = stream_stats(l);
    k->y_a = stream(l, m);
    k->qkv = rows(l, (m->heads + 2 * m->kv_heads) * hd);
    if (m->cfg.qk_norm) {
        k->qk = rows(l, (m->heads + m->kv_heads) * hd);
        k->rstd_q = stats(l, m->heads);
        k->rstd_k = stats(l, m->kv_heads);
    }
    k->o = rows(l, m->heads * hd);
    k->lse = stats(l, m->heads);
}

static void mlp_part(struct bn_layer_acts *k, const struct layout *l,
                     const struct bn_model *m)
{
    k->x_m = stream(l, m);
    k->rstd_m = stream_stats(l);
    k->y_m = stream(l, m);
    k->gate_up = rows(l, 2 * m->ffn);
}

/* Layer i's own memory where it must be kept, else layer 0's. */
static void layers(struct bn_acts *a, const struct layout *l,
                   const struct bn_model *m, bool backward)
{
    bool keep_mlp = backward && a->recompute != BN_RECOMPUTE_FULL;
    bool keep_attn = backward && a->recompute == BN_RECOMPUTE_NONE;

    for (int i = 0; i < m->nlayers; i++) {
        struct bn_layer_acts *k = &a->layer[i];

        if (i > 0)
            *k = a->layer[0];
        if (i == 0 || backward)
            residuals(k, l, m);
        if (i == 0 || keep_attn)
            attention_part(k, l, m);
        if (i == 0 || keep_mlp)
            mlp_part(k, l, m);
    }
}

static size_t attn_work(const struct bn_model *m,
                        const struct bn_acts_size *size)
{
    struct bn_attn t = {.nq = size->tokens,
                        .nkv = size->kv,
                        .heads = m->heads,
                        .kv_heads = m->kv_heads,
                        .hd = m->cfg.head_dim,
                        .nseg = size->segs};

    return m->dev->op.attn_work(m->dev, &t);
}

/* What context parallelism adds. */
static void shared_kv(struct bn_acts *a, const struct bn_model *m,
                      const struct bn_acts_size *size, struct bn_arena *arena)
{
    int ranks = m->mesh->cp.size, cols = 2 * m->kv_heads * m->cfg.head_dim;
    struct layout mine = {arena, (size_t)size->tokens, bn_dtype_size(m->t), 0};
    struct layout all = {arena, (size_t)size->kv, bn_dtype_size(m->t), 0};
    struct layout each = {arena, (size_t)size->tokens * (size_t)ranks,
                          bn_dtype_size(m->t), 0};

    if (ranks == 1)
        return;
    a->max_kv = size->kv;
    a->max_pad = size->tokens;
    a->kv_mine = rows(&mine, cols);
    a->kv_ranks = rows(&each, cols);
    a->kv = rows(&all, cols);
    if (size->backward)
        a->d_kv = rows(&all, cols);
    a->kv_row = bn_arena_get(arena, all.n * sizeof(int32_t));
}

/* The widest that an adapted matrix reads. */
static int widest(const struct bn_model *m)
{
    int o = m->heads * m->cfg.head_dim, most = m->cfg.hidden_size;

    most = o > most ? o : most;
    return m->ffn > most ? m->ffn : most;
}

/* What adapters add. */
static void adapters(struct bn_acts *a, const struct bn_model *m,
                     const struct bn_acts_size *size, struct bn_arena *arena)
{
    struct layout l = {arena, (size_t)size->tokens, bn_dtype_size(m->t), 0};

    if (m->adapter == NULL)
        return;
    a->lora_h = rows(&l, m->adapter->lora.r);
    if (!size->backward)
        return;
    a->lora_dh = rows(&l, 3 * m->adapter->lora.r);
    if (m->adapter->lora.dropout > 0) {
        a->lora_x = rows(&l, widest(m));
        a->key = bn_arena_get(arena, 2 * l.n * sizeof(*a->key));
        a->host_key = BN_NEWN(uint32_t, 2 * l.n);
    }
}

/* Dynamic RoPE turns each example by its own length: a row a token. */
static void rope_rows(struct bn_acts *a, const struct bn_model *m,
                      const struct layout *l)
{
    int h = m->cfg.head_dim / 2;

    a->cosine = m->cosine;
    a->sine = m->sine;
    if (m->cfg.rope.type != BN_ROPE_DYNAMIC)
        return;
    a->cosine = stats(l, h);
    a->sine = stats(l, h);
    a->host_rope = BN_NEWN(float, 2 * l->n * (size_t)h);
    a->host_row = BN_NEWN(int32_t, l->n);
    for (size_t i = 0; i < l->n; i++)
        a->host_row[i] = (int32_t)i;
}

void bn_acts_init(struct bn_acts *a, const struct bn_model *m,
                  const struct bn_acts_size *size, struct bn_arena *arena)
{
    int hd = m->cfg.head_dim;
    struct layout l = {arena, (size_t)size->tokens, bn_dtype_size(m->t),
                       (size_t)bn_seq_pad(m->mesh, size->tokens)};

    *a = (struct bn_acts){.max_tokens = size->tokens,
                          .max_segs = size->segs,
                          .recompute = size->recompute};
    a->layer = BN_NEWN(struct bn_layer_acts, (size_t)m->nlayers);
    layers(a, &l, m, size->backward);
    a->x_f = stream(&l, m);
    a->y_f = whole_stream(&l, m);
    a->rstd_f = stream_stats(&l);
    a->h = whole_stream(&l, m);
    if (m->mesh->sequence)
        a->all = whole_stream(&l, m);
    a->act = rows(&l, m->ffn);
    if (size->backward) {
        a->d_x = stream(&l, m);
        a->d_y = m->mesh->sequence ? a->all : a->d_x;
        a->d_o = rows(&l, m->heads * hd);
        a->d_qkv = rows(&l, (m->heads + 2 * m->kv_heads) * hd);
        if (m->cfg.qk_norm)
            a->d_qk = rows(&l, (m->heads + m->kv_heads) * hd);
    }
    adapters(a, m, size, arena);
    shared_kv(a, m, size, arena);
    a->attn_work = bn_arena_get(arena, attn_work(m, size));
    a->ids = bn_arena_get(arena, l.n * sizeof(int32_t));
    a->pos = bn_arena_get(arena, l.n * sizeof(int32_t));
    rope_rows(a, m, &l);
    a->seg = bn_arena_get(arena,
                          (size_t)size->segs * sizeof(struct bn_attn_seg));
}

void bn_acts_release(struct bn_acts *a)
{
    free(a->layer);
    free(a->host_key);
    free(a->host_rope);
    free(a->host_row);
    *a = (struct bn_acts){0};
}
