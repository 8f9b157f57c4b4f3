#include "config.h"
#include "base/crash.h"
#include "base/core.h"
#include "base/safe.h"

#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    FRAMES = 64,
    STACK = 64 << 10, /* of the handler: a stack that overflowed has no room */
    PATH = 256,
    TEXT = 24 << 10,
};

static struct {
    volatile int rank, size;
    char phase[16];
    volatile long step;
    volatile int micro, micros;
    char file[1024]; /* "": none */
} place = {.size = 1};

/* The thread that reports; others that fault meanwhile wait for its end. */
static volatile pid_t reporter;

static const struct {
    int sig;
    const char *name;
} signals[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"},
};
enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };

/* All memory of the handler. */
static struct {
    char text[TEXT];
    void *frame[FRAMES];
    struct module {
        uint64_t offset;
        char path[PATH]; /* "": in no file */
    } module[FRAMES];
    char map[4096 + 1];
} work;

static void prefix(struct bn_safe *b)
{
    if (place.size > 1) {
        bn_safe_str(b, "rank ");
        bn_safe_int(b, place.rank);
        bn_safe_str(b, "/");
        bn_safe_int(b, place.size);
        bn_safe_str(b, ": ");
    }
    bn_safe_str(b, "crash: ");
}

/* --- Addresses to file offsets ---------------------------------------------- */

static uint64_t hex(const char **p)
{
    uint64_t v = 0;

    for (;; (*p)++) {
        char c = **p;

        if (c >= '0' && c <= '9')
            v = v * 16 + (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v * 16 + (uint64_t)(c - 'a') + 10;
        else
            return v;
    }
}

/* What addresses of a file are relative to: its first byte in memory, or 0
 * for a program that is always at the same place. */
static uint64_t base_of(uint64_t start)
{
    const Elf64_Ehdr *h = (const void *)(uintptr_t)start;

    return h->e_type == ET_EXEC ? 0 : start;
}

/* One line of /proc/self/maps: "start-end perms offset dev inode   path". */
static void look_at(const char *line, char *last, uint64_t *base, int n)
{
    const char *p = line;
    uint64_t start = hex(&p), end = (p++, hex(&p));
    bool readable = p[0] == ' ' && p[1] == 'r';
    const char *path = strchr(line, '/');

    if (path == NULL)
        return;
    for (int i = 0; i < 2; i++) /* to the offset */
        p += strcspn(p, " ") + 1;
    if (hex(&p) == 0 && strcmp(path, last) != 0 && readable) {
        *base = base_of(start);
        size_t len = strnlen(path, PATH - 1);

        memcpy(last, path, len);
        last[len] = '\0';
    }
    if (strncmp(path, last, PATH - 1) != 0)
        return;
    for (int i = 0; i < n; i++) {
        uint64_t at = (uint64_t)(uintptr_t)work.frame[i];
        /* The last byte of a call that never returns may end the mapping. */
        uint64_t in = i > 0 ? at - 1 : at;

        if (in < start || in >= end)
            continue;
        work.module[i].offset = in - *base;
        memcpy(work.module[i].path, last, PATH);
    }
}

/* Line by line through a small buffer: there may be thousands. */
static void find_modules(int n)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    static char last[PATH];
    uint64_t base = 0;
    size_t have = 0;
    ssize_t got;

    if (fd < 0)
        return;
    while ((got = read(fd, work.map + have, sizeof(work.map) - 1 - have))
           > 0) {
        char *line = work.map, *nl;

        have += (size_t)got;
        work.map[have] = '\0';
        while ((nl = strchr(line, '\n')) != NULL) {
            *nl = '\0';
            look_at(line, last, &base, n);
            line = nl + 1;
        }
        have -= (size_t)(line - work.map);
        memmove(work.map, line, have);
    }
    close(fd);
}

/* --- The stack ---------------------------------------------------------------- */

static void *fault_pc(const void *context)
{
    const ucontext_t *u = context;

#if defined(__x86_64__)
    return (void *)(uintptr_t)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (void *)(uintptr_t)u->uc_mcontext.pc;
#else
    (void)u;
    return NULL;
#endif
}

/* Who called the code of the fault, if that has no frame: a jump to nowhere
 * leaves its return address behind. */
static void *caller(const void *context)
{
    const ucontext_t *u = context;

#if defined(__x86_64__)
    return *(void **)(uintptr_t)u->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return (void *)(uintptr_t)u->uc_mcontext.regs[30];
#else
    (void)u;
    return NULL;
#endif
}

/* Frames from where the fault was; those of the handler are left out. */
static int frames(const void *context)
{
    void *pc = fault_pc(context);
    int n = backtrace(work.frame, FRAMES), first = 0;

    while (first < n && work.frame[first] != pc)
        first++;
    if (first < n && pc != NULL) {
        n -= first;
        memmove(work.frame, work.frame + first,
                (size_t)n * sizeof(work.frame[0]));
        return n;
    }
    work.frame[0] = pc;
    work.frame[1] = caller(context);
    return 2;
}

static void add_stack(struct bn_safe *b, const void *context)
{
    int n = frames(context);
    char exe[PATH] = "";
    ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    exe[len > 0 ? len : 0] = '\0';
    find_modules(n);
    prefix(b);
    bn_safe_str(b, "stack, innermost first:\n");
    for (int i = 0; i < n; i++) {
        const struct module *m = &work.module[i];

        prefix(b);
        bn_safe_str(b, "  ");
        if (m->path[0] != '\0') {
            bn_safe_str(b, m->path);
            bn_safe_str(b, "(+");
            bn_safe_hex(b, m->offset);
            bn_safe_str(b, ")\n");
        } else {
            bn_safe_hex(b, (uint64_t)(uintptr_t)work.frame[i]);
            bn_safe_str(b, "\n");
        }
    }
    prefix(b);
    bn_safe_str(b, "resolve with: addr2line -Cfpie ");
    bn_safe_str(b, exe);
    for (int i = 0; i < n; i++)
        if (strcmp(work.module[i].path, exe) == 0) {
            bn_safe_str(b, " ");
            bn_safe_hex(b, work.module[i].offset);
        }
    bn_safe_str(b, "\n");
}

/* --- The report ----------------------------------------------------------------- */

static const char *reason(const siginfo_t *info)
{
    int code = info->si_code;

    if (code <= 0)
        return "sent by a process";
    switch (info->si_signo) {
    case SIGSEGV:
        return code == SEGV_MAPERR   ? "address not mapped"
               : code == SEGV_ACCERR ? "access not permitted"
                                     : "bad access";
    case SIGBUS:
        return code == BUS_ADRALN   ? "misaligned address"
               : code == BUS_ADRERR ? "no memory or file behind the address:"
                                      " a file that was cut, or /dev/shm full"
                                    : "memory error";
    case SIGFPE:
        return code == FPE_INTDIV ? "division by zero" : "arithmetic";
    case SIGILL:
        return "an instruction that this CPU does not have";
    default:
        return "raised";
    }
}

static void add_fault(struct bn_safe *b, const siginfo_t *info)
{
    const char *name = "?";
    char host[256] = "";

    for (int i = 0; i < SIGNALS; i++)
        if (signals[i].sig == info->si_signo)
            name = signals[i].name;
    gethostname(host, sizeof(host) - 1);
    prefix(b);
    bn_safe_str(b, name);
    bn_safe_str(b, " (");
    bn_safe_str(b, reason(info));
    if (info->si_code > 0 && info->si_signo != SIGABRT) {
        bn_safe_str(b, ", at ");
        bn_safe_hex(b, (uint64_t)(uintptr_t)info->si_addr);
    } else if (info->si_code <= 0 && info->si_pid != getpid()) {
        bn_safe_str(b, ", pid ");
        bn_safe_int(b, info->si_pid);
    }
    bn_safe_str(b, "), pid ");
    bn_safe_int(b, getpid());
    bn_safe_str(b, ", thread ");
    bn_safe_int(b, (long)syscall(SYS_gettid));
    bn_safe_str(b, ", on ");
    bn_safe_str(b, host);
    bn_safe_str(b, "\n");
}

static void add_place(struct bn_safe *b)
{
    prefix(b);
    bn_safe_str(b, "rank ");
    bn_safe_int(b, place.rank);
    bn_safe_str(b, " of ");
    bn_safe_int(b, place.size);
    bn_safe_str(b, ", phase ");
    bn_safe_str(b, place.phase[0] != '\0' ? place.phase : "start");
    bn_safe_str(b, ", step ");
    bn_safe_int(b, place.step);
    if (place.micros > 0) {
        bn_safe_str(b, ", micro-batch ");
        bn_safe_int(b, place.micro + 1);
        bn_safe_str(b, " of ");
        bn_safe_int(b, place.micros);
    }
    bn_safe_str(b, "\n");
}

static void on_crash(int sig, siginfo_t *info, void *context)
{
    struct bn_safe b = {.s = work.text, .cap = sizeof(work.text)};
    pid_t me = (pid_t)syscall(SYS_gettid);

    if (!__sync_bool_compare_and_swap(&reporter, 0, me)) {
        if (reporter == me) { /* the report itself faulted */
            signal(sig, SIG_DFL);
            raise(sig);
            return;
        }
        for (;;)
            pause();
    }
    /* What is known at once is said at once: the stack may be in ruins. */
    add_fault(&b, info);
    add_place(&b);
    bn_safe_write(STDERR_FILENO, b.s, b.n);
    size_t said = b.n;

    add_stack(&b, context);
    prefix(&b);
    bn_core_explain(&b, sig);
    bn_safe_str(&b, "\n");
    bn_safe_write(STDERR_FILENO, b.s + said, b.n - said);
    if (place.file[0] != '\0') {
        int fd = open(place.file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                      0666);

        if (fd >= 0) {
            bn_safe_write(fd, b.s, b.n);
            close(fd);
        }
    }
    /* Blocked until the handler returns, to where the fault was: the core
     * holds the registers of that place. */
    signal(sig, SIG_DFL);
    raise(sig);
}

/* --- Setting up ------------------------------------------------------------------- */

static void rank_of_launcher(void)
{
    static const char *const names[][2] = {
        {"PMIX_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *rank = getenv(names[i][0]), *size = getenv(names[i][1]);

        if (rank != NULL && size != NULL && atoi(size) > 1) {
            bn_crash_rank(atoi(rank), atoi(size));
            return;
        }
    }
}

void bn_crash_catch(void)
{
    static char stack[STACK];
    stack_t alt = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction sa, old;

    rank_of_launcher();
    /* The first call loads the unwinder, which a handler must not. */
    (void)backtrace(work.frame, FRAMES);
    sigaltstack(&alt, NULL);
    memset(&sa, 0, sizeof(sa));
    sigemptyset(&sa.sa_mask);
    sa.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sa.sa_sigaction = on_crash;
    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals[i].sig, NULL, &old) == 0
            && old.sa_handler == SIG_DFL)
            sigaction(signals[i].sig, &sa, NULL);
}

void bn_crash_rank(int rank, int size)
{
    place.rank = rank;
    place.size = size;
}

void bn_crash_phase(const char *phase, long step)
{
    size_t n = strnlen(phase, sizeof(place.phase) - 1);

    memcpy(place.phase, phase, n);
    place.phase[n] = '\0';
    place.step = step;
}

void bn_crash_micro(int at, int n)
{
    place.micro = at;
    place.micros = n;
}

void bn_crash_dir(const char *dir)
{
    place.file[0] = '\0';
    if (dir == NULL)
        return;
    int n = snprintf(place.file, sizeof(place.file), "%s/crash.%d", dir,
                     place.rank);

    if (n < 0 || (size_t)n >= sizeof(place.file))
        place.file[0] = '\0';
    else
        unlink(place.file); /* absent is as good */
}
