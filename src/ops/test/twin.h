/* A CPU and an emulated GPU, with the same memory on both: what tests of the
 * CUDA back end compare.
 */
#ifndef BN_OPS_TEST_TWIN_H
#define BN_OPS_TEST_TWIN_H

#include "ops/cuda.h"

#include <stdbool.h>
#include <stddef.h>

/* The same memory on both devices. */
struct twin {
    void *h, *g;
    enum bn_dtype t;
    size_t n;
};

extern struct bn_dev *cpu, *gpu;
extern struct bn_arena arena[2]; /* of the CPU, of the GPU */
extern struct twin twins[];      /* in the order in which they were made */

/* Make both; slots named are sent to the CPU, whose bits are then expected. */
void twins_begin(const char *host_slots);
/* No failure, and no device memory left. */
void twins_end(void);
/* n elements: normal if deviation > 0, else integers of [0, -deviation). */
struct twin *twin(enum bn_dtype t, size_t n, double deviation);
/* Equal to rel of the largest magnitude (BF16: and steps of the type). */
void near(const struct twin *w, double rel, const char *what);

/* Call a slot on both devices; arguments name twins through M. */
#define BOTH(slot, CALL)                                                      \
    do {                                                                      \
        struct bn_dev *d = cpu;                                               \
        bool on = false;                                                      \
        d->op.slot CALL;                                                      \
        d = gpu;                                                              \
        on = true;                                                            \
        d->op.slot CALL;                                                      \
    } while (0)
#define M(w) (on ? (w)->g : (w)->h)
#define AT(w, i) (void *)((char *)M(w) + (i) * bn_dtype_size((w)->t))

#endif
