/* What slots of a GPU device that run on the CPU take of it: the buffers of one
 * call as host memory. Only included by cuda_host.c, whose words are short.
 */
#ifndef BN_OPS_CUDA_LOAN_H
#define BN_OPS_CUDA_LOAN_H

#include "ops/cuda_state.h"

/* Rows of 'width' bytes, each 'pitch' bytes after the one before: several
 * such buffers may lie between each other's columns. */
struct block {
    size_t rows, pitch, width;
};

/* The buffers of one call. The same device address is the same buffer, so
 * that aliases stay aliases. */
struct loan {
    struct bn_dev *d;
    struct bn_dev *cpu;
    struct {
        char *host;
        const void *dev;
        struct block b;
        bool back;
    } item[16];
    int n;
};

static inline struct loan loan_begin(struct bn_dev *d)
{
    return (struct loan){.d = d, .cpu = bn_cuda_of(d)->cpu};
}

/* The host's copy of device memory (NULL: NULL); written back at the end if
 * 'back'. Lent again with wider rows, it moves: see bn_loan_again. */
void *bn_loan_lend(struct loan *l, const void *dev, struct block b, bool back);
/* Where an earlier loan of the same address lies now; NULL: there is none. */
void *bn_loan_again(const struct loan *l, const void *dev);
/* Keep a failure of the CPU's slot, write back, free. */
void bn_loan_end(struct loan *l);

static inline const void *in(struct loan *l, const void *dev, struct block b)
{
    return bn_loan_lend(l, dev, b, false);
}

static inline void *out(struct loan *l, void *dev, struct block b)
{
    return bn_loan_lend(l, dev, b, true);
}

/* n rows of 'cols' elements, each ld after the one before. */
static inline struct block rows_of(enum bn_dtype t, int n, int ld, int cols)
{
    size_t size = bn_dtype_size(t);

    return (struct block){(size_t)n, (size_t)ld * size, (size_t)cols * size};
}

static inline struct block vector(enum bn_dtype t, size_t n)
{
    size_t bytes = n * bn_dtype_size(t);

    return (struct block){1, bytes, bytes};
}

#endif
