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
/* Leave 'from' and continue in 'to'. */
void bn_fibre_switch(struct bn_fibre *from, struct bn_fibre *to);

#endif
