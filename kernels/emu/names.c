/* What errors of the emulated runtime are called. */
#include "config.h"
#include "kernels/emu/runtime.h"

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
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
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
