/* The large blocks of memory of this process, by class: who took them, how
 * much is taken, how much of it was touched. Arenas add themselves under
 * their names; other owners of large memory do so by hand. Thread safe.
 */
#ifndef BN_BASE_BLOCKS_H
#define BN_BASE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

/* host: memory of this process, of which pages can be asked; else a device's,
 * or pinned memory, which has its pages from the beginning. 'name' is a
 * string that stays. */
void bn_block_add(const char *name, const void *p, size_t bytes, bool host);
/* NULL, or what was never added: nothing. */
void bn_block_drop(const void *p);

struct bn_block_sum {
    size_t allocated; /* now */
    size_t touched;   /* of it; see bn_pages_touched */
    size_t peak;      /* allocated at most */
};
/* Of all blocks with that name. */
void bn_block_sum(const char *name, struct bn_block_sum *out);
/* The i-th name (from 0) that a block ever had, or NULL. */
const char *bn_block_name(int i);

/* Bytes of p[n] that have a page of their own: in memory or swapped out, as
 * /proc/self/pagemap says; where that cannot be read, those in memory. Memory
 * that was only mapped has none. */
size_t bn_pages_touched(const void *p, size_t n);

#endif
