/* Chunks of rows to tokens in memory: what every thread does. */
#include "config.h"
#include "data/write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void bn_part_release(struct bn_part *p)
{
    bn_ids_release(&p->ids);
    free(p->mask);
    free(p->entry);
    free(p->hash);
    bn_str_release(&p->bad);
    *p = (struct bn_part){0};
}

static void clear(struct bn_part *p)
{
    p->ids.n = p->n = 0;
    p->longest = 0;
    p->stats = (struct bn_tokens_stats){0};
    bn_str_clear(&p->bad);
    p->nbad = 0;
}

static void add_bad(const struct bn_worker *w, struct bn_part *p,
                    const struct bn_chunk *c, uint64_t row, uint64_t line,
                    const char *why)
{
    if (p->nbad++ >= BN_SHOW_BAD)
        return;
    bn_str_addf(&p->bad, "%s:%" PRIu64, w->files->v[c->file].path, line);
    if (row != line)
        bn_str_addf(&p->bad, " (row %" PRIu64 ")", row);
    size_t mark = p->bad.len + 2;
    bn_str_addf(&p->bad, ": %.400s\n", why);
    for (char *s = p->bad.s + mark; s[1] != '\0'; s++) {
        if ((unsigned char)*s < 0x20)
            *s = '?';
    }
}

static void add_ids(struct bn_part *p, const struct bn_ids *ids)
{
    bn_grow(&p->ids.v, &p->ids.cap, p->ids.n + ids->n, sizeof(*ids->v));
    memcpy(p->ids.v + p->ids.n, ids->v, ids->n * sizeof(*ids->v));
    p->ids.n += ids->n;
}

static uint64_t hash_of(const struct bn_worker *w, const struct bn_part *p,
                        const struct bn_tokens_entry *e)
{
    struct bn_hash h = bn_hash_bytes(p->ids.v + e->start,
                                     (p->ids.n - e->start)
                                         * sizeof(*p->ids.v));
    uint64_t all[] = {w->recipe->o->split_seed, h.hi, h.lo, e->n,
                      e->nchosen};

    return bn_hash_bytes(all, sizeof(all)).lo;
}

/* Ones among bytes that are 0 or 1. */
static uint64_t count_ones(const uint8_t *mask, size_t n)
{
    uint64_t sum = 0, eight;
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        memcpy(&eight, mask + i, 8);
        sum += (uint64_t)__builtin_popcountll(eight);
    }
    for (; i < n; i++)
        sum += mask[i];
    return sum;
}

static void add_example(const struct bn_worker *w, struct bn_part *p,
                        struct bn_tokens_entry e)
{
    const struct bn_made *x = &w->made;
    bool pair = w->recipe->o->task == BN_DATA_PREFERENCE;
    uint64_t longest;

    e.start = p->ids.n;
    e.n = (uint32_t)x->ids.n;
    add_ids(p, &x->ids);
    if (pair) {
        e.nchosen = (uint32_t)x->chosen.n;
        e.nrejected = (uint32_t)x->rejected.n;
        add_ids(p, &x->chosen);
        add_ids(p, &x->rejected);
        e.targets = e.nchosen + e.nrejected;
    } else {
        bn_grow(&p->mask, &p->mask_cap, p->ids.n, 1);
        memcpy(p->mask + e.start, x->mask, x->ids.n);
        e.targets = (uint32_t)count_ones(x->mask, x->ids.n);
    }
    p->stats.targets += e.targets;
    longest = e.n + (e.nchosen > e.nrejected ? e.nchosen : e.nrejected);
    if (longest > p->stats.longest)
        p->stats.longest = longest;
    if (e.n + e.nchosen + e.nrejected > p->longest)
        p->longest = e.n + e.nchosen + e.nrejected;
    p->stats.tokens += p->ids.n - e.start;
    p->stats.cut += x->cut;
    bn_grow(&p->entry, &p->cap, p->n + 1, sizeof(*p->entry));
    if (w->recipe->o->eval_split > 0) {
        bn_grow(&p->hash, &p->hash_cap, p->n + 1, sizeof(*p->hash));
        p->hash[p->n] = hash_of(w, p, &e);
    }
    p->entry[p->n++] = e;
}

void bn_worker_chunk(struct bn_worker *w, const struct bn_chunk *c,
                     struct bn_part *p)
{
    char why[200];

    clear(p);
    if (w->maker == NULL)
        w->maker = bn_maker_create(w->recipe);
    if (c->dropped != 0) {
        p->stats.rows = p->stats.drops[BN_DROP_BAD_ROW] = 1;
        add_bad(w, p, c, c->row, c->dropped, "longer than 32 MiB");
    }
    for (size_t i = 0; i < c->nrec; i++) {
        struct bn_tokens_entry e = {.row = c->row + i,
                                    .line = c->rec[i].line,
                                    .file = c->file};
        struct bn_row row;
        enum bn_drop drop = BN_DROP_BAD_ROW;

        if (c->rec[i].len == 0)
            continue; /* a blank line */
        const char *bad = bn_chunk_row(c, i, w->recipe->name, &row,
                                       &w->scratch, why);
        if (bad == NULL) {
            drop = bn_maker_row(w->maker, &row, &w->made);
            bad = bn_maker_why(w->maker);
        }
        if (drop == BN_KEPT && w->recipe->held != NULL
            && bn_held_has(w->recipe->held, &w->made))
            drop = BN_DROP_HELD;
        p->stats.rows++;
        p->stats.drops[drop]++;
        if (drop == BN_KEPT)
            add_example(w, p, e);
        else if (drop == BN_DROP_BAD_ROW)
            add_bad(w, p, c, e.row, e.line, bad);
    }
    /* Rows of many megabytes leave large buffers behind. */
    if (c->len > 4 * BN_CHUNK)
        bn_worker_release(w);
}

void bn_worker_release(struct bn_worker *w)
{
    bn_maker_destroy(w->maker);
    w->maker = NULL;
    bn_made_release(&w->made);
    bn_str_release(&w->scratch);
}
