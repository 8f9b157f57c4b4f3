/* A program that dies as it is told, for t/t1100-crash.t:
 *   fault segv|fpe|abort|ill|deep|nowhere|thread|bus FILE [DIR]
 */
#include "config.h"
#include "base/crash.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile int zero;

__attribute__((noinline)) static int divide(int x)
{
    return x / zero; /* fault: fpe */
}

__attribute__((noinline)) static int store(int *p)
{
    *p = 1; /* fault: segv */
    return *p + zero;
}

__attribute__((noinline)) static int deep(int n)
{
    volatile char room[4096];

    room[0] = (char)n;
    if (n < 0)
        return zero;
    return deep(n + 1) + room[0];
}

/* Past the end of a file that was cut. */
static int bus(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

    return p[zero];
}

static void *thread(void *arg)
{
    (void)arg;
    store((int *)(uintptr_t)(unsigned)zero);
    return NULL;
}

static int in_thread(void)
{
    pthread_t t;

    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int rc = 2;

    bn_crash_catch();
    if (argc > 3)
        bn_crash_dir(argv[3]);
    bn_crash_phase("step", 12);
    bn_crash_micro(2, 8);
    if (strcmp(how, "segv") == 0)
        rc = zero + store((int *)(uintptr_t)(unsigned)zero);
    else if (strcmp(how, "fpe") == 0)
        rc = zero + divide(argc);
    else if (strcmp(how, "abort") == 0)
        abort();
    else if (strcmp(how, "ill") == 0)
        __builtin_trap();
    else if (strcmp(how, "deep") == 0)
        rc = zero + deep(argc);
    else if (strcmp(how, "nowhere") == 0)
        rc = zero + ((int (*)(void))(uintptr_t)(unsigned)zero)();
    else if (strcmp(how, "thread") == 0)
        rc = zero + in_thread();
    else if (strcmp(how, "bus") == 0 && argc > 2)
        rc = zero + bus(argv[2]);
    return rc;
}
