#include "config.h"
#include "kernels/attn.h"
#include "kernels/cpu/cpu.h"

BN_CPU_DECLARE(attn);
BN_CPU_DECLARE(attn_grad);
extern __typeof__(bn_attn_work_cpu) BN_CPU(attn_work);

size_t BN_CPU(attn_work)(const struct bn_attn *a)
{
    (void)a;
    return 0;
}

void BN_CPU(attn)(enum bn_dtype t, const struct bn_attn *a)
{
    bn_attn_ref(t, a);
}

void BN_CPU(attn_grad)(enum bn_dtype t, const struct bn_attn *a,
                       const struct bn_attn_grad *g)
{
    bn_attn_ref(t, a);
    bn_attn_grad_ref(t, a, g);
}
