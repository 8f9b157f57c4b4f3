#include "config.h"
#include "kernels/emu/graph.h"
#include "kernels/emu/state.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A place in a stream: behind the work number 'number'. */
struct place {
    struct bn_emu_stream *stream; /* NULL: nothing to wait for */
    uint64_t number;
};
struct bn_emu_stream {
    struct bn_emu_graph *graph; /* not NULL: it is captured into that */
    uint64_t put, done; /* work of others: how much came, how much is over */
    struct bn_emu_work work; /* number 'put', while done < put */
    bool finishing;          /* it is over, and its results are under way */
    struct place after; /* of another stream, which this one waits for */
    struct bn_emu_graph *queue; /* what was put off, by this thread */
    pthread_t owner;
    uint64_t queued, ran;
    bool draining;
    struct bn_emu_stream *next;
};
struct bn_emu_event {
    struct timespec at;
    struct place place;
    bool captured; /* recorded in a capture: no time of this run */
    struct bn_emu_stream *stream; /* NULL: not recorded yet */
    uint64_t queued;              /* on it before */
    bool asked;
};
static cudaError_t last;
static bool capturing, spoilt;
static int devices = 1, device_in_use, capability[2] = {8, 0};
static bool no_kernels, lazy;
struct bn_emu_calls bn_emu_counted;
/* Streams with their work and events: queried by threads that watch. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bn_emu_stream *streams;

cudaError_t bn_emu_ret(cudaError_t e)
{
    if (e != cudaSuccess)
        last = e;
    return e;
}

cudaError_t bn_emu_forbidden(const char *what)
{
    if (!capturing)
        return cudaSuccess;
    bn_emu_note("%s while a stream is captured", what);
    spoilt = true;
    return bn_emu_ret(cudaErrorStreamCaptureUnsupported);
}

void bn_emu_set_devices(int count)
{
    devices = count;
}

void bn_emu_set_capability(int major, int minor)
{
    capability[0] = major;
    capability[1] = minor;
}

void bn_emu_set_kernels(bool there)
{
    no_kernels = !there;
}

int bn_emu_look_for(void)
{
    return (int)(no_kernels ? bn_emu_ret(cudaErrorNoKernelImageForDevice)
                            : cudaSuccess);
}

static bool errors_come_late;
static cudaError_t late; /* of a kernel before; stays */

void bn_emu_set_late(bool on)
{
    errors_come_late = on;
    late = cudaSuccess;
}

struct bn_emu_calls bn_emu_calls(void)
{
    return bn_emu_counted;
}

/* --- work of others ----------------------------------------------------- */

static bool alive(const struct bn_emu_stream *s)
{
    const struct bn_emu_stream *at = streams;

    while (at != NULL && at != s)
        at = at->next;
    return at != NULL;
}

/* With the lock held. A stream that is gone has done its work. */
static bool passed(const struct place *p)
{
    const struct bn_emu_stream *s = p->stream;

    return s == NULL || !alive(s) || s->done >= p->number
           || (s->put == p->number && !s->finishing
               && s->work.ready(s->work.arg));
}

/* Put the results of what is over in place; true if all of it is. */
static bool settled(struct bn_emu_stream *s, uint64_t number)
{
    struct bn_emu_work work = {0};

    pthread_mutex_lock(&lock);
    bool over = !alive(s) || s->done >= number;
    if (!over && s->work.ready(s->work.arg)) {
        work = s->work;
        s->finishing = true; /* 'finish' ends what 'ready' looks at */
    }
    pthread_mutex_unlock(&lock);
    if (work.ready == NULL)
        return over;
    bn_emu_open_some();
    work.finish(work.arg);
    bn_emu_close();
    pthread_mutex_lock(&lock);
    s->done = s->put;
    s->finishing = false;
    pthread_mutex_unlock(&lock);
    return true;
}

/* What was put off comes after the work of others. */
static void drain(struct bn_emu_stream *s)
{
    if (s->ran == s->queued || s->draining
        || !pthread_equal(s->owner, pthread_self()))
        return;
    s->draining = true;
    bn_emu_graph_drain(s->queue);
    s->draining = false;
    s->ran = s->queued;
}

bool bn_emu_stream_idle(cudaStream_t stream)
{
    if (stream == NULL)
        return true;
    if (stream->after.stream != NULL
        && !settled(stream->after.stream, stream->after.number))
        return false;
    stream->after.stream = NULL;
    if (!settled(stream, stream->put))
        return false;
    drain(stream);
    return true;
}

void bn_emu_drain_all(void)
{
    for (struct bn_emu_stream *s = streams; s != NULL; s = s->next)
        if (s->ran < s->queued && !s->draining)
            bn_emu_stream_wait(s);
}

void bn_emu_set_lazy(bool on)
{
    bn_emu_drain_all();
    lazy = on;
}

void bn_emu_stream_put(cudaStream_t stream, const struct bn_emu_work *work)
{
    pthread_mutex_lock(&lock);
    if (stream->done < stream->put)
        abort();
    stream->work = *work;
    stream->put++;
    pthread_mutex_unlock(&lock);
}

/* Many ranks share few processors: longer naps the longer it takes. */
static void nap(struct timespec *t)
{
    nanosleep(t, NULL);
    if (t->tv_nsec < 1000000)
        t->tv_nsec += t->tv_nsec / 8;
}

void bn_emu_stream_wait(cudaStream_t s)
{
    struct timespec t = {.tv_nsec = 20000};

    while (!bn_emu_stream_idle(s))
        nap(&t);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = devices;
    return devices > 0 ? cudaSuccess : bn_emu_ret(cudaErrorInsufficientDriver);
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= devices)
        return bn_emu_ret(cudaErrorInvalidDevice);
    device_in_use = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = device_in_use;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr,
                                   int device)
{
    if (device < 0 || device >= devices)
        return bn_emu_ret(cudaErrorInvalidDevice);
    switch (attr) {
    case cudaDevAttrMultiProcessorCount:
        *value = 4;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = capability[0];
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = capability[1];
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)bn_emu_shared_most();
        return cudaSuccess;
    }
    return bn_emu_ret(cudaErrorInvalidValue);
}

enum { TOTAL_MIB = 8192 };

void bn_emu_tell_allocation(const char *domain, size_t size)
{
    const char *path = getenv("BURNISH_EMU_ALLOCATIONS");
    FILE *f = path != NULL ? fopen(path, "ae") : NULL;

    if (f == NULL)
        return;
    fprintf(f, "%s %zu\n", domain, size);
    fclose(f);
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *total = (size_t)TOTAL_MIB << 20;
    *available = *total - bn_emu_allocated();
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t size)
{
    if (bn_emu_forbidden("cudaMalloc") != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    bn_emu_counted.mallocs++;
    bn_emu_tell_allocation("device", size);
    *p = NULL;
    if (size == 0)
        return cudaSuccess;
    if (size <= ((size_t)TOTAL_MIB << 20) - bn_emu_allocated())
        *p = bn_emu_malloc(size);
    return *p != NULL ? cudaSuccess : bn_emu_ret(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *p)
{
    if (bn_emu_forbidden("cudaFree") != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    bn_emu_drain_all();
    if (p == NULL || bn_emu_free(p) == 0)
        return cudaSuccess;
    return bn_emu_ret(cudaErrorInvalidValue);
}

/* Where calls of a stream are kept; NULL: they are made at once. */
static struct bn_emu_graph *kept(cudaStream_t stream)
{
    if (stream == NULL || stream->graph != NULL)
        return stream != NULL ? stream->graph : NULL;
    if (!lazy)
        return NULL;
    stream->queued++;
    return stream->queue;
}

bool bn_emu_keep(cudaStream_t stream, cudaError_t (*fn)(void *arg),
                 const void *arg, size_t size)
{
    struct bn_emu_graph *g = kept(stream);

    if (g != NULL)
        bn_emu_graph_add(g, fn, arg, size, NULL, 0);
    return g != NULL;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = calloc(1, sizeof(**stream));
    if (*stream == NULL)
        return bn_emu_ret(cudaErrorMemoryAllocation);
    (*stream)->queue = bn_emu_graph_new();
    (*stream)->owner = pthread_self();
    lazy |= getenv("BURNISH_EMU_LAZY") != NULL;
    pthread_mutex_lock(&lock);
    (*stream)->next = streams;
    streams = *stream;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    struct bn_emu_stream **at = &streams;

    bn_emu_stream_wait(stream);
    pthread_mutex_lock(&lock);
    while (*at != NULL && *at != stream)
        at = &(*at)->next;
    if (*at != NULL)
        *at = stream->next;
    pthread_mutex_unlock(&lock);
    cudaGraphDestroy(stream->queue);
    free(stream);
    return cudaSuccess;
}

/* Is what was put off before an event not done? */
static bool behind(const struct bn_emu_event *event)
{
    return event->stream != NULL && alive(event->stream)
           && event->stream->ran < event->queued;
}

static cudaError_t wait_for(const char *what)
{
    if (bn_emu_forbidden(what) != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    bn_emu_counted.waits++;
    bn_emu_ret(late);
    /* A failed kernel spoils the context: every later wait says so. */
    return last == cudaErrorIllegalAddress || last == cudaErrorLaunchFailure
               ? last : cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    bn_emu_stream_wait(stream);
    return wait_for("cudaStreamSynchronize");
}

cudaError_t cudaDeviceSynchronize(void)
{
    for (struct bn_emu_stream *s = streams; s != NULL; s = s->next)
        bn_emu_stream_wait(s);
    return wait_for("cudaDeviceSynchronize");
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags)
{
    (void)flags;
    if (event == NULL)
        return bn_emu_ret(cudaErrorInvalidValue);
    if (event->stream != stream && behind(event))
        bn_emu_stream_wait(event->stream);
    if (stream == NULL || event->place.stream == NULL
        || event->place.stream == stream)
        return cudaSuccess;
    /* One other stream is all that a stream can wait for here. */
    if (stream->after.stream != event->place.stream)
        bn_emu_stream_wait(stream);
    if (stream->after.stream == NULL
        || stream->after.number < event->place.number)
        stream->after = event->place;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(**event));
    return *event != NULL ? cudaSuccess : bn_emu_ret(cudaErrorMemoryAllocation);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct place here = {0};

    if (stream != NULL && stream->done < stream->put)
        here = (struct place){stream, stream->put};
    else if (stream != NULL)
        here = stream->after;
    pthread_mutex_lock(&lock);
    event->place = here;
    event->captured = stream != NULL && stream->graph != NULL;
    event->stream = stream;
    event->queued = stream != NULL ? stream->queued : 0;
    event->asked = false;
    pthread_mutex_unlock(&lock);
    return timespec_get(&event->at, TIME_UTC) == TIME_UTC
               ? cudaSuccess : bn_emu_ret(cudaErrorInvalidValue);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = (float)((double)(to->at.tv_sec - from->at.tv_sec) * 1e3
                  + (double)(to->at.tv_nsec - from->at.tv_nsec) * 1e-6);
    return cudaSuccess;
}

/* An event of a capture marks a place in the graph, not in time. */
static cudaError_t usable(const struct bn_emu_event *event, const char *what)
{
    if (!event->captured)
        return bn_emu_forbidden(what);
    bn_emu_note("%s of an event that was recorded in a capture", what);
    return bn_emu_ret(cudaErrorInvalidValue);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t e = usable(event, "cudaEventQuery");

    if (e != cudaSuccess)
        return e;
    if (behind(event) && event->asked)
        (void)bn_emu_stream_idle(event->stream);
    event->asked = true;
    if (behind(event))
        return cudaErrorNotReady;
    pthread_mutex_lock(&lock);
    bool over = passed(&event->place);
    pthread_mutex_unlock(&lock);
    return over ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    struct place p = event->place;
    struct timespec t = {.tv_nsec = 20000};
    cudaError_t e = usable(event, "cudaEventSynchronize");

    if (e != cudaSuccess)
        return e;
    if (behind(event))
        bn_emu_stream_wait(event->stream);
    while (p.stream != NULL && !settled(p.stream, p.number))
        nap(&t);
    return wait_for("cudaEventSynchronize");
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   enum cudaStreamCaptureMode mode)
{
    (void)mode;
    if (capturing || stream == NULL)
        return bn_emu_ret(cudaErrorStreamCaptureUnsupported);
    bn_emu_stream_wait(stream);
    stream->graph = bn_emu_graph_new();
    capturing = true;
    spoilt = false;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = stream->graph;
    stream->graph = NULL;
    if (*graph == NULL)
        return bn_emu_ret(cudaErrorInvalidValue);
    capturing = false;
    if (!spoilt)
        return cudaSuccess;
    cudaGraphDestroy(*graph);
    *graph = NULL;
    return bn_emu_ret(cudaErrorStreamCaptureInvalidated);
}

static cudaError_t do_graph(void *arg)
{
    return bn_emu_ret(bn_emu_graph_run(*(cudaGraphExec_t *)arg));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    if (bn_emu_forbidden("cudaGraphLaunch") != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    bn_emu_counted.launches++;
    return bn_emu_stream_call(stream, do_graph, &exec, sizeof(exec));
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last;

    last = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

struct launch_call {
    const char *kernel;
    struct bn_emu_dim grid, block;
    size_t shared;
    void (*fn)(void *);
    void *arg; /* NULL: it follows */
    char *unused;
};

_Static_assert(sizeof(struct launch_call) % 16 == 0, "what follows is aligned");

static cudaError_t do_launch(void *arg)
{
    struct launch_call *c = arg;
    cudaError_t e = late;

    if (e == cudaSuccess)
        e = (cudaError_t)bn_emu_launch(c->kernel, c->grid, c->block, c->shared,
                                       c->fn, c->arg != NULL ? c->arg : c + 1);
    if (errors_come_late && late == cudaSuccess
        && (e == cudaErrorIllegalAddress || e == cudaErrorLaunchFailure)) {
        late = e;
        return cudaSuccess;
    }
    return bn_emu_ret(e);
}

void bn_emu_runtime_launch(const char *kernel, struct bn_emu_dim grid,
                           struct bn_emu_dim block, size_t shared,
                           cudaStream_t stream, void (*fn)(void *), void *arg,
                           size_t size)
{
    struct launch_call c = {kernel, grid, block, shared, fn, arg, NULL};

    if (stream == NULL || (stream->graph == NULL && !lazy)) {
        bn_emu_stream_wait(stream);
        (void)do_launch(&c);
        return;
    }
    int rc = bn_emu_check_launch(kernel, grid, block, shared);
    if (bn_emu_wrong_pointer())
        rc = cudaErrorIllegalAddress;
    if (rc != 0) {
        spoilt |= stream->graph != NULL;
        bn_emu_ret((cudaError_t)rc);
        return;
    }
    c.arg = NULL;
    bn_emu_graph_add(kept(stream), do_launch, &c, sizeof(c), arg, size);
}

cudaError_t bn_emu_stream_call(cudaStream_t stream,
                               cudaError_t (*fn)(void *arg), void *arg,
                               size_t size)
{
    if (bn_emu_keep(stream, fn, arg, size))
        return cudaSuccess;
    bn_emu_stream_wait(stream);
    return fn(arg);
}
