#include "config.h"
#include "convert/layout.h"
#include "base/mem.h"
#include "ckpt/hf.h"
#include "convert/layout_piece.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED = 20 };

/* Where row 'row' of target 'part' lies in the source tensor. */
static int64_t source_row(const struct bn_piece *p, int part, int64_t row)
{
    return bn_form_row(p->rule->form, p->c->kv_heads, p->c->head_dim, p->rows,
                       p->rule->n_to, part, row);
}

/* Whether the form fits these rows at all. */
static int check_form(const struct bn_layout *l, const struct bn_piece *p,
                      struct bn_err *err)
{
    int64_t unit = p->rule->form == BN_FORM_GROUPED      ? p->c->kv_heads
                   : p->rule->form == BN_FORM_NEIGHBOURS ? p->c->head_dim
                                                         : 1;

    for (int i = 0; i < p->rule->n_to; i++)
        if (p->rows[i] % unit != 0)
            return bn_fail(err, BN_ERR_DATA, "%s:%d: %lld rows of '%s' are "
                           "no multiple of %lld", l->path, p->rule->line,
                           (long long)p->rows[i], p->to[i],
                           (long long)unit);
    return 0;
}

static const char *plain_name(const struct bn_layout *l, const char *name)
{
    if (l->prefix != NULL && bn_str_starts(name, l->prefix))
        return name + strlen(l->prefix);
    return name;
}

/* By name, with or without the prefix. */
static const struct bn_named *find_source(const struct bn_layout *l,
                                          const struct bn_tensors *src,
                                          const char *name)
{
    const struct bn_named *t = bn_tensors_find(src, name);

    if (t != NULL || l->prefix == NULL)
        return t;
    char *full = bn_asprintf("%s%s", l->prefix, name);
    t = bn_tensors_find(src, full);
    free(full);
    return t;
}

/* A new tensor of 'rows' rows like 't' for 'out'; data uninitialised. */
static char *new_tensor(struct bn_tensors *out, const char *name,
                        const struct bn_named *t, int64_t rows,
                        struct bn_err *err)
{
    struct bn_named n = *t;

    n.name = bn_tensors_own_take(out, bn_strdup(name));
    n.dims[0] = rows;
    size_t bytes = (size_t)rows * (size_t)(t->ndim == 2 ? t->dims[1] : 1)
                   * bn_dtype_size(t->dtype);
    char *data = malloc(bytes > 0 ? bytes : 1);
    if (data == NULL) {
        bn_fail(err, BN_ERR_AGAIN, "no memory for %zu bytes of '%s'", bytes,
                name);
        return NULL;
    }
    n.data = bn_tensors_own_take(out, data);
    bn_tensors_add(out, &n);
    return data;
}

static size_t row_bytes(const struct bn_named *t)
{
    return (size_t)(t->ndim == 2 ? t->dims[1] : 1) * bn_dtype_size(t->dtype);
}

/* Cut one source tensor into its targets. */
static int cut(const struct bn_layout *l, const struct bn_piece *p,
               const struct bn_named *t, const char *where,
               struct bn_tensors *out, struct bn_err *err)
{
    size_t bytes = t->ndim == 1 || t->ndim == 2 ? row_bytes(t) : 0;

    if (bytes == 0 || t->dims[0] < p->all
        || (t->dims[0] > p->all && !p->rule->padded))
        return bn_fail(err, BN_ERR_DATA, "%s: '%s' has %lld rows, but the "
                       "config needs %lld", where, t->name,
                       (long long)(t->ndim > 0 ? t->dims[0] : 0),
                       (long long)p->all);
    if (check_form(l, p, err) < 0)
        return -1;
    for (int i = 0; i < p->rule->n_to; i++) {
        if (p->rule->form == BN_FORM_RENAME) { /* a view of the source */
            struct bn_named n = *t;

            n.name = bn_tensors_own_take(out, bn_strdup(p->to[i]));
            n.dims[0] = p->rows[i];
            bn_tensors_add(out, &n);
            continue;
        }
        char *to = new_tensor(out, p->to[i], t, p->rows[i], err);
        if (to == NULL)
            return -1;
        for (int64_t y = 0; y < p->rows[i]; y++)
            memcpy(to + (size_t)y * bytes,
                   (const char *)t->data
                       + (size_t)source_row(p, i, y) * bytes, bytes);
    }
    return 0;
}

static int apply_rule(const struct bn_layout *l, const struct bn_piece *p,
                      int known, const struct bn_tensors *src,
                      const char *where, bool *used, struct bn_tensors *out,
                      struct bn_str *report, struct bn_err *err)
{
    const struct bn_named *t = find_source(l, src, p->from);
    size_t i = t != NULL ? (size_t)(t - src->item) : 0;

    if (t == NULL) /* a target that is needed is missed by the check */
        return 0;
    if (used[i])
        return bn_fail(err, BN_ERR_DATA, "%s:%d: a second rule for '%s'",
                       l->path, p->rule->line, t->name);
    used[i] = true;
    if (known < p->rule->n_to)
        return bn_fail(err, BN_ERR_DATA, "%s: '%s' is there, but the config "
                       "has no '%s'", where, t->name, p->to[0]);
    if (cut(l, p, t, where, out, err) < 0)
        return -1;
    if (report != NULL && t->dims[0] > p->all)
        bn_str_addf(report, "%lld rows of padding of '%s' dropped\n",
                    (long long)(t->dims[0] - p->all), t->name);
    return 0;
}

static bool skipped(const struct bn_layout *l, const char *name)
{
    for (size_t i = 0; i < l->n_skip; i++)
        if (fnmatch(l->skip[i], name, 0) == 0)
            return true;
    return false;
}

static int check_used(const struct bn_layout *l, const struct bn_tensors *src,
                      const char *where, const bool *used,
                      struct bn_str *report, struct bn_err *err)
{
    const char *first = NULL;
    int n = 0;

    for (size_t i = 0; i < src->n; i++) {
        const char *name = src->item[i].name;

        if (used[i] || skipped(l, plain_name(l, name)))
            continue;
        if (n++ == 0)
            first = name;
        if (report != NULL && n <= LISTED)
            bn_str_addf(report, "not used: %s\n", name);
    }
    if (n == 0)
        return 0;
    return bn_fail(err, BN_ERR_DATA, "%s: %d tensors that no rule of '%s' "
                   "uses (%s%s)", where, n, l->path, first,
                   n > 1 ? ", ..." : "");
}

struct apply {
    const struct bn_layout *l;
    const struct bn_tensors *src;
    const char *where;
    bool *used;
    struct bn_tensors *out;
    struct bn_str *report;
    struct bn_err *err;
};

static int apply_piece(const struct bn_piece *p, int known, void *arg)
{
    const struct apply *a = arg;

    return apply_rule(a->l, p, known, a->src, a->where, a->used, a->out,
                      a->report, a->err);
}

int bn_layout_apply(const struct bn_layout *l,
                    const struct bn_model_config *c,
                    const struct bn_tensors *src, const char *where,
                    struct bn_tensors *out, struct bn_str *report,
                    struct bn_err *err)
{
    struct bn_tensors got = {0};
    struct apply a = {l, src, where, BN_NEWN(bool, src->n), &got, report,
                      err};
    int rc = -1;

    if (bn_each_piece(l, c, apply_piece, &a, err) == 0
        && check_used(l, src, where, a.used, report, err) == 0
        && bn_tensors_finish(&got, err) == 0)
        rc = bn_hf_check(&got, where, c, report, err);
    free(a.used);
    if (rc < 0)
        bn_tensors_close(&got);
    else
        *out = got;
    return rc;
}

static int invert_piece(const struct bn_piece *p, int known, void *arg)
{
    const struct apply *a = arg;
    const struct bn_named *t[BN_MAX_PARTS];
    int there = 0;

    for (int i = 0; i < p->rule->n_to; i++) {
        t[i] = bn_tensors_find(a->src, p->to[i]);
        there += t[i] != NULL;
    }
    if (there == 0)
        return 0;
    if (there < p->rule->n_to || known < there)
        return bn_fail(a->err, BN_ERR_DATA, "some parts of '%s' are missing",
                       p->from);
    for (int i = 0; i < there; i++)
        if (t[i]->dtype != t[0]->dtype || t[i]->ndim != t[0]->ndim
            || t[i]->ndim < 1 || t[i]->ndim > 2
            || t[i]->dims[0] != p->rows[i]
            || row_bytes(t[i]) != row_bytes(t[0]))
            return bn_fail(a->err, BN_ERR_DATA, "'%s' and '%s' differ in "
                           "format or shape", t[0]->name, t[i]->name);
    if (check_form(a->l, p, a->err) < 0)
        return -1;
    char *to = new_tensor(a->out, p->from, t[0], p->all, a->err);
    if (to == NULL)
        return -1;
    size_t bytes = row_bytes(t[0]);
    for (int i = 0; i < there; i++)
        for (int64_t y = 0; y < p->rows[i]; y++)
            memcpy(to + (size_t)source_row(p, i, y) * bytes,
                   (const char *)t[i]->data + (size_t)y * bytes, bytes);
    return 0;
}

int bn_layout_invert(const struct bn_layout *l,
                     const struct bn_model_config *c,
                     const struct bn_tensors *hf, struct bn_tensors *out,
                     struct bn_err *err)
{
    struct bn_tensors got = {0};
    struct apply a = {l, hf, NULL, NULL, &got, NULL, err};

    if (bn_each_piece(l, c, invert_piece, &a, err) < 0
        || bn_tensors_finish(&got, err) < 0) {
        bn_tensors_close(&got);
        return -1;
    }
    *out = got;
    return 0;
}

int bn_layout_verify(const struct bn_layout *l,
                     const struct bn_model_config *c,
                     const struct bn_tensors *src, const char *where,
                     const struct bn_tensors *out, struct bn_err *err)
{
    struct bn_tensors back;
    int rc = bn_layout_invert(l, c, out, &back, err);

    if (rc < 0)
        return -1;
    for (size_t i = 0; rc == 0 && i < src->n; i++) {
        const struct bn_named *s = &src->item[i];
        const char *name = plain_name(l, s->name);
        const struct bn_named *b = bn_tensors_find(&back, name);

        if (b == NULL && skipped(l, name))
            continue;
        if (b == NULL || b->dtype != s->dtype || b->ndim != s->ndim
            || b->dims[0] > s->dims[0]
            || memcmp(b->data, s->data,
                      (size_t)b->count * bn_dtype_size(b->dtype)) != 0)
            rc = bn_fail(err, BN_ERR_DATA, "%s: '%s' does not come back bit "
                         "for bit", where, s->name);
    }
    bn_tensors_close(&back);
    return rc;
}
