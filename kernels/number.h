/* 16-bit floats in C: bit patterns to float and back, branch-free so that
 * loops over them vectorise. Rounding is to nearest, ties to even; NaN stays
 * NaN, denormals are kept.
 */
#ifndef BN_KERNELS_NUMBER_H
#define BN_KERNELS_NUMBER_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

static inline uint32_t bn_float_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

static inline float bn_bits_float(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

static inline float bn_bf16_to_float(uint16_t b)
{
    return bn_bits_float((uint32_t)b << 16);
}

static inline uint16_t bn_float_to_bf16(float f)
{
    uint32_t u = bn_float_bits(f);
    uint32_t even = u + 0x7fffu + ((u >> 16) & 1u);

    /* A NaN must not be carried into infinity: keep its top, set quiet. */
    return (uint16_t)(((u & 0x7fffffffu) > 0x7f800000u ? u | 0x400000u : even)
                      >> 16);
}

static inline float bn_f16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, em = h & 0x7fffu;
    /* Move exponent and fraction into place; the product then sets the bias
     * and normalises denormals, both exactly. */
    float f = bn_bits_float(em << 13) * 0x1p112f;

    if (em >= 0x7c00u)
        f = bn_bits_float((em << 13) | 0x7f800000u);
    return bn_bits_float(bn_float_bits(f) | sign);
}

static inline uint16_t bn_float_to_f16(float f)
{
    uint32_t u = bn_float_bits(f), sign = (u >> 16) & 0x8000u;
    uint32_t a = u & 0x7fffffffu, r;

    if (a > 0x7f800000u) /* NaN */
        r = 0x7e00u | ((a >> 13) & 0x3ffu);
    else if (a >= 0x477ff000u) /* rounds to 2^16 or more */
        r = 0x7c00u;
    else if (a >= 0x38800000u) /* normal */
        r = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
    else /* denormal: adding 1/2 leaves units of 2^-24 in the low bits */
        r = bn_float_bits(bn_bits_float(a) + 0.5f) - 0x3f000000u;
    return (uint16_t)(sign | r);
}

/* The float next to d such that rounding it again to fewer bits gives what
 * rounding d at once would: toward zero, with the last bit set if inexact. */
static inline float bn_double_to_odd(double d)
{
    float f = (float)d;

    if (!(fabs(d) <= 0x1.fffffep127) || (double)f == d)
        return f;
    if (fabs((double)f) > fabs(d))
        f = bn_bits_float(bn_float_bits(f) - 1);
    return bn_bits_float(bn_float_bits(f) | 1u);
}

/* Element i of an array of type t (F32 or BF16). */
static inline float bn_get(enum bn_dtype t, const void *p, size_t i)
{
    return t == BN_F32 ? ((const float *)p)[i]
                       : bn_bf16_to_float(((const uint16_t *)p)[i]);
}

static inline void bn_put(enum bn_dtype t, void *p, size_t i, float f)
{
    if (t == BN_F32)
        ((float *)p)[i] = f;
    else
        ((uint16_t *)p)[i] = bn_float_to_bf16(f);
}

#endif
