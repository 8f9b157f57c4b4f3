#include "config.h"
#include "train/trainer.h"

#include <stdio.h>

/* Keys that the queries of a segment see, summed. */
static double pairs(const struct bn_attn_seg *s, int window)
{
    double sum = 0;

    for (int i = 0; i < s->q_len; i++) {
        int seen = s->p_len + s->q_off + i + 1;

        sum += window > 0 && seen > window ? window : seen;
    }
    return sum;
}

/* Adapted elements of a layer, and whether the head is trained. */
static double factors(const struct bn_model_config *cfg,
                      const struct bn_lora *l, int layer)
{
    double hidden = cfg->hidden_size, hd = cfg->head_dim;
    double q = cfg->heads * hd, kv = cfg->kv_heads * hd;
    double ffn = cfg->intermediate_size, sum = 0;
    const struct {
        const char *name;
        double sides;
    } mat[BN_NLINEAR] = {
        {"self_attn.q_proj", hidden + q},  {"self_attn.k_proj", hidden + kv},
        {"self_attn.v_proj", hidden + kv}, {"self_attn.o_proj", q + hidden},
        {"mlp.gate_proj", hidden + ffn},   {"mlp.up_proj", hidden + ffn},
        {"mlp.down_proj", ffn + hidden},
    };

    for (int k = 0; k < BN_NLINEAR; k++) {
        char name[80];

        snprintf(name, sizeof(name), "model.layers.%d.%s.weight", layer,
                 mat[k].name);
        if (bn_lora_targets(l, (enum bn_param_kind)(BN_P_Q + k), name))
            sum += l->r * mat[k].sides;
    }
    return sum;
}

double bn_batch_flops(const struct bn_model_config *cfg,
                      const struct bn_adapter *adapter,
                      const struct bn_batch *b)
{
    bool head = adapter == NULL
                || bn_lora_saves(&adapter->lora, BN_P_HEAD, "lm_head.weight");
    double hidden = cfg->hidden_size, hd = cfg->head_dim;
    double q = cfg->heads * hd, kv = cfg->kv_heads * hd;
    double layer = hidden * (2 * q + 2 * kv)
                   + 3 * hidden * (double)cfg->intermediate_size;
    double flops = (adapter == NULL ? 6 : 4) * layer * cfg->layers * b->ntok;
    int rows = 0;

    for (int e = 0; e < b->nscore; e++)
        rows += e == 0 || b->score[e].row != b->score[e - 1].row;
    flops += (head ? 6 : 4) * hidden * cfg->vocab_size * rows;
    for (int l = 0; adapter != NULL && l < cfg->layers; l++)
        flops += 6 * factors(cfg, &adapter->lora, l) * b->ntok;
    for (int l = 0; l < cfg->layers; l++)
        for (int s = 0; s < b->nseg; s++)
            flops += 12 * q * pairs(&b->seg[s], bn_model_window(cfg, l));
    return flops;
}
