#include "config.h"
#include "convert/layout_piece.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

int64_t bn_form_row(enum bn_layout_form form, int groups, int head_dim,
                    const int64_t *rows, int parts, int part, int64_t row)
{
    int64_t d = head_dim, base = 0, all = 0;

    switch (form) {
    case BN_FORM_CONCAT:
        for (int i = 0; i < part; i++)
            base += rows[i];
        return base + row;
    case BN_FORM_GROUPED: {
        int64_t share = rows[part] / groups;

        for (int i = 0; i < parts; i++)
            all += rows[i];
        for (int i = 0; i < part; i++)
            base += rows[i] / groups;
        return row / share * (all / groups) + base + row % share;
    }
    case BN_FORM_NEIGHBOURS:
        return row / d * d + row % (d / 2) * 2 + row % d / (d / 2);
    default:
        return row;
    }
}

/* The name with {L} replaced; the caller frees it. */
static char *with_layer(const char *name, int layer)
{
    const char *at = strstr(name, "{L}");

    if (at == NULL)
        return bn_strdup(name);
    return bn_asprintf("%.*s%d%s", (int)(at - name), name, layer, at + 3);
}

static void piece_release(struct bn_piece *p)
{
    free(p->from);
    for (int i = 0; i < p->rule->n_to; i++)
        free(p->to[i]);
}

/* The table's entry of that name; lm_head of a tied model counts, with the
 * embedding's rows. */
static const struct bn_param *find_param(const struct bn_params *ps,
                                         const char *name)
{
    for (int i = 0; i < ps->n; i++)
        if (strcmp(ps->item[i].name, name) == 0)
            return &ps->item[i];
    if (strcmp(name, "lm_head.weight") == 0)
        return bn_param_find(ps, BN_P_EMBED, -1);
    return NULL;
}

/* Returns how many of the rule's targets the config has; their rows are
 * then known. */
static int piece_init(struct bn_piece *p, const struct bn_layout_rule *rule,
                      const struct bn_model_config *c,
                      const struct bn_params *ps, int layer)
{
    int known = 0;

    *p = (struct bn_piece){.rule = rule, .c = c};
    p->from = with_layer(rule->from, layer);
    for (int i = 0; i < rule->n_to; i++) {
        p->to[i] = with_layer(rule->to[i], layer);
        const struct bn_param *t = find_param(ps, p->to[i]);

        p->rows[i] = t != NULL ? t->full_rows : 0;
        p->all += p->rows[i];
        known += t != NULL;
        if (i == 0 && t != NULL)
            p->split = t->split;
    }
    return known;
}

int bn_each_piece(const struct bn_layout *l, const struct bn_model_config *c,
                  int (*f)(const struct bn_piece *, int known, void *arg),
                  void *arg, struct bn_err *err)
{
    struct bn_part whole = bn_part_whole(c);
    struct bn_params ps;
    int rc;

    if (l->families != 0 && !(l->families >> c->family & 1))
        return bn_fail(err, BN_ERR_DATA, "%s: the layout is not for %s "
                       "models", l->path, bn_family_name(c->family));
    rc = bn_params_init(&ps, c, &whole, err);

    if (rc < 0)
        return -1;
    for (size_t i = 0; rc == 0 && i < l->n_rule; i++) {
        bool layers = strstr(l->rule[i].from, "{L}") != NULL;

        for (int k = 0; rc == 0 && k < (layers ? c->layers : 1); k++) {
            struct bn_piece p;
            int known = piece_init(&p, &l->rule[i], c, &ps, k);

            rc = f(&p, known, arg);
            piece_release(&p);
        }
    }
    bn_params_release(&ps);
    return rc;
}

