/* What the files of the CPU back end share. */
#ifndef BN_OPS_CPU_H
#define BN_OPS_CPU_H

#include "kernels/gemm.h"
#include "ops/ops.h"

struct bn_cpu {
    struct bn_arena gemm_work;
    struct bn_onednn *onednn; /* NULL: not used */
    bool onednn_bf16, onednn_f32; /* used for products of that type */
    char mail[BN_MAIL];
};

/* c = a b by the way this process uses (gemm.c). */
void bn_cpu_gemm(struct bn_dev *d, struct bn_gemm *g);

/* Fill the slots of matrix products, and choose who computes them: our own
 * kernel, whose bits depend neither on the number of threads nor on how rows
 * are batched; or oneDNN for BF16 where the machine has AMX, or for all that
 * it has here if BURNISH_GEMM=onednn (BURNISH_GEMM=own: never). */
int bn_cpu_gemm_init(struct bn_dev *d, struct bn_err *err);
void bn_cpu_gemm_release(struct bn_cpu *cpu);

#endif
