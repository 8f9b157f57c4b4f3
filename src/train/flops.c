#include "config.h"
#include "train/trainer.h"

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

double bn_batch_flops(const struct bn_model_config *cfg,
                      const struct bn_batch *b)
{
    double hidden = cfg->hidden_size, hd = cfg->head_dim;
    double q = cfg->heads * hd, kv = cfg->kv_heads * hd;
    double layer = hidden * (2 * q + 2 * kv)
                   + 3 * hidden * (double)cfg->intermediate_size;
    double flops = 6 * layer * cfg->layers * b->ntok;
    int rows = 0;

    for (int e = 0; e < b->nscore; e++)
        rows += e == 0 || b->score[e].row != b->score[e - 1].row;
    flops += 6 * hidden * cfg->vocab_size * rows;
    for (int l = 0; l < cfg->layers; l++)
        for (int s = 0; s < b->nseg; s++)
            flops += 12 * q * pairs(&b->seg[s], bn_model_window(cfg, l));
    return flops;
}
