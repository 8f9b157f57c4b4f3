/* Wrong ways to read the rows of q, k and v. */
#include "config.h"
#include "convert/layout_piece.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The rule that makes q's weight; NULL: none. */
static const struct bn_layout_rule *rule_of_q(const struct bn_layout *l)
{
    for (size_t i = 0; i < l->n_rule; i++)
        for (int k = 0; k < l->rule[i].n_to; k++)
            if (bn_str_ends(l->rule[i].to[k], ".self_attn.q_proj.weight"))
                return &l->rule[i];
    return NULL;
}

/* Rows of q, k and v one after the other, read by 'wrong' where 'right' put
 * them. True if that makes a difference. */
static bool remap(enum bn_layout_form right, enum bn_layout_form wrong,
                  const struct bn_model_config *c, const int64_t *rows,
                  int parts, int32_t *map)
{
    int64_t all = 0, at = 0;
    bool differs = false;
    int g = c->kv_heads, d = c->head_dim;

    for (int i = 0; i < parts; i++)
        all += rows[i];
    int32_t *holds = BN_NEWN(int32_t, (size_t)all);
    for (int i = 0; i < parts; i++)
        for (int64_t r = 0; r < rows[i]; r++)
            holds[bn_form_row(right, g, d, rows, parts, i, r)] =
                (int32_t)at++;
    at = 0;
    for (int i = 0; i < parts; i++)
        for (int64_t r = 0; r < rows[i]; r++, at++) {
            map[at] = holds[bn_form_row(wrong, g, d, rows, parts, i, r)];
            differs = differs || map[at] != at;
        }
    free(holds);
    return differs;
}

bool bn_layout_other_fused(const struct bn_layout *l,
                           const struct bn_model_config *c, int32_t *map)
{
    const struct bn_layout_rule *q = rule_of_q(l);
    int64_t kv = (int64_t)c->kv_heads * c->head_dim;
    const int64_t rows[] = {(int64_t)c->heads * c->head_dim, kv, kv};

    if (q == NULL || q->n_to != 3)
        return false;
    return remap(q->form,
                 q->form == BN_FORM_GROUPED ? BN_FORM_CONCAT
                                            : BN_FORM_GROUPED, c, rows, 3,
                 map);
}

bool bn_layout_other_pairs(const struct bn_layout *l,
                           const struct bn_model_config *c, int32_t *map)
{
    const struct bn_layout_rule *q = rule_of_q(l);
    int64_t heads = (int64_t)(c->heads + c->kv_heads) * c->head_dim;
    int64_t all = heads + (int64_t)c->kv_heads * c->head_dim;
    bool near = q != NULL && q->form == BN_FORM_NEIGHBOURS;
    bool differs = remap(near ? BN_FORM_NEIGHBOURS : BN_FORM_RENAME,
                         near ? BN_FORM_RENAME : BN_FORM_NEIGHBOURS, c,
                         &heads, 1, map);

    for (int64_t r = heads; r < all; r++)
        map[r] = (int32_t)r;
    return differs;
}
