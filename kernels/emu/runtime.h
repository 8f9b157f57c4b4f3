/* The part of CUDA's runtime interface that Burnish uses, over emulated
 * device memory. Work on a stream is done at once, in the order of the calls,
 * but for what another library puts there (bn_emu_stream_put): whatever comes
 * after that on the stream, or waits for an event after it, waits for it.
 * Names, values and meaning are CUDA's (CUDA Runtime API, 13.0).
 */
#ifndef BN_KERNELS_EMU_RUNTIME_H
#define BN_KERNELS_EMU_RUNTIME_H

#include <stddef.h>

#include "kernels/emu/emu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidPitchValue = 12,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorDevicesUnavailable = 46,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorECCUncorrectable = 214,
    cudaErrorNvlinkUncorrectable = 220,
    cudaErrorUnsupportedPtxVersion = 222,
    cudaErrorContained = 226,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchTimeout = 702,
    cudaErrorLaunchFailure = 719,
    cudaErrorSystemNotReady = 802,
    cudaErrorSystemDriverMismatch = 803,
    cudaErrorCompatNotSupportedOnDevice = 804,
    cudaErrorMpsConnectionFailed = 805,
    cudaErrorMpsRpcFailure = 806,
    cudaErrorMpsServerNotReady = 807,
    cudaErrorMpsClientTerminated = 810,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorUnknown = 999
} cudaError_t;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum cudaMemoryType {
    cudaMemoryTypeUnregistered,
    cudaMemoryTypeHost,
    cudaMemoryTypeDevice,
    cudaMemoryTypeManaged
};
struct cudaPointerAttributes {
    enum cudaMemoryType type;
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
typedef struct bn_emu_stream *cudaStream_t;
typedef struct bn_emu_event *cudaEvent_t;
typedef struct bn_emu_graph *cudaGraph_t;
typedef struct bn_emu_graph_exec *cudaGraphExec_t;

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr,
                                   int device);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);
cudaError_t cudaMalloc(void **p, size_t size);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocHost(void **p, size_t size);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a,
                                     const void *p);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n,
                            enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src,
                              size_t spitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t n,
                       enum cudaMemcpyKind kind);
cudaError_t cudaMemsetAsync(void *p, int value, size_t n,
                            cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
/* While a stream is captured, calls that a capture forbids (allocation,
 * synchronisation, questions, copies with pageable memory) fail and spoil it.
 * Nothing is done: kernels, copies and memsets are kept with their arguments,
 * and done at each launch. Of one stream; events that are recorded meanwhile
 * cannot be waited for by the host. */
cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
/* Once a graph. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);

/* What a launch macro calls, with fn's arg of 'size' bytes, which are copied
 * in a capture; the error is left for cudaGetLastError. */
void bn_emu_runtime_launch(const char *kernel, struct bn_emu_dim grid,
                           struct bn_emu_dim block, size_t shared,
                           cudaStream_t stream, void (*fn)(void *),
                           void *arg, size_t size);
/* Call fn(arg) as work of the stream, at once or (with a copy of arg[size])
 * at launches of the graph that is captured. */
cudaError_t bn_emu_stream_call(cudaStream_t stream,
                               cudaError_t (*fn)(void *arg), void *arg,
                               size_t size);

/* Work of another library (collectives) on a stream, which goes on elsewhere.
 * 'ready' says from any thread whether it is over; 'finish' is then called
 * once by the thread that uses the stream, and opens with bn_emu_open_at the
 * device memory that it writes. */
struct bn_emu_work {
    bool (*ready)(void *arg);
    void (*finish)(void *arg);
    void *arg;
};
/* Work may be put only on a stream that is idle. */
void bn_emu_stream_put(cudaStream_t stream, const struct bn_emu_work *work);
/* True if earlier work of the stream, and of those that it waits for, is
 * over, whose results are then in place. Does not wait. */
bool bn_emu_stream_idle(cudaStream_t stream);
/* The same, but waits: before anything is done that comes next on it. */
void bn_emu_stream_wait(cudaStream_t stream);

/* Devices that exist: 1 unless set (0: cudaErrorInsufficientDriver, as on a
 * machine without a driver). */
void bn_emu_set_devices(int count);
/* The compute capability of all: 8.0 unless set; whether there are kernels for
 * it. */
void bn_emu_set_capability(int major, int minor);
void bn_emu_set_kernels(bool there);
/* What cudaFuncGetAttributes says of a kernel. */
int bn_emu_look_for(void);
/* Whether what kernels do wrong is seen by the next launch or wait, and by all
 * after that, as on a device, instead of by their own launch (as with
 * CUDA_LAUNCH_BLOCKING=1, which is how it is unless set). */
void bn_emu_set_late(bool late);
/* Whether work on streams is put off until it is waited for, an event after it
 * is asked for a second time, memory is freed, or it needs pageable memory: as
 * on a device that is far behind the host. Else it is done at once. Set, too,
 * by BURNISH_EMU_LAZY=1. */
void bn_emu_set_lazy(bool lazy);
/* Calls that waited for the device, allocations, and launches of graphs since
 * the start. BURNISH_EMU_ALLOCATIONS names a file that gets a line for each
 * allocation of a program, "device BYTES" or "pinned BYTES". */
struct bn_emu_calls {
    unsigned long waits, mallocs, launches;
};
struct bn_emu_calls bn_emu_calls(void);

#ifdef __cplusplus
}
#endif

#endif
