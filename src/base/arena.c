#include "config.h"
#include "base/arena.h"
#include "base/blocks.h"
#include "base/mem.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE = 2 << 20 };

void bn_arena_plan(struct bn_arena *a, const char *name)
{
    *a = (struct bn_arena){.name = name, .size = SIZE_MAX};
}

int bn_arena_init(struct bn_arena *a, const char *name, size_t size,
                  struct bn_err *err)
{
    size_t whole = (size + HUGE - 1) / HUGE * HUGE;
    char *p;

    *a = (struct bn_arena){.name = name};
    if (whole == 0)
        return 0;
    p = mmap(NULL, whole + HUGE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return bn_fail(err, BN_ERR_AGAIN, "cannot map %zu bytes for %s: %s",
                       size, name, strerror(errno));
    /* Align to a huge page: unmap what hangs over at both ends. */
    size_t head = (HUGE - (uintptr_t)p % HUGE) % HUGE;
    if (head > 0)
        munmap(p, head);
    if (head < HUGE)
        munmap(p + head + whole, HUGE - head);
    a->base = p + head;
    a->size = whole;
    /* Without huge pages it is only slower. */
    (void)madvise(a->base, whole, MADV_HUGEPAGE);
    bn_block_add(name, a->base, whole, true);
    return 0;
}

void bn_arena_release(struct bn_arena *a)
{
    bn_block_drop(a->base);
    if (a->base != NULL)
        munmap(a->base, a->size);
    *a = (struct bn_arena){0};
}

void *bn_arena_get(struct bn_arena *a, size_t bytes)
{
    size_t n = (bytes + BN_ARENA_ALIGN - 1) / BN_ARENA_ALIGN * BN_ARENA_ALIGN;
    size_t at = a->used;

    if (n < bytes || n > a->size - at) {
        fprintf(stderr, "bug: %s arena of %zu bytes: %zu used, %zu wanted\n",
                a->name != NULL ? a->name : "?", a->size, at, bytes);
        abort();
    }
    a->used = at + n;
    if (a->used > a->peak)
        a->peak = a->used;
    /* In a plan the address is a number that only has to differ. */
    return a->base != NULL ? a->base + at
                           : (void *)(uintptr_t)(at + BN_ARENA_ALIGN);
}

void bn_arena_reset(struct bn_arena *a, size_t mark)
{
    a->used = mark;
}

void bn_arena_touch(struct bn_arena *a)
{
    long pages = (long)(a->size / HUGE);

#pragma omp parallel for schedule(static)
    for (long i = 0; i < pages; i++)
        memset(a->base + i * HUGE, 0, HUGE);
}

size_t bn_arena_resident(const struct bn_arena *a)
{
    size_t page = (size_t)sysconf(_SC_PAGE_SIZE), n = a->size / page;
    size_t in = 0;
    unsigned char *v;

    if (a->base == NULL)
        return 0;
    v = bn_malloc(n);
    if (mincore(a->base, a->size, v) == 0)
        for (size_t i = 0; i < n; i++)
            in += v[i] & 1;
    free(v);
    return in * page;
}
