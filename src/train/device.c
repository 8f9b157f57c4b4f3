#include "config.h"
#include "train/device.h"

#include <string.h>

#include "base/log.h"
#include "ops/cuda.h"

struct bn_dev *bn_device_open(const struct bn_device_want *w,
                              struct bn_err *err)
{
    struct bn_cuda_options o = {.rank = w->rank,
                                .threads = w->threads,
                                .strict = w->strict,
                                .graphs = w->graphs};
    int count = 0;

    if (w->kind == BN_RUN_DEVICE_CPU)
        return bn_dev_cpu(w->threads, err);
    if (bn_cuda_count(&count, err) == 0) {
        o.ordinal = w->local_rank % count;
        return bn_dev_cuda(&o, err);
    }
    if (w->kind == BN_RUN_DEVICE_CUDA) {
        bn_err_prefix(err, "device: cuda");
        return NULL;
    }
    bn_log(w->quiet ? BN_LOG_DEBUG : BN_LOG_INFO,
           "device: auto: %s; using the CPU", err->text);
    return bn_dev_cpu(w->threads, err);
}

void bn_device_close(struct bn_dev *d)
{
    if (d != NULL && strcmp(d->name, "cuda") == 0)
        bn_cuda_report(d);
    bn_dev_destroy(d);
}
