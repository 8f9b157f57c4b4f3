/* One block at a time: fibres, barriers, warps and shared memory. */
#include "config.h"
#include "kernels/emu/emu.h"
#include "kernels/emu/fibre.h"
#include "kernels/emu/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 1024, NOBODY = MAX_THREADS, WARP = 32, MAX_SHARED = 64 };

struct warp {
    struct bn_emu_lane deposit[2][WARP];
    unsigned arrived, turn;
    const char *what;
    int line;
    bool mixed;
};

/* 16 bytes under way from global to shared memory. */
struct transfer {
    char *dst;
    const char *src;
    unsigned group;
};

/* What a switch reads is one line of the cache. */
struct thread {
    _Alignas(64) struct bn_fibre fibre;
    struct bn_emu_dim id;
    enum { READY, AT_BARRIER, AT_WARP, DONE } at;
    int line; /* of the barrier it waits at */
};

/* The copies that a thread has under way. */
struct copies {
    struct transfer *transfer; /* kept from block to block */
    unsigned n, room, group;
};

struct shared {
    const char *file;
    int line;
    size_t bytes;
    char *p; /* with a canary before and after */
};

/* What kernels read as threadIdx and so on. */
struct bn_emu_dim bn_emu_thread, bn_emu_block, bn_emu_block_dim,
    bn_emu_grid_dim;

static struct {
    struct thread t[MAX_THREADS];
    struct copies copies[MAX_THREADS];
    struct warp warp[MAX_THREADS / WARP];
    struct bn_fibre host;
    unsigned fibres; /* that have a stack and wait in thread_main */
    unsigned n, now, done, waiting;
    unsigned ready[MAX_THREADS], nready;
    unsigned next; /* drawn from those already, or NOBODY */
    const char *barrier_file;
    int barrier_line, sum, result;
    bool any, all;
    struct shared shared[MAX_SHARED];
    unsigned nshared;
    size_t shared_dynamic, shared_limit;
    const char *kernel;
    void (*fn)(void *);
    void *arg;
    bool failed;
    uint64_t random;
    struct bn_emu_count count;
} s = {.random = 88172645463325252u};

static unsigned draw(unsigned n)
{
    s.random ^= s.random << 13;
    s.random ^= s.random >> 7;
    s.random ^= s.random << 17;
    return (unsigned)((s.random >> 32) * n >> 32); /* a division is slow */
}

void bn_emu_seed(uint64_t seed)
{
    s.random = seed * 0x9e3779b97f4a7c15u + 88172645463325252u;
    if (s.random == 0)
        s.random = 1;
}

struct bn_emu_count bn_emu_counts(void)
{
    return s.count;
}

/* --- switching ---------------------------------------------------------- */

static void make_ready(unsigned i)
{
    s.t[i].at = READY;
    s.ready[s.nready++] = i;
}

static void to_host(void)
{
    bn_fibre_switch(&s.t[s.now].fibre, &s.host);
}

/* One ahead, so that its stack is on its way to the cache while another
 * thread runs. */
static void draw_next(void)
{
    s.next = NOBODY;
    if (s.nready == 0)
        return;
    unsigned at = draw(s.nready);
    s.next = s.ready[at];
    s.ready[at] = s.ready[--s.nready];
    bn_fibre_fetch(&s.t[s.next].fibre);
}

/* Give way to a thread drawn from those that can run; to the host when none
 * can: the block is done or stuck. */
static void give_way(void)
{
    unsigned from = s.now;

    if (s.next == NOBODY)
        draw_next();
    if (s.next == NOBODY) {
        to_host();
        return;
    }
    s.now = s.next;
    draw_next();
    bn_emu_thread = s.t[s.now].id;
    if (s.now == from)
        return;
    s.count.switches++;
    bn_fibre_switch(&s.t[from].fibre, &s.t[s.now].fibre);
}

static void thread_main(void)
{
    bn_fibre_entered();
    for (;;) {
        s.fn(s.arg);
        s.t[s.now].at = DONE;
        s.done++;
        give_way();
    }
}

void bn_emu_fail(const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    bn_emu_note("kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s",
                s.kernel, bn_emu_block.x, bn_emu_block.y, bn_emu_block.z,
                bn_emu_thread.x, bn_emu_thread.y, bn_emu_thread.z, text);
    s.failed = true;
    to_host();
    abort(); /* a failed block is never continued */
}

void bn_emu_misaligned(const void *p, size_t n)
{
    bn_emu_fail("an access of %zu bytes at %p, not aligned to that", n, p);
}

/* --- barriers ------------------------------------------------------------ */

int bn_emu_barrier(const char *file, int line, int value,
                   enum bn_emu_vote vote)
{
    struct thread *me = &s.t[s.now];

    if (s.waiting == 0) {
        s.barrier_file = file;
        s.barrier_line = line;
        s.sum = 0;
        s.any = false;
        s.all = true;
    } else if (line != s.barrier_line || file != s.barrier_file) {
        bn_emu_fail("reaches the barrier of line %d while others wait at "
                    "that of line %d", line, s.barrier_line);
    }
    s.sum += value != 0;
    s.any |= value != 0;
    s.all &= value != 0;
    me->line = line;
    if (++s.waiting < s.n) {
        me->at = AT_BARRIER;
        give_way();
    } else {
        s.waiting = 0;
        s.count.barriers++;
        s.result = vote == BN_EMU_SUM ? s.sum : vote == BN_EMU_OR ? s.any
                                                                  : s.all;
        for (unsigned i = 0; i < s.n; i++)
            make_ready(i);
        give_way();
    }
    return s.result;
}

const struct bn_emu_lane *bn_emu_warp(const char *what, int line,
                                      unsigned mask,
                                      const struct bn_emu_lane *mine,
                                      size_t bytes)
{
    struct thread *me = &s.t[s.now];
    unsigned first = s.now / WARP * WARP, lane = s.now % WARP;
    struct warp *w = &s.warp[s.now / WARP];
    unsigned turn = w->turn;

    if (mask != 0xffffffffu)
        bn_emu_fail("%s in line %d with lane mask %08x: only whole warps are "
                    "emulated", what, line, mask);
    if (w->arrived == 0) {
        w->what = what;
        w->line = line;
    } else if (line != w->line
               || (what != w->what && strcmp(what, w->what) != 0)) {
        bn_emu_fail("is at %s in line %d while lanes of its warp wait at %s "
                    "in line %d", what, line, w->what, w->line);
    }
    if (bytes > sizeof(mine->word[0]))
        w->deposit[turn][lane] = *mine;
    else if (bytes > 0)
        w->deposit[turn][lane].word[0] = mine->word[0];
    if (++w->arrived < WARP) {
        me->at = AT_WARP;
        give_way();
    } else {
        /* The next operation deposits in the other half: whoever comes there
         * has all lanes of this one behind it, but they may still read. */
        w->arrived = 0;
        w->turn ^= 1;
        s.count.warp_ops++;
        for (unsigned i = 0; i < WARP; i++)
            make_ready(first + i);
        give_way();
    }
    return w->deposit[turn];
}

/* --- cp.async ------------------------------------------------------------ */

void bn_emu_copy_begin(void *dst, const void *src, bool valid)
{
    struct copies *me = &s.copies[s.now];

    if ((uintptr_t)dst % 16 != 0 || (uintptr_t)src % 16 != 0)
        bn_emu_fail("cp.async from %p to %p, not aligned to 16", src, dst);
    /* It may be there at once as well as when it is waited for. */
    if (draw(2) == 0) {
        if (valid)
            memcpy(dst, src, 16);
        else
            memset(dst, 0, 16);
        return;
    }
    if (me->n == me->room) {
        me->room = me->room * 2 + 16;
        me->transfer = realloc(me->transfer,
                               me->room * sizeof(*me->transfer));
        if (me->transfer == NULL)
            abort();
    }
    me->transfer[me->n++] = (struct transfer){
        dst, valid ? src : NULL, me->group};
}

void bn_emu_copy_commit(void)
{
    s.copies[s.now].group++;
}

void bn_emu_copy_wait(int groups_left)
{
    struct copies *me = &s.copies[s.now];
    unsigned kept = 0;

    for (unsigned i = 0; i < me->n; i++) {
        struct transfer *c = &me->transfer[i];

        if (c->group + (unsigned)groups_left >= me->group)
            me->transfer[kept++] = *c;
        else if (c->src != NULL)
            memcpy(c->dst, c->src, 16);
        else
            memset(c->dst, 0, 16);
    }
    me->n = kept;
}

/* --- shared memory ------------------------------------------------------- */

enum { EDGE = 64, CANARY = 0xa5, POISON = 0xff };

static void shared_make(struct shared *a, const char *file, int line,
                        size_t bytes)
{
    if (a->p == NULL || a->bytes != bytes) {
        free(a->p);
        /* The array ends where the allocation ends under AddressSanitizer,
         * so its front is aligned by the edge. */
        a->p = aligned_alloc(EDGE, (2 * EDGE + bytes + EDGE - 1) / EDGE
                                       * EDGE);
        if (a->p == NULL)
            abort();
    }
    *a = (struct shared){file, line, bytes, a->p};
    bn_emu_unpoison(a->p, 2 * EDGE + bytes);
    memset(a->p, CANARY, EDGE);
    memset(a->p + EDGE, POISON, bytes);
    memset(a->p + EDGE + bytes, CANARY, EDGE);
    bn_emu_poison(a->p, EDGE);
    bn_emu_poison(a->p + EDGE + bytes, EDGE);
}

static void shared_drop(struct shared *a)
{
    if (a->p == NULL)
        return;
    bn_emu_unpoison(a->p, EDGE);
    bn_emu_unpoison(a->p + EDGE + a->bytes, EDGE);
    for (int i = 0; i < EDGE; i++) {
        if (s.failed || ((unsigned char)a->p[i] == CANARY
            && (unsigned char)a->p[EDGE + a->bytes + i] == CANARY))
            continue;
        bn_emu_note("kernel %s, block (%u, %u, %u): writes outside the shared "
                    "array of line %d", s.kernel, bn_emu_block.x,
                    bn_emu_block.y, bn_emu_block.z, a->line);
        s.failed = true;
    }
}

void *bn_emu_shared(const char *file, int line, size_t bytes)
{
    unsigned i = 1; /* 0 is the dynamic array */

    while (i < s.nshared && (s.shared[i].line != line
                             || s.shared[i].file != file
                             || s.shared[i].bytes != bytes))
        i++;
    if (i == s.nshared) {
        if (i == MAX_SHARED)
            bn_emu_fail("more than %d shared arrays", MAX_SHARED);
        shared_make(&s.shared[s.nshared++], file, line, bytes);
    }
    return s.shared[i].p + EDGE;
}

void *bn_emu_shared_dynamic(void)
{
    return s.shared[0].p + EDGE;
}

/* --- blocks -------------------------------------------------------------- */

static void stuck(void)
{
    unsigned barrier = 0, warp = 0, line = 0;

    for (unsigned i = 0; i < s.n; i++) {
        barrier += s.t[i].at == AT_BARRIER;
        warp += s.t[i].at == AT_WARP;
        if (s.t[i].at == AT_BARRIER)
            line = (unsigned)s.t[i].line;
    }
    bn_emu_note("kernel %s, block (%u, %u, %u): stuck, %u of %u threads wait "
                "at the barrier of line %u, %u inside warps that are not "
                "whole, %u have returned", s.kernel, bn_emu_block.x,
                bn_emu_block.y, bn_emu_block.z, barrier, s.n, line, warp,
                s.done);
    s.failed = true;
}

static int run_block(void)
{
    size_t used = 0;

    s.done = s.waiting = s.nready = 0;
    s.nshared = 0;
    for (unsigned i = 0; i < s.n / WARP; i++)
        s.warp[i].arrived = 0;
    shared_make(&s.shared[s.nshared++], "", 0, s.shared_dynamic);
    for (unsigned i = 0; i < s.n; i++) {
        make_ready(i);
        s.copies[i].n = s.copies[i].group = 0;
    }
    draw_next();
    s.now = s.next;
    draw_next();
    bn_emu_thread = s.t[s.now].id;
    s.count.switches++;
    bn_fibre_switch(&s.host, &s.t[s.now].fibre);
    if (!s.failed && s.done < s.n)
        stuck();
    for (unsigned i = 0; i < s.nshared; i++) {
        used += i > 0 ? s.shared[i].bytes : 0;
        shared_drop(&s.shared[i]);
    }
    if (!s.failed && used + s.shared_dynamic > s.shared_limit) {
        bn_emu_note("kernel %s: %zu bytes of static and %zu of dynamic shared "
                    "memory, %zu at most", s.kernel, used, s.shared_dynamic,
                    s.shared_limit);
        s.failed = true;
    }
    return s.failed ? -1 : 0;
}

/* The blocks of a grid in an order drawn from the seed: i -> (a i + b) mod n
 * with a coprime to n. */
static int run_grid(struct bn_emu_dim grid)
{
    uint64_t n = (uint64_t)grid.x * grid.y * grid.z, a = 1, b;

    for (int tries = 0; tries < 16 && n > 2; tries++) {
        uint64_t x = 1 + draw((unsigned)(n - 1)), u = x, v = n;

        while (v != 0) {
            uint64_t r = u % v;
            u = v;
            v = r;
        }
        if (u == 1)
            a = x;
    }
    b = draw((unsigned)n);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t k = (a * i + b) % n;

        bn_emu_block = (struct bn_emu_dim){
            (unsigned)(k % grid.x), (unsigned)(k / grid.x % grid.y),
            (unsigned)(k / grid.x / grid.y)};
        s.count.blocks++;
        if (run_block() < 0)
            return -1;
    }
    return 0;
}

static int make_threads(struct bn_emu_dim block)
{
    unsigned i = 0;

    for (; s.fibres < s.n; s.fibres++)
        if (bn_fibre_init(&s.t[s.fibres].fibre, thread_main, s.fibres) < 0)
            return -1;
    for (unsigned z = 0; z < block.z; z++)
        for (unsigned y = 0; y < block.y; y++)
            for (unsigned x = 0; x < block.x; x++)
                s.t[i++].id = (struct bn_emu_dim){x, y, z};
    return 0;
}

int bn_emu_run(const char *kernel, struct bn_emu_dim grid,
               struct bn_emu_dim block, size_t shared, void (*fn)(void *),
               void *arg)
{
    s.kernel = kernel;
    s.n = block.x * block.y * block.z;
    s.shared_dynamic = shared;
    s.shared_limit = bn_emu_shared_limit(kernel);
    s.fn = fn;
    s.arg = arg;
    s.failed = false;
    s.count.launches++;
    bn_emu_grid_dim = grid;
    bn_emu_block_dim = block;
    bn_fibre_host(&s.host);
    if (make_threads(block) < 0) {
        bn_emu_note("kernel %s: no memory for %u stacks", kernel, s.n);
        return -1;
    }
    return run_grid(grid);
}

void bn_emu_abandon(void)
{
    /* Fibres stand somewhere inside the kernel: begin them anew. */
    s.fibres = 0;
}

const char *bn_emu_where(char *buf, size_t size)
{
    snprintf(buf, size, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u)",
             s.kernel, bn_emu_block.x, bn_emu_block.y, bn_emu_block.z,
             bn_emu_thread.x, bn_emu_thread.y, bn_emu_thread.z);
    return buf;
}
