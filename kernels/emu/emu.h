/* Runs CUDA kernels on the host: what tests and the back end see of it.
 *
 * The threads of a block are fibres of the one calling thread; blocks run one
 * after the other. Between two barriers the order of threads, and the order
 * of blocks, is drawn from a seed, so that a missing barrier changes results.
 * Found and reported, each as the error of the launch, with kernel, block and
 * thread named:
 *   - a barrier that some threads of the block, or lanes of the warp, do not
 *     reach, or reach at another place;
 *   - an access outside device allocations (guard pages, bytes around each
 *     allocation) or outside dynamic and static shared memory (canaries; with
 *     AddressSanitizer at once);
 *   - a host pointer given to a kernel;
 *   - accesses of several bytes at once, by the functions of
 *     kernels/cuda/cu.h, that are not aligned to their size;
 *   - launches that a device would refuse.
 * Host code that touches device memory outside the copies below gets SIGSEGV
 * after a line on standard error which says so.
 *
 * Not emulated: warp operations with partial masks, blocks that are no
 * multiple of a warp, waiting for another block, concurrency of streams (but
 * for work of other libraries, see runtime.h).
 * Not thread safe.
 */
#ifndef BN_KERNELS_EMU_EMU_H
#define BN_KERNELS_EMU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Seed of the order of threads and blocks; each launch draws anew. */
void bn_emu_seed(uint64_t seed);
/* What the first failed launch or call since the last clear had to say; ""
 * when nothing failed. */
const char *bn_emu_error(void);
void bn_emu_clear(void);

/* Device memory, filled with a pattern that is NaN in every float type.
 * Its end is followed by an inaccessible page. NULL when there is none. */
void *bn_emu_malloc(size_t size);
/* 0, or -1 when p is no allocation or bytes around it were overwritten. */
int bn_emu_free(void *p);
/* Bytes allocated now. */
size_t bn_emu_allocated(void);
/* True when all of [p, p + n) lies inside one allocation. */
bool bn_emu_is_device(const void *p, size_t n);
/* Let host code touch device memory (copies); calls may nest. */
void bn_emu_open(void);
void bn_emu_close(void);
/* bn_emu_open is slow where much is allocated. This one opens nothing; then
 * bn_emu_open_at opens the allocation of an address. That is false where none
 * lies that was closed; kernels open what they touch without it. */
void bn_emu_open_some(void);
bool bn_emu_open_at(const void *address);

struct bn_emu_dim {
    unsigned x, y, z;
};

/* Run fn(arg) once a thread. 0, or a cudaError_t value with bn_emu_error
 * filled. */
int bn_emu_launch(const char *kernel, struct bn_emu_dim grid,
                  struct bn_emu_dim block, size_t shared,
                  void (*fn)(void *arg), void *arg);
/* Kernels that may use more than 48 KiB of shared memory, of which 'bytes'
 * are dynamic. */
int bn_emu_allow_shared(const char *kernel, size_t bytes);
/* What a block of such a kernel may have: 163 KiB unless set (0), as on
 * sm_80; sm_86, sm_89 and sm_120 have 99. */
void bn_emu_set_shared(size_t bytes);
size_t bn_emu_shared_most(void);
/* Launches since the start, and barriers passed: to see that tests test. */
struct bn_emu_count {
    uint64_t launches, blocks, switches, barriers, warp_ops;
};
struct bn_emu_count bn_emu_counts(void);

/* Bytes of [p, p + n) that kernels read and write by the functions of
 * kernels/cuda/cu.h and ptx.h, and of them those by accesses of less than 16.
 */
struct bn_emu_watched {
    const void *p;
    size_t n;
    uint64_t read, written, narrow;
};
/* Count accesses to each of w[n], from their counts on; NULL: to none. */
void bn_emu_watch(struct bn_emu_watched *w, int n);

/* For kernels/emu/lang.h: inside a kernel only. */
extern int bn_emu_watching;
void bn_emu_access(const void *p, size_t n, bool write);
void bn_emu_misaligned(const void *p, size_t n);
enum bn_emu_vote { BN_EMU_SUM, BN_EMU_OR, BN_EMU_AND };
int bn_emu_barrier(const char *file, int line, int value,
                   enum bn_emu_vote vote);
/* What a lane leaves for the others of its warp. */
struct bn_emu_lane {
    uint64_t word[4];
};
/* Leave the first bytes of 'mine', wait for all 32 lanes, give the 32
 * deposits. They stay valid until this lane's next warp operation. */
const struct bn_emu_lane *bn_emu_warp(const char *what, int line,
                                      unsigned mask,
                                      const struct bn_emu_lane *mine,
                                      size_t bytes);
/* The block's static shared array of a place in the source. */
void *bn_emu_shared(const char *file, int line, size_t bytes);
void *bn_emu_shared_dynamic(void);
/* cp.async: done at once or when waited for. */
void bn_emu_copy_begin(void *dst, const void *src, bool valid);
void bn_emu_copy_commit(void);
void bn_emu_copy_wait(int groups_left);
/* A check that failed inside a kernel: ends the launch. */
void bn_emu_fail(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), noreturn));
/* For launches: remember that an argument is wrong. */
void bn_emu_check_pointer(const char *kernel, int index, const void *p);

#ifdef __cplusplus
}
#endif

#endif
