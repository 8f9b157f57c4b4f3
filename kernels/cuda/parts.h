/* Gradients of parameters: sums over rows, in groups of rows whose partial
 * sums are then added in order, so that the bits do not depend on timing.
 */
#ifndef BN_KERNELS_CUDA_PARTS_H
#define BN_KERNELS_CUDA_PARTS_H

#include "kernels/cuda/cu.h"

/* Rows of group p of 'parts'. */
static __device__ __forceinline__ int part_begin(int p, int parts, int n)
{
    return (int)((long long)n * p / parts);
}

/* d[c] += work[0, c] + work[1, c] + ... */
static __global__ void add_parts(float *d, const float *work, int parts,
                                 int cols)
{
    int c = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    float s = 0;

    if (c >= cols)
        return;
    for (int p = 0; p < parts; p++)
        s += work[(size_t)p * cols + c];
    d[c] += s;
}
static inline void launch_add_parts(float *d, const float *work, int parts,
                                    int cols, void *stream)
{
    unsigned blocks = blocks_for((size_t)cols, 64);

    BN_LAUNCH(add_parts, blocks, 64, 0, stream, d, work, parts, cols);
}

#endif
