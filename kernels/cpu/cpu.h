/* For the CPU kernels. Each file of this folder is compiled once for every
 * instruction set of dispatch.h; BN_ISA is its name there, and every symbol
 * carries it. Both element types come from one body: an always-inline
 * function whose type argument is a constant.
 */
#ifndef BN_KERNELS_CPU_H
#define BN_KERNELS_CPU_H

#include "kernels/number.h"

#define BN_CPU_PASTE2(name, isa) bn_##name##_##isa
#define BN_CPU_PASTE(name, isa) BN_CPU_PASTE2(name, isa)
#define BN_CPU(name) BN_CPU_PASTE(name, BN_ISA)
/* Declare this instruction set's body of bn_NAME_cpu. */
#define BN_CPU_DECLARE(name) extern __typeof__(bn_##name##_cpu) BN_CPU(name)

#ifdef BN_SANITIZED /* would take the compiler minutes */
#define BN_INLINE static inline
#else
#define BN_INLINE static inline __attribute__((always_inline))
#endif

/* Make 'call' with T the constant type t. Inside a parallel region, which the
 * compiler makes a function of its own: constants do not get into it. */
#define BN_CPU_TYPED(t, call)                                                  \
    do {                                                                       \
        if ((t) == BN_F32) {                                                   \
            const enum bn_dtype T = BN_F32;                                    \
            call;                                                              \
        } else {                                                               \
            const enum bn_dtype T = BN_BF16;                                   \
            call;                                                              \
        }                                                                      \
    } while (0)

/* Work below this many elements is not worth waking other threads. */
enum { BN_CPU_SMALL = 16384 };

#define BN_CPU_LOG2E 0x1.715476p0f
#define BN_CPU_LN2 0x1.62e43p-1f

/* exp(x) to 1e-7 relative: Cody and Waite's reduction to |r| <= ln 2 / 2,
 * then the polynomial of Cephes's expf. Results below 2^-126 are 0, above
 * the range infinite, NaN stays NaN. Branch-free. */
BN_INLINE float bn_cpu_exp(float x)
{
    const float magic = 0x1.8p23f;
    float in = x < -87.5f ? -87.5f : x;
    in = in > 89.0f ? 89.0f : in;
    float shifted = in * BN_CPU_LOG2E + magic;
    float k = shifted - magic;
    float r = in - k * 0x1.62e4p-1f;
    r = r - k * 0x1.7f7d1cp-20f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    /* 2^k in two factors, so that k = 128 has a pattern too. */
    uint32_t e = bn_float_bits(shifted) - bn_float_bits(magic) + 126u;
    float y = p * bn_bits_float((e & 0xffu) << 23) * 2.0f;
    return x > 88.72283f ? INFINITY : y;
}

/* 2^y for y <= 1, to 2e-7 relative; 0 below 2^-125.5, NaN stays NaN. Half the
 * work of bn_cpu_exp: where y is not too large, as in a softmax, log2(e) can
 * be a factor of what y is made of, and one step reduces it. The polynomial
 * is the least relative error's on |r| <= 1/2 among those with p(0) = 1. */
BN_INLINE float bn_cpu_exp2_low(float y)
{
    const float magic = 0x1.8p23f;
    float shifted = y + magic;
    float r = y - (shifted - magic);
    float p = 0x1.5bba14p-10f;
    p = p * r + 0x1.3cea88p-7f;
    p = p * r + 0x1.c6b752p-5f;
    p = p * r + 0x1.ebf9bcp-3f;
    p = p * r + 0x1.62e42ap-1f;
    p = p * r + 1.0f;
    uint32_t bits = bn_float_bits(p) + (bn_float_bits(shifted) << 23);
    return y < -125.5f ? 0 : bn_bits_float(bits);
}

/* exp(x) for x <= 0.5; the error grows with |x|, as slowly as exp(x) falls. */
BN_INLINE float bn_cpu_exp_low(float x)
{
    return bn_cpu_exp2_low(x * BN_CPU_LOG2E);
}

/* n rounded up to a multiple of m. */
BN_INLINE size_t bn_cpu_round(size_t n, size_t m)
{
    return (n + m - 1) / m * m;
}

#endif
