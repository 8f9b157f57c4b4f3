/* Preloaded: lets call number BN_FAULT of those that write a checkpoint fail
 * with errno BN_FAULT_ERRNO. Calls are counted that make, write, sync or
 * rename something of which the path has "checkpoint-", and the fsync of its
 * parent, called "faulty", that ends the save. BN_FAULT_LOG names a file that
 * gets the failed call, or the number of calls if there were fewer.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int calls, begun, over;

static void say(const char *text)
{
    const char *log = getenv("BN_FAULT_LOG");
    FILE *f = log != NULL ? fopen(log, "w") : NULL;

    if (f != NULL) {
        fputs(text, f);
        fclose(f);
    }
}

/* True if this call is to fail; errno is set. */
static int faulty(const char *what, const char *path)
{
    const char *n = getenv("BN_FAULT"), *e = getenv("BN_FAULT_ERRNO");
    char text[600];

    if (path == NULL || n == NULL)
        return 0;
    const char *end = strrchr(path, '/');
    int parent = strcmp(end != NULL ? end + 1 : path, "faulty") == 0;

    if (over || (strstr(path, "checkpoint-") == NULL && !(begun && parent)))
        return 0;
    begun = 1;
    over = parent && strcmp(what, "fsync") == 0;
    if (++calls != atoi(n))
        return 0;
    snprintf(text, sizeof(text), "%s %s\n", what, path);
    say(text);
    errno = atoi(e);
    return 1;
}

static const char *path_of(int fd)
{
    static __thread char path[512];
    char link[64];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return NULL;
    path[n] = '\0';
    return path;
}

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

#define OPEN(name)                                                            \
    int name(const char *path, int flags, ...)                                \
    {                                                                         \
        int (*real)(const char *, int, ...) = next(#name);                    \
        mode_t mode = 0;                                                      \
        if (flags & O_CREAT) {                                                \
            va_list ap;                                                       \
            va_start(ap, flags);                                              \
            mode = va_arg(ap, mode_t);                                        \
            va_end(ap);                                                       \
            if (faulty("open", path))                                         \
                return -1;                                                    \
        }                                                                     \
        return real(path, flags, mode);                                       \
    }

OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *p, size_t n)
{
    ssize_t (*real)(int, const void *, size_t) = next("write");

    return faulty("write", path_of(fd)) ? -1 : real(fd, p, n);
}

int fsync(int fd)
{
    int (*real)(int) = next("fsync");

    return faulty("fsync", path_of(fd)) ? -1 : real(fd);
}

int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *) = next("rename");

    return faulty("rename", to) ? -1 : real(from, to);
}

int mkdir(const char *path, mode_t mode)
{
    int (*real)(const char *, mode_t) = next("mkdir");

    return faulty("mkdir", path) ? -1 : real(path, mode);
}

__attribute__((destructor)) static void count(void)
{
    char text[64];

    if (getenv("BN_FAULT") != NULL && calls < atoi(getenv("BN_FAULT"))) {
        snprintf(text, sizeof(text), "none of %d\n", calls);
        say(text);
    }
}
