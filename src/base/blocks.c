#include "config.h"
#include "base/blocks.h"
#include "base/mem.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NAMES = 32 };

struct block {
    const void *p;
    size_t bytes;
    int name;
    bool host;
};

static struct {
    pthread_mutex_t lock;
    struct block *v;
    size_t n, cap;
    const char *name[NAMES];
    size_t allocated[NAMES], peak[NAMES];
    int names;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock held. Names past the last share it: there are few. */
static int index_of(const char *name)
{
    int i = 0;

    while (i < all.names && strcmp(all.name[i], name) != 0)
        i++;
    if (i == all.names && i < NAMES)
        all.name[all.names++] = name;
    return i < NAMES ? i : NAMES - 1;
}

void bn_block_add(const char *name, const void *p, size_t bytes, bool host)
{
    if (p == NULL || bytes == 0)
        return;
    pthread_mutex_lock(&all.lock);
    int i = index_of(name);

    bn_grow(&all.v, &all.cap, all.n + 1, sizeof(*all.v));
    all.v[all.n++] = (struct block){p, bytes, i, host};
    all.allocated[i] += bytes;
    if (all.allocated[i] > all.peak[i])
        all.peak[i] = all.allocated[i];
    pthread_mutex_unlock(&all.lock);
}

void bn_block_drop(const void *p)
{
    pthread_mutex_lock(&all.lock);
    for (size_t k = 0; k < all.n; k++)
        if (all.v[k].p == p) {
            all.allocated[all.v[k].name] -= all.v[k].bytes;
            all.v[k] = all.v[--all.n];
            break;
        }
    if (all.n == 0) {
        free(all.v); /* a program that ends in order leaves nothing */
        all.v = NULL;
        all.cap = 0;
    }
    pthread_mutex_unlock(&all.lock);
}

void bn_block_sum(const char *name, struct bn_block_sum *out)
{
    *out = (struct bn_block_sum){0};
    pthread_mutex_lock(&all.lock);
    for (size_t k = 0; k < all.n; k++) {
        const struct block *b = &all.v[k];

        if (strcmp(all.name[b->name], name) == 0)
            out->touched += b->host ? bn_pages_touched(b->p, b->bytes)
                                    : b->bytes;
    }
    for (int i = 0; i < all.names; i++)
        if (strcmp(all.name[i], name) == 0) {
            out->allocated = all.allocated[i];
            out->peak = all.peak[i];
        }
    pthread_mutex_unlock(&all.lock);
}

const char *bn_block_name(int i)
{
    return i < all.names ? all.name[i] : NULL;
}

/* --- Pages ------------------------------------------------------------------ */

/* In a page of a mapping that has been touched; -1: cannot be told. */
static int touched(int fd, uintptr_t page, size_t size, size_t n,
                   unsigned char *flags)
{
    uint64_t entry[512];
    const uint64_t present = UINT64_C(1) << 63, swapped = UINT64_C(1) << 62;

    if (fd >= 0
        && pread(fd, entry, n * sizeof(*entry),
                 (off_t)(page / size * sizeof(*entry)))
               == (ssize_t)(n * sizeof(*entry))) {
        for (size_t i = 0; i < n; i++)
            flags[i] = (entry[i] & (present | swapped)) != 0;
        return 0;
    }
    return mincore((void *)page, n * size, flags);
}

size_t bn_pages_touched(const void *p, size_t n)
{
    size_t size = (size_t)sysconf(_SC_PAGE_SIZE), sum = 0;
    uintptr_t at = (uintptr_t)p, end = at + n;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

    for (uintptr_t page = at / size * size; page < end; page += 512 * size) {
        unsigned char flags[512];
        size_t k = (end - page + size - 1) / size;

        k = k < 512 ? k : 512;
        if (touched(fd, page, size, k, flags) < 0)
            continue;
        for (size_t i = 0; i < k; i++) {
            uintptr_t from = page + i * size, to = from + size;

            if ((flags[i] & 1) == 0)
                continue;
            /* The ends of the range may be in the middle of a page. */
            sum += (to < end ? to : end) - (from > at ? from : at);
        }
    }
    if (fd >= 0)
        close(fd);
    return sum;
}
