#include "config.h"
#include "kernels/cast.h"
#include "kernels/number.h"

#include <stdbool.h>
#include <string.h>

static bool known(enum bn_dtype t)
{
    return t == BN_F32 || t == BN_BF16 || t == BN_F16 || t == BN_F64;
}

static double get(enum bn_dtype t, const void *p, size_t i)
{
    switch (t) {
    case BN_F64:
        return ((const double *)p)[i];
    case BN_F16:
        return bn_f16_to_float(((const uint16_t *)p)[i]);
    default:
        return bn_get(t, p, i);
    }
}

static void put(enum bn_dtype t, void *p, size_t i, double d)
{
    switch (t) {
    case BN_F64:
        ((double *)p)[i] = d;
        break;
    case BN_F32:
        ((float *)p)[i] = (float)d;
        break;
    case BN_F16:
        ((uint16_t *)p)[i] = bn_float_to_f16(bn_double_to_odd(d));
        break;
    default:
        ((uint16_t *)p)[i] = bn_float_to_bf16(bn_double_to_odd(d));
    }
}

int bn_cast_ref(void *dst, enum bn_dtype dst_type, const void *src,
                enum bn_dtype src_type, size_t n)
{
    if (dst_type == src_type) {
        memmove(dst, src, n * bn_dtype_size(dst_type));
        return 0;
    }
    if (!known(dst_type) || !known(src_type))
        return -1;
    for (size_t i = 0; i < n; i++)
        put(dst_type, dst, i, get(src_type, src, i));
    return 0;
}
