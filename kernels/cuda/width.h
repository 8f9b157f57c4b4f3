/* For launchers whose kernels come in two widths: by 16-byte accesses where
 * addresses allow, and element by element.
 */
#ifndef BN_KERNELS_CUDA_WIDTH_H
#define BN_KERNELS_CUDA_WIDTH_H

#include <type_traits>

#include "kernels/cuda/cu.h"

/* f(v), with V = decltype(v)::value elements a thread at a time: those of 16
 * bytes of T if 'wide', else 1. f launches; returns how that went. */
template <class T, class F> static inline int with_width(bool wide, F f)
{
    if (wide)
        f(std::integral_constant<int, 16 / sizeof(T)>());
    else
        f(std::integral_constant<int, 1>());
    return status();
}

#endif
