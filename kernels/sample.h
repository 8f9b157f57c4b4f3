/* From logits to a token.
 *
 * In this order: repetition penalty on what was seen; division by the
 * temperature; the top_k most likely; of those, renormalised, the fewest
 * that hold top_p of the probability; those with at least min_p of the
 * probability of the most likely. What is left is drawn from by its
 * renormalised probability. Same order and meaning as the logits processors
 * of transformers, except that ties go to the lower id.
 */
#ifndef BN_KERNELS_SAMPLE_H
#define BN_KERNELS_SAMPLE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define BN_SAMPLE_FN static __host__ __device__ inline
#else
#define BN_SAMPLE_FN static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct bn_sample {
    double temperature; /* 0: the most likely token, ties to the lower id */
    int top_k;          /* 0: no limit */
    double top_p;       /* 1: no limit; > 0 */
    double min_p;       /* 0: no limit; <= 1 */
    /* > 0; 1: none. Logits of tokens seen are divided by it where positive
     * and multiplied where negative (Keskar et al., CTRL, 2019); each counts
     * once, however often it was seen. */
    double repetition_penalty;
};

/* Rows to draw a token for. */
struct bn_sample_rows {
    int rows, vocab;
    int ld;                  /* of logits, in elements */
    const float *logits;     /* [rows, vocab] */
    const double *u;         /* [rows] uniform in [0, 1) */
    const int32_t *seen_ptr; /* [rows + 1] */
    /* [seen_ptr[rows]] ids below vocab that row r has seen: seen_ptr[r] <= i
     * < seen_ptr[r + 1]. Not read if the penalty is 1. */
    const int32_t *seen;
};

/* The weight of a token in a draw is an integer: exp(x), x <= 0 its logit
 * less the greatest, over the temperature, in units of 1 / bn_sample_unit.
 * Sums of weights are exact then, in whatever order they are made, and below
 * 2^62; and exp is made of products and fma alone, which round alike
 * everywhere. So every back end draws the same token from the same logits. */
BN_SAMPLE_FN double bn_sample_unit(int vocab)
{
    double unit = 0x1p62;

    for (; vocab > 0; vocab /= 2)
        unit *= 0.5;
    return unit;
}

/* Cody and Waite's reduction to |r| <= ln 2 / 2, then Taylor's series up to
 * r^13 / 13!, which is off by less than 1e-17. A weight below half a unit is
 * 0: that token cannot come. x is not NaN. */
BN_SAMPLE_FN uint64_t bn_sample_weight(double x, double unit)
{
    double in = x > -45 ? x : -45; /* exp(-45) < 2^-62 / 2 */
    double n = rint(in * 0x1.71547652b82fep0);
    double r = fma(n, -0x1.62e42fefa39efp-1, in);
    double p = 0x1.6124613a86d09p-33, two_n;
    uint64_t bits = (uint64_t)(int64_t)(n + 1023) << 52;

    r = fma(n, -0x1.abc9e3b39803fp-56, r);
    p = fma(p, r, 0x1.1eed8eff8d898p-29);
    p = fma(p, r, 0x1.ae64567f544e4p-26);
    p = fma(p, r, 0x1.27e4fb7789f5cp-22);
    p = fma(p, r, 0x1.71de3a556c734p-19);
    p = fma(p, r, 0x1.a01a01a01a01ap-16);
    p = fma(p, r, 0x1.a01a01a01a01ap-13);
    p = fma(p, r, 0x1.6c16c16c16c17p-10);
    p = fma(p, r, 0x1.1111111111111p-7);
    p = fma(p, r, 0x1.5555555555555p-5);
    p = fma(p, r, 0x1.5555555555555p-3);
    p = fma(p, r, 0.5);
    p = fma(p, r, 1.0);
    p = fma(p, r, 1.0);
    memcpy(&two_n, &bits, sizeof(two_n));
    return x > -45 ? (uint64_t)(int64_t)rint(p * two_n * unit) : 0;
}

/* The least integer that is not below share * sum, 1 <= it <= sum. */
BN_SAMPLE_FN uint64_t bn_sample_share(double share, uint64_t sum)
{
    double d = ceil(share * (double)sum);
    uint64_t n = d < 0x1p62 ? (uint64_t)(int64_t)d : sum;

    return n < 1 ? 1 : n < sum ? n : sum;
}

/* Where u in [0, 1) comes to lie in a sum: 0 <= it < sum. */
BN_SAMPLE_FN uint64_t bn_sample_point(double u, uint64_t sum)
{
    uint64_t n = (uint64_t)(int64_t)floor(u * (double)sum);

    return n < sum ? n : sum - 1;
}

/* Scratch bytes of a call, aligned to 16: of the CPU and of the device. */
size_t bn_sample_work_cpu(int vocab, int rows);
size_t bn_sample_work_cuda(int vocab, int rows);

/* token[r] from row r, or -1 where a logit is NaN, or the greatest one is not
 * finite. Tokens lie side by side in the order of ids where only min_p
 * limits them, else of probability, the most likely first; the one that the
 * point u times the sum of weights falls into is drawn.
 *
 * Same token in every back end, on any number of threads and whatever other
 * rows there are. The reference follows the definition in double with libm's
 * exp: it may differ where u or a limit is within 1e-12 of an edge.
 * Bytes: 4 rows * vocab, and of the scratch 8 rows * vocab once written and
 * read once for the maximum, once a filter and once for the draw. */
void bn_sample_ref(const struct bn_sample *s, const struct bn_sample_rows *r,
                   int32_t *token);
void bn_sample_cpu(const struct bn_sample *s, const struct bn_sample_rows *r,
                   int32_t *token, void *work);
int bn_sample_cuda(const struct bn_sample *s, const struct bn_sample_rows *r,
                   int32_t *token, void *work, void *stream);

#ifdef __cplusplus
}
#endif

#endif
