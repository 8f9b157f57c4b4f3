/* Launches as a device would take them, and faults inside them. */
#include "config.h"
#include "kernels/emu/emu.h"
#include "kernels/emu/state.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* cudaError_t */
    INVALID_VALUE = 1,
    INVALID_CONFIGURATION = 9,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILURE = 719,
    SHARED_MAX = 163 << 10, /* sm_80's */
    SHARED_PLAIN = 48 << 10,
    MAX_ALLOWED = 128,
};

static struct {
    const char *kernel;
    size_t bytes;
} allowed[MAX_ALLOWED];
static int nallowed;
static size_t shared_most = SHARED_MAX;
static bool running, wrong_pointer;
static sigjmp_buf back;

void bn_emu_set_shared(size_t bytes)
{
    shared_most = bytes > 0 ? bytes : SHARED_MAX;
    nallowed = 0;
}

size_t bn_emu_shared_most(void)
{
    return shared_most;
}

int bn_emu_allow_shared(const char *kernel, size_t bytes)
{
    int i = 0;

    if (bytes > shared_most) {
        bn_emu_note("kernel %s: %zu bytes of shared memory, %zu at most",
                    kernel, bytes, shared_most);
        return INVALID_VALUE;
    }
    while (i < nallowed && strcmp(allowed[i].kernel, kernel) != 0)
        i++;
    if (i == MAX_ALLOWED)
        abort();
    nallowed += i == nallowed;
    allowed[i].kernel = kernel;
    allowed[i].bytes = bytes;
    return 0;
}

void bn_emu_check_pointer(const char *kernel, int index, const void *p)
{
    if (p == NULL || bn_emu_is_device(p, 0))
        return;
    bn_emu_note("kernel %s: argument %d is a host pointer", kernel, index);
    wrong_pointer = true;
}

bool bn_emu_wrong_pointer(void)
{
    bool wrong = wrong_pointer;

    wrong_pointer = false;
    return wrong;
}

/* Of dynamic arrays; 0: none was asked for. */
static size_t asked(const char *kernel)
{
    for (int i = 0; i < nallowed; i++)
        if (strcmp(allowed[i].kernel, kernel) == 0)
            return allowed[i].bytes;
    return 0;
}

static size_t shared_limit(const char *kernel)
{
    size_t bytes = asked(kernel);

    return bytes > SHARED_PLAIN ? bytes : SHARED_PLAIN;
}

size_t bn_emu_shared_limit(const char *kernel)
{
    return asked(kernel) > 0 ? shared_most : SHARED_PLAIN;
}

int bn_emu_check_launch(const char *kernel, struct bn_emu_dim g,
                        struct bn_emu_dim b, size_t shared)
{
    uint64_t n = (uint64_t)b.x * b.y * b.z;

    if (n == 0 || n > 1024 || b.z > 64 || n % 32 != 0 || g.x == 0 || g.y == 0
        || g.z == 0 || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) {
        bn_emu_note("kernel %s: grid (%u, %u, %u) of blocks (%u, %u, %u) "
                    "cannot be launched", kernel, g.x, g.y, g.z, b.x, b.y,
                    b.z);
        return INVALID_CONFIGURATION;
    }
    if (shared > shared_limit(kernel)) {
        bn_emu_note("kernel %s: %zu bytes of shared memory, %zu allowed",
                    kernel, shared, shared_limit(kernel));
        return INVALID_VALUE;
    }
    return 0;
}

/* Runs on a stack of its own: the fault may be on a fibre's guard page. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
    char whose[120], where[200], line[400];

    (void)context;
    if (running && bn_emu_open_at(info->si_addr))
        return; /* a kernel touches this allocation for the first time */
    bn_emu_whose(info->si_addr, whose, sizeof(whose));
    if (running) {
        bn_emu_note("%s: illegal address %p (%s)",
                    bn_emu_where(where, sizeof(where)), info->si_addr, whose);
        siglongjmp(back, 1);
    }
    int n = snprintf(line, sizeof(line), "host code touches %p: %s\n",
                     info->si_addr, whose);
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        n = 0;
    signal(sig, SIG_DFL);
    raise(sig);
}

static struct sigaction fault_action(void)
{
    static char stack[64 << 10];
    stack_t ss = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction sa = {.sa_flags = SA_SIGINFO | SA_ONSTACK};

    sa.sa_sigaction = on_fault;
    sigaltstack(&ss, NULL);
    return sa;
}

void bn_emu_name_faults(void)
{
    struct sigaction sa = fault_action(), old;

    if (sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        sigaction(SIGSEGV, &sa, NULL);
}

/* Test frameworks set handlers of their own, hence once a launch. */
static int run_guarded(const char *kernel, struct bn_emu_dim grid,
                       struct bn_emu_dim block, size_t shared,
                       void (*fn)(void *), void *arg)
{
    struct sigaction sa = fault_action(), segv, bus;
    int rc = ILLEGAL_ADDRESS;

    sigaction(SIGSEGV, &sa, &segv);
    sigaction(SIGBUS, &sa, &bus);
    if (sigsetjmp(back, 1) == 0) {
        running = true;
        rc = bn_emu_run(kernel, grid, block, shared, fn, arg) < 0
                 ? LAUNCH_FAILURE : 0;
    }
    running = false;
    sigaction(SIGSEGV, &segv, NULL);
    sigaction(SIGBUS, &bus, NULL);
    return rc;
}

int bn_emu_launch(const char *kernel, struct bn_emu_dim grid,
                  struct bn_emu_dim block, size_t shared,
                  void (*fn)(void *), void *arg)
{
    int rc = bn_emu_check_launch(kernel, grid, block, shared);

    if (bn_emu_wrong_pointer() && rc == 0)
        rc = ILLEGAL_ADDRESS;
    if (rc != 0)
        return rc;
    bn_emu_open_some();
    rc = run_guarded(kernel, grid, block, shared, fn, arg);
    if (rc != 0)
        bn_emu_abandon();
    else if (bn_emu_check_edges(kernel) < 0)
        rc = ILLEGAL_ADDRESS;
    bn_emu_close();
    return rc;
}
