/* How attention divides its scratch: a part a thread, and with backward one
 * that all share. Every array begins on a cache line.
 */
#ifndef BN_KERNELS_CPU_ATTN_WORK_H
#define BN_KERNELS_CPU_ATTN_WORK_H

#include "kernels/cpu/attn.h"

#ifdef _OPENMP
#include <omp.h>
#endif

/* Blocks of query rows that one piece of forward work holds. */
enum { FORWARD_BLOCKS = 4 };

struct forward_work {
    tile_unit *q;     /* [blocks] as copy_rows */
    tile_unit *k, *v; /* panels of a block of keys, of values */
    float *out;       /* [blocks, ATTN, head_cols] sums of weighted values */
    float *top, *sum; /* [blocks, ATTN] */
    float *s;         /* scores, then weights, of a block */
    uint16_t *narrow; /* weights as bf16 */
};

struct backward_work {
    tile_unit *k, *v, *kc;         /* keys and values for scores, keys for dq */
    tile_unit *q, *d_o, *qc, *doc; /* the same of queries and d_o */
    float *dk, *dv;                /* [ATTN, head_cols] sums */
    float *dq;                     /* [ATTN, head_cols] */
    float *s, *dp;                 /* weights, their gradient */
    uint16_t *narrow;              /* dS as bf16 */
    tile_unit *pt, *dst;           /* weights and dS in pairs of queries */
};

struct shared_work {
    float *d;  /* [heads, nq] rows of d_o . o */
    float *dq; /* [nq, heads, hd] */
    int *seg;  /* [3, nseg], see attn_grad.c */
    void *end; /* of what is shared */
};

BN_INLINE int attn_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

BN_INLINE int attn_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* The next n elements of 'size' bytes at *at, or with a NULL base only the
 * count of bytes. */
BN_INLINE void *work_take(char *base, size_t *at, size_t n, size_t size)
{
    void *p = base == NULL ? NULL : base + *at;

    *at += bn_cpu_round(n * size, 64);
    return p;
}

/* The element type is not known yet: units of a row are at most hd. */
BN_INLINE size_t copied_units(int hd)
{
    return (size_t)((hd + ROW_UNITS - 1) / ROW_UNITS) * ATTN * ROW_LD;
}

BN_INLINE size_t forward_take(struct forward_work *w, char *base, int hd)
{
    size_t n = 0, rows = (size_t)FORWARD_BLOCKS * ATTN;
    size_t hp = (size_t)head_cols(hd);

    w->q = work_take(base, &n, FORWARD_BLOCKS * copied_units(hd), 4);
    w->k = work_take(base, &n, (size_t)ATTN * hd, 4);
    w->v = work_take(base, &n, ATTN * hp, 4);
    w->out = work_take(base, &n, rows * hp, 4);
    w->top = work_take(base, &n, rows, 4);
    w->sum = work_take(base, &n, rows, 4);
    w->s = work_take(base, &n, (size_t)ATTN * ATTN_LD, 4);
    w->narrow = work_take(base, &n, (size_t)ATTN * ATTN_LD, 2);
    return n;
}

BN_INLINE size_t backward_take(struct backward_work *w, char *base, int hd)
{
    size_t n = 0, hp = (size_t)head_cols(hd);
    size_t square = (size_t)ATTN * ATTN_LD;

    w->k = work_take(base, &n, (size_t)ATTN * hd, 4);
    w->v = work_take(base, &n, (size_t)ATTN * hd, 4);
    w->kc = work_take(base, &n, ATTN * hp, 4);
    w->q = work_take(base, &n, copied_units(hd), 4);
    w->d_o = work_take(base, &n, copied_units(hd), 4);
    w->qc = work_take(base, &n, ATTN * hp, 4);
    w->doc = work_take(base, &n, ATTN * hp, 4);
    w->dk = work_take(base, &n, ATTN * hp, 4);
    w->dv = work_take(base, &n, ATTN * hp, 4);
    w->dq = work_take(base, &n, ATTN * hp, 4);
    w->s = work_take(base, &n, square, 4);
    w->dp = work_take(base, &n, square, 4);
    w->narrow = work_take(base, &n, square, 2);
    w->pt = work_take(base, &n, square / 2, 4);
    w->dst = work_take(base, &n, square / 2, 4);
    return n;
}

BN_INLINE size_t shared_take(struct shared_work *w, char *base,
                             const struct bn_attn *a)
{
    size_t n = 0, rows = (size_t)a->nq * a->heads;

    w->d = work_take(base, &n, rows, 4);
    w->dq = work_take(base, &n, rows * a->hd, 4);
    w->seg = work_take(base, &n, 3 * (size_t)a->nseg, sizeof(int));
    w->end = base == NULL ? NULL : base + n;
    return n;
}

#endif
