/* The CUDA back end: a device whose op table runs on one GPU. */
#ifndef BN_OPS_CUDA_H
#define BN_OPS_CUDA_H

#include "ops/ops.h"

struct bn_cuda_options {
    int ordinal; /* among the visible devices */
    int rank;    /* for messages */
    int threads; /* of the CPU back end that runs what the GPU cannot */
    bool strict; /* whatever would run on the CPU is an error instead */
    bool graphs; /* the same, for graphs are made, which cannot hold it */
};

/* Bytes of device memory that the back end takes for itself, in front of the
 * first arena and in one allocation with it: so that arena is released last. */
enum { BN_CUDA_ROOM = 64 << 20 };

/* Number of visible devices. -1 (BN_ERR_USAGE: "no CUDA device: why") when
 * there is none, no driver, or this program was built without CUDA. */
int bn_cuda_count(int *count, struct bn_err *err);

/* The device, or NULL: BN_ERR_USAGE if there is none with that ordinal, or it
 * is older than compute capability 8.0 or none that this was built for,
 * BN_ERR_AGAIN if it does not answer. Takes its pinned staging memory (16 MiB)
 * now, and its scratch (BN_CUDA_ROOM) with the first arena; slots allocate
 * nothing and, but for to_host, collect, sync and slots that run on the CPU,
 * wait for nothing (from_host only where 16 MiB of copies are under way). A
 * step of one rank is made of such slots, up to the end, where its results are
 * collected: it can be a graph (ops.h), which takes pinned memory of its own
 * for what from_host copies.
 *
 * Beside what ops.h says: matrix products keep the algorithm that was chosen
 * when their shape was first seen, the choice being a function of the shape,
 * the library and the device, so that a run repeats. F32 is never rounded to
 * TF32. A shape for which there is no kernel (head dimension above 256, and
 * above 128 where a block has 99 KiB of shared memory, as on Ada and RTX
 * Blackwell; rows of a norm that do not fit in it; F64) is computed by the CPU
 * back end through copies: counted, named once at debug level with shapes
 * and caller, an error if strict. BURNISH_CUDA_HOST="slot slot ..." sends
 * those slots to the CPU too, to see whether a kernel is at fault.
 * An error names slot, shapes, rank and device. What a kernel does wrong is
 * seen by a later launch or wait: then it is the last slot that is named, the
 * error says that it may be one before it, and CUDA_LAUNCH_BLOCKING=1 makes it
 * that very one.
 */
struct bn_dev *bn_dev_cuda(const struct bn_cuda_options *o,
                           struct bn_err *err);

/* The stream (cudaStream_t) on which everything is enqueued. */
void *bn_cuda_stream(const struct bn_dev *d);

struct bn_cuda_memory {
    size_t arenas;    /* device bytes of arenas now */
    size_t peak;      /* and at most */
    size_t scratch;   /* device bytes the back end itself took */
    size_t pinned;    /* host bytes it pinned */
    size_t available; /* free on the device now, whoever used the rest */
    size_t total;
    uint64_t sent, fetched; /* bytes copied to and from the device so far, but
                             * for slots that run on the CPU */
};
void bn_cuda_memory(const struct bn_dev *d, struct bn_cuda_memory *m);

/* A slot that ran on the CPU, how often, and the shapes of the first time. */
struct bn_cuda_fallback {
    const char *slot;
    unsigned long times;
    char shapes[96];
};
/* Fill at most 'most' of them; returns how many there are. */
int bn_cuda_fallbacks(const struct bn_dev *d, struct bn_cuda_fallback *out,
                      int most);
/* Dense peak of this kind of GPU by its data sheet, FLOP/s in products of type
 * t (F32 without TF32); 0 if it is not known. 'name' gets its name. */
double bn_cuda_peak_flops(const struct bn_dev *d, enum bn_dtype t, char *name,
                          size_t size);
/* Log the memory taken, and the slots that ran on the CPU if there are any,
 * at the end of a run. */
void bn_cuda_report(const struct bn_dev *d);

#endif
