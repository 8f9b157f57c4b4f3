/* What merges can ever be made across the place between two tokens: the tables
 * by which bpe_small.c knows that a merge is sure, see there. They are made
 * once, when a model is read.
 *
 * Across x|a, x and a symbols, only merges of a token that ends in x and one
 * that begins with a are made: their least rank is found for every two of the
 * symbols that most merges have. Behind a token T only merges of a token that
 * ends in T or is T; the same for what is before it.
 */
#include "config.h"
#include "text/bpe_impl.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Kinds of symbols, bn_bpe.kind: BN_BPE_OTHER, or */
enum {
    ALONE = 1, /* no merge has it */
    NAMED = 2, /* and above: the symbols that most merges have */
    KINDS = BN_BPE_KINDS
};

/* The edge of a token that nothing makes; of others it is a kind. */
enum { NEVER = -1 };

/* What is known of a vocabulary while the table is made. */
struct survey {
    uint32_t *half[2];  /* [nmerge] left, right; no token: the merge is dead */
    uint32_t *uses;     /* [nid] merges with this token as a half */
    int32_t *least[2];  /* [nid] least rank across the place before, behind */
    int16_t *edge[2];   /* [nid] the first and the last symbol */
    uint32_t named[KINDS];
    unsigned nnamed;    /* kinds in use */
    bool twofold;       /* some token is made of more than one text */
};

#define NO_TOKEN UINT32_MAX

static void read_merges(const struct bn_bpe *b, struct survey *v)
{
    for (int h = 0; h < 2; h++) {
        v->half[h] = BN_NEWN(uint32_t, (size_t)b->nmerge + 1);
        memset(v->half[h], 0xff, (size_t)b->nmerge * sizeof(uint32_t));
    }
    v->uses = BN_NEWN(uint32_t, (size_t)b->nid);
    for (size_t i = 0; i <= b->pair_mask; i++) {
        uint64_t key = b->pairs[i] >> BN_BPE_RANK_BITS;
        uint32_t rank = (uint32_t)(b->pairs[i]
                                   & ((1u << BN_BPE_RANK_BITS) - 1)) - 1;

        if (b->pairs[i] == 0)
            continue;
        v->half[0][rank] = (uint32_t)(key >> BN_BPE_ID_BITS);
        v->half[1][rank] = (uint32_t)key & ((1u << BN_BPE_ID_BITS) - 1);
        v->uses[v->half[0][rank]]++;
        v->uses[v->half[1][rank]]++;
    }
}

/* One character: what symbols() of bpe_word.c makes of text it knows. */
static bool one_character(const struct bn_bpe *b, uint32_t id)
{
    const char *s = b->blob + b->off[id];
    size_t n = b->len[id], len = 1;

    if (n == UINT32_MAX || n == 0)
        return false;
    while (len < n && ((unsigned char)s[len] & 0xc0) == 0x80)
        len++;
    return len == n;
}

static void mark_symbol(struct survey *v, const struct bn_bpe *b, int32_t id)
{
    if (id >= 0)
        v->edge[0][id] = v->edge[1][id] = b->kind[id];
}

/* Every token that a word may have before any merge, with its kind. */
static void mark_symbols(const struct bn_bpe *b, struct survey *v)
{
    for (int h = 0; h < 2; h++) {
        v->edge[h] = bn_malloc((size_t)b->nid * sizeof(int16_t));
        for (int32_t i = 0; i < b->nid; i++)
            v->edge[h][i] = NEVER;
    }
    for (int32_t i = 0; i < b->nid; i++)
        if (one_character(b, (uint32_t)i))
            mark_symbol(v, b, i);
    for (int i = 0; i < 256; i++) {
        mark_symbol(v, b, b->byte_sym[i]);
        mark_symbol(v, b, b->fallback[i]);
    }
    mark_symbol(v, b, b->unk);
}

struct candidate {
    uint32_t id, uses;
};

static int by_uses(const void *x, const void *y)
{
    const struct candidate *p = x, *q = y;

    if (p->uses != q->uses)
        return p->uses < q->uses ? 1 : -1;
    return p->id < q->id ? -1 : p->id > q->id;
}

static void name_symbols(struct bn_bpe *b, struct survey *v)
{
    struct candidate *c = BN_NEWN(struct candidate, (size_t)b->nid);
    size_t n = 0;

    b->kind = BN_NEWN(uint8_t, (size_t)b->nid);
    for (uint32_t i = 0; i < (uint32_t)b->nid; i++) {
        if (v->uses[i] == 0)
            b->kind[i] = ALONE;
        else if (one_character(b, i))
            c[n++] = (struct candidate){i, v->uses[i]};
    }
    qsort(c, n, sizeof(*c), by_uses);
    v->nnamed = NAMED;
    for (size_t i = 0; i < n && v->nnamed < KINDS; i++) {
        v->named[v->nnamed] = c[i].id;
        b->kind[c[i].id] = (uint8_t)v->nnamed++;
    }
    free(c);
}

/* A symbol that stands for a byte, or for the unknown, may have a text that
 * merges make too. No trained model has that. */
static bool join_edge(struct survey *v, int16_t *to, int16_t from)
{
    v->twofold |= *to != NEVER && *to != from;
    if (*to != NEVER)
        return false;
    *to = from;
    return true;
}

/* The first and last symbol of what merge 'r' makes. */
static bool step_edges(const struct bn_bpe *b, struct survey *v, uint32_t r)
{
    uint32_t left = v->half[0][r], right = v->half[1][r], to = b->made[r];

    if (v->edge[0][left] == NEVER || v->edge[0][right] == NEVER)
        return false;
    bool first = join_edge(v, &v->edge[0][to], v->edge[0][left]);
    bool last = join_edge(v, &v->edge[1][to], v->edge[1][right]);
    return first || last;
}

static bool lower(int32_t *to, int32_t from)
{
    if (from >= *to)
        return false;
    *to = from;
    return true;
}

/* A merge is made across the place behind its left half and before its right
 * half. What comes before its left half comes before what it makes. */
static bool step_least(const struct bn_bpe *b, struct survey *v, uint32_t r)
{
    uint32_t left = v->half[0][r], right = v->half[1][r], to = b->made[r];
    bool more = lower(&v->least[1][left], (int32_t)r);

    more |= lower(&v->least[0][right], (int32_t)r);
    more |= lower(&v->least[0][left], v->least[0][to]);
    more |= lower(&v->least[1][right], v->least[1][to]);
    return more;
}

/* Repeat a step for all merges until it changes nothing. Few passes do for
 * any model that was trained; false if it takes many. */
static bool settle(const struct bn_bpe *b, struct survey *v, bool down,
                   bool (*step)(const struct bn_bpe *b, struct survey *v,
                                uint32_t r))
{
    for (int pass = 0; pass < 50; pass++) {
        bool more = false;

        for (uint32_t i = 0; i < b->nmerge; i++) {
            uint32_t r = down ? b->nmerge - 1 - i : i;

            if (v->half[0][r] != NO_TOKEN)
                more |= step(b, v, r);
        }
        if (!more)
            return true;
    }
    return false;
}

/* With room for a place. */
static int32_t roomy(int32_t rank)
{
    return rank == BN_BPE_NONE ? rank : rank << BN_BPE_PLACE_BITS;
}

static int32_t min_rank(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* The least rank across every two kinds. */
static void fill_least(struct bn_bpe *b, const struct survey *v)
{
    for (size_t i = 0; i < (size_t)KINDS * KINDS; i++)
        b->seam[i] = (struct bn_bpe_seam){BN_BPE_NONE, BN_BPE_NONE};
    for (uint32_t r = 0; r < b->nmerge; r++) {
        uint32_t left = v->half[0][r], right = v->half[1][r];

        if (left == NO_TOKEN || v->edge[1][left] == NEVER
            || v->edge[0][right] == NEVER)
            continue;
        int32_t *least = &b->seam[v->edge[1][left] * KINDS
                                  + v->edge[0][right]].least;
        *least = min_rank(*least, roomy((int32_t)r));
    }
    for (int i = 0; i < KINDS; i++)
        b->seam[BN_BPE_OTHER * KINDS + i].rank =
            b->seam[i * KINDS + BN_BPE_OTHER].rank = BN_BPE_ASK;
}

static void fill_ranks(struct bn_bpe *b, const struct survey *v)
{
    for (unsigned x = NAMED; x < v->nnamed; x++)
        for (unsigned a = NAMED; a < v->nnamed; a++) {
            uint32_t r = bn_bpe_rank(b, v->named[x], v->named[a]);

            if (r != BN_BPE_NO_RANK)
                b->seam[x * KINDS + a].rank = roomy((int32_t)r);
        }
}

static void fill_made(struct bn_bpe *b, const struct survey *v)
{
    b->step = BN_NEWN(struct bn_bpe_step, (size_t)b->nmerge + 1);
    for (uint32_t r = 0; r < b->nmerge; r++) {
        uint32_t id = b->made[r];

        b->step[r] = (struct bn_bpe_step){id, roomy(v->least[0][id]),
                                          roomy(v->least[1][id])};
    }
}

void bn_bpe_seam_init(struct bn_bpe *b)
{
    struct survey v = {0};

    /* There a symbol is more than its character. */
    if (b->prefix != NULL || b->suffix != NULL)
        return;
    read_merges(b, &v);
    name_symbols(b, &v);
    mark_symbols(b, &v);
    for (int h = 0; h < 2; h++) {
        v.least[h] = bn_malloc((size_t)b->nid * sizeof(int32_t));
        for (int32_t i = 0; i < b->nid; i++)
            v.least[h][i] = BN_BPE_NONE;
    }
    if (settle(b, &v, false, step_edges) && settle(b, &v, true, step_least)
        && !v.twofold) {
        b->seam = bn_malloc((size_t)KINDS * KINDS * sizeof(*b->seam));
        fill_least(b, &v);
        fill_ranks(b, &v);
        fill_made(b, &v);
    }
    for (int h = 0; h < 2; h++) {
        free(v.half[h]);
        free(v.edge[h]);
        free(v.least[h]);
    }
    free(v.uses);
}
