#include "config.h"
#include "model/params.h"
#include "base/mem.h"
#include "model/lora.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is laid out, in order. A 'first' entry begins a group at a multiple
 * of 64 elements; the others follow without a gap. */
enum where { TOP, LAYER, END, FACTOR };
static const struct {
    enum where where;
    bool first;
    enum bn_split_rule split;
    const char *name; /* after "model.layers.N." in a layer */
} specs[BN_NPARAM] = {
    [BN_P_EMBED] = {TOP, true, BN_SPLIT_VOCAB, "model.embed_tokens.weight"},
    [BN_P_Q] = {LAYER, true, BN_SPLIT_ROWS, "self_attn.q_proj.weight"},
    [BN_P_K] = {LAYER, false, BN_SPLIT_ROWS, "self_attn.k_proj.weight"},
    [BN_P_V] = {LAYER, false, BN_SPLIT_ROWS, "self_attn.v_proj.weight"},
    [BN_P_O] = {LAYER, true, BN_SPLIT_COLS, "self_attn.o_proj.weight"},
    [BN_P_GATE] = {LAYER, true, BN_SPLIT_ROWS, "mlp.gate_proj.weight"},
    [BN_P_UP] = {LAYER, false, BN_SPLIT_ROWS, "mlp.up_proj.weight"},
    [BN_P_DOWN] = {LAYER, true, BN_SPLIT_COLS, "mlp.down_proj.weight"},
    [BN_P_ATTN_NORM] = {LAYER, true, BN_SPLIT_NONE,
                        "input_layernorm.weight"},
    [BN_P_Q_BIAS] = {LAYER, true, BN_SPLIT_ROWS, "self_attn.q_proj.bias"},
    [BN_P_K_BIAS] = {LAYER, false, BN_SPLIT_ROWS, "self_attn.k_proj.bias"},
    [BN_P_V_BIAS] = {LAYER, false, BN_SPLIT_ROWS, "self_attn.v_proj.bias"},
    [BN_P_Q_NORM] = {LAYER, true, BN_SPLIT_NONE, "self_attn.q_norm.weight"},
    [BN_P_K_NORM] = {LAYER, true, BN_SPLIT_NONE, "self_attn.k_norm.weight"},
    [BN_P_O_BIAS] = {LAYER, true, BN_SPLIT_NONE, "self_attn.o_proj.bias"},
    [BN_P_MLP_NORM] = {LAYER, true, BN_SPLIT_NONE,
                       "post_attention_layernorm.weight"},
    [BN_P_FINAL_NORM] = {END, true, BN_SPLIT_NONE, "model.norm.weight"},
    [BN_P_HEAD] = {END, true, BN_SPLIT_VOCAB, "lm_head.weight"},
#define FACTORS(kind, split_a, split_b, name)                                 \
    [BN_P_##kind##_A] = {FACTOR, true, split_a, name ".lora_A.weight"},       \
    [BN_P_##kind##_B] = {FACTOR, true, split_b, name ".lora_B.weight"}
    FACTORS(Q, BN_SPLIT_NONE, BN_SPLIT_ROWS, "self_attn.q_proj"),
    FACTORS(K, BN_SPLIT_NONE, BN_SPLIT_ROWS, "self_attn.k_proj"),
    FACTORS(V, BN_SPLIT_NONE, BN_SPLIT_ROWS, "self_attn.v_proj"),
    FACTORS(O, BN_SPLIT_COLS, BN_SPLIT_NONE, "self_attn.o_proj"),
    FACTORS(GATE, BN_SPLIT_NONE, BN_SPLIT_ROWS, "mlp.gate_proj"),
    FACTORS(UP, BN_SPLIT_NONE, BN_SPLIT_ROWS, "mlp.up_proj"),
    FACTORS(DOWN, BN_SPLIT_COLS, BN_SPLIT_NONE, "mlp.down_proj"),
};

enum { NAME_MAX_LEN = 96 };
/* What PEFT's files put before the names of the model. */
static const char peft_prefix[] = "base_model.model.";

/* Full shape; cols 0 for a vector. False: the model has no such tensor. */
static bool shape(const struct bn_model_config *c, enum bn_param_kind k,
                  int *rows, int *cols)
{
    int q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;

    *rows = c->hidden_size;
    *cols = 0;
    switch (k) {
    case BN_P_EMBED:
    case BN_P_HEAD:
        *rows = c->vocab_size;
        *cols = c->hidden_size;
        return k == BN_P_EMBED || !c->tie_embeddings;
    case BN_P_Q:
    case BN_P_K:
    case BN_P_V:
        *rows = k == BN_P_Q ? q : kv;
        *cols = c->hidden_size;
        return true;
    case BN_P_O:
        *cols = q;
        return true;
    case BN_P_GATE:
    case BN_P_UP:
        *rows = c->intermediate_size;
        *cols = c->hidden_size;
        return true;
    case BN_P_DOWN:
        *cols = c->intermediate_size;
        return true;
    case BN_P_Q_BIAS:
    case BN_P_K_BIAS:
    case BN_P_V_BIAS:
        *rows = k == BN_P_Q_BIAS ? q : kv;
        return c->qkv_bias;
    case BN_P_Q_NORM:
    case BN_P_K_NORM:
        *rows = c->head_dim;
        return c->qk_norm;
    case BN_P_O_BIAS:
        return c->o_bias;
    default:
        return true;
    }
}

/* The same of a factor of rank r. */
static void factor_shape(const struct bn_model_config *c, enum bn_param_kind k,
                         int r, int *rows, int *cols)
{
    shape(c, bn_param_adapted(k), rows, cols);
    *((k - BN_P_LORA) % 2 == 0 ? rows : cols) = r;
}

static bool is_kv(enum bn_param_kind k)
{
    return k == BN_P_K || k == BN_P_V || k == BN_P_K_BIAS || k == BN_P_V_BIAS
           || k == BN_P_K_B || k == BN_P_V_B;
}

/* The slice of [0, n) of one of 'size' ranks; runs differ by at most 1. */
static void cut(int n, int size, int rank, int *from, int *len)
{
    *from = (int)((int64_t)n * rank / size);
    *len = (int)((int64_t)n * (rank + 1) / size) - *from;
}

static void split(struct bn_param *p, const struct bn_model_config *c,
                  const struct bn_part *part)
{
    int tp = part->tp_size, rank = part->tp_rank;

    p->rows = p->full_rows;
    p->cols = p->full_cols;
    p->copies = 1;
    switch (p->split) {
    case BN_SPLIT_NONE:
        p->copies = tp;
        break;
    case BN_SPLIT_COLS:
        cut(p->full_cols, tp, rank, &p->col0, &p->cols);
        break;
    case BN_SPLIT_ROWS:
        if (is_kv(p->kind) && tp > c->kv_heads) {
            p->copies = tp / c->kv_heads;
            tp = c->kv_heads;
            rank /= p->copies;
        }
        cut(p->full_rows, tp, rank, &p->row0, &p->rows);
        break;
    case BN_SPLIT_VOCAB:
        cut(p->full_rows, tp, rank, &p->row0, &p->rows);
        break;
    }
}

/* Elements that the parameter takes, with what it leaves empty. */
static size_t room(const struct bn_param *p, const struct bn_part *part)
{
    int tp = part->tp_size;

    if (p->split != BN_SPLIT_VOCAB || part->tight)
        return p->count;
    return (size_t)((p->full_rows + tp - 1) / tp) * (size_t)p->cols;
}

static int check_part(const struct bn_model_config *c,
                      const struct bn_part *p, struct bn_err *err)
{
    int tp = p->tp_size;

    if (tp < 1 || p->tp_rank < 0 || p->tp_rank >= tp || p->first_layer < 0
        || p->end_layer < p->first_layer || p->end_layer > c->layers)
        return bn_fail(err, BN_ERR_BUG, "part of layers %d..%d, tensor rank "
                       "%d/%d is no part of this model", p->first_layer,
                       p->end_layer - 1, p->tp_rank, tp);
    if (c->heads % tp != 0)
        return bn_fail(err, BN_ERR_USAGE, "%d attention heads cannot be "
                       "split over %d tensor ranks", c->heads, tp);
    if (c->kv_heads % tp != 0 && tp % c->kv_heads != 0)
        return bn_fail(err, BN_ERR_USAGE, "%d key-value heads cannot be "
                       "split over %d tensor ranks", c->kv_heads, tp);
    if (c->intermediate_size % tp != 0)
        return bn_fail(err, BN_ERR_USAGE, "intermediate size %d cannot be "
                       "split over %d tensor ranks", c->intermediate_size,
                       tp);
    if (c->vocab_size < tp)
        return bn_fail(err, BN_ERR_USAGE, "%d tokens cannot be split over %d "
                       "tensor ranks", c->vocab_size, tp);
    return 0;
}

static size_t round_up(size_t n)
{
    return (n + BN_PARAM_ALIGN - 1) / BN_PARAM_ALIGN * BN_PARAM_ALIGN;
}

static int slot(const struct bn_params *ps, enum bn_param_kind kind,
                int layer)
{
    int row = layer < 0 ? 0 : 1 + layer - ps->part.first_layer;

    return row * BN_NPARAM + (int)kind;
}

static void name_of(char *name, enum bn_param_kind kind, int layer)
{
    if (layer < 0)
        strcpy(name, specs[kind].name);
    else
        snprintf(name, NAME_MAX_LEN, "model.layers.%d.%s", layer,
                 specs[kind].name);
}

/* Whether the table of 'lora' (NULL: of the model) has this parameter. */
static bool belongs(const struct bn_lora *lora, enum bn_param_kind kind,
                    int layer)
{
    bool factor = kind >= BN_P_LORA;
    char name[NAME_MAX_LEN];

    if (lora == NULL)
        return !factor;
    name_of(name, factor ? bn_param_adapted(kind) : kind, layer);
    return factor ? bn_lora_targets(lora, bn_param_adapted(kind), name)
                  : bn_lora_saves(lora, kind, name);
}

static void add(struct bn_params *ps, const struct bn_model_config *c,
                const struct bn_lora *lora, enum bn_param_kind kind, int layer)
{
    struct bn_param *p = &ps->item[ps->n];
    char *name = ps->names + ps->n * NAME_MAX_LEN;

    *p = (struct bn_param){.kind = kind, .layer = layer, .name = name,
                           .split = specs[kind].split};
    if (!belongs(lora, kind, layer))
        return;
    if (kind >= BN_P_LORA)
        factor_shape(c, kind, lora->r, &p->full_rows, &p->full_cols);
    else if (!shape(c, kind, &p->full_rows, &p->full_cols))
        return;
    p->ndim = p->full_cols > 0 ? 2 : 1;
    p->decay = p->ndim == 2;
    if (p->ndim == 1)
        p->full_cols = 1;
    split(p, c, &ps->part);
    p->twin = kind == BN_P_EMBED && c->tie_embeddings
              && ps->part.has_embed != ps->part.has_head;
    if (lora != NULL) {
        strcpy(name, peft_prefix);
        name += sizeof(peft_prefix) - 1;
    }
    name_of(name, kind, layer);
    p->count = (size_t)p->rows * (size_t)p->cols;
    if (specs[kind].first)
        ps->elems = round_up(ps->elems);
    p->offset = ps->elems;
    ps->elems += room(p, &ps->part);
    ps->count += p->count;
    ps->index[slot(ps, kind, layer)] = ps->n++;
}

struct bn_part bn_part_whole(const struct bn_model_config *c)
{
    return (struct bn_part){.tp_size = 1, .end_layer = c->layers,
                            .has_embed = true, .has_head = true};
}

int bn_params_init(struct bn_params *ps, const struct bn_model_config *c,
                   const struct bn_part *part, struct bn_err *err)
{
    return bn_params_init_lora(ps, c, part, NULL, err);
}

int bn_params_init_lora(struct bn_params *ps, const struct bn_model_config *c,
                        const struct bn_part *part, const struct bn_lora *lora,
                        struct bn_err *err)
{
    if (lora != NULL && lora->r == 0)
        lora = NULL;
    if (check_part(c, part, err) < 0)
        return -1;
    size_t layers = (size_t)(part->end_layer - part->first_layer);
    size_t max = (layers + 1) * BN_NPARAM;
    *ps = (struct bn_params){.part = *part};
    ps->item = BN_NEWN(struct bn_param, max);
    ps->index = BN_NEWN(int, max);
    ps->names = bn_calloc(max, NAME_MAX_LEN);
    for (size_t i = 0; i < max; i++)
        ps->index[i] = -1;
    if (part->has_embed || (part->has_head && c->tie_embeddings))
        add(ps, c, lora, BN_P_EMBED, -1);
    for (int l = part->first_layer; l < part->end_layer; l++)
        for (int k = 0; k < BN_NPARAM; k++)
            if (specs[k].where == LAYER || specs[k].where == FACTOR)
                add(ps, c, lora, (enum bn_param_kind)k, l);
    for (int k = 0; k < BN_NPARAM; k++)
        if (specs[k].where == END && part->has_head)
            add(ps, c, lora, (enum bn_param_kind)k, -1);
    /* A stage may have nothing of an adapter; its buffers are there. */
    ps->elems = round_up(ps->elems > 0 ? ps->elems : 1);
    return 0;
}

void bn_params_pad(struct bn_params *ps, int ranks)
{
    size_t step = BN_PARAM_ALIGN * (size_t)ranks;

    ps->elems = (ps->elems + step - 1) / step * step;
}

/* What stage s of n layers costs. */
static double stage_cost(const struct bn_stage_cost *c, int stages, int s,
                         int n)
{
    return n * c->layer + (s == 0 ? c->embed : 0)
           + (s == stages - 1 ? c->head : 0);
}

/* One layer after the other to the stage that is cheapest with it: no other
 * split has a cheaper costliest stage, as layers cost alike. */
void bn_part_split(const struct bn_stage_cost *c, int layers, int stages,
                   int *count)
{
    for (int s = 0; s < stages; s++)
        count[s] = 1;
    for (int left = layers - stages; left > 0; left--) {
        int best = stages - 1;

        for (int s = stages - 2; s >= 0; s--)
            if (stage_cost(c, stages, s, count[s] + 1)
                < stage_cost(c, stages, best, count[best] + 1))
                best = s;
        count[best]++;
    }
}

static struct bn_stage_cost cost_of(const struct bn_model_config *c)
{
    double hidden = c->hidden_size, hd = c->head_dim;

    return (struct bn_stage_cost){
        .layer = hidden * (2.0 * c->heads * hd + 2.0 * c->kv_heads * hd
                           + 3.0 * c->intermediate_size),
        .head = hidden * c->vocab_size,
    };
}

int bn_part_stage(const struct bn_model_config *c, int stages, int stage,
                  int *first, int *end, struct bn_err *err)
{
    struct bn_stage_cost cost = cost_of(c);

    if (stages > c->layers)
        return bn_fail(err, BN_ERR_USAGE, "%d layers cannot be split over %d "
                       "pipeline stages", c->layers, stages);
    int *count = BN_NEWN(int, (size_t)stages);

    bn_part_split(&cost, c->layers, stages, count);
    *first = 0;
    for (int s = 0; s < stage; s++)
        *first += count[s];
    *end = *first + count[stage];
    free(count);
    return 0;
}

void bn_params_release(struct bn_params *ps)
{
    free(ps->item);
    free(ps->index);
    free(ps->names);
    *ps = (struct bn_params){0};
}

size_t bn_params_layer(const struct bn_params *ps, int layer)
{
    const struct bn_param *p = ps->item;

    for (int i = 0; i < ps->n; i++, p++)
        if (p->layer >= layer || (p->layer < 0 && p->kind != BN_P_EMBED))
            return p->offset;
    return ps->n > 0 ? p[-1].offset + p[-1].count : 0;
}

const struct bn_param *bn_param_find(const struct bn_params *ps,
                                     enum bn_param_kind kind, int layer)
{
    if (layer >= 0
        && (layer < ps->part.first_layer || layer >= ps->part.end_layer))
        return NULL;
    int i = ps->index[slot(ps, kind, layer)];
    return i < 0 ? NULL : &ps->item[i];
}

const struct bn_param *bn_param_head(const struct bn_params *ps)
{
    const struct bn_param *head = bn_param_find(ps, BN_P_HEAD, -1);

    if (head == NULL && ps->part.has_head)
        head = bn_param_find(ps, BN_P_EMBED, -1);
    return head;
}
