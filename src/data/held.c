/* The examples of evaluation files, which training data may not hold. */
#include "config.h"
#include "data/data.h"
#include "data/maker.h"

#include <stdlib.h>

#include "base/mem.h"

struct bn_held {
    struct bn_hash *v; /* [n], ascending */
    uint64_t n;
    bool pairs;
};

static struct bn_hash hash_ids(const int32_t *ids, int32_t n)
{
    return bn_hash_bytes(ids, (size_t)n * sizeof(*ids));
}

static struct bn_hash hash_of(const struct bn_example *e)
{
    struct bn_hash h[] = {hash_ids(e->ids, e->n),
                          hash_ids(e->chosen, e->nchosen),
                          hash_ids(e->rejected, e->nrejected)};

    return bn_hash_bytes(h, sizeof(h));
}

static int compare(const void *a, const void *b)
{
    const struct bn_hash *x = a, *y = b;

    if (x->hi != y->hi)
        return x->hi < y->hi ? -1 : 1;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

struct bn_held *bn_held_create(const struct bn_tokens *ts)
{
    struct bn_held *h = BN_NEW(struct bn_held);

    h->n = bn_tokens_count(ts);
    h->pairs = bn_tokens_group(ts) == 3;
    h->v = BN_NEWN(struct bn_hash, h->n);
    for (uint64_t i = 0; i < h->n; i++) {
        struct bn_example e;

        bn_tokens_get(ts, i, &e);
        h->v[i] = hash_of(&e);
    }
    qsort(h->v, h->n, sizeof(*h->v), compare);
    return h;
}

void bn_held_destroy(struct bn_held *h)
{
    if (h == NULL)
        return;
    free(h->v);
    free(h);
}

bool bn_held_has(const struct bn_held *h, const struct bn_made *x)
{
    struct bn_example e = {.ids = x->ids.v, .n = (int32_t)x->ids.n};

    if (h->pairs) { /* else the lists are scratch */
        e.chosen = x->chosen.v;
        e.nchosen = (int32_t)x->chosen.n;
        e.rejected = x->rejected.v;
        e.nrejected = (int32_t)x->rejected.n;
    }
    struct bn_hash key = hash_of(&e);

    return bsearch(&key, h->v, h->n, sizeof(key), compare) != NULL;
}
