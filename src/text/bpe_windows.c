/* Merging long words: in windows, several at once.
 *
 * Two facts make windows exact for any list of merges. A merge never restores
 * a boundary, so in the encoding of a word every run of neighbouring tokens is
 * the encoding of its own text. And if every two neighbours of a token
 * sequence are the encoding of their joined text, the sequence is the encoding
 * of the whole: the first merge that crossed a boundary would be the next one
 * of the two neighbours alone as well. So the encodings of two overlapping
 * windows may be joined wherever they agree on one token.
 */
#include "config.h"
#include "text/bpe_lanes.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = BN_LANE_WIDTH,
    STRIDE = BN_LANE_STRIDE,
    LANES = BN_LANES,
    BLOCK_BITS = 6 /* blocks remembered: text that repeats is merged once */
};

/* The start of a window whose left boundary is known to be right. */
struct bn_bpe_mark {
    size_t in, out;  /* symbols taken and ids given before it */
    size_t width;    /* symbols to look at; WIDTH: a block, where one fits */
    uint32_t expect; /* the id it must start with */
};

/* As it stands in 'pair'; 'found' is the rank + 1, 0 for none. */
/* The place of a block that begins with these symbols. */
static struct bn_bpe_block *block_at(struct bn_bpe_work *w,
                                     const uint32_t *sym)
{
    uint64_t h = 0, two;

    for (int i = 0; i < 16; i += 2) {
        memcpy(&two, sym + i, sizeof(two));
        h = (h ^ two) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return &w->block[h >> (64 - BLOCK_BITS)];
}

/* The windows at sym[in..]. */
static const struct bn_bpe_block *block(const struct bn_bpe *b,
                                        struct bn_bpe_work *w, size_t in)
{
    const uint32_t *sym = w->sym + in;
    struct bn_bpe_block *o = block_at(w, sym);

    if (o->left[0] != 0 && memcmp(o->sym, sym, sizeof(o->sym)) == 0)
        return o;
    memcpy(o->sym, sym, sizeof(o->sym));
    bn_bpe_lanes(b, o);
    return o;
}

/* Symbols of the token at 'at' of window k. */
static unsigned token_len(const struct bn_bpe_block *o, int k, unsigned at)
{
    uint32_t after = o->left[k] & ~(uint32_t)1 << at;

    return (after == 0 ? WIDTH : (unsigned)__builtin_ctz(after)) - at;
}

/* The place in window k + 1 of the first token that it shares with window k;
 * -1: none. */
static int join(const struct bn_bpe_block *o, int k)
{
    uint32_t both = o->left[k] >> STRIDE & o->left[k + 1];

    for (; both != 0; both &= both - 1) {
        unsigned at = (unsigned)__builtin_ctz(both);

        if (o->id[k][STRIDE + at] == o->id[k + 1][at]
            && token_len(o, k, STRIDE + at) == token_len(o, k + 1, at))
            return (int)at;
    }
    return -1;
}

/* The ids of window k whose bits are set to 'out', where there is room for
 * three more. */
static size_t put_ids(const struct bn_bpe_block *o, int k, uint32_t bits,
                      uint32_t *out)
{
    int count = __builtin_popcount(bits);

    for (int i = 0; i < count; i += 4)
        for (int j = 0; j < 4; j++) {
            out[i + j] = o->id[k][__builtin_ctz(bits | 1u << 31)];
            bits &= bits - 1;
        }
    return (size_t)count;
}

/* The ids of the block at the mark, as far as its windows join, to
 * w->sym + w->n + at->out, and the mark behind them: at the last token but
 * one, as where the text goes on may change the last ones. False: there is
 * not even one id to be sure of. */
static bool block_ids(struct bn_bpe_work *w, const struct bn_bpe_block *o,
                      const struct bn_bpe_mark *at, struct bn_bpe_mark *next)
{
    uint32_t *begin = w->sym + w->n + at->out, *out = begin;
    uint32_t from = UINT32_MAX;
    int k = 0, place;

    while (k + 1 < LANES && (place = join(o, k)) >= 0) {
        uint32_t upto = ((uint32_t)1 << (STRIDE + place)) - 1;

        out += put_ids(o, k, o->left[k] & from & upto, out);
        from = ~(uint32_t)0 << place;
        k++;
    }
    uint32_t bits = o->left[k] & from;
    int count = __builtin_popcount(bits);
    if (k == 0 && count < 3)
        return false;
    unsigned stop = 31 - (unsigned)__builtin_clz(bits);
    if (count > 1)
        stop = 31 - (unsigned)__builtin_clz(bits ^ (uint32_t)1 << stop);
    bits &= ((uint32_t)1 << stop) - 1;
    out += put_ids(o, k, bits, out);
    *next = (struct bn_bpe_mark){at->in + (size_t)(k * STRIDE) + stop,
                                 at->out + (size_t)(out - begin), WIDTH,
                                 o->id[k][stop]};
    return true;
}

/* The same with one window of at->width symbols; 'last': up to the end of
 * the word, and all its ids. */
static bool window_ids(struct bn_bpe_work *w, const struct bn_bpe_mark *at,
                       size_t k, bool last, struct bn_bpe_mark *next)
{
    size_t take = last ? k : k - 2;

    if (!last && k < 3)
        return false;
    memcpy(w->sym + w->n + at->out, w->win, take * sizeof(uint32_t));
    *next = (struct bn_bpe_mark){at->in, at->out + take, WIDTH,
                                 last ? BN_BPE_GONE : w->win[take]};
    for (size_t i = 0; i < take; i++)
        next->in += w->win_len[i];
    return true;
}

/* Encode m symbols at sym[in..] into w->win, w->win_len. */
static size_t window(const struct bn_bpe *b, struct bn_bpe_work *w, size_t in,
                     size_t m)
{
    bn_grow(&w->win, &w->win_cap, m, sizeof(uint32_t));
    bn_grow(&w->win_len, &w->win_len_cap, m, sizeof(uint32_t));
    memcpy(w->win, w->sym + in, m * sizeof(uint32_t));
    return bn_bpe_piece(b, w, w->win, w->win_len, m);
}

static void begin(struct bn_bpe_work *w)
{
    bn_grow(&w->sym, &w->sym_cap, 2 * w->n + 4, sizeof(uint32_t));
    bn_grow(&w->mark, &w->mark_cap, 1, sizeof(*w->mark));
    w->mark[0] = (struct bn_bpe_mark){0, 0, WIDTH, BN_BPE_GONE};
    if (w->block == NULL)
        w->block = BN_NEWN(struct bn_bpe_block, (size_t)1 << BLOCK_BITS);
}

/* Ids never get ahead of symbols, but a window may start over: ids go to
 * a place of their own behind the symbols. A mark whose window disagrees
 * with the one before it is dropped, and the one before tried wider, at last
 * as wide as the word: so this ends. */
void bn_bpe_windows(const struct bn_bpe *b, struct bn_bpe_work *w)
{
    size_t n = w->n, depth = 1;

    begin(w);
    for (bool last = false; !last;) {
        struct bn_bpe_mark *at = &w->mark[depth - 1], next;
        bool many = at->width == WIDTH && n - at->in > BN_LANE_SPAN, more;
        const struct bn_bpe_block *o = NULL;
        size_t k = 0;
        uint32_t first;

        if (many) {
            o = block(b, w, at->in);
            first = o->id[0][0];
        } else {
            last = n - at->in <= at->width;
            k = window(b, w, at->in, last ? n - at->in : at->width);
            first = w->win[0];
        }
        if (at->expect != BN_BPE_GONE && first != at->expect) {
            w->mark[--depth - 1].width *= 2;
            last = false;
            continue;
        }
        more = many ? block_ids(w, o, at, &next)
                    : window_ids(w, at, k, last, &next);
        if (!more) {
            at->width *= 2;
            continue;
        }
        bn_grow(&w->mark, &w->mark_cap, depth + 1, sizeof(*w->mark));
        w->mark[depth++] = next;
    }
    w->n = w->mark[depth - 1].out;
    memmove(w->sym, w->sym + n, w->n * sizeof(uint32_t));
}
