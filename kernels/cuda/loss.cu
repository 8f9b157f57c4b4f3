#include "kernels/loss.h"
#include "kernels/cuda/cu.h"

enum { THREADS = 64 };

struct loss_args {
    bn_loss_kind kind;
    bn_loss_params p;
    bn_loss_seqs s;
    const bn_loss_denom *denom;
    double *dlogp;
    bn_loss_acc *acc;
    int batch, first;
};

static __device__ void evaluate(const loss_args &a, int example,
                                bn_loss_share *share)
{
    int group = bn_loss_group(a.kind), i = example * group;
    bn_loss_example e = {{0}, {0}, {0}, {0}};
    bn_loss_denom d = {0, 0};

    if (a.kind != BN_LOSS_NONE)
        d = *a.denom;
    for (int k = 0; k < group; k++) {
        e.logp[k] = a.s.logp[i + k];
        e.smooth[k] = a.s.smooth[i + k];
        e.hits[k] = a.s.hits[i + k];
        e.ntok[k] = a.s.ntok[i + k];
    }
    bn_loss_share_of(a.kind, &a.p, &e, &d, share);
    for (int k = 0; k < group && a.dlogp != NULL && a.kind != BN_LOSS_NONE; k++)
        a.dlogp[i + k] = share->fault != BN_LOSS_FINE
                             ? (double)__int_as_float(0x7fc00000)
                             : share->dlogp[k];
}

/* The first fault of these examples, by one thread. */
static __device__ void keep_fault(const loss_args &a,
                                  const bn_loss_share *share, int first, int n)
{
    int group = bn_loss_group(a.kind), i = 0;

    while (i < n && share[i].fault == BN_LOSS_FINE)
        i++;
    if (i == n || a.acc->fault != BN_LOSS_FINE)
        return;
    a.acc->fault = share[i].fault;
    a.acc->value = share[i].value;
    a.acc->batch = a.batch;
    a.acc->seq = a.first + (first + i) * group + share[i].at;
    a.acc->ntok = a.s.ntok[(first + i) * group + share[i].at];
    a.acc->taint = __int_as_float(0x7fc00000);
}

/* One block: examples are evaluated side by side, and their shares added by
 * one thread a metric, in order. */
static __global__ void loss(loss_args a)
{
    BN_SHARED(bn_loss_share, share, THREADS);
    int n = a.s.n / bn_loss_group(a.kind), t = (int)threadIdx.x;

    for (int at = 0; at < n; at += THREADS) {
        int m = n - at < THREADS ? n - at : (int)THREADS;

        if (t < m)
            evaluate(a, at + t, &share[t]);
        __syncthreads();
        if (a.acc != NULL) {
            for (int i = 0; i < m && t <= BN_LOSS_MAX_KEYS; i++) {
                if (share[i].fault != BN_LOSS_FINE)
                    continue;
                if (t < BN_LOSS_MAX_KEYS)
                    a.acc->metrics[t] += share[i].key[t];
                else
                    a.acc->clamped += share[i].clamped;
            }
            if (t == BN_LOSS_MAX_KEYS + 1)
                keep_fault(a, share, at, m);
        }
        __syncthreads();
    }
}

int bn_loss_cuda(enum bn_loss_kind kind, const struct bn_loss_params *p,
                 const struct bn_loss_seqs *s,
                 const struct bn_loss_denom *denom, double *dlogp,
                 struct bn_loss_acc *acc, int batch, int first, void *stream)
{
    loss_args a = {kind, {0, 0}, *s, denom, dlogp, acc, batch, first};

    if (s->n < bn_loss_group(kind))
        return 0;
    if (p != NULL)
        a.p = *p;
    BN_LAUNCH(loss, 1, THREADS, 0, stream, a);
    return status();
}
