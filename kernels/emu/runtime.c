#include "config.h"
#include "kernels/emu/runtime.h"
#include "kernels/emu/state.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A place in a stream: behind the work number 'number'. */
struct place {
    struct bn_emu_stream *stream; /* NULL: nothing to wait for */
    uint64_t number;
};
struct bn_emu_stream {
    bool capturing;
    uint64_t put, done; /* work of others: how much came, how much is over */
    struct bn_emu_work work; /* number 'put', while done < put */
    struct place after; /* of another stream, which this one waits for */
    struct bn_emu_stream *next;
};
struct bn_emu_event {
    struct timespec at;
    struct place place;
};
struct bn_emu_graph {
    int unused;
};
struct pinned {
    char *p;
    size_t size;
    struct pinned *next;
};

static cudaError_t last;
static bool capturing, spoilt;
static int devices = 1, device_in_use;
static struct pinned *pinned;
static struct bn_emu_calls calls;
/* Streams with their work and events: queried by threads that watch. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bn_emu_stream *streams;

static cudaError_t ret(cudaError_t e)
{
    if (e != cudaSuccess)
        last = e;
    return e;
}

/* A call that a capture forbids. */
static cudaError_t forbidden(const char *what)
{
    if (!capturing)
        return cudaSuccess;
    bn_emu_note("%s while a stream is captured", what);
    spoilt = true;
    return ret(cudaErrorStreamCaptureUnsupported);
}

void bn_emu_set_devices(int count)
{
    devices = count;
}

struct bn_emu_calls bn_emu_calls(void)
{
    return calls;
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
           || (s->put == p->number && s->work.ready(s->work.arg));
}

/* Put the results of what is over in place; true if all of it is. */
static bool settled(struct bn_emu_stream *s, uint64_t number)
{
    struct bn_emu_work work = {0};

    pthread_mutex_lock(&lock);
    bool over = !alive(s) || s->done >= number;
    if (!over && s->work.ready(s->work.arg))
        work = s->work;
    pthread_mutex_unlock(&lock);
    if (work.ready == NULL)
        return over;
    bn_emu_open();
    work.finish(work.arg);
    bn_emu_close();
    pthread_mutex_lock(&lock);
    s->done = s->put;
    pthread_mutex_unlock(&lock);
    return true;
}

bool bn_emu_stream_idle(cudaStream_t stream)
{
    if (stream == NULL)
        return true;
    if (stream->after.stream != NULL
        && !settled(stream->after.stream, stream->after.number))
        return false;
    stream->after.stream = NULL;
    return settled(stream, stream->put);
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

void bn_emu_stream_wait(cudaStream_t s)
{
    struct timespec t = {.tv_nsec = 20000};

    while (!bn_emu_stream_idle(s))
        nanosleep(&t, NULL);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = devices;
    return devices > 0 ? cudaSuccess : ret(cudaErrorInsufficientDriver);
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= devices)
        return ret(cudaErrorInvalidDevice);
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
        return ret(cudaErrorInvalidDevice);
    switch (attr) {
    case cudaDevAttrMultiProcessorCount:
        *value = 4;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = 8;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
    }
    return ret(cudaErrorInvalidValue);
}

enum { TOTAL_MIB = 8192 };

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *total = (size_t)TOTAL_MIB << 20;
    *available = *total - bn_emu_allocated();
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t size)
{
    if (forbidden("cudaMalloc") != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    calls.mallocs++;
    *p = NULL;
    if (size == 0)
        return cudaSuccess;
    if (size <= ((size_t)TOTAL_MIB << 20) - bn_emu_allocated())
        *p = bn_emu_malloc(size);
    return *p != NULL ? cudaSuccess : ret(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *p)
{
    if (forbidden("cudaFree") != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    if (p == NULL || bn_emu_free(p) == 0)
        return cudaSuccess;
    return ret(cudaErrorInvalidValue);
}

cudaError_t cudaMallocHost(void **p, size_t size)
{
    struct pinned *a = malloc(sizeof(*a));

    if (forbidden("cudaMallocHost") != cudaSuccess) {
        free(a);
        return cudaErrorStreamCaptureUnsupported;
    }
    calls.mallocs++;
    *p = malloc(size);
    if (a == NULL || *p == NULL) {
        free(a);
        free(*p);
        *p = NULL;
        return ret(cudaErrorMemoryAllocation);
    }
    *a = (struct pinned){*p, size, pinned};
    pinned = a;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
    struct pinned **at = &pinned, *a;

    while (*at != NULL && (*at)->p != (char *)p)
        at = &(*at)->next;
    a = *at;
    if (a == NULL)
        return p == NULL ? cudaSuccess : ret(cudaErrorInvalidValue);
    *at = a->next;
    free(a->p);
    free(a);
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a,
                                     const void *p)
{
    a->type = bn_emu_is_device(p, 0) ? cudaMemoryTypeDevice
                                     : cudaMemoryTypeUnregistered;
    for (const struct pinned *b = pinned; b != NULL; b = b->next)
        if ((const char *)p >= b->p && (const char *)p < b->p + b->size)
            a->type = cudaMemoryTypeHost;
    return cudaSuccess;
}

static bool is_pinned(const void *p, size_t n)
{
    const char *c = p;

    for (struct pinned *a = pinned; a != NULL; a = a->next)
        if (c >= a->p && c + n <= a->p + a->size)
            return true;
    return false;
}

static cudaError_t copy(void *dst, const void *src, size_t n,
                        enum cudaMemcpyKind kind)
{
    bool d = bn_emu_is_device(dst, n), s = bn_emu_is_device(src, n);
    bool want_d = kind == cudaMemcpyHostToDevice
                  || kind == cudaMemcpyDeviceToDevice;
    bool want_s = kind == cudaMemcpyDeviceToHost
                  || kind == cudaMemcpyDeviceToDevice;

    if (n == 0)
        return cudaSuccess;
    if (kind != cudaMemcpyDefault && (d != want_d || s != want_s)) {
        bn_emu_note("copy of %zu bytes: destination is %s memory, source %s, "
                    "against the direction named", n,
                    d ? "device" : "not device", s ? "device" : "not device");
        return ret(cudaErrorInvalidValue);
    }
    bn_emu_open();
    memmove(dst, src, n);
    bn_emu_close();
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    bn_emu_stream_wait(stream);
    if ((kind == cudaMemcpyHostToDevice && !is_pinned(src, n))
        || (kind == cudaMemcpyDeviceToHost && !is_pinned(dst, n))) {
        /* Pageable memory makes the call wait. */
        if (forbidden("copy with pageable memory") != cudaSuccess)
            return cudaErrorStreamCaptureUnsupported;
        calls.waits++;
    }
    return copy(dst, src, n, kind);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src,
                              size_t spitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t e = cudaSuccess;

    if (width > dpitch || width > spitch)
        return ret(cudaErrorInvalidValue);
    bn_emu_stream_wait(stream);
    bn_emu_open(); /* once, not a row */
    for (size_t i = 0; i < height && e == cudaSuccess; i++)
        e = cudaMemcpyAsync((char *)dst + i * dpitch,
                            (const char *)src + i * spitch, width, kind,
                            stream);
    bn_emu_close();
    return e;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t n,
                       enum cudaMemcpyKind kind)
{
    if (forbidden("cudaMemcpy") != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    calls.waits++;
    return copy(dst, src, n, kind);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t stream)
{
    bn_emu_stream_wait(stream);
    if (n == 0)
        return cudaSuccess;
    if (!bn_emu_is_device(p, n)) {
        bn_emu_note("memset of %zu bytes outside device memory", n);
        return ret(cudaErrorInvalidValue);
    }
    bn_emu_open();
    memset(p, value, n);
    bn_emu_close();
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = calloc(1, sizeof(**stream));
    if (*stream == NULL)
        return ret(cudaErrorMemoryAllocation);
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
    free(stream);
    return cudaSuccess;
}

static cudaError_t wait_for(const char *what)
{
    if (forbidden(what) != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    calls.waits++;
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
        return ret(cudaErrorInvalidValue);
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
    return *event != NULL ? cudaSuccess : ret(cudaErrorMemoryAllocation);
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
    pthread_mutex_unlock(&lock);
    return timespec_get(&event->at, TIME_UTC) == TIME_UTC
               ? cudaSuccess : ret(cudaErrorInvalidValue);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = (float)((double)(to->at.tv_sec - from->at.tv_sec) * 1e3
                  + (double)(to->at.tv_nsec - from->at.tv_nsec) * 1e-6);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    pthread_mutex_lock(&lock);
    bool over = passed(&event->place);
    pthread_mutex_unlock(&lock);
    return over ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    struct place p = event->place;
    struct timespec t = {.tv_nsec = 20000};

    while (p.stream != NULL && !settled(p.stream, p.number))
        nanosleep(&t, NULL);
    return wait_for("cudaEventSynchronize");
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   enum cudaStreamCaptureMode mode)
{
    (void)mode;
    if (capturing || stream == NULL)
        return ret(cudaErrorStreamCaptureUnsupported);
    stream->capturing = capturing = true;
    spoilt = false;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = NULL;
    if (!stream->capturing)
        return ret(cudaErrorInvalidValue);
    stream->capturing = capturing = false;
    if (spoilt)
        return ret(cudaErrorStreamCaptureInvalidated);
    *graph = calloc(1, sizeof(**graph));
    return *graph != NULL ? cudaSuccess : ret(cudaErrorMemoryAllocation);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    free(graph);
    return cudaSuccess;
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

void bn_emu_runtime_launch(const char *kernel, struct bn_emu_dim grid,
                           struct bn_emu_dim block, size_t shared,
                           cudaStream_t stream, void (*fn)(void *), void *arg)
{
    bn_emu_stream_wait(stream);
    ret((cudaError_t)bn_emu_launch(kernel, grid, block, shared, fn, arg));
}

static const struct {
    cudaError_t e;
    const char *name, *text;
} names[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", NULL},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation",
     "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "no driver, or one too old for this CUDA"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA device"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice",
     "invalid device ordinal"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "not permitted while a stream is captured"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "the capture failed because of an earlier error"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", NULL},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", NULL},
};

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].e == error)
            return names[i].name;
    return "unknown error";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].e == error)
            return names[i].text != NULL     ? names[i].text
                   : bn_emu_error()[0] != 0 ? bn_emu_error()
                                            : "invalid argument";
    return "unknown error";
}
