#include "kernels/rows.h"
#include "kernels/cuda/cu.h"

enum { THREADS = 128 };

/* Rows of n pieces of type P, which are moved as they are. */
template <class P>
static __global__ void gather(P *y, const P *x, const int32_t *rows, int n)
{
    size_t to = (size_t)blockIdx.x * n, from = (size_t)rows[blockIdx.x] * n;

    for (int c = (int)threadIdx.x; c < n; c += THREADS)
        move(y + to + c, x + from + c);
}

template <class P>
static __global__ void scatter(P *y, const P *x, const int32_t *rows, int n)
{
    size_t to = (size_t)rows[blockIdx.x] * n, from = (size_t)blockIdx.x * n;

    for (int c = (int)threadIdx.x; c < n; c += THREADS)
        move(y + to + c, x + from + c);
}

template <class P>
static int launch(bool put, void *y, const void *x, const int32_t *rows,
                  int pieces, int n, void *stream)
{
    P *py = (P *)y;
    const P *px = (const P *)x;

    if (put)
        BN_LAUNCH(scatter<P>, (unsigned)n, THREADS, 0, stream, py, px, rows,
                  pieces);
    else
        BN_LAUNCH(gather<P>, (unsigned)n, THREADS, 0, stream, py, px, rows,
                  pieces);
    return status();
}

static int move_rows(bool put, enum bn_dtype t, void *y, const void *x,
                     const int32_t *rows, int cols, int n, void *stream)
{
    if (n == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        constexpr int V = 16 / sizeof(T);

        if (vector_rows<T>(y, cols) && vector_rows<T>(x, cols))
            return launch<uint4>(put, y, x, rows, cols / V, n, stream);
        return launch<T>(put, y, x, rows, cols, n, stream);
    });
}

int bn_gather_cuda(enum bn_dtype t, void *y, const void *x,
                   const int32_t *rows, int cols, int n, void *stream)
{
    return move_rows(false, t, y, x, rows, cols, n, stream);
}

int bn_scatter_cuda(enum bn_dtype t, void *dx, const void *dy,
                    const int32_t *rows, int cols, int n, void *stream)
{
    return move_rows(true, t, dx, dy, rows, cols, n, stream);
}
