/* Long words, in windows.
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
#include "text/bpe_impl.h"
#include "base/mem.h"

#include <string.h>

/* Symbols of a window at first, a multiple of 8, and the last ids of it that
 * are left to the next window: few, or more if that one disagrees. */
enum { WINDOW = BN_BPE_WINDOW, FEW = 2, MORE = 8 };

/* The start of a window whose left boundary is known to be right. */
struct bn_bpe_mark {
    size_t in, out;  /* symbols taken and ids given before it */
    size_t width;    /* symbols to look at */
    size_t drop;     /* ids to leave */
    uint32_t expect; /* the id it must start with */
};
#define ANY UINT32_MAX

/* Windows met before: text that repeats is merged once. */
struct bn_bpe_memo {
    uint32_t sym[WINDOW], id[WINDOW], start[WINDOW];
    uint32_t n; /* ids; 0: empty */
};
enum { MEMO_BITS = 8 };

/* The ids of a window and the symbols they start at. */
struct window {
    const uint32_t *id, *start;
    size_t n;
};

/* The place of a window of WINDOW symbols. Four sums, so that none waits for
 * the others. */
static struct bn_bpe_memo *memo_at(struct bn_bpe_work *w, const uint32_t *sym)
{
    uint64_t h[4] = {1, 2, 3, 4}, two;

    if (w->memo == NULL)
        w->memo = BN_NEWN(struct bn_bpe_memo, (size_t)1 << MEMO_BITS);
    for (int i = 0; i < WINDOW; i += 8)
        for (int k = 0; k < 4; k++) {
            memcpy(&two, sym + i + 2 * k, sizeof(two));
            h[k] = (h[k] ^ two) * 0x9e3779b97f4a7c15u;
            h[k] ^= h[k] >> 29;
        }
    h[0] = (h[0] ^ h[1] * 0xc2b2ae3d27d4eb4fu) + (h[2] ^ h[3] << 17);
    return &w->memo[(h[0] * 0x165667b19e3779f9u) >> (64 - MEMO_BITS)];
}

/* Encode the window of 'm' symbols at 'sym'. */
static struct window encode(const struct bn_bpe *b, struct bn_bpe_work *w,
                            const uint32_t *sym, size_t m)
{
    if (m == WINDOW) {
        struct bn_bpe_memo *o = memo_at(w, sym);

        if (o->n == 0 || memcmp(o->sym, sym, sizeof(o->sym)) != 0) {
            memcpy(o->sym, sym, sizeof(o->sym));
            memcpy(o->id, sym, sizeof(o->id));
            o->n = (uint32_t)bn_bpe_merge_small(b, o->id, o->start, WINDOW);
        }
        return (struct window){o->id, o->start, o->n};
    }
    bn_grow(&w->win, &w->win_cap, m, sizeof(uint32_t));
    bn_grow(&w->win_start, &w->win_start_cap, m, sizeof(uint32_t));
    memcpy(w->win, sym, m * sizeof(uint32_t));
    size_t n = m <= BN_BPE_SMALL
                   ? bn_bpe_merge_small(b, w->win, w->win_start, m)
                   : bn_bpe_merge_any(b, w, w->win, w->win_start, m);
    return (struct window){w->win, w->win_start, n};
}

/* The next thing to try with a window that led nowhere. */
static void widen(struct bn_bpe_mark *at)
{
    if (at->drop == FEW) {
        at->drop = MORE;
    } else {
        at->drop = FEW;
        at->width *= 2;
    }
}

/* Ids never get ahead of symbols, but a window may start over: ids go to
 * a place of their own behind the symbols. A mark whose window disagrees
 * with the one before it is dropped, and the one before tried again with less
 * of it taken, then wider, at last as wide as the word: so this ends. */
void bn_bpe_merge_windows(const struct bn_bpe *b, struct bn_bpe_work *w)
{
    size_t n = w->n, depth = 1;

    bn_grow(&w->sym, &w->sym_cap, 2 * n, sizeof(uint32_t));
    bn_grow(&w->mark, &w->mark_cap, 1, sizeof(*w->mark));
    w->mark[0] = (struct bn_bpe_mark){0, 0, WINDOW, FEW, ANY};
    for (;;) {
        struct bn_bpe_mark *at = &w->mark[depth - 1];
        bool last = n - at->in <= at->width;
        size_t m = last ? n - at->in : at->width;
        struct window got = encode(b, w, w->sym + at->in, m);

        if (at->expect != ANY && got.id[0] != at->expect) {
            depth--;
            widen(&w->mark[depth - 1]);
            continue;
        }
        if (!last && got.n <= at->drop) {
            widen(at);
            continue;
        }
        size_t take = last ? got.n : got.n - at->drop;
        memcpy(w->sym + n + at->out, got.id, take * sizeof(uint32_t));
        if (last) {
            w->n = at->out + take;
            break;
        }
        struct bn_bpe_mark next = {at->in + got.start[take], at->out + take,
                                   WINDOW, FEW, got.id[take]};
        bn_grow(&w->mark, &w->mark_cap, depth + 1, sizeof(*w->mark));
        w->mark[depth++] = next;
    }
    memmove(w->sym, w->sym + n, w->n * sizeof(uint32_t));
}
