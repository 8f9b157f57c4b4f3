/* For the references: elements as double, whatever they are stored as. */
#ifndef BN_KERNELS_REF_H
#define BN_KERNELS_REF_H

#include "kernels/number.h"

static inline double ref_get(enum bn_dtype t, const void *p, size_t i)
{
    return bn_get(t, p, i);
}

static inline void ref_put(enum bn_dtype t, void *p, size_t i, double d)
{
    if (t == BN_F32)
        ((float *)p)[i] = (float)d;
    else
        ((uint16_t *)p)[i] = bn_float_to_bf16(bn_double_to_odd(d));
}

#endif
