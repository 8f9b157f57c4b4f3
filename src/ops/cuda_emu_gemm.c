/* Matrix products of the emulated back end: the host's, over emulated device
 * memory, which is opened to it meanwhile. */
#include "config.h"
#include "kernels/emu/emu.h"
#include "ops/cuda_state.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

struct bn_cuda_gemm {
    struct bn_arena work;
    cudaStream_t stream;
    size_t bytes;
};

struct bn_cuda_gemm *bn_cuda_gemm_create(size_t bytes, cudaStream_t stream,
                                         struct bn_err *err)
{
    struct bn_cuda_gemm *s = BN_NEW(struct bn_cuda_gemm);

    s->stream = stream;
    s->bytes = bytes;
    if (bn_arena_init(&s->work, "matrix product scratch",
                      bn_gemm_work_cpu(1), err) == 0)
        return s;
    free(s);
    return NULL;
}

void bn_cuda_gemm_destroy(struct bn_cuda_gemm *s)
{
    if (s == NULL)
        return;
    bn_arena_release(&s->work);
    free(s);
}

static cudaError_t run(void *arg)
{
    const struct bn_gemm *g = arg;
    const void *p[] = {g->a, g->b, g->c, g->bias};

    bn_emu_open_some();
    for (int i = 0; i < 4; i++)
        bn_emu_open_at(p[i]);
    bn_gemm_cpu(g);
    bn_emu_close();
    return cudaSuccess;
}

int bn_cuda_gemm_run(struct bn_cuda_gemm *s, const struct bn_gemm *g,
                     void *work, char *why, size_t size)
{
    struct bn_gemm host = *g;
    const void *p[] = {g->a, g->b, g->c, g->bias};

    for (int i = 0; i < 4; i++)
        if (p[i] != NULL && !bn_emu_is_device(p[i], 1)) {
            snprintf(why, size, "operand %d is no device memory", i);
            return -1;
        }
    if (!bn_emu_is_device(work, s->bytes)) {
        snprintf(why, size, "the workspace is no device memory");
        return -1;
    }
    host.threads = 1;
    host.work = s->work.base;
    (void)bn_emu_stream_call(s->stream, run, &host, sizeof(host));
    return 0;
}
