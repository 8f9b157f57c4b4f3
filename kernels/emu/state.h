/* Between the files of the emulator. */
#ifndef BN_KERNELS_EMU_STATE_H
#define BN_KERNELS_EMU_STATE_H

#include "kernels/emu/emu.h"

/* Keep the first error text. */
void bn_emu_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Run a grid whose shape was checked: 0 or -1 with the error noted. */
int bn_emu_run(const char *kernel, struct bn_emu_dim grid,
               struct bn_emu_dim block, size_t shared, void (*fn)(void *),
               void *arg);
/* 0, or why a device would refuse a launch. */
int bn_emu_check_launch(const char *kernel, struct bn_emu_dim grid,
                        struct bn_emu_dim block, size_t shared);
/* What the static and dynamic arrays of a kernel may have together. */
size_t bn_emu_shared_limit(const char *kernel);
/* Was one of the arguments checked since the last launch a host pointer? */
bool bn_emu_wrong_pointer(void);
/* After a run that ended in the middle of a block. */
void bn_emu_abandon(void);
/* "kernel K, block (...), thread (...)" now running. */
const char *bn_emu_where(char *buf, size_t size);
/* Tell AddressSanitizer, if there is one. */
void bn_emu_poison(void *p, size_t n);
void bn_emu_unpoison(void *p, size_t n);
/* Say what lies at an address on which host code faults. */
void bn_emu_name_faults(void);
/* What lies at an address, in words. */
const char *bn_emu_whose(const void *address, char *buf, size_t size);
/* Add a line to the file of allocations, if there is to be one. */
void bn_emu_tell_allocation(const char *domain, size_t size);
/* Bytes around the device allocations that are open still in place? 0, or -1
 * and noted. */
int bn_emu_check_edges(const char *kernel);

#endif
