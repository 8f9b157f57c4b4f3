/* The whole model over one micro-batch. */
#include "config.h"
#include "model/layer.h"
#include "model/rope.h"
#include "model/seq.h"
#include "model/shard.h"
#include "base/rng.h"

#include <string.h>

/* The keys of the rows in this step: where a row lies does not matter. */
static void upload_keys(struct bn_model *m, struct bn_acts *a,
                        const struct bn_batch *b)
{
    for (int i = 0; i < b->ntok; i++) {
        uint64_t key = bn_rng_u64(m->dropout.seed, m->dropout.step,
                                  b->row_id[i]);

        a->host_key[2 * i] = (uint32_t)key;
        a->host_key[2 * i + 1] = (uint32_t)(key >> 32);
    }
    m->dev->op.from_host(m->dev, a->key, BN_I32, a->host_key, BN_I32,
                         2 * (size_t)b->ntok);
}

/* Which rows of the tables of rope the tokens turn by; with dynamic RoPE a
 * row a token, of the frequencies of its example's length. */
static void upload_rope(struct bn_model *m, struct bn_acts *a,
                        const struct bn_batch *b)
{
    const struct bn_ops *op = &m->dev->op;
    size_t n = (size_t)b->ntok, h = (size_t)m->cfg.head_dim / 2;

    if (m->cfg.rope.type != BN_ROPE_DYNAMIC) {
        op->from_host(m->dev, a->pos, BN_I32, b->pos, BN_I32, n);
        return;
    }
    float *cosine = a->host_rope, *sine = cosine + n * h;

    bn_rope_rows(&m->cfg, b->ntok, b->pos, b->span, cosine, sine);
    op->from_host(m->dev, a->pos, BN_I32, a->host_row, BN_I32, n);
    op->from_host(m->dev, a->cosine, BN_F32, cosine, BN_F32, n * h);
    op->from_host(m->dev, a->sine, BN_F32, sine, BN_F32, n * h);
}

static int upload(struct bn_model *m, struct bn_acts *a,
                  const struct bn_batch *b, struct bn_err *err)
{
    const struct bn_ops *op = &m->dev->op;

    if (b->ntok > a->max_tokens || b->nseg > a->max_segs)
        return bn_fail(err, BN_ERR_BUG, "batch of %d tokens in %d segments, "
                       "planned for %d in %d", b->ntok, b->nseg,
                       a->max_tokens, a->max_segs);
    if ((b->layout == BN_BATCH_SPLIT) != (m->mesh->cp.size > 1))
        return bn_fail(err, BN_ERR_BUG, "a batch that is %s for %d context "
                       "ranks", b->layout == BN_BATCH_SPLIT ? "split"
                                                            : "whole",
                       m->mesh->cp.size);
    if (b->nkv > a->max_kv || b->pad_rows > a->max_pad)
        return bn_fail(err, BN_ERR_BUG, "batch of %d keys in shares of %d, "
                       "planned for %d of %d", b->nkv, b->pad_rows,
                       a->max_kv, a->max_pad);
    for (int i = 0; i < b->ntok; i++)
        if (b->ids[i] < 0 || b->ids[i] >= m->cfg.vocab_size
            || b->pos[i] < 0 || b->pos[i] >= m->max_pos)
            return bn_fail(err, BN_ERR_DATA, "token id %d at position %d: the "
                           "model has %d ids and the run %d positions",
                           b->ids[i], b->pos[i], m->cfg.vocab_size,
                           m->max_pos);
    a->n = b->ntok;
    a->rows = bn_seq_rows(m->mesh, b->ntok);
    a->nseg = b->nseg;
    a->host_seg = b->seg;
    a->nkv = b->nkv;
    a->pad_rows = b->pad_rows;
    op->from_host(m->dev, a->kv_row, BN_I32, b->kv_row, BN_I32,
                  (size_t)b->nkv);
    op->from_host(m->dev, a->ids, BN_I32, b->ids, BN_I32, (size_t)b->ntok);
    upload_rope(m, a, b);
    op->from_host(m->dev, a->seg, BN_I32, b->seg, BN_I32,
                  (size_t)b->nseg * sizeof(*b->seg) / sizeof(int32_t));
    if (m->dropout.on && a->key != NULL)
        upload_keys(m, a, b);
    return 0;
}

static void embed(struct bn_model *m, struct bn_acts *a, void *x)
{
    bool shared = m->mesh->sequence;
    void *all = shared ? a->h : x;

    m->dev->op.embed(m->dev, m->t, all, m->embed, a->ids, m->vocab_first,
                     m->vocab, m->cfg.hidden_size, a->n);
    if (shared)
        bn_seq_sum_to(m, a, x, all);
    else
        bn_seq_sum(m, a, all);
}

void *bn_acts_output(const struct bn_model *m, const struct bn_acts *a)
{
    return bn_seq_mine(m, a, a->h);
}

int bn_model_forward(struct bn_model *m, struct bn_acts *a,
                     const struct bn_batch *b, struct bn_err *err)
{
    const struct bn_ops *op = &m->dev->op;
    float eps = (float)m->cfg.rms_eps;
    int hidden = m->cfg.hidden_size;
    const void *prev = NULL;

    if (upload(m, a, b, err) < 0)
        return -1;
    /* The sum of a layer's two outputs is made by the norm that reads it. */
    for (int l = 0; l < m->nlayers; l++) {
        struct bn_layer_acts *k = &a->layer[l];

        if (l == 0 && m->params.part.has_embed)
            embed(m, a, k->x_a);
        op->rmsnorm(m->dev, m->t, k->y_a, k->rstd_a, l > 0 ? k->x_a : NULL,
                    l > 0 ? prev : k->x_a, l > 0 ? bn_acts_output(m, a) : NULL,
                    m->layer[l].norm_a, eps, hidden, a->rows);
        bn_layer_forward(m, a, l);
        prev = k->x_m;
    }
    if (m->params.part.has_head) {
        op->rmsnorm(m->dev, m->t, bn_seq_mine(m, a, a->y_f), a->rstd_f, a->x_f,
                    prev, bn_acts_output(m, a), m->norm_f, eps, hidden,
                    a->rows);
        bn_seq_gather(m, a, a->y_f);
    } else {
        op->add(m->dev, m->t, bn_acts_output(m, a), prev,
                (size_t)a->rows * (size_t)hidden);
    }
    return bn_dev_check(m->dev, err);
}

/* Say that the gradients from a layer of this part on are made. */
static void made(struct bn_model *m, int l)
{
    if (m->made.f != NULL)
        m->made.f(m->made.arg, m->params.part.first_layer + l);
}

static void layer_done(struct bn_model *m, int l)
{
    if (m->shard != NULL)
        bn_shard_layer_done(m, l);
    made(m, l);
}

void bn_model_backward(struct bn_model *m, struct bn_acts *a, void *d_y)
{
    const struct bn_ops *op = &m->dev->op;
    int hidden = m->cfg.hidden_size;

    if (m->shard != NULL)
        bn_shard_settle(m);
    if (m->params.part.has_head && m->mesh->sequence) {
        bn_seq_sum_to(m, a, a->d_x, d_y);
        d_y = a->d_x;
    }
    if (m->params.part.has_head)
        op->rmsnorm_grad(m->dev, m->t, a->d_x, m->g_norm_f, d_y, NULL,
                         a->x_f, m->norm_f, a->rstd_f, hidden, a->rows);
    made(m, m->nlayers);
    for (int l = m->nlayers - 1; l >= 0; l--) {
        bn_layer_backward(m, a, l);
        layer_done(m, l);
    }
    if (m->params.part.has_embed && m->g_embed != NULL)
        op->embed_grad(m->dev, m->t, m->g_embed,
                       bn_seq_all(m, a, a->d_x), a->ids, m->vocab_first,
                       m->vocab, hidden, a->n);
}

void bn_model_backward_none(struct bn_model *m)
{
    made(m, m->nlayers);
    for (int l = m->nlayers - 1; l >= 0; l--)
        layer_done(m, l);
}
