/* Which examples of one set are in another, by their tokens. */
#include "config.h"
#include "data/data.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"

struct mark {
    struct bn_hash h;
    uint64_t i; /* of the example */
    bool found;
};

static struct bn_hash hash_of(const struct bn_tokens *ts, uint64_t i)
{
    struct bn_example e;
    struct bn_hash h[3];

    bn_tokens_get(ts, i, &e);
    h[0] = bn_hash_bytes(e.ids, (size_t)e.n * sizeof(*e.ids));
    if (bn_tokens_group(ts) == 1)
        return h[0];
    h[1] = bn_hash_bytes(e.chosen, (size_t)e.nchosen * sizeof(*e.chosen));
    h[2] = bn_hash_bytes(e.rejected, (size_t)e.nrejected * sizeof(*e.rejected));
    return bn_hash_bytes(h, sizeof(h));
}

static int by_hash(const void *a, const void *b)
{
    const struct bn_hash *x = &((const struct mark *)a)->h;
    const struct bn_hash *y = &((const struct mark *)b)->h;

    if (x->hi != y->hi)
        return x->hi < y->hi ? -1 : 1;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Mark all that equal 'key', of which equal ones lie side by side. The first
 * of them in its set, if it was not marked, else NULL. */
static const struct mark *mark_all(struct mark *m, uint64_t n,
                                   const struct mark *key)
{
    struct mark *at = bsearch(key, m, n, sizeof(*m), by_hash), *first;

    if (at == NULL || at->found)
        return NULL;
    while (at > m && by_hash(at - 1, key) == 0)
        at--;
    first = at;
    for (; at < m + n && by_hash(at, key) == 0; at++) {
        at->found = true;
        if (at->i < first->i)
            first = at;
    }
    return first;
}

void bn_tokens_overlap(const struct bn_tokens *part,
                       const struct bn_tokens *whole, struct bn_overlap *o)
{
    uint64_t n = bn_tokens_count(part), all = bn_tokens_count(whole);
    uint32_t longest = bn_tokens_longest(part);
    struct mark *m = BN_NEWN(struct mark, n);
    /* Lengths that occur: of most others no token need be read. */
    bool *occurs = BN_NEWN(bool, (size_t)longest + 1);

    *o = (struct bn_overlap){0};
    for (uint64_t i = 0; i < n; i++) {
        occurs[bn_tokens_length(part, i)] = true;
        m[i] = (struct mark){.h = hash_of(part, i), .i = i};
    }
    qsort(m, n, sizeof(*m), by_hash);
    for (uint64_t i = 0; i < all; i++) {
        uint32_t len = bn_tokens_length(whole, i);

        if (len > longest || !occurs[len])
            continue;
        const struct mark key = {.h = hash_of(whole, i)};
        const struct mark *first = mark_all(m, n, &key);

        if (first != NULL && (o->n++ == 0 || first->i < o->part)) {
            o->part = first->i;
            o->whole = i;
        }
    }
    o->n = 0;
    for (uint64_t i = 0; i < n; i++)
        o->n += m[i].found;
    free(occurs);
    free(m);
}

bool bn_tokens_say_overlap(const struct bn_tokens *eval,
                           const struct bn_tokens *train, struct bn_str *out)
{
    struct bn_overlap o;

    bn_tokens_overlap(eval, train, &o);
    if (o.n == 0)
        return false;
    bn_str_addf(out, "%llu of the %llu evaluation examples are training "
                "examples, too, so that their loss says little; the first is ",
                (unsigned long long)o.n,
                (unsigned long long)bn_tokens_count(eval));
    bn_tokens_where(eval, o.part, out);
    bn_str_adds(out, ", as ");
    bn_tokens_where(train, o.whole, out);
    return true;
}
