/* One block of memory whose size is planned, mapped once (huge pages asked
 * for before the first touch) and handed out from the front. Views point
 * into it; only the arena owns. Not thread safe.
 */
#ifndef BN_BASE_ARENA_H
#define BN_BASE_ARENA_H

#include <stddef.h>

#include "base/err.h"

struct bn_arena {
    char *base; /* NULL in a plan: bn_arena_get then only counts */
    size_t size, used, peak;
    const char *name; /* for messages; not owned */
};

enum { BN_ARENA_ALIGN = 64 };

/* A plan: gives addresses that must not be used and counts bytes. */
void bn_arena_plan(struct bn_arena *a, const char *name);
/* Map 'size' bytes; touched first by bn_arena_touch or by use. */
int bn_arena_init(struct bn_arena *a, const char *name, size_t size,
                  struct bn_err *err);
void bn_arena_release(struct bn_arena *a);
/* 'bytes' aligned to 64. Running past the planned size is a broken
 * invariant: it prints the arena's name and aborts. Contents undefined. */
void *bn_arena_get(struct bn_arena *a, size_t bytes);
/* Give back everything handed out since 'used' was 'mark'. */
void bn_arena_reset(struct bn_arena *a, size_t mark);
/* Fault every page in now, zeroed, from all OpenMP threads if built so. */
void bn_arena_touch(struct bn_arena *a);
/* Bytes of the arena that are resident. */
size_t bn_arena_resident(const struct bn_arena *a);

#endif
