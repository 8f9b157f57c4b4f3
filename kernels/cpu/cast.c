#include "config.h"
#include "kernels/cast.h"
#include "kernels/cpu/cpu.h"

#include <stdbool.h>

BN_CPU_DECLARE(cast);

/* Elements of one piece of work. */
enum { BLOCK = 16384 };

BN_INLINE double wide(enum bn_dtype t, const void *p, size_t i)
{
    return t == BN_F64   ? ((const double *)p)[i]
           : t == BN_F16 ? bn_f16_to_float(((const uint16_t *)p)[i])
                         : bn_get(t, p, i);
}

BN_INLINE float narrow(enum bn_dtype t, const void *p, size_t i)
{
    return t == BN_F64   ? bn_double_to_odd(((const double *)p)[i])
           : t == BN_F16 ? bn_f16_to_float(((const uint16_t *)p)[i])
                         : bn_get(t, p, i);
}

BN_INLINE void convert(void *dst, enum bn_dtype dt, const void *src,
                       enum bn_dtype st, size_t from, size_t to)
{
    if (dt == BN_F64) {
#pragma omp simd
        for (size_t i = from; i < to; i++)
            ((double *)dst)[i] = wide(st, src, i);
    } else if (dt == BN_F32) {
#pragma omp simd
        for (size_t i = from; i < to; i++)
            ((float *)dst)[i] = st == BN_F64 ? (float)((const double *)src)[i]
                                             : narrow(st, src, i);
    } else if (dt == BN_F16) {
#pragma omp simd
        for (size_t i = from; i < to; i++)
            ((uint16_t *)dst)[i] = bn_float_to_f16(narrow(st, src, i));
    } else {
#pragma omp simd
        for (size_t i = from; i < to; i++)
            ((uint16_t *)dst)[i] = bn_float_to_bf16(narrow(st, src, i));
    }
}

static void piece(void *dst, enum bn_dtype dt, const void *src,
                  enum bn_dtype st, size_t from, size_t to)
{
    if (dt == BN_BF16 && st == BN_F32)
        convert(dst, BN_BF16, src, BN_F32, from, to);
    else if (dt == BN_F32 && st == BN_BF16)
        convert(dst, BN_F32, src, BN_BF16, from, to);
    else
        convert(dst, dt, src, st, from, to);
}

static bool known(enum bn_dtype t)
{
    return t == BN_F32 || t == BN_BF16 || t == BN_F16 || t == BN_F64;
}

int BN_CPU(cast)(void *dst, enum bn_dtype dst_type, const void *src,
                 enum bn_dtype src_type, size_t n)
{
    size_t size = bn_dtype_size(dst_type);
    bool same = dst_type == src_type;

    if (!same && (!known(dst_type) || !known(src_type)))
        return -1;
    if (dst == src)
        return 0;
#pragma omp parallel for schedule(static) if (n > BLOCK)
    for (size_t from = 0; from < n; from += BLOCK) {
        size_t to = from + BLOCK < n ? from + BLOCK : n;

        if (same)
            memcpy((char *)dst + from * size, (const char *)src + from * size,
                   (to - from) * size);
        else
            piece(dst, dst_type, src, src_type, from, to);
    }
    return 0;
}
