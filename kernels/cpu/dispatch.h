/* Which compiled form of the CPU kernels runs. */
#ifndef BN_KERNELS_DISPATCH_H
#define BN_KERNELS_DISPATCH_H

enum bn_cpu_isa {
    BN_CPU_BASE,   /* what the compiler aims at when not told otherwise */
    BN_CPU_V3,     /* x86-64-v3: AVX2, FMA */
    BN_CPU_V4,     /* x86-64-v4: AVX-512 F, BW, CD, DQ, VL */
    BN_CPU_V4BF16, /* v4 and AVX-512 BF16 */
    BN_CPU_NISA
};

/* The best form this machine can run, or a lesser one if the environment
 * variable BURNISH_CPU_ISA names it ("base", "v3", "v4", "v4bf16"; a name
 * that is unknown or that the machine cannot run is ignored). Read once. */
enum bn_cpu_isa bn_cpu_isa(void);

/* The best form this machine can run. */
enum bn_cpu_isa bn_cpu_isa_best(void);

/* For tests: use 'isa' from now on. 0, or -1 if this machine cannot run it.
 * Not while kernels run. */
int bn_cpu_isa_set(enum bn_cpu_isa isa);

const char *bn_cpu_isa_name(enum bn_cpu_isa isa);

#endif
