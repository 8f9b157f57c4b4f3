/* Applying merges to a word.
 *
 * Short words: an array of ranks, its smallest entry again and again. Long
 * words: windows. Two facts make windows exact for any list of merges. A
 * merge never restores a boundary, so in the encoding of a word every run of
 * neighbouring tokens is the encoding of its own text. And if every two
 * neighbours of a token sequence are the encoding of their joined text, the
 * sequence is the encoding of the whole: the first merge that crossed a
 * boundary would be the next one of the two neighbours alone as well. So the
 * encodings of two overlapping windows may be joined wherever they agree on
 * one token.
 */
#include "config.h"
#include "text/bpe.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/simd.h"

#include <stdlib.h>
#include <string.h>
#ifdef BN_HAVE_V3
#include <immintrin.h>
#endif

/* A window that has to grow is still a small one at twice the width. */
enum { SMALL = 64, WINDOW = 32 };

/* A linked list of symbols; id of a removed one is GONE. */
struct bn_bpe_node {
    uint32_t id;
    int32_t prev, next;
};
#define GONE UINT32_MAX

/* The start of a window whose left boundary is known to be right. */
struct bn_bpe_mark {
    size_t in, out;  /* symbols taken and ids given before it */
    size_t width;    /* symbols to look at */
    uint32_t expect; /* the id it must start with */
};

/* Windows met before: text that repeats is merged once. */
struct bn_bpe_memo {
    uint32_t sym[WINDOW], id[WINDOW];
    uint32_t len[WINDOW];
    uint32_t n; /* ids; 0: empty */
};
enum { MEMO_BITS = 8 };

void bn_bpe_work_release(struct bn_bpe_work *w)
{
    free(w->memo);
    free(w->near);
    free(w->sym);
    free(w->node);
    free(w->heap);
    free(w->mark);
    free(w->win);
    free(w->win_len);
    free(w->text);
    *w = (struct bn_bpe_work){0};
}

typedef int32_t v8i32 __attribute__((vector_size(32)));

#define BN_INLINE static inline __attribute__((always_inline))

/* The least of v[0..n), n a multiple of 8 and at least 8. */
BN_INLINE int32_t least(const int32_t *v, size_t n)
{
    v8i32 m, x;
    int32_t best;

    memcpy(&m, v, sizeof(m));
    for (size_t i = 8; i < n; i += 8) {
        memcpy(&x, v + i, sizeof(x));
        v8i32 less = x < m;
        m = (x & less) | (m & ~less);
    }
    best = m[0];
    for (int i = 1; i < 8; i++)
        best = m[i] < best ? m[i] : best;
    return best;
}

#ifdef BN_HAVE_V3
/* The same in fewer steps. */
BN_V3 static inline int32_t least_v3(const int32_t *v, size_t n)
{
    const __m256i *p = (const __m256i *)(const void *)v;
    __m256i m = _mm256_loadu_si256(p);

    for (size_t i = 1; i < n / 8; i++)
        m = _mm256_min_epi32(m, _mm256_loadu_si256(p + i));
    __m128i x = _mm_min_epi32(_mm256_castsi256_si128(m),
                              _mm256_extracti128_si256(m, 1));
    x = _mm_min_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_min_epi32(x, _mm_shuffle_epi32(x, 0xb1));
    return _mm_cvtsi128_si32(x);
}
#endif

/* Ranks asked for before, those of pairs that do not merge too, in a table
 * small enough to stay near the processor: left, right, rank + 1 or 0. */
enum { NEAR_BITS = 13 };

static void near_create(struct bn_bpe_work *w)
{
    size_t bytes = sizeof(uint64_t) << NEAR_BITS;

    w->near = bn_malloc(bytes);
    memset(w->near, 0xff, bytes); /* no pair has this key */
}

BN_INLINE uint32_t near_rank(const struct bn_bpe *b, uint64_t *near,
                             uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << BN_BPE_ID_BITS | right;
    uint64_t *e = &near[bn_bpe_hash(left, right) >> (32 - NEAR_BITS)];

    if (__builtin_expect(*e >> BN_BPE_RANK_BITS != key, 0))
        *e = key << BN_BPE_RANK_BITS
             | (uint32_t)(bn_bpe_rank(b, left, right) + 1);
    return (uint32_t)(*e & ((1u << BN_BPE_RANK_BITS) - 1)) - 1;
}

/* A pair as one number: its rank, then its place. */
BN_INLINE int32_t pair_at(const struct bn_bpe *b, uint64_t *near,
                          const uint32_t *id, unsigned i, unsigned next)
{
    uint32_t r = near_rank(b, near, id[i], id[next]);

    if (r == BN_BPE_NO_RANK)
        return INT32_MAX;
    __builtin_prefetch(&b->made[r]);
    return (int32_t)(r << 6 | i);
}

/* Merge id[0..n), n <= SMALL; len[i], if not NULL, becomes the number of
 * symbols in id[i]. Returns the new n. Symbols stay in place while pairs are
 * merged; a bit says which are left. */
BN_INLINE size_t merge_few(const struct bn_bpe *b, uint64_t *near,
                           uint32_t *id, uint32_t *len, size_t n,
                           int32_t (*smallest)(const int32_t *v, size_t n))
{
    int32_t pair[SMALL];
    uint64_t left = n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
    size_t whole = (n + 7) / 8 * 8, m = 0;

    _Static_assert(SMALL == 64 && BN_BPE_RANK_BITS + 6 < 31, "fits");
    for (unsigned i = 0; i < whole; i++)
        pair[i] = i + 1 < n ? pair_at(b, near, id, i, i + 1) : INT32_MAX;
    for (;;) {
        int32_t best = smallest(pair, whole);

        if (best == INT32_MAX)
            break;
        unsigned at = (unsigned)best & 63;
        uint64_t after = left & ~(uint64_t)0 << at & ~((uint64_t)1 << at);
        unsigned gone = (unsigned)__builtin_ctzll(after);

        id[at] = b->made[best >> 6];
        left &= ~((uint64_t)1 << gone);
        after &= after - 1;
        pair[gone] = INT32_MAX;
        pair[at] = after == 0 ? INT32_MAX
                              : pair_at(b, near, id, at,
                                        (unsigned)__builtin_ctzll(after));
        uint64_t before = left & (((uint64_t)1 << at) - 1);
        if (before != 0) {
            unsigned prev = 63 - (unsigned)__builtin_clzll(before);

            pair[prev] = pair_at(b, near, id, prev, at);
        }
    }
    for (uint64_t rest = left; rest != 0; rest &= rest - 1, m++) {
        unsigned i = (unsigned)__builtin_ctzll(rest);
        uint64_t next = rest & (rest - 1);

        id[m] = id[i];
        if (len != NULL)
            len[m] = (next != 0 ? (uint32_t)__builtin_ctzll(next)
                                : (uint32_t)n) - i;
    }
    return m;
}

#ifdef BN_HAVE_V3
BN_V3 static size_t merge_few_v3(const struct bn_bpe *b, uint64_t *near,
                                 uint32_t *id, uint32_t *len, size_t n)
{
    return merge_few(b, near, id, len, n, least_v3);
}
#endif

static size_t merge_small(const struct bn_bpe *b, struct bn_bpe_work *w,
                          uint32_t *id, uint32_t *len, size_t n)
{
    if (w->near == NULL)
        near_create(w);
    uint64_t *near = w->near;
#ifdef BN_HAVE_V3
    if (b->v3)
        return merge_few_v3(b, near, id, len, n);
#endif
    return merge_few(b, near, id, len, n, least);
}

/* A binary heap of rank << 32 | position, smallest first. */
static void heap_push(uint64_t *h, size_t n, uint64_t v)
{
    while (n > 0 && h[(n - 1) / 2] > v) {
        h[n] = h[(n - 1) / 2];
        n = (n - 1) / 2;
    }
    h[n] = v;
}

static void heap_sink(uint64_t *h, size_t n, size_t i, uint64_t v)
{
    for (;;) {
        size_t c = 2 * i + 1;

        if (c >= n)
            break;
        if (c + 1 < n && h[c + 1] < h[c])
            c++;
        if (h[c] >= v)
            break;
        h[i] = h[c];
        i = c;
    }
    h[i] = v;
}

/* Link the symbols and heap their pairs; returns the heap's size. */
static size_t heap_begin(const struct bn_bpe *b, struct bn_bpe_work *w,
                         const uint32_t *id, size_t n)
{
    size_t nheap = 0;

    bn_grow(&w->node, &w->node_cap, n, sizeof(*w->node));
    bn_grow(&w->heap, &w->heap_cap, 3 * n, sizeof(*w->heap));
    for (size_t i = 0; i < n; i++) {
        w->node[i] = (struct bn_bpe_node){id[i], (int32_t)i - 1,
                                          i + 1 < n ? (int32_t)i + 1 : -1};
        if (i + 1 == n)
            break;
        uint32_t r = bn_bpe_rank(b, id[i], id[i + 1]);
        if (r != BN_BPE_NO_RANK)
            w->heap[nheap++] = (uint64_t)r << 32 | i;
    }
    for (size_t i = nheap / 2; i-- > 0;)
        heap_sink(w->heap, nheap, i, w->heap[i]);
    return nheap;
}

/* Push the pair that starts at node i, if it merges. */
static size_t heap_pair(const struct bn_bpe *b, struct bn_bpe_work *w,
                        size_t nheap, int32_t i)
{
    struct bn_bpe_node *p = &w->node[i];
    uint32_t r = bn_bpe_rank(b, p->id, w->node[p->next].id);

    if (r == BN_BPE_NO_RANK)
        return nheap;
    heap_push(w->heap, nheap, (uint64_t)r << 32 | (uint32_t)i);
    return nheap + 1;
}

/* As merge_small, any n. */
static size_t merge_heap(const struct bn_bpe *b, struct bn_bpe_work *w,
                         uint32_t *id, uint32_t *len, size_t n)
{
    size_t nheap = heap_begin(b, w, id, n);

    while (nheap > 0) {
        uint64_t top = w->heap[0];
        int32_t i = (int32_t)(uint32_t)top;
        uint32_t made = b->made[top >> 32];
        struct bn_bpe_node *p = &w->node[i];

        nheap--;
        heap_sink(w->heap, nheap, 0, w->heap[nheap]);
        if (p->id == GONE || p->next < 0)
            continue;
        struct bn_bpe_node *q = &w->node[p->next];
        uint32_t r = bn_bpe_rank(b, p->id, q->id);
        /* An entry from before a neighbour changed. */
        if (r == BN_BPE_NO_RANK || b->made[r] != made)
            continue;
        p->id = made;
        q->id = GONE;
        p->next = q->next;
        if (p->next >= 0)
            w->node[p->next].prev = i;
        if (p->prev >= 0)
            nheap = heap_pair(b, w, nheap, p->prev);
        if (p->next >= 0)
            nheap = heap_pair(b, w, nheap, i);
    }
    size_t m = 0;
    for (int32_t i = 0; i >= 0; i = w->node[i].next) {
        int32_t next = w->node[i].next;

        id[m] = w->node[i].id;
        if (len != NULL)
            len[m] = (uint32_t)((next >= 0 ? next : (int32_t)n) - i);
        m++;
    }
    return m;
}

void bn_bpe_merge_heap(const struct bn_bpe *b, struct bn_bpe_work *w)
{
    if (w->n > 1)
        w->n = merge_heap(b, w, w->sym, NULL, w->n);
}

/* The place of a window of WINDOW symbols. */
static struct bn_bpe_memo *memo_at(struct bn_bpe_work *w, const uint32_t *sym)
{
    uint64_t h = 0, two;

    if (w->memo == NULL)
        w->memo = BN_NEWN(struct bn_bpe_memo, (size_t)1 << MEMO_BITS);
    for (int i = 0; i < WINDOW; i += 2) {
        memcpy(&two, sym + i, sizeof(two));
        h = (h ^ two) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return &w->memo[h >> (64 - MEMO_BITS)];
}

/* Encode the window of 'm' symbols at sym[in..] into w->win, w->win_len. */
static size_t window(const struct bn_bpe *b, struct bn_bpe_work *w, size_t in,
                     size_t m)
{
    struct bn_bpe_memo *o = NULL;
    size_t n;

    bn_grow(&w->win, &w->win_cap, m, sizeof(uint32_t));
    bn_grow(&w->win_len, &w->win_len_cap, m, sizeof(uint32_t));
    if (m == WINDOW) {
        o = memo_at(w, w->sym + in);
        if (o->n > 0 && memcmp(o->sym, w->sym + in, sizeof(o->sym)) == 0) {
            memcpy(w->win, o->id, sizeof(o->id));
            memcpy(w->win_len, o->len, sizeof(o->len));
            return o->n;
        }
    }
    memcpy(w->win, w->sym + in, m * sizeof(uint32_t));
    n = m <= SMALL ? merge_small(b, w, w->win, w->win_len, m)
                   : merge_heap(b, w, w->win, w->win_len, m);
    if (o != NULL) {
        memcpy(o->sym, w->sym + in, sizeof(o->sym));
        memcpy(o->id, w->win, sizeof(o->id));
        memcpy(o->len, w->win_len, sizeof(o->len));
        o->n = (uint32_t)n;
    }
    return n;
}

/* Ids never get ahead of symbols, but a window may start over: ids go to
 * a place of their own behind the symbols. A mark whose window disagrees
 * with the one before it is dropped, and the one before tried wider, at last
 * as wide as the word: so this ends. */
static void merge_windows(const struct bn_bpe *b, struct bn_bpe_work *w)
{
    size_t n = w->n, depth = 1;

    bn_grow(&w->sym, &w->sym_cap, 2 * n, sizeof(uint32_t));
    bn_grow(&w->mark, &w->mark_cap, 1, sizeof(*w->mark));
    w->mark[0] = (struct bn_bpe_mark){0, 0, WINDOW, GONE};
    for (;;) {
        struct bn_bpe_mark *at = &w->mark[depth - 1];
        bool last = n - at->in <= at->width;
        size_t m = last ? n - at->in : at->width;
        size_t k = window(b, w, at->in, m);

        if (at->expect != GONE && w->win[0] != at->expect) {
            depth--;
            w->mark[depth - 1].width *= 2;
            continue;
        }
        if (!last && k < 3) {
            at->width *= 2;
            continue;
        }
        size_t take = last ? k : k - 2;
        memcpy(w->sym + n + at->out, w->win, take * sizeof(uint32_t));
        if (last) {
            w->n = at->out + k;
            break;
        }
        struct bn_bpe_mark next = {at->in, at->out + take, WINDOW,
                                   w->win[take]};
        for (size_t i = 0; i < take; i++)
            next.in += w->win_len[i];
        bn_grow(&w->mark, &w->mark_cap, depth + 1, sizeof(*w->mark));
        w->mark[depth++] = next;
    }
    memmove(w->sym, w->sym + n, w->n * sizeof(uint32_t));
}

void bn_bpe_merge(const struct bn_bpe *b, struct bn_bpe_work *w)
{
    /* With a prefix on inner symbols two different merges at one place can
     * make the same token; only the heap then does what the reference does. */
    if (b->prefix != NULL)
        bn_bpe_merge_heap(b, w);
    else if (w->n <= SMALL)
        w->n = w->n > 1 ? merge_small(b, w, w->sym, NULL, w->n) : w->n;
    else
        merge_windows(b, w);
}

static void add_sym(struct bn_bpe_work *w, int32_t id)
{
    bn_grow(&w->sym, &w->sym_cap, w->n + 1, sizeof(uint32_t));
    w->sym[w->n++] = (uint32_t)id;
}

/* The bytes of an unknown character as fallback tokens; false if one of them
 * has none. */
static bool add_fallback(const struct bn_bpe *b, struct bn_bpe_work *w,
                         const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (b->fallback[(unsigned char)s[i]] < 0)
            return false;
    for (size_t i = 0; i < n; i++)
        add_sym(w, b->fallback[(unsigned char)s[i]]);
    return true;
}

/* The text of the symbol at s[i..i+len) with prefix and suffix. */
static size_t dress(const struct bn_bpe *b, struct bn_bpe_work *w,
                    const char *s, size_t len, bool first, bool last)
{
    size_t np = b->prefix != NULL && !first ? strlen(b->prefix) : 0;
    size_t ns = b->suffix != NULL && last ? strlen(b->suffix) : 0;

    bn_grow(&w->text, &w->text_cap, np + len + ns, 1);
    if (np > 0)
        memcpy(w->text, b->prefix, np);
    memcpy(w->text + np, s, len);
    if (ns > 0)
        memcpy(w->text + np + len, b->suffix, ns);
    return np + len + ns;
}

/* Characters to symbols. As in the reference, an unknown token that waits to
 * be fused is put down before the next known character, not before bytes. */
static void symbols(const struct bn_bpe *b, struct bn_bpe_work *w,
                    const char *s, size_t n)
{
    bool pending = false;
    size_t len;

    bn_grow(&w->sym, &w->sym_cap, n + 1, sizeof(uint32_t));
    for (size_t i = 0; i < n; i += len) {
        unsigned char c = (unsigned char)s[i];

        len = 1;
        if (c < 0x80 && b->char_sym != NULL && !pending
            && b->char_sym[c] >= 0) {
            w->sym[w->n++] = (uint32_t)b->char_sym[c];
            continue;
        }
        while (i + len < n && ((unsigned char)s[i + len] & 0xc0) == 0x80)
            len++;
        if (b->char_sym != NULL && !pending && len < 4) {
            uint32_t cp = 0;

            bn_utf8_get(s + i, len, &cp);
            if (b->char_sym[cp] >= 0) {
                w->sym[w->n++] = (uint32_t)b->char_sym[cp];
                continue;
            }
        }
        size_t m = dress(b, w, s + i, len, i == 0, i + len == n);
        int32_t id = bn_bpe_id(b, w->text, m);

        if (id < 0 && b->byte_fallback && add_fallback(b, w, w->text, m))
            continue;
        if (pending && (id >= 0 || !b->fuse_unk)) {
            add_sym(w, b->unk);
            pending = false;
        }
        if (id >= 0)
            add_sym(w, id);
        else if (b->unk >= 0)
            pending = true;
    }
    if (pending)
        add_sym(w, b->unk);
}

void bn_bpe_word(const struct bn_bpe *b, struct bn_bpe_work *w, const char *s,
                 size_t n, bool bytes)
{
    w->n = 0;
    if (b->ignore_merges && n <= b->max_len) {
        struct bn_str name = {0};
        int32_t id;

        if (bytes)
            bn_byte_names(&name, s, n);
        id = bytes ? bn_bpe_id(b, name.s, name.len) : bn_bpe_id(b, s, n);
        bn_str_release(&name);
        if (id >= 0) {
            add_sym(w, id);
            return;
        }
    }
    if (!bytes) {
        symbols(b, w, s, n);
    } else {
        bn_grow(&w->sym, &w->sym_cap, n, sizeof(uint32_t));
        for (size_t i = 0; i < n; i++)
            w->sym[i] = (uint32_t)b->byte_sym[(unsigned char)s[i]];
        w->n = n;
    }
    bn_bpe_merge(b, w);
}
