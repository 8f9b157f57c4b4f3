/* What the files of the CUDA back end share. */
#ifndef BN_OPS_CUDA_STATE_H
#define BN_OPS_CUDA_STATE_H

#ifdef BN_EMU
#include "kernels/emu/runtime.h"
#else
#include <cuda_runtime_api.h>
#endif

#include <stdarg.h>

#include "kernels/gemm.h"
#include "ops/cuda.h"

enum {
    BN_CUDA_STAGES = 16,
    BN_CUDA_STAGE = 1 << 20,
    BN_CUDA_SCRATCH = 32 << 20, /* partial sums of gradients */
    BN_CUDA_GEMM = 32 << 20,    /* workspace of matrix products */
    BN_CUDA_SLOTS = 40,
    BN_CUDA_ARGS = 6,
};

_Static_assert(BN_CUDA_SCRATCH + BN_CUDA_GEMM == BN_CUDA_ROOM, "scratch");

struct bn_cuda_gemm;

/* A call of a slot with its shapes: %s (what lives as long as the program),
 * %d, %zu and %g of a format. */
struct bn_cuda_call {
    const char *slot, *fmt; /* NULL: none */
    union {
        const char *s;
        int d;
        size_t z;
        double g;
    } arg[BN_CUDA_ARGS];
};
void bn_cuda_call_keep(struct bn_cuda_call *c, const char *slot,
                       const char *fmt, va_list ap);
/* The shapes; "slot (shapes)", or "no kernel". */
void bn_cuda_call_shapes(const struct bn_cuda_call *c, char *text,
                         size_t size);
void bn_cuda_call_text(const struct bn_cuda_call *c, char *text, size_t size);

struct bn_cuda {
    struct bn_cuda_options o;
    cudaStream_t stream;
    struct bn_dev *cpu;
    struct bn_cuda_gemm *gemm;
    char *scratch; /* BN_CUDA_SCRATCH, then BN_CUDA_GEMM bytes, then the first
                    * arena; NULL before there is one */
    /* Pinned memory on the way to the device, a piece at a time. */
    struct {
        char *p;
        cudaEvent_t done;
    } stage[BN_CUDA_STAGES];
    int next_stage;
    char *box; /* pinned, BN_MAIL bytes */
    cudaEvent_t mailed;
    struct bn_graph *graph; /* begun and not ended; NULL: none */
    bool recording;         /* it; else what it reads is being renewed */
    size_t arenas, peak;
    uint64_t sent, fetched; /* bytes of from_host and to_host */
    struct bn_cuda_call last; /* that was enqueued */
    struct bn_cuda_fallback fallback[BN_CUDA_SLOTS];
    int nfallback;
    const char *forced; /* slots sent to the CPU, or NULL; the environment's */
};

static inline struct bn_cuda *bn_cuda_of(const struct bn_dev *d)
{
    return d->state;
}

/* Are slots to do something? */
static inline bool bn_cuda_runs(const struct bn_dev *d)
{
    const struct bn_cuda *s = bn_cuda_of(d);

    return !d->failed && (s->graph == NULL || s->recording);
}

/* Keep the failure of a call for slot 'what' (shapes in words). One of a
 * kernel may be an earlier one's, unless launches are waited for. */
void bn_cuda_failed(struct bn_dev *d, cudaError_t e, const char *what);
/* Count a slot that runs on the CPU; true if it may. 'caller': an address in
 * the code that asked. */
bool bn_cuda_lend(struct bn_dev *d, const char *slot, const char *shapes,
                  const void *caller);

/* The slots on the GPU; on the CPU through copies, none of them counted. */
extern const struct bn_ops bn_cuda_ops, bn_cuda_on_host;
/* Was this slot sent to the CPU by name? */
bool bn_cuda_forced(const struct bn_dev *d, const char *slot);
/* -1 unless 'names' (space-separated) are all slots that can be. */
int bn_cuda_check_names(const char *names, struct bn_err *err);

/* --- graphs (cuda_graph.c) --- */
/* from_host in a graph that was begun. */
void bn_cuda_graph_feed(struct bn_dev *d, void *dst, enum bn_dtype dst_type,
                        const void *host_src, enum bn_dtype src_type,
                        size_t n);
/* Room of such a copy of 'bytes'. */
size_t bn_cuda_graph_room(size_t bytes);
/* A call that waits: a failure in a graph; false then. */
bool bn_cuda_may_wait(struct bn_dev *d, const char *what);
void bn_cuda_graph_slots(struct bn_ops *op);

/* Matrix products: cublasLt, or the host's under the emulator. g's pointers
 * are device memory, and so are the 'bytes' of 'work'. */
struct bn_cuda_gemm *bn_cuda_gemm_create(size_t bytes, cudaStream_t stream,
                                         struct bn_err *err);
void bn_cuda_gemm_destroy(struct bn_cuda_gemm *s);
/* Returns 0, or -1 with the reason in 'why'. */
int bn_cuda_gemm_run(struct bn_cuda_gemm *s, const struct bn_gemm *g,
                     void *work, char *why, size_t size);

#endif
