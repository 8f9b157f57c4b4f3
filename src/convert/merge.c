#include "config.h"
#include "convert/merge.h"
#include "base/mem.h"
#include "convert/layout_piece.h"

#include <stdlib.h>
#include <string.h>

struct merge {
    const struct bn_layout *l;
    const struct bn_tensors *src, *shard;
    int ranks;
    const char *where;
    struct bn_tensors *out;
    bool *done; /* of src */
    int *merged;
    struct bn_err *err;
};

/* The tensor of a piece, with or without the prefix. */
static const struct bn_named *find(const struct merge *m,
                                   const struct bn_tensors *ts,
                                   const char *name)
{
    const struct bn_named *t = bn_tensors_find(ts, name);

    if (t != NULL || m->l->prefix == NULL)
        return t;
    char *full = bn_asprintf("%s%s", m->l->prefix, name);
    t = bn_tensors_find(ts, full);
    free(full);
    return t;
}

static size_t row_bytes(const struct bn_named *t)
{
    return (size_t)(t->ndim == 2 ? t->dims[1] : 1) * bn_dtype_size(t->dtype);
}

static char *new_tensor(const struct merge *m, const struct bn_named *t,
                        int64_t rows, int64_t cols)
{
    struct bn_named n = *t;

    n.dims[0] = rows;
    if (n.ndim == 2)
        n.dims[1] = cols;
    size_t bytes = (size_t)rows * row_bytes(&n);
    char *data = malloc(bytes > 0 ? bytes : 1);

    if (data == NULL) {
        bn_fail(m->err, BN_ERR_AGAIN, "no memory for %zu bytes of '%s'",
                bytes, t->name);
        return NULL;
    }
    n.data = bn_tensors_own_take(m->out, data);
    bn_tensors_add(m->out, &n);
    ++*m->merged;
    return data;
}

/* Output features: each rank has its share of every target's rows, in the
 * order of the rule. */
static int by_rows(const struct merge *m, const struct bn_piece *p,
                   const struct bn_named *const *t)
{
    int groups = p->c->kv_heads, d = p->c->head_dim, parts = p->rule->n_to;
    int64_t part[BN_MAX_PARTS];

    for (int i = 0; i < parts; i++)
        part[i] = p->rows[i] / m->ranks;
    for (int i = 0; i < parts; i++)
        if (p->rows[i] % m->ranks != 0)
            return bn_fail(m->err, BN_ERR_DATA, "%s: %lld rows of '%s' are "
                           "not shared by %d ranks", m->where,
                           (long long)p->rows[i], p->to[i], m->ranks);
    if (p->rule->form == BN_FORM_GROUPED && groups % m->ranks != 0)
        return bn_fail(m->err, BN_ERR_DATA, "%s: %d key-value heads are not "
                       "shared by %d ranks", m->where, groups, m->ranks);
    if (t[0]->dims[0] * m->ranks != p->all)
        return bn_fail(m->err, BN_ERR_DATA, "%s: '%s' has %lld rows of a "
                       "rank, but the config needs %lld", m->where,
                       t[0]->name, (long long)t[0]->dims[0],
                       (long long)p->all / m->ranks);
    size_t bytes = row_bytes(t[0]);
    char *to = new_tensor(m, t[0], p->all,
                          t[0]->ndim == 2 ? t[0]->dims[1] : 0);
    if (to == NULL)
        return -1;
    for (int i = 0; i < parts; i++)
        for (int64_t r = 0; r < p->rows[i]; r++) {
            int64_t full = bn_form_row(p->rule->form, groups, d, p->rows,
                                       parts, i, r);
            int64_t own = bn_form_row(p->rule->form, groups / m->ranks, d,
                                      part, parts, i, r % part[i]);

            memcpy(to + (size_t)full * bytes,
                   (const char *)t[r / part[i]]->data + (size_t)own * bytes,
                   bytes);
        }
    return 0;
}

/* One rank's rows after the other's: the vocabulary, with its padding. */
static int by_runs(const struct merge *m, const struct bn_named *const *t)
{
    size_t bytes = row_bytes(t[0]) * (size_t)t[0]->dims[0];
    char *to = new_tensor(m, t[0], t[0]->dims[0] * m->ranks,
                          t[0]->ndim == 2 ? t[0]->dims[1] : 0);

    for (int k = 0; to != NULL && k < m->ranks; k++)
        memcpy(to + (size_t)k * bytes, t[k]->data, bytes);
    return to != NULL ? 0 : -1;
}

/* Input features: columns. */
static int by_columns(const struct merge *m, const struct bn_named *const *t)
{
    size_t bytes = row_bytes(t[0]), ranks = (size_t)m->ranks;
    char *to = t[0]->ndim == 2 ? new_tensor(m, t[0], t[0]->dims[0],
                                            t[0]->dims[1] * m->ranks)
                               : NULL;

    for (int64_t r = 0; to != NULL && r < t[0]->dims[0]; r++)
        for (size_t k = 0; k < ranks; k++)
            memcpy(to + ((size_t)r * ranks + k) * bytes,
                   (const char *)t[k]->data + (size_t)r * bytes, bytes);
    return to != NULL ? 0 : -1;
}

static int copies(const struct merge *m, const struct bn_named *const *t)
{
    size_t bytes = (size_t)t[0]->count * bn_dtype_size(t[0]->dtype);

    for (int k = 1; k < m->ranks; k++)
        if (memcmp(t[k]->data, t[0]->data, bytes) != 0)
            return bn_fail(m->err, BN_ERR_DATA, "%s: '%s' of rank %d is not "
                           "that of rank 0", m->where, t[0]->name, k);
    bn_tensors_add(m->out, t[0]);
    return 0;
}

static int merge_one(const struct merge *m, const struct bn_piece *p,
                     const struct bn_named *const *t)
{
    for (int k = 1; k < m->ranks; k++)
        if (t[k] == NULL || t[k]->dtype != t[0]->dtype
            || t[k]->ndim != t[0]->ndim
            || memcmp(t[k]->dims, t[0]->dims, sizeof(t[0]->dims)) != 0)
            return bn_fail(m->err, BN_ERR_DATA, "%s: '%s' of rank %d is %s",
                           m->where, t[0]->name, k,
                           t[k] == NULL ? "missing"
                                        : "of another shape or format");
    if (t[0]->ndim < 1 || t[0]->ndim > 2)
        return bn_fail(m->err, BN_ERR_DATA, "%s: '%s' is no matrix and no "
                       "vector", m->where, t[0]->name);
    switch (p->split) {
    case BN_SPLIT_ROWS:
        return by_rows(m, p, t);
    case BN_SPLIT_VOCAB:
        return by_runs(m, t);
    case BN_SPLIT_COLS:
        return by_columns(m, t);
    default:
        return copies(m, t);
    }
}

static int merge_piece(const struct bn_piece *p, int known, void *arg)
{
    const struct merge *m = arg;
    const struct bn_named *first = find(m, m->src, p->from);

    if (first == NULL || known < p->rule->n_to) /* the rules will say so */
        return 0;
    if (m->done[first - m->src->item])
        return 0;
    const struct bn_named **t = BN_NEWN(const struct bn_named *,
                                        (size_t)m->ranks);
    t[0] = first;
    for (int k = 1; k < m->ranks; k++)
        t[k] = find(m, &m->shard[k - 1], p->from);
    int rc = merge_one(m, p, t);
    free(t);
    m->done[first - m->src->item] = true;
    return rc;
}

/* A tensor of another rank that rank 0 does not have would be lost. */
static int check_names(const struct merge *m)
{
    for (int k = 1; k < m->ranks; k++)
        for (size_t i = 0; i < m->shard[k - 1].n; i++) {
            const char *name = m->shard[k - 1].item[i].name;

            if (bn_tensors_find(m->src, name) == NULL)
                return bn_fail(m->err, BN_ERR_DATA, "%s: '%s' of rank %d is "
                               "not there on rank 0", m->where, name, k);
        }
    return 0;
}

int bn_layout_merge(const struct bn_layout *l,
                    const struct bn_model_config *c,
                    const struct bn_tensors *src,
                    const struct bn_tensors *shard, int n, const char *where,
                    struct bn_tensors *out, int *merged, struct bn_err *err)
{
    struct bn_tensors got = {0};
    struct merge m = {l, src, shard, n + 1, where, &got,
                      BN_NEWN(bool, src->n + 1), merged, err};
    int rc = check_names(&m);

    if (rc == 0)
        rc = bn_each_piece(l, c, merge_piece, &m, err);
    for (size_t i = 0; rc == 0 && i < src->n; i++)
        if (!m.done[i])
            bn_tensors_add(&got, &src->item[i]);
    if (rc == 0)
        rc = bn_tensors_finish(&got, err);
    free(m.done);
    if (rc < 0)
        bn_tensors_close(&got);
    else
        *out = got;
    return rc;
}
