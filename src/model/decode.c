#include "config.h"
#include "model/decode.h"
#include "model/seq.h"

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

/* Columns of the largest shard of the vocabulary. */
static int widest(const struct bn_model *m)
{
    return (m->cfg.vocab_size + m->mesh->tp.size - 1) / m->mesh->tp.size;
}

/* The device's part; the one list for plan and arena. */
static void carve(struct bn_decode *d, const struct bn_model *m,
                  const struct bn_decode_size *s, struct bn_arena *arena)
{
    size_t slots = (size_t)s->slots, ranks = (size_t)m->mesh->tp.size;
    size_t shard = slots * (size_t)widest(m) * sizeof(float);
    int vocab = m->cfg.vocab_size;
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
    d->all = d->logits;
    if (ranks > 1) {
        d->shard = bn_arena_get(arena, shard);
        d->shards = bn_arena_get(arena, ranks * shard);
        d->all = bn_arena_get(arena, slots * (size_t)vocab * sizeof(float));
    }
    d->token = bn_arena_get(arena, slots * sizeof(int32_t));
    d->u = bn_arena_get(arena, slots * sizeof(double));
    d->seen_ptr = bn_arena_get(arena, (slots + 1) * sizeof(int32_t));
    d->seen = bn_arena_get(arena, slots * (size_t)s->capacity
                                      * sizeof(int32_t));
    d->sample_work = bn_arena_get(
        arena, m->dev->op.sample_work(m->dev, vocab, s->slots));
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

/* Shards of a vocabulary may differ in size by one. */
static int lay_out_shards(struct bn_decode *d, struct bn_err *err)
{
    const struct bn_model *m = d->m;
    struct bn_comm *tp = m->mesh->tp.comm;
    size_t ranks = (size_t)tp->size;
    int64_t mine[2] = {m->vocab_first, m->vocab};

    d->range = BN_NEWN(int64_t, 2 * ranks);
    if (tp->ops->allgather(tp, d->range, mine, BN_I64, 2, err) < 0)
        return -1;
    for (size_t r = 0; r < ranks; r++)
        if (d->range[2 * r + 1] > widest(m))
            return bn_fail(err, BN_ERR_BUG, "rank %zu has %lld ids of %d", r,
                           (long long)d->range[2 * r + 1], m->cfg.vocab_size);
    return 0;
}

int bn_decode_init(struct bn_decode *d, struct bn_model *m,
                   const struct bn_decode_size *size, struct bn_arena *arena,
                   struct bn_err *err)
{
    size_t slots = (size_t)size->slots, n = (size_t)size->max_tokens;

    *d = (struct bn_decode){0};
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
    d->host_logits = BN_NEWN(float, slots * (size_t)m->cfg.vocab_size);
    d->host_u = BN_NEWN(double, slots);
    d->host_seen_ptr = BN_NEWN(int32_t, slots + 1);
    d->host_seen = BN_NEWN(int32_t, slots * (size_t)size->capacity);
    d->batch.ids = BN_NEWN(int32_t, n);
    d->batch.pos = BN_NEWN(int32_t, n);
    d->batch.span = BN_NEWN(int32_t, n);
    d->batch.seg = BN_NEWN(struct bn_attn_seg, slots);
    if (m->mesh->tp.size > 1 && lay_out_shards(d, err) < 0)
        return -1;
    return bn_dev_check(m->dev, err);
}

void bn_decode_release(struct bn_decode *d)
{
    bn_acts_release(&d->acts);
    free(d->length);
    free(d->at);
    free(d->host_last);
    free(d->host_logits);
    free(d->host_u);
    free(d->host_seen_ptr);
    free(d->host_seen);
    free(d->range);
    free(d->batch.ids);
    free(d->batch.pos);
    free(d->batch.span);
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
        b->span[b->ntok] = had + f->n;
        d->at[b->ntok++] = start + had + i;
    }
    if (f->want)
        d->host_last[(*wanted)++] = b->ntok - 1;
    return 0;
}

/* Every rank's columns, side by side. */
static int gather_shards(struct bn_decode *d, int wanted, struct bn_err *err)
{
    struct bn_dev *dev = d->m->dev;
    struct bn_comm *tp = d->m->mesh->tp.comm;
    int ld = widest(d->m), vocab = d->m->cfg.vocab_size;
    size_t n = (size_t)wanted * (size_t)ld;

    dev->op.copy_rows(dev, BN_F32, d->shard, ld, d->logits, d->m->vocab,
                      d->m->vocab, wanted);
    if (tp->ops->allgather(tp, d->shards, d->shard, BN_F32, n, err) < 0)
        return -1;
    for (size_t r = 0; r < (size_t)tp->size; r++)
        dev->op.copy_rows(dev, BN_F32, d->all + d->range[2 * r], vocab,
                          d->shards + r * n, ld, (int)d->range[2 * r + 1],
                          wanted);
    return 0;
}

/* keep: they stay on the device. */
static int make_logits(struct bn_decode *d, int wanted, bool keep,
                       struct bn_err *err)
{
    struct bn_model *m = d->m;
    const struct bn_ops *op = &m->dev->op;

    op->from_host(m->dev, d->last, BN_I32, d->host_last, BN_I32,
                  (size_t)wanted);
    op->gather(m->dev, m->t, d->h, d->acts.y_f, d->last, m->cfg.hidden_size,
               wanted);
    op->linear_f32(m->dev, m->t, d->logits, m->vocab, d->h, &m->head, wanted);
    if (d->range != NULL && gather_shards(d, wanted, err) < 0)
        return -1;
    if (!keep)
        op->to_host(m->dev, d->host_logits, BN_F32, d->all, BN_F32,
                    (size_t)wanted * (size_t)m->cfg.vocab_size);
    return 0;
}

/* The residual stream to or from the neighbour in the pipeline. */
static int pass(struct bn_decode *d, bool forward, struct bn_err *err)
{
    const struct bn_axis *pp = &d->m->mesh->pp;
    size_t rows = (size_t)bn_seq_rows(d->m->mesh, d->batch.ntok);
    size_t bytes = rows * (size_t)d->m->cfg.hidden_size
                   * bn_dtype_size(d->m->t);

    if (!forward)
        return pp->index == 0
                   ? 0
                   : pp->comm->ops->recv(pp->comm, bn_acts_input(&d->acts),
                                         bytes, pp->index - 1, err);
    if (pp->index + 1 == pp->size)
        return 0;
    d->m->dev->op.sync(d->m->dev);
    return pp->comm->ops->send(pp->comm, bn_acts_output(d->m, &d->acts),
                               bytes, pp->index + 1, err);
}

/* From the last stage's rank of this shard to those before it. */
static int share(struct bn_decode *d, void *p, size_t bytes,
                 struct bn_err *err)
{
    const struct bn_axis *pp = &d->m->mesh->pp;

    if (pp->size == 1 || bytes == 0)
        return 0;
    return pp->comm->ops->bcast(pp->comm, p, bytes, pp->size - 1, err);
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
    if (pass(d, false, err) < 0
        || bn_model_forward(m, &d->acts, &d->batch, err) < 0
        || pass(d, true, err) < 0)
        return -1;
    d->wanted = wanted;
    if (wanted > 0 && m->params.part.has_head
        && make_logits(d, wanted, logits == NULL, err) < 0)
        return -1;
    if (bn_dev_check(m->dev, err) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        d->length[feeds[i].slot] += feeds[i].n;
    if (logits == NULL)
        return 0;
    *logits = d->host_logits;
    return share(d, d->host_logits,
                 (size_t)wanted * (size_t)m->cfg.vocab_size * sizeof(float),
                 err);
}

/* The draws as the kernel wants them; returns how many ids were seen. */
static size_t list_draws(struct bn_decode *d, const struct bn_sample *s,
                         const struct bn_draw *draws)
{
    int n = 0;

    d->host_seen_ptr[0] = 0;
    for (int i = 0; i < d->wanted; i++) {
        d->host_u[i] = draws[i].u;
        if (s->repetition_penalty != 1) {
            memcpy(d->host_seen + n, draws[i].seen,
                   (size_t)draws[i].nseen * sizeof(*d->host_seen));
            n += draws[i].nseen;
        }
        d->host_seen_ptr[i + 1] = n;
    }
    return (size_t)n;
}

static void draw(struct bn_decode *d, const struct bn_sample *s, size_t nseen,
                 int32_t *tokens)
{
    struct bn_dev *dev = d->m->dev;
    const struct bn_ops *op = &dev->op;
    size_t n = (size_t)d->wanted;
    int vocab = d->m->cfg.vocab_size;
    struct bn_sample_rows r = {d->wanted, vocab, vocab, d->all, d->u,
                               d->seen_ptr, d->seen};

    op->from_host(dev, d->u, BN_F64, d->host_u, BN_F64, n);
    op->from_host(dev, d->seen_ptr, BN_I32, d->host_seen_ptr, BN_I32, n + 1);
    op->from_host(dev, d->seen, BN_I32, d->host_seen, BN_I32, nseen);
    op->sample(dev, s, &r, d->token, d->sample_work);
    op->to_host(dev, tokens, BN_I32, d->token, BN_I32, n);
}

int bn_decode_draw(struct bn_decode *d, const struct bn_sample *s,
                   const struct bn_draw *draws, int32_t *tokens,
                   struct bn_err *err)
{
    size_t nseen = list_draws(d, s, draws);

    if (d->wanted > 0 && d->m->params.part.has_head)
        draw(d, s, nseen, tokens);
    if (bn_dev_check(d->m->dev, err) < 0)
        return -1;
    return share(d, tokens, (size_t)d->wanted * sizeof(*tokens), err);
}

void bn_decode_cut(struct bn_decode *d, int slot, int length)
{
    if (length < d->length[slot])
        d->length[slot] = length;
}
