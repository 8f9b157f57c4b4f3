#include "config.h"
#include "convert/spm_merges.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

/* Pieces by text: open addressing, at most half full. */
struct index {
    const struct bn_spm_piece **slot;
    size_t mask;
};

static size_t first_slot(const struct index *x, const char *s, size_t n)
{
    return (size_t)bn_hash_bytes(s, n).lo & x->mask;
}

static void index_init(struct index *x, const struct bn_spm_piece *piece,
                       size_t n)
{
    size_t size = 16;

    while (size < 2 * n)
        size *= 2;
    x->slot = BN_NEWN(const struct bn_spm_piece *, size);
    x->mask = size - 1;
    for (size_t i = 0; i < n; i++) {
        size_t at = first_slot(x, piece[i].text, strlen(piece[i].text));

        while (x->slot[at] != NULL)
            at = (at + 1) & x->mask;
        x->slot[at] = &piece[i];
    }
}

static const struct bn_spm_piece *find(const struct index *x, const char *s,
                                       size_t n)
{
    size_t at = first_slot(x, s, n);

    for (; x->slot[at] != NULL; at = (at + 1) & x->mask)
        if (strncmp(x->slot[at]->text, s, n) == 0
            && x->slot[at]->text[n] == '\0')
            return x->slot[at];
    return NULL;
}

struct merge {
    const struct bn_spm_piece *whole, *left, *right;
};
struct merges {
    struct merge *v;
    size_t n, cap;
};

static void add_cuts(struct merges *m, const struct index *x,
                     const struct bn_spm_piece *whole)
{
    size_t len = strlen(whole->text), at = 0;
    uint32_t cp;

    while ((at += (size_t)bn_utf8_get(whole->text + at, len - at, &cp))
           < len) {
        const struct bn_spm_piece *l = find(x, whole->text, at);
        const struct bn_spm_piece *r =
            l != NULL ? find(x, whole->text + at, len - at) : NULL;

        if (r == NULL)
            continue;
        bn_grow(&m->v, &m->cap, m->n + 1, sizeof(*m->v));
        m->v[m->n++] = (struct merge){whole, l, r};
    }
}

static int by_rank(const void *a, const void *b)
{
    const struct merge *x = a, *y = b;

    if (x->whole->score != y->whole->score)
        return x->whole->score > y->whole->score ? -1 : 1;
    if (x->whole != y->whole)
        return x->whole->id < y->whole->id ? -1 : 1;
    if (x->left != y->left)
        return x->left->id < y->left->id ? -1 : 1;
    return x->right->id < y->right->id ? -1 : x->right->id > y->right->id;
}

json_t *bn_spm_merges(const struct bn_spm_piece *piece, size_t n)
{
    struct index x;
    struct merges m = {0};
    json_t *list = json_array();

    index_init(&x, piece, n);
    for (size_t i = 0; i < n; i++)
        if (piece[i].text[0] != '\0')
            add_cuts(&m, &x, &piece[i]);
    if (m.n > 0)
        qsort(m.v, m.n, sizeof(*m.v), by_rank);
    for (size_t i = 0; i < m.n; i++)
        json_array_append_new(list, json_sprintf("%s %s", m.v[i].left->text,
                                                 m.v[i].right->text));
    free(m.v);
    free(x.slot);
    return list;
}
