/* The device itself: memory, copies between it and the host, its reports. */
#include "config.h"
#include "ops/cuda_state.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kernels/cast.h"

/* What to do about an error: a hardware fault may be gone elsewhere. */
static enum bn_err_code class_of(cudaError_t e)
{
    switch (e) {
    case cudaErrorMemoryAllocation:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
        return BN_ERR_USAGE;
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorLaunchTimeout:
    case cudaErrorContained: /* a fault of the memory, kept to this process */
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsClientTerminated:
    case cudaErrorUnknown: /* as after a GPU has gone */
        return BN_ERR_AGAIN;
    default:
        return BN_ERR_BUG;
    }
}

/* Whoever calls next is told what a kernel did wrong: addresses, traps and
 * time-outs (700 to 719, but for a launch that was refused), broken memory. */
static bool is_late(cudaError_t e)
{
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");

    if (blocking != NULL && strcmp(blocking, "1") == 0)
        return false;
    return ((int)e >= 700 && (int)e <= 719 && (int)e != 701)
           || e == cudaErrorECCUncorrectable
           || e == cudaErrorNvlinkUncorrectable || e == cudaErrorContained;
}

void bn_cuda_failed(struct bn_dev *d, cudaError_t e, const char *what)
{
    struct bn_cuda *s = bn_cuda_of(d);

    bn_dev_fail(d, class_of(e), "%s%s on rank %d, device %d: %s: %s", what,
                is_late(e) ? ", or a kernel before it (CUDA_LAUNCH_BLOCKING=1 "
                             "tells which),"
                           : "",
                s->o.rank, s->o.ordinal, cudaGetErrorName(e),
                cudaGetErrorString(e));
}

/* The same for a call that waits: which kernel came last. */
static void wait_failed(struct bn_dev *d, cudaError_t e, const char *what)
{
    char last[200], text[240];

    bn_cuda_call_text(&bn_cuda_of(d)->last, last, sizeof(last));
    snprintf(text, sizeof(text), "%s after %s", what, last);
    bn_cuda_failed(d, e, text);
}

int bn_cuda_count(int *count, struct bn_err *err)
{
    cudaError_t e = cudaGetDeviceCount(count);

    if (e == cudaSuccess && *count > 0)
        return 0;
    *count = 0;
    (void)cudaGetLastError();
    return bn_fail(err, BN_ERR_USAGE, "no CUDA device: %s",
                   e == cudaSuccess ? "none is visible"
                                    : cudaGetErrorString(e));
}

/* --- memory ------------------------------------------------------------- */

/* The back end's own memory lies before the first arena, in one allocation. */
static int arena_init(struct bn_dev *d, struct bn_arena *a, const char *name,
                      size_t size, struct bn_err *err)
{
    struct bn_cuda *s = bn_cuda_of(d);
    size_t room = s->scratch == NULL ? BN_CUDA_ROOM : 0;
    size_t available = 0, total = 0;
    void *p = NULL;
    cudaError_t e;

    *a = (struct bn_arena){.name = name};
    if (size == 0)
        return 0;
    e = cudaMalloc(&p, room + size);
    if (e != cudaSuccess) {
        (void)cudaGetLastError();
        (void)cudaMemGetInfo(&available, &total);
        return bn_fail(err, class_of(e),
                       "cannot take %zu bytes for %s on rank %d, device %d, "
                       "of which %zu of %zu are free: %s", room + size, name,
                       s->o.rank, s->o.ordinal, available, total,
                       cudaGetErrorName(e));
    }
    if (room > 0)
        s->scratch = p;
    a->base = (char *)p + room;
    a->size = size;
    s->arenas += size;
    if (s->arenas > s->peak)
        s->peak = s->arenas;
    return 0;
}

static void arena_release(struct bn_dev *d, struct bn_arena *a)
{
    struct bn_cuda *s = bn_cuda_of(d);
    char *p = a->base;

    if (p != NULL && s->scratch != NULL && p == s->scratch + BN_CUDA_ROOM) {
        p = s->scratch;
        s->scratch = NULL;
    }
    s->arenas -= a->size;
    (void)cudaFree(p);
    *a = (struct bn_arena){0};
}

void bn_cuda_memory(const struct bn_dev *d, struct bn_cuda_memory *m)
{
    const struct bn_cuda *s = bn_cuda_of(d);

    *m = (struct bn_cuda_memory){
        .arenas = s->arenas,
        .peak = s->peak,
        .scratch = s->scratch != NULL ? BN_CUDA_ROOM : 0,
        .pinned = (size_t)BN_CUDA_STAGES * BN_CUDA_STAGE,
        .sent = s->sent,
        .fetched = s->fetched};
    (void)cudaMemGetInfo(&m->available, &m->total);
}

/* --- copies ------------------------------------------------------------- */

/* The next piece of pinned memory, free of earlier copies; -1 on failure. */
static int take_stage(struct bn_dev *d)
{
    struct bn_cuda *s = bn_cuda_of(d);
    int i = s->next_stage;
    cudaError_t e = cudaEventQuery(s->stage[i].done);

    s->next_stage = (i + 1) % BN_CUDA_STAGES;
    if (e == cudaErrorNotReady)
        e = cudaEventSynchronize(s->stage[i].done);
    if (e == cudaSuccess)
        return i;
    bn_cuda_failed(d, e, "copy");
    return -1;
}

/* Elements of a piece: both formats fit in it. */
static size_t piece_of(enum bn_dtype a, enum bn_dtype b)
{
    size_t size = bn_dtype_size(a), other = bn_dtype_size(b);

    return BN_CUDA_STAGE / (size > other ? size : other);
}

static int convert(struct bn_dev *d, void *dst, enum bn_dtype dst_type,
                   const void *src, enum bn_dtype src_type, size_t n)
{
    if (bn_cast_cpu(dst, dst_type, src, src_type, n) == 0)
        return 0;
    bn_dev_fail(d, BN_ERR_BUG, "no conversion from %s to %s",
                bn_dtype_name(src_type), bn_dtype_name(dst_type));
    return -1;
}

static void from_host(struct bn_dev *d, void *dst, enum bn_dtype dst_type,
                      const void *host_src, enum bn_dtype src_type, size_t n)
{
    struct bn_cuda *s = bn_cuda_of(d);
    size_t piece = piece_of(dst_type, src_type);
    size_t to = bn_dtype_size(dst_type), from = bn_dtype_size(src_type);

    if (s->graph != NULL) {
        bn_cuda_graph_feed(d, dst, dst_type, host_src, src_type, n);
        return;
    }
    d->fed += bn_cuda_graph_room(n * to);
    for (size_t at = 0; at < n && !d->failed; at += piece) {
        size_t m = n - at < piece ? n - at : piece;
        int i = take_stage(d);
        cudaError_t e;

        if (i < 0
            || convert(d, s->stage[i].p, dst_type,
                       (const char *)host_src + at * from, src_type, m) < 0)
            return;
        e = cudaMemcpyAsync((char *)dst + at * to, s->stage[i].p, m * to,
                            cudaMemcpyHostToDevice, s->stream);
        s->sent += m * to;
        if (e == cudaSuccess)
            e = cudaEventRecord(s->stage[i].done, s->stream);
        if (e != cudaSuccess)
            bn_cuda_failed(d, e, "copy to the device");
    }
}

static void to_host(struct bn_dev *d, void *host_dst, enum bn_dtype dst_type,
                    const void *src, enum bn_dtype src_type, size_t n)
{
    struct bn_cuda *s = bn_cuda_of(d);
    size_t piece = piece_of(dst_type, src_type);
    size_t to = bn_dtype_size(dst_type), from = bn_dtype_size(src_type);

    if (!bn_cuda_may_wait(d, "to_host"))
        return;
    for (size_t at = 0; at < n && !d->failed; at += piece) {
        size_t m = n - at < piece ? n - at : piece;
        int i = take_stage(d);
        cudaError_t e;

        if (i < 0)
            return;
        e = cudaMemcpyAsync(s->stage[i].p, (const char *)src + at * from,
                            m * from, cudaMemcpyDeviceToHost, s->stream);
        s->fetched += m * from;
        if (e == cudaSuccess)
            e = cudaStreamSynchronize(s->stream);
        if (e != cudaSuccess)
            wait_failed(d, e, "copy from the device");
        else
            (void)convert(d, (char *)host_dst + at * to, dst_type,
                          s->stage[i].p, src_type, m);
    }
}

static void mail(struct bn_dev *d, size_t at, const void *src, size_t bytes)
{
    struct bn_cuda *s = bn_cuda_of(d);
    cudaError_t e;

    if (!bn_cuda_runs(d))
        return;
    e = cudaMemcpyAsync(s->box + at, src, bytes, cudaMemcpyDeviceToHost,
                        s->stream);
    s->fetched += bytes;
    if (e == cudaSuccess && s->graph == NULL) /* else graph_end does it */
        e = cudaEventRecord(s->mailed, s->stream);
    if (e != cudaSuccess)
        bn_cuda_failed(d, e, "mail from the device");
}

static const void *collect(struct bn_dev *d)
{
    struct bn_cuda *s = bn_cuda_of(d);
    cudaError_t e = cudaSuccess;

    if (bn_cuda_may_wait(d, "collect"))
        e = cudaEventSynchronize(s->mailed);
    if (e != cudaSuccess)
        wait_failed(d, e, "mail from the device");
    return s->box;
}

static void zero(struct bn_dev *d, void *p, size_t bytes)
{
    cudaError_t e;

    if (!bn_cuda_runs(d) || bytes == 0)
        return;
    e = cudaMemsetAsync(p, 0, bytes, bn_cuda_of(d)->stream);
    if (e != cudaSuccess)
        bn_cuda_failed(d, e, "zero");
}

static void sync(struct bn_dev *d)
{
    cudaError_t e;

    if (!bn_cuda_may_wait(d, "sync"))
        return;
    e = cudaStreamSynchronize(bn_cuda_of(d)->stream);
    if (e != cudaSuccess)
        wait_failed(d, e, "wait for the device");
}

/* --- what runs on the CPU ------------------------------------------------ */

bool bn_cuda_lend(struct bn_dev *d, const char *slot, const char *shapes,
                  const void *caller)
{
    struct bn_cuda *s = bn_cuda_of(d);
    Dl_info where = {0};
    int i = 0;

    while (i < s->nfallback && strcmp(s->fallback[i].slot, slot) != 0)
        i++;
    if (s->o.strict || s->o.graphs) {
        bn_dev_fail(d, BN_ERR_USAGE, "%s (%s) has no kernel on rank %d, "
                    "device %d, and %s the CPU", slot, shapes, s->o.rank,
                    s->o.ordinal, s->o.strict ? "--strict-device forbids"
                                              : "cuda_graph: true excludes");
        return false;
    }
    if (i == s->nfallback) {
        if (i == BN_CUDA_SLOTS)
            return true;
        s->fallback[s->nfallback] = (struct bn_cuda_fallback){.slot = slot};
        snprintf(s->fallback[s->nfallback++].shapes,
                 sizeof(s->fallback[0].shapes), "%s", shapes);
        if (dladdr(caller, &where) != 0)
            bn_debug("%s (%s) runs on the CPU, called from %s+0x%zx", slot,
                     shapes, where.dli_fname,
                     (size_t)((const char *)caller
                              - (const char *)where.dli_fbase));
    }
    s->fallback[i].times++;
    return true;
}

int bn_cuda_fallbacks(const struct bn_dev *d, struct bn_cuda_fallback *out,
                      int most)
{
    const struct bn_cuda *s = bn_cuda_of(d);

    for (int i = 0; i < s->nfallback && i < most; i++)
        out[i] = s->fallback[i];
    return s->nfallback;
}

double bn_cuda_peak_flops(const struct bn_dev *d, enum bn_dtype t, char *name,
                          size_t size)
{
    static const struct {
        int major;
        double f32, bf16;
        const char *name;
    } sheet[] = {
        {8, 19.5e12, 312e12, "A100"},
        {9, 67e12, 989e12, "H100, H200"},
        {10, 75e12, 2250e12, "B200"},
    };
    int device = bn_cuda_of(d)->o.ordinal, major = 0, minor = 0;

    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                 device);
    (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor,
                                 device);
    snprintf(name, size, "compute capability %d.%d", major, minor);
    for (size_t i = 0; i < BN_COUNT(sheet) && minor == 0; i++)
        if (sheet[i].major == major) {
            snprintf(name, size, "%s, dense %s", sheet[i].name,
                     bn_dtype_name(t));
            return t == BN_F32 ? sheet[i].f32 : sheet[i].bf16;
        }
    return 0;
}

void bn_cuda_report(const struct bn_dev *d)
{
    const struct bn_cuda *s = bn_cuda_of(d);
    char list[600] = "";
    struct bn_cuda_memory m;

    bn_cuda_memory(d, &m);
    bn_info("device %d: %.1f MiB in arenas at most, %.1f of scratch; %.1f of "
            "%.1f MiB free; host: %.1f MiB pinned; copied %.2f MiB to it, "
            "%.2f MiB from it", s->o.ordinal,
            (double)m.peak / 0x1p20,
            m.peak > 0 ? BN_CUDA_ROOM / 0x1p20 : 0,
            (double)m.available / 0x1p20, (double)m.total / 0x1p20,
            (double)m.pinned / 0x1p20, (double)m.sent / 0x1p20,
            (double)m.fetched / 0x1p20);
    for (int i = 0; i < s->nfallback; i++) {
        size_t n = strlen(list);

        snprintf(list + n, sizeof(list) - n, "%s%s %lu", i > 0 ? ", " : "",
                 s->fallback[i].slot, s->fallback[i].times);
    }
    if (s->nfallback > 0)
        bn_warn("ran on the CPU instead of device %d (slot, times): %s",
                s->o.ordinal, list);
}

/* --- life ---------------------------------------------------------------- */

static void destroy(struct bn_dev *d)
{
    struct bn_cuda *s = bn_cuda_of(d);

    if (s->stream != NULL)
        (void)cudaStreamSynchronize(s->stream);
    bn_cuda_gemm_destroy(s->gemm);
    for (int i = 0; i < BN_CUDA_STAGES; i++) {
        if (s->stage[i].done != NULL)
            (void)cudaEventDestroy(s->stage[i].done);
        (void)cudaFreeHost(s->stage[i].p);
    }
    if (s->mailed != NULL)
        (void)cudaEventDestroy(s->mailed);
    (void)cudaFreeHost(s->box);
    if (s->stream != NULL)
        (void)cudaStreamDestroy(s->stream);
    bn_dev_destroy(s->cpu);
    free(s);
    free(d);
}

static cudaError_t take(struct bn_cuda *s)
{
    cudaError_t e = cudaSetDevice(s->o.ordinal);
    void *p = NULL;

    if (e == cudaSuccess)
        e = cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking);
    for (int i = 0; i < BN_CUDA_STAGES && e == cudaSuccess; i++) {
        p = NULL;
        e = cudaMallocHost(&p, BN_CUDA_STAGE);
        s->stage[i].p = p;
        if (e == cudaSuccess)
            e = cudaEventCreateWithFlags(&s->stage[i].done,
                                         cudaEventDisableTiming);
    }
    if (e == cudaSuccess)
        e = cudaMallocHost(&p, BN_MAIL);
    if (e != cudaSuccess)
        return e;
    s->box = p;
    memset(p, 0, BN_MAIL);
    return cudaEventCreateWithFlags(&s->mailed, cudaEventDisableTiming);
}

/* Is this program made for this kind of GPU? Rather than the first kernel of
 * a run saying that it is not. */
static int look(const struct bn_cuda *s, struct bn_err *err)
{
    int major = 0, minor = 0;
    cudaError_t e;

    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                 s->o.ordinal);
    (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor,
                                 s->o.ordinal);
    if (major < 8)
        return bn_fail(err, BN_ERR_USAGE, "CUDA device %d on rank %d is of "
                       "compute capability %d.%d: it takes 8.0 or later, or "
                       "device: cpu",
                       s->o.ordinal, s->o.rank, major, minor);
    e = (cudaError_t)bn_cast_cuda_there();
    if (e == cudaSuccess)
        return 0;
    (void)cudaGetLastError();
    return bn_fail(err, class_of(e), "no kernels for CUDA device %d on rank "
                   "%d, of compute capability %d.%d: %s; configure with "
                   "NVCC_ARCH=-arch=sm_%d%d", s->o.ordinal, s->o.rank, major,
                   minor, cudaGetErrorName(e), major, minor);
}

struct bn_dev *bn_dev_cuda(const struct bn_cuda_options *o, struct bn_err *err)
{
    struct bn_dev *d;
    struct bn_cuda *s;
    cudaError_t e;
    int count;

    if (bn_cuda_count(&count, err) < 0)
        return NULL;
    if (o->ordinal < 0 || o->ordinal >= count) {
        bn_fail(err, BN_ERR_USAGE, "no CUDA device %d: %d visible (0 to %d)",
                o->ordinal, count, count - 1);
        return NULL;
    }
    d = BN_NEW(struct bn_dev);
    s = BN_NEW(struct bn_cuda);
    s->o = *o;
    *d = (struct bn_dev){.op = bn_cuda_ops, .name = "cuda", .state = s,
                         .destroy = destroy};
    d->op.arena_init = arena_init;
    d->op.arena_release = arena_release;
    d->op.from_host = from_host;
    d->op.to_host = to_host;
    d->op.mail = mail;
    d->op.collect = collect;
    d->op.zero = zero;
    d->op.sync = sync;
    bn_cuda_graph_slots(&d->op);
    s->forced = getenv("BURNISH_CUDA_HOST");
    if (s->forced != NULL && bn_cuda_check_names(s->forced, err) < 0)
        goto error;
    s->cpu = bn_dev_cpu(o->threads, err);
    if (s->cpu == NULL)
        goto error;
    d->threads = s->cpu->threads;
    e = take(s);
    if (e != cudaSuccess) {
        (void)cudaGetLastError();
        bn_fail(err, class_of(e), "cannot use CUDA device %d on rank %d: %s: "
                "%s", o->ordinal, o->rank, cudaGetErrorName(e),
                cudaGetErrorString(e));
        goto error;
    }
    if (look(s, err) < 0)
        goto error;
    s->gemm = bn_cuda_gemm_create(BN_CUDA_GEMM, s->stream, err);
    if (s->gemm == NULL)
        goto error;
    return d;
error:
    destroy(d);
    return NULL;
}

void *bn_cuda_stream(const struct bn_dev *d)
{
    return bn_cuda_of(d)->stream;
}
