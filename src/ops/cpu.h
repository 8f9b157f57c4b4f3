/* What the files of the CPU back end share. */
#ifndef BN_OPS_CPU_H
#define BN_OPS_CPU_H

#include "kernels/gemm.h"
#include "ops/ops.h"

struct bn_cpu {
    struct bn_arena gemm_work;
};

/* c = a b by the way this process uses (gemm.c). */
void bn_cpu_gemm(struct bn_dev *d, struct bn_gemm *g);

/* Fill the slots of matrix products. */
void bn_cpu_fill_gemm(struct bn_ops *op);

#endif
