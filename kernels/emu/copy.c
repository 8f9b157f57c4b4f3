/* Host memory that is pinned, and copies to and from the device. */
#include "config.h"
#include "kernels/emu/graph.h"
#include "kernels/emu/state.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PITCH = 0x7fffffff }; /* of the devices there are */

struct pinned {
    char *p;
    size_t size;
    struct pinned *next;
};

static struct pinned *pinned;

cudaError_t cudaMallocHost(void **p, size_t size)
{
    struct pinned *a = malloc(sizeof(*a));

    if (bn_emu_forbidden("cudaMallocHost") != cudaSuccess) {
        free(a);
        return cudaErrorStreamCaptureUnsupported;
    }
    bn_emu_counted.mallocs++;
    bn_emu_tell_allocation("pinned", size);
    *p = malloc(size);
    if (a == NULL || *p == NULL) {
        free(a);
        free(*p);
        *p = NULL;
        return bn_emu_ret(cudaErrorMemoryAllocation);
    }
    *a = (struct pinned){*p, size, pinned};
    pinned = a;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
    struct pinned **at = &pinned, *a;

    bn_emu_drain_all();
    while (*at != NULL && (*at)->p != (char *)p)
        at = &(*at)->next;
    a = *at;
    if (a == NULL)
        return p == NULL ? cudaSuccess : bn_emu_ret(cudaErrorInvalidValue);
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

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a,
                                     const void *p)
{
    a->type = bn_emu_is_device(p, 0) ? cudaMemoryTypeDevice
                                     : cudaMemoryTypeUnregistered;
    if (is_pinned(p, 1))
        a->type = cudaMemoryTypeHost;
    return cudaSuccess;
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
        return bn_emu_ret(cudaErrorInvalidValue);
    }
    bn_emu_open_some();
    bn_emu_open_at(dst);
    bn_emu_open_at(src);
    memmove(dst, src, n);
    bn_emu_close();
    return cudaSuccess;
}

struct copy_call {
    void *dst;
    const void *src;
    size_t dpitch, spitch, width, height;
    enum cudaMemcpyKind kind;
};

static cudaError_t do_copy(void *arg)
{
    const struct copy_call *c = arg;
    cudaError_t e = cudaSuccess;

    bn_emu_open_some(); /* once, not a row */
    for (size_t i = 0; i < c->height && e == cudaSuccess; i++)
        e = copy((char *)c->dst + i * c->dpitch,
                 (const char *)c->src + i * c->spitch, c->width, c->kind);
    bn_emu_close();
    return e;
}

static bool pageable(const struct copy_call *c)
{
    const void *p = c->kind == cudaMemcpyHostToDevice ? c->src : c->dst;
    size_t pitch = p == c->src ? c->spitch : c->dpitch;

    return (c->kind == cudaMemcpyHostToDevice
            || c->kind == cudaMemcpyDeviceToHost)
           && c->height > 0
           && !is_pinned(p, (c->height - 1) * pitch + c->width);
}

static cudaError_t copy_async(struct copy_call c, cudaStream_t stream)
{
    if (pageable(&c)) { /* which makes the call wait */
        if (bn_emu_forbidden("copy with pageable memory") != cudaSuccess)
            return cudaErrorStreamCaptureUnsupported;
        bn_emu_counted.waits++;
    }
    if (!pageable(&c) && bn_emu_keep(stream, do_copy, &c, sizeof(c)))
        return cudaSuccess;
    bn_emu_stream_wait(stream);
    return do_copy(&c);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_async((struct copy_call){dst, src, n, n, n, 1, kind}, stream);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src,
                              size_t spitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    if (width > dpitch || width > spitch)
        return bn_emu_ret(cudaErrorInvalidValue);
    if (dpitch > MAX_PITCH || spitch > MAX_PITCH)
        return bn_emu_ret(cudaErrorInvalidPitchValue);
    return copy_async((struct copy_call){dst, src, dpitch, spitch, width,
                                         height, kind}, stream);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t n,
                       enum cudaMemcpyKind kind)
{
    if (bn_emu_forbidden("cudaMemcpy") != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    bn_emu_counted.waits++;
    return copy(dst, src, n, kind);
}

struct set_call {
    void *p;
    int value;
    size_t n;
};

static cudaError_t do_set(void *arg)
{
    const struct set_call *c = arg;

    if (c->n == 0)
        return cudaSuccess;
    if (!bn_emu_is_device(c->p, c->n)) {
        bn_emu_note("memset of %zu bytes outside device memory", c->n);
        return bn_emu_ret(cudaErrorInvalidValue);
    }
    bn_emu_open_some();
    bn_emu_open_at(c->p);
    memset(c->p, c->value, c->n);
    bn_emu_close();
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t stream)
{
    struct set_call c = {p, value, n};

    if (bn_emu_keep(stream, do_set, &c, sizeof(c)))
        return cudaSuccess;
    bn_emu_stream_wait(stream);
    return do_set(&c);
}
