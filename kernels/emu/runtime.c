#include "config.h"
#include "kernels/emu/runtime.h"
#include "kernels/emu/state.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct bn_emu_stream {
    bool capturing;
};
struct bn_emu_event {
    struct timespec at;
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
static int devices = 1;
static struct pinned *pinned;
static struct bn_emu_calls calls;

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

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = devices;
    return devices > 0 ? cudaSuccess : ret(cudaErrorInsufficientDriver);
}

cudaError_t cudaSetDevice(int device)
{
    return device >= 0 && device < devices ? cudaSuccess
                                           : ret(cudaErrorInvalidDevice);
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
    (void)stream;
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
    for (size_t i = 0; i < height && e == cudaSuccess; i++)
        e = cudaMemcpyAsync((char *)dst + i * dpitch,
                            (const char *)src + i * spitch, width, kind,
                            stream);
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
    (void)stream;
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
    return *stream != NULL ? cudaSuccess : ret(cudaErrorMemoryAllocation);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
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
    (void)stream;
    return wait_for("cudaStreamSynchronize");
}

cudaError_t cudaDeviceSynchronize(void)
{
    return wait_for("cudaDeviceSynchronize");
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags)
{
    (void)stream;
    (void)flags;
    return event != NULL ? cudaSuccess : ret(cudaErrorInvalidValue);
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
    (void)stream;
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
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
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
    (void)stream;
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
