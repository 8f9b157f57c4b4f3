/* One call of NCCL, on device memory, and on host memory in pieces. */
#include "config.h"
#include "comm/nccl_state.h"

#include <stdbool.h>
#include <string.h>

/* --- Calls on device memory ---------------------------------------------- */

static ncclResult_t send_and_receive(ncclComm_t comm,
                                     const struct bn_nccl_call *k,
                                     cudaStream_t stream)
{
    ncclResult_t r = ncclGroupStart(), end;

    if (r == ncclSuccess && k->to >= 0)
        r = ncclSend(k->in, k->n, ncclInt8, k->to, comm, stream);
    if ((r == ncclSuccess || r == ncclInProgress) && k->from >= 0)
        r = ncclRecv(k->out, k->n_out, ncclInt8, k->from, comm, stream);
    end = ncclGroupEnd();
    return r == ncclSuccess || r == ncclInProgress ? end : r;
}

/* Every rank's piece to all, at once. */
static ncclResult_t gather(const struct bn_nccl_group *g,
                           const struct bn_nccl_call *k, cudaStream_t stream)
{
    ncclResult_t r = ncclGroupStart(), end;

    for (int i = 0; i < g->size && (r == ncclSuccess || r == ncclInProgress);
         i++) {
        char *piece = (char *)k->out + (size_t)i * k->stride;

        r = ncclBroadcast(piece, piece, k->n, ncclInt8, i, g->comm, stream);
    }
    end = ncclGroupEnd();
    return r == ncclSuccess || r == ncclInProgress ? end : r;
}

static ncclResult_t issue(const struct bn_nccl_group *g,
                          const struct bn_nccl_call *k, cudaStream_t stream)
{
    ncclComm_t comm = g->comm;

    switch (k->kind) {
    case BN_NCCL_ALLREDUCE:
        return ncclAllReduce(k->in, k->out, k->n, k->type, k->op, comm, stream);
    case BN_NCCL_REDUCE_SCATTER:
        return ncclReduceScatter(k->in, k->out, k->n, k->type, ncclSum, comm,
                                 stream);
    case BN_NCCL_REDUCE:
        return ncclReduce(k->in, k->out, k->n, k->type, ncclSum, k->from, comm,
                          stream);
    case BN_NCCL_ALLGATHER:
        return ncclAllGather(k->in, k->out, k->n, ncclInt8, comm, stream);
    case BN_NCCL_BCAST:
        return ncclBroadcast(k->in, k->out, k->n, ncclInt8, k->from, comm,
                             stream);
    case BN_NCCL_SENDRECV:
        return send_and_receive(comm, k, stream);
    case BN_NCCL_GATHER:
        return gather(g, k, stream);
    }
    return ncclInvalidArgument;
}

int bn_nccl_enqueue(struct bn_nccl_group *g, const struct bn_nccl_call *k,
                    struct bn_err *err)
{
    if (bn_nccl_begin(g, k->what, k->later, err) < 0)
        return -1;
    return bn_nccl_done(g, issue(g, k, k->later ? g->w->side : g->w->stream),
                        err);
}

/* --- Host memory, a piece at a time -------------------------------------- */

static char *stage_in(const struct bn_nccl *w)
{
    return w->stage;
}

static char *stage_out(const struct bn_nccl *w)
{
    return w->stage + BN_NCCL_STAGE;
}

/* Run 'k' on the first 'in' bytes of the stage, and wait for 'out' bytes. */
static int run_staged(struct bn_nccl_group *g, struct bn_nccl_call *k,
                      size_t in, size_t out, struct bn_err *err)
{
    struct bn_nccl *w = g->w;
    cudaError_t e = cudaSuccess;

    if (w->dev->queueing)
        return bn_fail(err, BN_ERR_BUG, "%s of host memory in the middle of a "
                       "step", k->what);
    k->in = w->scratch;
    k->out = w->scratch + BN_NCCL_STAGE;
    if (in > 0)
        e = cudaMemcpyAsync(w->scratch, stage_in(w), in, cudaMemcpyHostToDevice,
                            w->stream);
    if (e == cudaSuccess && bn_nccl_enqueue(g, k, err) < 0)
        return -1;
    if (e == cudaSuccess && out > 0)
        e = cudaMemcpyAsync(stage_out(w), k->out, out, cudaMemcpyDeviceToHost,
                            w->stream);
    if (bn_nccl_wait(w, err) < 0)
        return -1;
    return e == cudaSuccess
               ? 0
               : bn_fail(err, BN_ERR_BUG, "%s: copy of host memory: %s",
                         k->what, cudaGetErrorString(e));
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

int bn_nccl_host_allreduce(struct bn_nccl_group *g, struct bn_nccl_call *k,
                           char *buf, size_t n, size_t es, struct bn_err *err)
{
    size_t piece = BN_NCCL_STAGE / es;

    for (size_t at = 0; at < n; at += piece) {
        k->n = least(n - at, piece);
        memcpy(stage_in(g->w), buf + at * es, k->n * es);
        if (run_staged(g, k, k->n * es, k->n * es, err) < 0)
            return -1;
        memcpy(buf + at * es, stage_out(g->w), k->n * es);
    }
    return 0;
}

int bn_nccl_host_reduce_scatter(struct bn_nccl_group *g, struct bn_nccl_call *k,
                                char *out, const char *in, size_t n, size_t es,
                                struct bn_err *err)
{
    size_t size = (size_t)g->size, piece = BN_NCCL_STAGE / es / size;

    for (size_t at = 0; at < n; at += piece) {
        k->n = least(n - at, piece);
        for (size_t r = 0; r < size; r++)
            memcpy(stage_in(g->w) + r * k->n * es, in + (r * n + at) * es,
                   k->n * es);
        if (run_staged(g, k, size * k->n * es, k->n * es, err) < 0)
            return -1;
        memcpy(out + at * es, stage_out(g->w), k->n * es);
    }
    return 0;
}

int bn_nccl_host_reduce(struct bn_nccl_group *g, struct bn_nccl_call *k,
                        char *out, const char *in, size_t n, size_t es,
                        struct bn_err *err)
{
    size_t piece = BN_NCCL_STAGE / es;
    bool root = g->rank == k->from;

    for (size_t at = 0; at < n; at += piece) {
        k->n = least(n - at, piece);
        memcpy(stage_in(g->w), in + at * es, k->n * es);
        if (run_staged(g, k, k->n * es, root ? k->n * es : 0, err) < 0)
            return -1;
        if (root)
            memcpy(out + at * es, stage_out(g->w), k->n * es);
    }
    return 0;
}

int bn_nccl_host_allgather(struct bn_nccl_group *g, struct bn_nccl_call *k,
                           char *out, const char *in, size_t bytes,
                           struct bn_err *err)
{
    size_t size = (size_t)g->size, piece = BN_NCCL_STAGE / size;

    for (size_t at = 0; at < bytes; at += piece) {
        k->n = least(bytes - at, piece);
        memcpy(stage_in(g->w), in + at, k->n);
        if (run_staged(g, k, k->n, size * k->n, err) < 0)
            return -1;
        for (size_t r = 0; r < size; r++)
            memcpy(out + r * bytes + at, stage_out(g->w) + r * k->n, k->n);
    }
    return 0;
}

int bn_nccl_host_bcast(struct bn_nccl_group *g, struct bn_nccl_call *k,
                       char *buf, size_t bytes, struct bn_err *err)
{
    bool root = g->rank == k->from;

    for (size_t at = 0; at < bytes; at += BN_NCCL_STAGE) {
        k->n = least(bytes - at, BN_NCCL_STAGE);
        if (root)
            memcpy(stage_in(g->w), buf + at, k->n);
        if (run_staged(g, k, root ? k->n : 0, root ? 0 : k->n, err) < 0)
            return -1;
        if (!root)
            memcpy(buf + at, stage_out(g->w), k->n);
    }
    return 0;
}

/* Both ends cut a message at the same places. */
int bn_nccl_host_sendrecv(struct bn_nccl_group *g, struct bn_nccl_call *k,
                          const char *out, size_t out_bytes, char *in,
                          size_t in_bytes, struct bn_err *err)
{
    const struct bn_nccl_call whole = *k;

    for (size_t at = 0; at < out_bytes || at < in_bytes; at += BN_NCCL_STAGE) {
        k->n = at < out_bytes ? least(out_bytes - at, BN_NCCL_STAGE) : 0;
        k->n_out = at < in_bytes ? least(in_bytes - at, BN_NCCL_STAGE) : 0;
        k->to = k->n > 0 ? whole.to : -1;
        k->from = k->n_out > 0 ? whole.from : -1;
        if (k->n > 0)
            memcpy(stage_in(g->w), out + at, k->n);
        if (run_staged(g, k, k->n, k->n_out, err) < 0)
            return -1;
        if (k->n_out > 0)
            memcpy(in + at, stage_out(g->w), k->n_out);
    }
    return 0;
}
