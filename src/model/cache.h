/* Keys and values of earlier tokens, so that a step computes new ones only.
 *
 * Every layer has 'rows' rows of keys and as many of values, kv_heads *
 * head_dim elements of the model's type each; who owns which rows is the
 * business of the caller (decode.h). Attention segments (kernels/segment.h)
 * then name rows of the cache in k_start. Keys are kept rotated: a token's
 * position is settled when it is put in.
 */
#ifndef BN_MODEL_CACHE_H
#define BN_MODEL_CACHE_H

#include "model/model.h"

struct bn_cache {
    int rows;    /* of a layer */
    void *kv;    /* [nlayers][2][rows, kv_heads * head_dim]: k, then v */
    void *step;  /* [max_tokens, kv_heads * head_dim] of one step */
    int32_t *at; /* [max_tokens] row that each token of the step goes to */
    /* Where a step's keys and values lie in the rows that the layer makes,
     * counted in heads: [max_tokens * kv_heads] each. */
    int32_t *k_heads, *v_heads;
};

/* Lay a cache out in 'arena' (device memory; a plan only counts). */
void bn_cache_init(struct bn_cache *c, const struct bn_model *m, int rows,
                   int max_tokens, struct bn_arena *arena);
/* Layer l's keys (v false) or values. */
void *bn_cache_rows(const struct bn_cache *c, const struct bn_model *m, int l,
                    bool v);
/* Put the keys and values of a->n tokens, which layer l just made, into rows
 * 'at'. keys: rows that hold the rotated heads of q, then of k; the values
 * are in a->layer[l].qkv. */
void bn_cache_put(const struct bn_cache *c, struct bn_model *m,
                  const struct bn_acts *a, int l, const void *keys);

#endif
