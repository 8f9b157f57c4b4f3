#include "config.h"
#include "model/decode.h"

#include "base/mem.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Attention may want scratch for as many keys as the cache has rows. */
static size_t attn_work(const struct bn_model *m,
                        const struct bn_decode_size *s)
{
    struct bn_attn t = {.nq = s->max_tokens,
                        .nkv = s->slots * s->capacity,
                        .heads = m->heads,
                        .kv_heads = m->kv_heads,
                        .hd = m->cfg.head_dim,
                        .nseg = s->slots};

    return m->dev->op.attn_work(m->dev, &t);
}

/* The device's part; the one list for plan and arena. */
static void carve(struct bn_decode *d, const struct bn_model *m,
                  const struct bn_decode_size *s, struct bn_arena *arena)
{
    size_t slots = (size_t)s->slots;
    struct bn_acts_size size = {
        .tokens = s->max_tokens, .segs = s->slots, .kv = s->max_tokens};

    bn_cache_init(&d->cache, m, s->slots * s->capacity, s->max_tokens, arena);
    bn_acts_init(&d->acts, m, &size, arena);
    d->acts.attn_work = bn_arena_get(arena, attn_work(m, s));
    d->last = bn_arena_get(arena, slots * sizeof(int32_t));
    d->h = bn_arena_get(arena, slots * (size_t)m->cfg.hidden_size
                                   * bn_dtype_size(m->t));
    d->logits = bn_arena_get(arena,
                             slots * (size_t)m->vocab * sizeof(float));
}

size_t bn_decode_bytes(const struct bn_model *m,
                       const struct bn_decode_size *size)
{
    struct bn_arena plan;
    struct bn_decode d = {0};

    bn_arena_plan(&plan, "decoding");
    carve(&d, m, size, &plan);
    bn_acts_release(&d.acts);
    return plan.used;
}

int bn_decode_init(struct bn_decode *d, struct bn_model *m,
                   const struct bn_decode_size *size, struct bn_arena *arena,
                   struct bn_err *err)
{
    size_t slots = (size_t)size->slots, n = (size_t)size->max_tokens;

    *d = (struct bn_decode){0};
    if (m->mesh->tp.size > 1 || m->mesh->pp.size > 1)
        return bn_fail(err, BN_ERR_USAGE,
                       "decoding runs on one rank, not on tp %d, pp %d",
                       m->mesh->tp.size, m->mesh->pp.size);
    if (size->capacity > m->max_pos
        || (int64_t)size->slots * size->capacity > INT_MAX)
        return bn_fail(err, BN_ERR_DATA,
                       "%d sequences of %d tokens: the model was laid out "
                       "for %d positions",
                       size->slots, size->capacity, m->max_pos);
    if (size->slots < 1 || size->max_tokens < size->slots)
        return bn_fail(err, BN_ERR_BUG, "%d new tokens a step for %d slots",
                       size->max_tokens, size->slots);
    d->m = m;
    d->size = *size;
    carve(d, m, size, arena);
    d->acts.cache = &d->cache;
    d->length = BN_NEWN(int, slots);
    d->at = BN_NEWN(int32_t, n);
    d->host_last = BN_NEWN(int32_t, slots);
    d->host_logits = BN_NEWN(float, slots * (size_t)m->vocab);
    d->batch.ids = BN_NEWN(int32_t, n);
    d->batch.pos = BN_NEWN(int32_t, n);
    d->batch.seg = BN_NEWN(struct bn_attn_seg, slots);
    return bn_dev_check(m->dev, err);
}

void bn_decode_release(struct bn_decode *d)
{
    bn_acts_release(&d->acts);
    free(d->length);
    free(d->at);
    free(d->host_last);
    free(d->host_logits);
    free(d->batch.ids);
    free(d->batch.pos);
    free(d->batch.seg);
    *d = (struct bn_decode){0};
}

/* Append a feed to the stream. */
static int add_feed(struct bn_decode *d, const struct bn_feed *f, int *wanted,
                    struct bn_err *err)
{
    struct bn_batch *b = &d->batch;
    int had = d->length[f->slot], start = f->slot * d->size.capacity;

    if (f->n < 1 || f->n > d->size.max_tokens - b->ntok
        || f->n > d->size.capacity - had || b->nseg == d->size.slots)
        return bn_fail(err, BN_ERR_BUG, "slot %d with %d of %d tokens is fed "
                       "%d, %d tokens into the step of %d", f->slot, had,
                       d->size.capacity, f->n, b->ntok, d->size.max_tokens);
    b->seg[b->nseg++] = (struct bn_attn_seg){.q_start = b->ntok,
                                             .q_len = f->n,
                                             .q_off = had,
                                             .k_start = start,
                                             .k_len = had + f->n};
    for (int i = 0; i < f->n; i++) {
        b->ids[b->ntok] = f->ids[i];
        b->pos[b->ntok] = had + i;
        d->at[b->ntok++] = start + had + i;
    }
    if (f->want)
        d->host_last[(*wanted)++] = b->ntok - 1;
    return 0;
}

static void read_logits(struct bn_decode *d, int wanted)
{
    struct bn_model *m = d->m;
    const struct bn_ops *op = &m->dev->op;

    op->from_host(m->dev, d->last, BN_I32, d->host_last, BN_I32,
                  (size_t)wanted);
    op->gather(m->dev, m->t, d->h, d->acts.y_f, d->last, m->cfg.hidden_size,
               wanted);
    op->linear_f32(m->dev, m->t, d->logits, m->vocab, d->h, &m->head, wanted);
    op->to_host(m->dev, d->host_logits, BN_F32, d->logits, BN_F32,
                (size_t)wanted * (size_t)m->vocab);
}

int bn_decode_step(struct bn_decode *d, const struct bn_feed *feeds, int n,
                   const float **logits, struct bn_err *err)
{
    struct bn_model *m = d->m;
    int wanted = 0;

    d->batch.ntok = d->batch.nseg = 0;
    for (int i = 0; i < n; i++)
        if (add_feed(d, &feeds[i], &wanted, err) < 0)
            return -1;
    m->dev->op.from_host(m->dev, d->cache.at, BN_I32, d->at, BN_I32,
                         (size_t)d->batch.ntok);
    if (bn_model_forward(m, &d->acts, &d->batch, err) < 0)
        return -1;
    if (wanted > 0)
        read_logits(d, wanted);
    if (bn_dev_check(m->dev, err) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        d->length[feeds[i].slot] += feeds[i].n;
    *logits = d->host_logits;
    return 0;
}

void bn_decode_cut(struct bn_decode *d, int slot, int length)
{
    if (length < d->length[slot])
        d->length[slot] = length;
}
