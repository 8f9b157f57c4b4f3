/* Applying merges to a word of symbols, and the plain way to do it: a heap. */
#include "config.h"
#include "text/bpe_impl.h"
#include "base/mem.h"

#include <stdlib.h>

/* A linked list of symbols; id of a removed one is GONE. */
struct bn_bpe_node {
    uint32_t id;
    int32_t prev, next;
};
#define GONE UINT32_MAX

void bn_bpe_work_release(struct bn_bpe_work *w)
{
    free(w->memo);
    free(w->sym);
    free(w->node);
    free(w->heap);
    free(w->mark);
    free(w->win);
    free(w->win_start);
    free(w->text);
    *w = (struct bn_bpe_work){0};
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

size_t bn_bpe_merge_any(const struct bn_bpe *b, struct bn_bpe_work *w,
                        uint32_t *id, uint32_t *start, size_t n)
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
        id[m] = w->node[i].id;
        if (start != NULL)
            start[m] = (uint32_t)i;
        m++;
    }
    return m;
}

void bn_bpe_merge_heap(const struct bn_bpe *b, struct bn_bpe_work *w)
{
    if (w->n > 1)
        w->n = bn_bpe_merge_any(b, w, w->sym, NULL, w->n);
}

void bn_bpe_merge(const struct bn_bpe *b, struct bn_bpe_work *w)
{
    /* With a prefix on inner symbols two different merges at one place can
     * make the same token; only the heap then does what the reference does. */
    if (b->seam == NULL)
        bn_bpe_merge_heap(b, w);
    else if (w->n > BN_BPE_SMALL)
        bn_bpe_merge_windows(b, w);
    else if (w->n > 1)
        w->n = bn_bpe_merge_small(b, w->sym, NULL, w->n);
}
