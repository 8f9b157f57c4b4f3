/* Graphs: what is enqueued once, to be launched again with other inputs. */
#include "config.h"
#include "ops/cuda_state.h"

#include <stdlib.h>

#include "base/mem.h"
#include "kernels/cast.h"

/* One from_host of the recording: where it goes, and from where in 'in'. */
struct fed {
    void *dst;
    enum bn_dtype type;
    size_t n, at;
};

struct bn_graph {
    cudaGraphExec_t exec; /* NULL: not recorded yet */
    cudaEvent_t done;     /* of the last launch */
    char *in;             /* pinned: all that from_host copies */
    size_t room, used;
    struct fed *fed;
    size_t nfed, cap, next; /* next: the one whose turn it is */
};

enum { ALIGN = 256 };

size_t bn_cuda_graph_room(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void graph_destroy(struct bn_dev *d, struct bn_graph *g)
{
    (void)d;
    if (g == NULL)
        return;
    if (g->exec != NULL)
        (void)cudaGraphExecDestroy(g->exec);
    if (g->done != NULL)
        (void)cudaEventDestroy(g->done);
    (void)cudaFreeHost(g->in);
    free(g->fed);
    free(g);
}

static struct bn_graph *graph_create(struct bn_dev *d, size_t room,
                                     struct bn_err *err)
{
    struct bn_graph *g = BN_NEW(struct bn_graph);
    void *p = NULL;
    cudaError_t e = cudaMallocHost(&p, room > 0 ? room : ALIGN);

    g->in = p;
    g->room = room;
    if (e == cudaSuccess)
        e = cudaEventCreateWithFlags(&g->done, cudaEventDisableTiming);
    if (e == cudaSuccess)
        return g;
    (void)cudaGetLastError();
    graph_destroy(d, g);
    bn_fail(err, BN_ERR_USAGE, "cannot pin %zu bytes for a graph on rank %d: "
            "%s", room, bn_cuda_of(d)->o.rank, cudaGetErrorName(e));
    return NULL;
}

static void graph_begin(struct bn_dev *d, struct bn_graph *g, bool record)
{
    struct bn_cuda *s = bn_cuda_of(d);
    cudaError_t e = cudaSuccess;

    s->graph = g;
    s->recording = record;
    g->next = 0;
    if (record) {
        g->nfed = g->used = 0;
        e = cudaStreamBeginCapture(s->stream,
                                   cudaStreamCaptureModeThreadLocal);
    } else {
        /* What it read last may still be on its way. */
        e = cudaEventQuery(g->done);
        if (e == cudaErrorNotReady)
            e = cudaEventSynchronize(g->done);
    }
    if (e != cudaSuccess)
        bn_cuda_failed(d, e, "the beginning of a graph");
}

/* The place of the next copy while the graph is recorded; NULL on failure. */
static struct fed *record(struct bn_dev *d, struct bn_graph *g, void *dst,
                          enum bn_dtype type, size_t n)
{
    size_t room = bn_cuda_graph_room(n * bn_dtype_size(type));

    if (g->used + room > g->room) {
        bn_dev_fail(d, BN_ERR_BUG, "a graph with room for %zu bytes of input "
                    "is given more", g->room);
        return NULL;
    }
    bn_grow(&g->fed, &g->cap, g->nfed + 1, sizeof(*g->fed));
    g->fed[g->nfed] = (struct fed){dst, type, n, g->used};
    g->used += room;
    return &g->fed[g->nfed++];
}

/* And when it is launched again. */
static struct fed *again(struct bn_dev *d, struct bn_graph *g, void *dst,
                         enum bn_dtype type, size_t n)
{
    struct fed *f = g->next < g->nfed ? &g->fed[g->next] : NULL;

    if (f == NULL || f->dst != dst || f->type != type || f->n != n) {
        bn_dev_fail(d, BN_ERR_BUG, "input %zu of a graph is not what it was "
                    "when it was recorded", g->next);
        return NULL;
    }
    g->next++;
    return f;
}

void bn_cuda_graph_feed(struct bn_dev *d, void *dst, enum bn_dtype dst_type,
                        const void *host_src, enum bn_dtype src_type,
                        size_t n)
{
    struct bn_cuda *s = bn_cuda_of(d);
    struct bn_graph *g = s->graph;
    size_t bytes = n * bn_dtype_size(dst_type);
    struct fed *f;

    if (d->failed || n == 0)
        return;
    f = s->recording ? record(d, g, dst, dst_type, n)
                     : again(d, g, dst, dst_type, n);
    if (f == NULL)
        return;
    if (bn_cast_cpu(g->in + f->at, dst_type, host_src, src_type, n) < 0) {
        bn_dev_fail(d, BN_ERR_BUG, "no conversion from %s to %s",
                    bn_dtype_name(src_type), bn_dtype_name(dst_type));
        return;
    }
    s->sent += bytes;
    cudaError_t e = s->recording
                        ? cudaMemcpyAsync(dst, g->in + f->at, bytes,
                                          cudaMemcpyHostToDevice, s->stream)
                        : cudaSuccess;
    if (e != cudaSuccess)
        bn_cuda_failed(d, e, "copy to the device");
}

bool bn_cuda_may_wait(struct bn_dev *d, const char *what)
{
    if (!d->failed && bn_cuda_of(d)->graph != NULL)
        bn_dev_fail(d, BN_ERR_BUG, "%s in the middle of a graph", what);
    else if (!d->failed && d->queueing)
        bn_dev_fail(d, BN_ERR_BUG, "%s in the middle of a step", what);
    return !d->failed;
}

/* End the recording; the graph is ready to be launched. */
static void finish(struct bn_dev *d, struct bn_graph *g)
{
    cudaGraph_t graph = NULL;
    cudaError_t e = cudaStreamEndCapture(bn_cuda_of(d)->stream, &graph);

    if (e == cudaSuccess && !d->failed)
        e = cudaGraphInstantiate(&g->exec, graph, 0);
    if (graph != NULL)
        (void)cudaGraphDestroy(graph);
    if (e != cudaSuccess)
        bn_cuda_failed(d, e, "recording a graph");
}

static void graph_end(struct bn_dev *d, struct bn_graph *g, bool launch)
{
    struct bn_cuda *s = bn_cuda_of(d);
    cudaError_t e;

    if (s->recording)
        finish(d, g);
    else if (launch && !d->failed && g->next != g->nfed)
        bn_dev_fail(d, BN_ERR_BUG, "a graph is given %zu inputs, and was "
                    "recorded with %zu", g->next, g->nfed);
    s->graph = NULL;
    s->recording = false;
    if (!launch || d->failed)
        return;
    e = cudaGraphLaunch(g->exec, s->stream);
    if (e == cudaSuccess)
        e = cudaEventRecord(g->done, s->stream);
    if (e == cudaSuccess)
        e = cudaEventRecord(s->mailed, s->stream);
    if (e != cudaSuccess)
        bn_cuda_failed(d, e, "launch of a graph");
}

void bn_cuda_graph_slots(struct bn_ops *op)
{
    op->graph_create = graph_create;
    op->graph_destroy = graph_destroy;
    op->graph_begin = graph_begin;
    op->graph_end = graph_end;
}
