/* For tests of kernels: arrays between guard bands, poisoned where a kernel
 * must write, and compared with the double reference.
 */
#ifndef BN_KERNELS_TEST_CHECK_H
#define BN_KERNELS_TEST_CHECK_H

#include "base/mem.h"
#include "base/tap.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/number.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 }; /* bytes */

struct buf {
    enum bn_dtype t;
    size_t n;
    void *p;
    char *raw;
};

static uint64_t check_seed = 88172645463325252u;

static inline uint32_t check_bits(void)
{
    check_seed ^= check_seed << 13;
    check_seed ^= check_seed >> 7;
    check_seed ^= check_seed << 17;
    return (uint32_t)(check_seed >> 32);
}

/* 0 .. n - 1 */
static inline int check_below(int n)
{
    return (int)(check_bits() % (uint32_t)n);
}

/* Roughly normal, times 'scale'. */
static inline float check_normal(float scale)
{
    float s = 0;

    for (int i = 0; i < 4; i++)
        s += (float)(check_bits() >> 8) * 0x1p-24f;
    return (s - 2) * 1.732f * scale;
}

/* 'shift' elements off the alignment of 64 bytes. Every byte is set: an
 * output that is not written shows as NaN (F32 and BF16). */
static inline struct buf buf_new(enum bn_dtype t, size_t n, int shift)
{
    struct buf b = {.t = t, .n = n};
    size_t bytes = n * bn_dtype_size(t);
    size_t head = GUARD + (size_t)shift * bn_dtype_size(t);

    b.raw = aligned_alloc(64, (bytes + head + GUARD + 63) / 64 * 64);
    assert_non_null(b.raw);
    memset(b.raw, 0xff, bytes + head + GUARD);
    b.p = b.raw + head;
    memset(b.raw + head - GUARD, 0xa5, GUARD);
    memset((char *)b.p + bytes, 0xa5, GUARD);
    return b;
}

static inline struct buf buf_random(enum bn_dtype t, size_t n, int shift,
                                    float scale)
{
    struct buf b = buf_new(t, n, shift);

    for (size_t i = 0; i < n; i++)
        bn_put(t, b.p, i, check_normal(scale));
    return b;
}

static inline struct buf buf_copy(const struct buf *b)
{
    struct buf c = buf_new(b->t, b->n, 0);

    memcpy(c.p, b->p, b->n * bn_dtype_size(b->t));
    return c;
}

/* Free after looking at the guards. */
static inline void buf_free(struct buf *b)
{
    const unsigned char *low = (unsigned char *)b->p - GUARD;
    const unsigned char *high =
        (unsigned char *)b->p + b->n * bn_dtype_size(b->t);

    for (int i = 0; i < GUARD; i++)
        if (low[i] != 0xa5 || high[i] != 0xa5)
            fail_msg("wrote outside of the array (byte %d)", i);
    free(b->raw);
}

/* |got - want| <= rel |want| + tol, and one step of BF16 more. */
static inline void buf_close(const struct buf *got, const struct buf *want,
                             double rel, double tol, const char *what)
{
    if (got->t == BN_BF16)
        rel += 0x1p-7;
    for (size_t i = 0; i < want->n; i++) {
        double g = bn_get(got->t, got->p, i), w = bn_get(want->t, want->p, i);

        if (isnan(g) && isnan(w))
            continue;
        if (g == w || fabs(g - w) <= rel * fabs(w) + tol)
            continue;
        fail_msg("%s, %s: element %zu is %.9g, not %.9g", what,
                 bn_cpu_isa_name(bn_cpu_isa()), i, g, w);
    }
}

static inline void buf_same(const struct buf *got, const struct buf *want,
                            const char *what)
{
    if (memcmp(got->p, want->p, want->n * bn_dtype_size(want->t)) != 0)
        fail_msg("%s, %s: not the same bits", what,
                 bn_cpu_isa_name(bn_cpu_isa()));
}

/* dx against central differences of the loss sum(y * dy), where 'forward'
 * makes y from x in double; elements whose column (of ld) is not below cols
 * are not looked at. */
static inline void check_slopes(struct buf *x, const struct buf *dx, int ld,
                                int cols, void (*forward)(void *), void *arg,
                                const struct buf *y, const struct buf *dy,
                                const char *what)
{
    const float h = 0x1p-6f;

    for (size_t i = 0; i < x->n; i++) {
        float *at = (float *)x->p + i, was = *at;
        double d[2] = {0, 0}, got = ((float *)dx->p)[i];

        if ((int)(i % (size_t)ld) >= cols)
            continue;
        for (int s = 0; s < 2; s++) {
            *at = was + (s == 0 ? -h : h);
            forward(arg);
            for (size_t e = 0; e < y->n; e++)
                d[s] += (double)((float *)y->p)[e] * ((float *)dy->p)[e];
        }
        *at = was;
        double want = (d[1] - d[0]) / (2 * (double)h);
        if (!(fabs(got - want) < 2e-3 * (1 + fabs(want))))
            fail_msg("%s: element %zu is %g, differences give %g", what, i, got,
                     want);
    }
}

/* Run f for every instruction set of this machine and both types. */
static inline void check_all(void (*f)(enum bn_dtype t))
{
    for (int isa = 0; isa < BN_CPU_NISA; isa++) {
        if (bn_cpu_isa_set((enum bn_cpu_isa)isa) < 0)
            continue;
        f(BN_F32);
        f(BN_BF16);
    }
    bn_cpu_isa_set(bn_cpu_isa_best());
}

#endif
