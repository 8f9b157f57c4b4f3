/* Stacks and the switch between them. */
#ifndef BN_KERNELS_EMU_FIBRE_H
#define BN_KERNELS_EMU_FIBRE_H

#include <stddef.h>

struct bn_fibre {
    void *sp;         /* saved stack pointer (or context) */
    char *low;        /* stack, NULL for the host's own */
    size_t size;
    void *fake;       /* AddressSanitizer's */
};

/* Give 'f' a stack (kept if it has one) on which entry() will run; entry
 * must never return. 'index' staggers the stacks in the cache. 0 or -1. */
int bn_fibre_init(struct bn_fibre *f, void (*entry)(void), unsigned index);
void bn_fibre_release(struct bn_fibre *f);
/* The calling thread's own stack, to switch back to. */
void bn_fibre_host(struct bn_fibre *f);
/* The first call of every entry(). */
void bn_fibre_entered(void);
/* 'f' is the one after the next: let the processor fetch what it will read. */
static inline void bn_fibre_fetch(const struct bn_fibre *f)
{
    const char *sp = f->sp;

    for (int i = 0; i < 4; i++)
        __builtin_prefetch(sp + i * 64);
}
/* Leave 'from' and continue in 'to'. */
void bn_fibre_switch(struct bn_fibre *from, struct bn_fibre *to);

#endif
