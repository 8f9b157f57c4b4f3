#include "kernels/adamw.h"
#include "kernels/cuda/cu.h"

enum { THREADS = 256 };

struct element {
    float p, m, v;
};

/* Division and square root are rounded correctly: nvcc's default. */
static __device__ __forceinline__ void step(element *e, const bn_adamw &a,
                                            const bn_adamw_now &now, float g,
                                            float root)
{
    e->p *= 1.0f - now.lr * a.weight_decay;
    e->m = a.beta1 * e->m + (1.0f - a.beta1) * g;
    e->v = a.beta2 * e->v + (1.0f - a.beta2) * g * g;
    e->p -= now.lr / now.bias1 * e->m / (sqrtf(e->v) / root + a.eps);
}

template <class T, int V>
static __global__ void adamw(bn_adamw a, T *w, float *master, float *m,
                             float *v, const float *grad,
                             const bn_adamw_now *now_, size_t n)
{
    size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * V;
    bn_adamw_now now = *now_;
    float k = now.scale, root = sqrtf(now.bias2);
    float p[V], m_[V], v_[V], g[V];

    if (isnan(k) || i >= n)
        return;
    if (i + V > n) {
        for (; i < n; i++) {
            element e = {master[i], m[i], v[i]};

            step(&e, a, now, grad[i] * k, root);
            master[i] = e.p;
            m[i] = e.m;
            v[i] = e.v;
            if (w != NULL)
                from_float(w[i], e.p);
        }
        return;
    }
    load(p, master + i);
    load(m_, m + i);
    load(v_, v + i);
    load(g, grad + i);
    BN_UNROLL
    for (int j = 0; j < V; j++) {
        element e = {p[j], m_[j], v_[j]};

        step(&e, a, now, g[j] * k, root);
        p[j] = e.p;
        m_[j] = e.m;
        v_[j] = e.v;
    }
    store(master + i, p);
    store(m + i, m_);
    store(v + i, v_);
    if (w != NULL)
        store(w + i, p);
}

int bn_adamw_cuda(enum bn_dtype t, const struct bn_adamw *a, void *w,
                  float *master, float *m, float *v, const float *grad,
                  const struct bn_adamw_now *now, size_t n,
                  void *stream)
{
    if (n == 0)
        return 0;
    if (w == master)
        w = NULL;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        constexpr int V = 4;
        struct bn_adamw par = *a;
        T *pw = (T *)w;
        bool wide = (uintptr_t)w % (V * sizeof(T)) == 0
                    && vector_rows<float>(master, 0)
                    && vector_rows<float>(m, 0) && vector_rows<float>(v, 0)
                    && vector_rows<float>(grad, 0);

        if (wide) {
            unsigned blocks = blocks_for(n, THREADS * V);

            BN_LAUNCH((adamw<T, V>), blocks, THREADS, 0, stream, par, pw,
                      master, m, v, grad, now, n);
        } else {
            unsigned blocks = blocks_for(n, THREADS);

            BN_LAUNCH((adamw<T, 1>), blocks, THREADS, 0, stream, par, pw,
                      master, m, v, grad, now, n);
        }
        return status();
    });
}
