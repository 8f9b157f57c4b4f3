/* Device memory: allocations that host code cannot touch. */
#include "config.h"
#include "kernels/emu/emu.h"
#include "kernels/emu/state.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif
#ifdef HAVE_ASAN
#include <sanitizer/asan_interface.h>
#endif

/* [guard page][slack = edge bytes][the allocation][tail < 16][guard page] */
struct block {
    char *map, *p;
    size_t mapped, size;
    bool open;
    struct block *next;
};

enum { ALIGN = 16, EDGE_BYTE = 0x5a, POISON = 0xff, HUGE_PAGE = 2 << 20 };

static struct block *blocks;
static size_t allocated;
static int open_depth;
static char text[600];

void bn_emu_note(const char *fmt, ...)
{
    va_list ap;

    if (text[0] != '\0')
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
}

const char *bn_emu_error(void)
{
    return text;
}

void bn_emu_clear(void)
{
    text[0] = '\0';
}

void bn_emu_poison(void *p, size_t n)
{
#ifdef HAVE_ASAN
    __asan_poison_memory_region(p, n);
#else
    (void)p;
    (void)n;
#endif
}

void bn_emu_unpoison(void *p, size_t n)
{
#ifdef HAVE_ASAN
    __asan_unpoison_memory_region(p, n);
#else
    (void)p;
    (void)n;
#endif
}

static size_t page_size(void)
{
    static size_t page;

    if (page == 0)
        page = (size_t)sysconf(_SC_PAGE_SIZE);
    return page;
}

static void protect(struct block *b, int prot)
{
    size_t page = page_size();

    if (mprotect(b->map + page, b->mapped - 2 * page, prot) != 0)
        abort();
    b->open = prot != PROT_NONE;
}

static char *low(struct block *b)
{
    return b->map + page_size();
}

static char *high(struct block *b)
{
    return b->map + b->mapped - page_size();
}

/* Pages whose end is that of a huge page: blocks are opened and closed around
 * every launch, so let them be few pages. */
static char *map_pages(size_t size)
{
    size_t more = size < HUGE_PAGE ? 0 : HUGE_PAGE, page = page_size();
    char *p = mmap(NULL, size + more, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED || more == 0)
        return p;
    size_t front = more - (uintptr_t)(p + size - page) % HUGE_PAGE;
    if (front > 0)
        (void)munmap(p, front);
    if (front < more)
        (void)munmap(p + front + size, more - front);
    (void)madvise(p + front, size, MADV_HUGEPAGE);
    return p + front;
}

/* What lies on both sides of an allocation, up to the guard pages. */
static void hide_edges(struct block *b, bool hide)
{
    void (*f)(void *, size_t) = hide ? bn_emu_poison : bn_emu_unpoison;

    f(low(b), (size_t)(b->p - low(b)));
    f(b->p + b->size, (size_t)(high(b) - (b->p + b->size)));
}

void *bn_emu_malloc(size_t size)
{
    size_t page = page_size(), room = (size + ALIGN - 1) / ALIGN * ALIGN;
    size_t whole = (room + page - 1) / page * page;
    struct block *b = calloc(1, sizeof(*b));
    char *map;

    if (b == NULL || whole < size)
        goto none;
    whole += whole == 0 ? page : 0;
    map = map_pages(whole + 2 * page);
    if (map == MAP_FAILED)
        goto none;
    *b = (struct block){map, map + page + whole - room, whole + 2 * page,
                        size, true, blocks};
    (void)mprotect(map, page, PROT_NONE);
    (void)mprotect(map + page + whole, page, PROT_NONE);
    memset(low(b), EDGE_BYTE, (size_t)(b->p - low(b)));
    memset(b->p, POISON, size);
    memset(b->p + size, EDGE_BYTE, room - size);
    hide_edges(b, true);
    blocks = b;
    allocated += size;
    if (open_depth == 0)
        protect(b, PROT_NONE);
    bn_emu_name_faults();
    return b->p;
none:
    free(b);
    return NULL;
}

static int edges_whole(struct block *b)
{
    int whole = 1;

    hide_edges(b, false);
    for (char *c = low(b); c < b->p; c++)
        whole &= *c == EDGE_BYTE;
    for (char *c = b->p + b->size; c < high(b); c++)
        whole &= *c == EDGE_BYTE;
    hide_edges(b, true);
    return whole;
}

int bn_emu_check_edges(const char *kernel)
{
    for (struct block *b = blocks; b != NULL; b = b->next) {
        if (!b->open || edges_whole(b))
            continue;
        bn_emu_note("kernel %s: writes next to the device allocation of %zu "
                    "bytes at %p", kernel, b->size, (void *)b->p);
        return -1;
    }
    return 0;
}

int bn_emu_free(void *p)
{
    struct block **at = &blocks, *b;
    int rc;

    while (*at != NULL && (*at)->p != (char *)p)
        at = &(*at)->next;
    b = *at;
    if (b == NULL) {
        bn_emu_note("free of %p, which is no device allocation", p);
        return -1;
    }
    protect(b, PROT_READ | PROT_WRITE);
    rc = edges_whole(b) ? 0 : -1;
    if (rc < 0)
        bn_emu_note("bytes next to the device allocation of %zu bytes were "
                    "overwritten", b->size);
    hide_edges(b, false);
    *at = b->next;
    allocated -= b->size;
    munmap(b->map, b->mapped);
    free(b);
    return rc;
}

size_t bn_emu_allocated(void)
{
    return allocated;
}

bool bn_emu_is_device(const void *p, size_t n)
{
    const char *c = p;

    for (struct block *b = blocks; b != NULL; b = b->next)
        if (c >= b->p && c <= b->p + b->size
            && n <= (size_t)(b->p + b->size - c))
            return true;
    return false;
}

void bn_emu_open(void)
{
    open_depth++;
    for (struct block *b = blocks; b != NULL; b = b->next)
        if (!b->open)
            protect(b, PROT_READ | PROT_WRITE);
}

void bn_emu_open_some(void)
{
    open_depth++;
}

bool bn_emu_open_at(const void *address)
{
    const char *c = address;

    for (struct block *b = blocks; open_depth > 0 && b != NULL; b = b->next) {
        if (b->open || c < low(b) || c >= high(b))
            continue;
        protect(b, PROT_READ | PROT_WRITE);
        return true;
    }
    return false;
}

void bn_emu_close(void)
{
    if (--open_depth == 0)
        for (struct block *b = blocks; b != NULL; b = b->next)
            if (b->open)
                protect(b, PROT_NONE);
}

int bn_emu_watching;
static struct bn_emu_watched *watched;

void bn_emu_watch(struct bn_emu_watched *w, int n)
{
    watched = w;
    bn_emu_watching = w != NULL ? n : 0;
}

void bn_emu_access(const void *p, size_t n, bool write)
{
    for (int i = 0; i < bn_emu_watching; i++) {
        struct bn_emu_watched *w = &watched[i];
        uintptr_t at = (uintptr_t)p - (uintptr_t)w->p;

        if (at >= w->n)
            continue;
        *(write ? &w->written : &w->read) += n;
        w->narrow += n < 16 ? n : 0;
    }
}

const char *bn_emu_whose(const void *address, char *buf, size_t size)
{
    const char *c = address;

    snprintf(buf, size, "no device memory");
    for (struct block *b = blocks; b != NULL; b = b->next) {
        if (c < b->map || c >= b->map + b->mapped)
            continue;
        if (c >= b->p)
            snprintf(buf, size, "byte %zu of a device allocation of %zu",
                     (size_t)(c - b->p), b->size);
        else
            snprintf(buf, size, "%zu bytes before a device allocation of %zu",
                     (size_t)(b->p - c), b->size);
    }
    return buf;
}
