#include "config.h"
#include "tensor/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* gcc vectorises at -O2 where it is told to, clang by itself; told to, it
 * warns where sanitizers keep it from doing so. */
#if defined(__clang__)
#define SIMD(pragma)
#else
#define SIMD(pragma) _Pragma(#pragma)
#endif

/* A format of at most 16 bits. */
struct fmt {
    int man;  /* mantissa bits */
    int bias; /* of the exponent */
    unsigned sign, inf; /* inf: first code above the finite ones */
    bool has_inf;       /* else 'inf' is the NaN */
};
static const struct fmt fmts[BN_NDTYPE] = {
    [BN_BF16] = {7, 127, 0x8000, 0x7f80, true},
    [BN_F16] = {10, 15, 0x8000, 0x7c00, true},
    [BN_F8_E4M3] = {3, 7, 0x80, 0x7f, false},
    [BN_F8_E5M2] = {2, 15, 0x80, 0x7c, true},
};

bool bn_dtype_is_float(enum bn_dtype t)
{
    return t <= BN_F8_E5M2;
}

/* Sources and destinations at any alignment. */
struct __attribute__((packed, may_alias)) u16 {
    uint16_t v;
};
struct __attribute__((packed, may_alias)) u32 {
    uint32_t v;
};
struct __attribute__((packed, may_alias)) u64 {
    uint64_t v;
};

static unsigned encode(const struct fmt *f, double x)
{
    uint64_t b;

    memcpy(&b, &x, 8);
    unsigned sign = b >> 63 ? f->sign : 0;
    int e = (int)(b >> 52 & 0x7ff) - 1023;
    uint64_t m = b & (((uint64_t)1 << 52) - 1);
    if (e == 1024 && m != 0) { /* NaN: keep the upper payload, quiet */
        if (!f->has_inf)
            return sign | f->inf;
        return sign | f->inf | (unsigned)(m >> (52 - f->man))
               | 1u << (f->man - 1);
    }
    if (e == 1024)
        return sign | f->inf;
    int emin = 1 - f->bias;
    int drop = 52 - f->man + (e < emin ? emin - e : 0);
    if (drop > 60) /* also the subnormals of double */
        return sign;
    m |= (uint64_t)1 << 52;
    uint64_t r = m >> drop, rest = m & (((uint64_t)1 << drop) - 1);
    uint64_t half = (uint64_t)1 << (drop - 1);
    r += rest > half || (rest == half && (r & 1));
    /* a carry out of the mantissa raises the exponent by itself */
    if (e > emin)
        r += (uint64_t)(e - emin) << f->man;
    return sign | (unsigned)(r < f->inf ? r : f->inf);
}

static double decode(const struct fmt *f, unsigned code)
{
    unsigned abs = code & (f->sign - 1);
    unsigned e = abs >> f->man, m = abs & ((1u << f->man) - 1);
    double x;

    if (f->has_inf ? abs > f->inf : abs == f->inf) {
        uint64_t b = (uint64_t)0x7ff8 << 48 | (uint64_t)m << (52 - f->man);

        memcpy(&x, &b, 8);
    } else if (abs == f->inf && f->has_inf) {
        x = INFINITY;
    } else if (e == 0) {
        x = ldexp(m, 1 - f->bias - f->man);
    } else {
        x = ldexp(m | 1u << f->man, (int)e - f->bias - f->man);
    }
    return code & f->sign ? -x : x;
}

uint16_t bn_f32_to_bf16(float x)
{
    uint32_t b;

    memcpy(&b, &x, 4);
    uint32_t round = b + 0x7fff + (b >> 16 & 1);
    return (uint16_t)((b & 0x7fffffff) > 0x7f800000 ? b >> 16 | 0x40
                                                    : round >> 16);
}

float bn_bf16_to_f32(uint16_t h)
{
    uint32_t b = (uint32_t)h << 16;
    float x;

    memcpy(&x, &b, 4);
    return x;
}

uint16_t bn_f32_to_f16(float x)
{
    return (uint16_t)encode(&fmts[BN_F16], x);
}

float bn_f16_to_f32(uint16_t h)
{
    return (float)decode(&fmts[BN_F16], h);
}

/* The two loops that matter to training: compiled once for any machine and
 * once for AVX2. */
static inline __attribute__((always_inline)) void
narrow_bf16(struct u16 *d, const struct u32 *s, size_t n)
{
    SIMD(omp simd)
    for (size_t i = 0; i < n; i++) {
        uint32_t b = s[i].v, abs = b & 0x7fffffff;
        uint32_t nan = -(uint32_t)(abs > 0x7f800000);
        uint32_t round = (b + 0x7fff + (b >> 16 & 1)) >> 16;

        d[i].v = (uint16_t)((round & ~nan) | ((b >> 16 | 0x40) & nan));
    }
}

static inline __attribute__((always_inline)) void
widen_bf16(struct u32 *d, const struct u16 *s, size_t n)
{
    SIMD(omp simd)
    for (size_t i = 0; i < n; i++)
        d[i].v = (uint32_t)s[i].v << 16;
}

#if defined(__x86_64__)
/* Every processor with AVX2 has F16C; not every compiler can ask for it. */
static bool have_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

__attribute__((target("avx2,f16c"))) static void
narrow_bf16_avx2(void *d, const void *s, size_t n)
{
    narrow_bf16(d, s, n);
}

__attribute__((target("avx2,f16c"))) static void
widen_bf16_avx2(void *d, const void *s, size_t n)
{
    widen_bf16(d, s, n);
}

/* Whole groups of 8; returns how many elements were done. */
__attribute__((target("avx2,f16c"))) static size_t
narrow_f16_avx2(struct u16 *d, const struct u32 *s, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 x = _mm256_loadu_ps((const float *)(const void *)(s + i));

        _mm_storeu_si128((__m128i *)(void *)(d + i),
                         _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
    return i;
}

__attribute__((target("avx2,f16c"))) static size_t
widen_f16_avx2(struct u32 *d, const struct u16 *s, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(s + i));

        _mm256_storeu_ps((float *)(void *)(d + i), _mm256_cvtph_ps(h));
    }
    return i;
}
#else
static bool have_avx2(void)
{
    return false;
}
static void narrow_bf16_avx2(void *d, const void *s, size_t n)
{
    narrow_bf16(d, s, n);
}
static void widen_bf16_avx2(void *d, const void *s, size_t n)
{
    widen_bf16(d, s, n);
}
static size_t narrow_f16_avx2(struct u16 *d, const struct u32 *s, size_t n)
{
    return (void)d, (void)s, (void)n, 0;
}
static size_t widen_f16_avx2(struct u32 *d, const struct u16 *s, size_t n)
{
    return (void)d, (void)s, (void)n, 0;
}
#endif

static double load(const void *src, enum bn_dtype type, size_t i)
{
    float f;
    double x;

    switch (type) {
    case BN_F64:
        memcpy(&x, (const char *)src + 8 * i, 8);
        return x;
    case BN_F32:
        memcpy(&f, (const char *)src + 4 * i, 4);
        return f;
    case BN_BF16:
    case BN_F16:
        return decode(&fmts[type], ((const struct u16 *)src)[i].v);
    default:
        return decode(&fmts[type], ((const unsigned char *)src)[i]);
    }
}

static void store(void *dst, enum bn_dtype type, size_t i, double x)
{
    float f = (float)x;

    switch (type) {
    case BN_F64:
        memcpy((char *)dst + 8 * i, &x, 8);
        break;
    case BN_F32:
        memcpy((char *)dst + 4 * i, &f, 4);
        break;
    case BN_BF16:
    case BN_F16:
        ((struct u16 *)dst)[i].v = (uint16_t)encode(&fmts[type], x);
        break;
    default:
        ((unsigned char *)dst)[i] = (unsigned char)encode(&fmts[type], x);
        break;
    }
}

void bn_convert(void *dst, enum bn_dtype dst_type, const void *src,
                enum bn_dtype src_type, size_t n)
{
    size_t i = 0;

    if (!bn_dtype_is_float(dst_type) || !bn_dtype_is_float(src_type))
        abort();
    if (dst_type == src_type) {
        memmove(dst, src, n * bn_dtype_size(src_type));
        return;
    }
    bool avx2 = have_avx2();
    if (src_type == BN_F32 && dst_type == BN_BF16) {
        if (avx2)
            narrow_bf16_avx2(dst, src, n);
        else
            narrow_bf16(dst, src, n);
        return;
    }
    if (src_type == BN_BF16 && dst_type == BN_F32) {
        if (avx2)
            widen_bf16_avx2(dst, src, n);
        else
            widen_bf16(dst, src, n);
        return;
    }
    if (avx2 && src_type == BN_F32 && dst_type == BN_F16)
        i = narrow_f16_avx2(dst, src, n);
    if (avx2 && src_type == BN_F16 && dst_type == BN_F32)
        i = widen_f16_avx2(dst, src, n);
    for (; i < n; i++)
        store(dst, dst_type, i, load(src, src_type, i));
}

/* The value's bits without the sign, and what they are for infinity. */
static uint64_t abs_bits(const void *src, enum bn_dtype type, size_t i)
{
    switch (bn_dtype_size(type)) {
    case 8:
        return ((const struct u64 *)src)[i].v & INT64_MAX;
    case 4:
        return ((const struct u32 *)src)[i].v & INT32_MAX;
    case 2:
        return ((const struct u16 *)src)[i].v & INT16_MAX;
    default:
        return ((const unsigned char *)src)[i] & INT8_MAX;
    }
}

static uint64_t inf_bits(enum bn_dtype type)
{
    return type == BN_F64   ? (uint64_t)0x7ff << 52
           : type == BN_F32 ? 0x7f800000
                            : fmts[type].inf;
}

/* Whether any of a run has bits at or above 'inf'. */
static bool any_above(const void *src, enum bn_dtype type, size_t first,
                      size_t n, uint64_t inf)
{
    unsigned bad = 0;

    if (bn_dtype_size(type) == 4) {
        const struct u32 *s = (const struct u32 *)src + first;
        SIMD(omp simd reduction(| : bad))
        for (size_t i = 0; i < n; i++)
            bad |= (s[i].v & INT32_MAX) >= (uint32_t)inf;
    } else if (bn_dtype_size(type) == 2) {
        const struct u16 *s = (const struct u16 *)src + first;
        SIMD(omp simd reduction(| : bad))
        for (size_t i = 0; i < n; i++)
            bad |= (s[i].v & INT16_MAX) >= (uint16_t)inf;
    } else {
        for (size_t i = 0; i < n; i++)
            bad |= abs_bits(src, type, first + i) >= inf;
    }
    return bad;
}

size_t bn_find_nonfinite(const void *src, enum bn_dtype type, size_t n)
{
    enum { BLOCK = 4096 };
    uint64_t inf = inf_bits(type);

    for (size_t at = 0; at < n; at += BLOCK) {
        size_t len = n - at < BLOCK ? n - at : BLOCK;

        if (!any_above(src, type, at, len, inf))
            continue;
        while (abs_bits(src, type, at) < inf)
            at++;
        return at;
    }
    return n;
}

bool bn_all_zero(const void *src, enum bn_dtype type, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (abs_bits(src, type, i) != 0)
            return false;
    return true;
}
