/* For the tests of CUDA kernels, on the emulator or on a device: memory that
 * is poisoned and freed with the test, random inputs, comparison.
 */
#ifndef BN_KERNELS_CUDA_TEST_GPU_H
#define BN_KERNELS_CUDA_TEST_GPU_H

#include <stdbool.h>

#include "base/dtype.h"
#include "base/tap.h"
#include "kernels/number.h"
#ifdef BN_EMU
#include "kernels/emu/emu.h"
#include "kernels/emu/runtime.h"
#else
#include <cuda_runtime_api.h>
#endif

/* Device memory with a copy of 'bytes' of host memory, or poisoned if that is
 * NULL. Lives until gpu_end. */
void *gpu_new(const void *host, size_t bytes);
/* Write again into memory of gpu_new. */
void gpu_put(void *dev, const void *host, size_t bytes);
void gpu_get(void *host, const void *dev, size_t bytes);
/* Wait, fail the test if anything on the device did, free all memory that
 * gpu_new and host_new gave, draw a new order of threads. */
void gpu_end(void);
/* Fail unless a launcher returned 0 and the device finished; names 'what'. */
void gpu_ok(int rc, const char *what);

/* Shared memory that a block may ask for. */
size_t gpu_shared(void);

/* Random numbers: the sequence is one of the whole program. */
unsigned rnd(unsigned n);
float rnd_normal(void);

/* n elements of type t in host memory, normal with that deviation, poisoned
 * if 0; freed by gpu_end. */
void *host_new(enum bn_dtype t, size_t n, float deviation);
/* And their copy on the device. */
void *gpu_copy(enum bn_dtype t, const void *host, size_t n);

/* Fail if n elements on the device differ from 'want' by more than
 *   rel * size + one step of t at 'want' (BF16 only),
 * where size is mag[i] (mag NULL: |want[i]|) */
void gpu_close(enum bn_dtype t, const void *dev, const void *want, size_t n,
               double rel, const float *mag, const char *what);
/* Fail unless equal as bytes. */
void gpu_same(const void *dev, const void *want, size_t bytes,
              const char *what);

/* sum a[i] b[i] of elements of type t */
double dot_of(enum bn_dtype t, const void *a, const void *b, size_t n);

static const enum bn_dtype both_types[] = {BN_F32, BN_BF16};

#endif
