/* Eight windows, a merge of each at a time. What a merge costs is mostly
 * waiting: for the pairs just written, and for ranks that are far from the
 * processor. Here eight windows wait together, and little is guessed. */
#include "config.h"
#include "text/bpe_lanes.h"

#include <string.h>

enum { WIDTH = BN_LANE_WIDTH, LANES = BN_LANES, STRIDE = BN_LANE_STRIDE };

/* pair[i] is the rank of the merge of the symbol at i with the next one, then
 * i; NONE or above where there is none. */
enum { PLACE_BITS = 5, NONE = 0x7fffffe0 };
struct lane {
    int32_t pair[WIDTH];
};

/* As it stands in 'pair', of rank + 1; its place has to be added. */
BN_INLINE int32_t pair_of(uint32_t found)
{
    _Static_assert(BN_BPE_RANK_BITS + PLACE_BITS < 31, "fits below NONE");
    return (int32_t)((found - 1) << PLACE_BITS & INT32_MAX);
}

/* A look for the rank of two symbols on its way. */
struct look {
    const uint64_t *bucket;
    uint64_t key;
};

/* Where no merge can be the look goes to a place that is near. */
BN_INLINE struct look look_for(const struct bn_bpe *b, uint32_t left,
                               uint32_t right)
{
    uint64_t key = bn_bpe_key(left, right);
    uint32_t h = bn_bpe_hash(key);
    const uint64_t *e = bn_bpe_bucket(b, h);

    return (struct look){bn_bpe_maybe(b, h) ? e : b->no_pairs, key};
}

/* Rank + 1, or 0. */
BN_INLINE uint32_t look_at(const struct bn_bpe *b, const struct look *k)
{
    uint32_t got = bn_bpe_in_bucket(k->bucket, k->key);
    bool full = k->bucket[BN_BPE_BUCKET - 1] != BN_BPE_NO_PAIR;

    if (__builtin_expect(full & (got == 0), 0))
        got = bn_bpe_rank(b, (uint32_t)(k->key >> BN_BPE_ID_BITS),
                          (uint32_t)k->key & ((1u << BN_BPE_ID_BITS) - 1))
              + 1;
    return got;
}

/* The pair each symbol begins with the next one. */
BN_INLINE void first_pairs(const struct bn_bpe *b, const uint32_t *sym,
                           int32_t *pair)
{
    unsigned basic = b->basic[sym[0]];

    for (int i = 0; i + 1 < BN_LANE_SPAN; i++) {
        unsigned next = b->basic[sym[i + 1]];

        if (__builtin_expect(basic != 0 && next != 0, 1)) {
            pair[i] = pair_of(b->first[basic << 8 | next]);
        } else {
            struct look k = look_for(b, sym[i], sym[i + 1]);

            pair[i] = pair_of(look_at(b, &k));
        }
        basic = next;
    }
}

BN_INLINE void begin(const struct bn_bpe *b, struct bn_bpe_block *o,
                     struct lane *l)
{
    int32_t pair[BN_LANE_SPAN];

    first_pairs(b, o->sym, pair);
    for (int k = 0; k < LANES; k++) {
        o->left[k] = UINT32_MAX;
        memcpy(o->id[k], o->sym + k * STRIDE, sizeof(o->id[k]));
        for (int i = 0; i + 1 < WIDTH; i++)
            l[k].pair[i] = pair[k * STRIDE + i] | i;
        l[k].pair[WIDTH - 1] = INT32_MAX;
    }
}

/* A merge in the making. */
struct step {
    unsigned at, prev, gone;
    int32_t no_next; /* INT32_MAX: there is no symbol behind */
    struct look before, after;
};

BN_INLINE void step_begin(const struct bn_bpe *b, uint32_t *id,
                          uint32_t *left, int32_t best, struct step *s)
{
    unsigned at = (unsigned)best % WIDTH;
    uint32_t made = b->made[best >> PLACE_BITS];
    uint32_t after = *left & ~(uint32_t)1 << at;
    uint32_t before = *left & (((uint32_t)1 << at) - 1);

    s->at = at;
    s->gone = (unsigned)__builtin_ctz(after);
    *left ^= (uint32_t)1 << s->gone;
    after &= after - 1;
    /* Where there is no neighbour any place will do. */
    unsigned next = (unsigned)__builtin_ctz(after | (uint32_t)1 << 31);
    s->prev = 31 - (unsigned)__builtin_clz(before | 1);
    s->no_next = after == 0 ? INT32_MAX : 0;
    id[at] = made;
    s->before = look_for(b, id[s->prev], made);
    s->after = look_for(b, made, id[next]);
}

/* The pair before a first symbol is overwritten: prev is 'at' there. */
BN_INLINE void step_end(const struct bn_bpe *b, struct lane *l,
                        const struct step *s)
{
    l->pair[s->prev] = pair_of(look_at(b, &s->before)) | (int32_t)s->prev;
    l->pair[s->at] = pair_of(look_at(b, &s->after)) | (int32_t)s->at
                     | s->no_next;
    l->pair[s->gone] = INT32_MAX;
}

BN_INLINE void run(const struct bn_bpe *b, struct bn_bpe_block *o,
                   int32_t (*smallest)(const int32_t *v, size_t n))
{
    int32_t best[LANES], least;
    struct step step[LANES];
    struct lane l[LANES];

    begin(b, o, l);
    do {
        least = INT32_MAX;
        for (int k = 0; k < LANES; k++) {
            best[k] = smallest(l[k].pair, WIDTH);
            least = best[k] < least ? best[k] : least;
        }
        for (int k = 0; k < LANES; k++)
            if (__builtin_expect(best[k] < NONE, 1))
                step_begin(b, o->id[k], &o->left[k], best[k], &step[k]);
        for (int k = 0; k < LANES; k++)
            if (__builtin_expect(best[k] < NONE, 1))
                step_end(b, &l[k], &step[k]);
    } while (least < NONE);
}

#ifdef BN_HAVE_V3
BN_V3 static void run_v3(const struct bn_bpe *b, struct bn_bpe_block *o)
{
    run(b, o, bn_least_v3);
}
#endif

void bn_bpe_lanes(const struct bn_bpe *b, struct bn_bpe_block *o)
{
#ifdef BN_HAVE_V3
    if (b->v3) {
        run_v3(b, o);
        return;
    }
#endif
    run(b, o, bn_least);
}
