#include "config.h"
#include "base/safe.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void bn_safe_str(struct bn_safe *b, const char *s)
{
    while (*s != '\0' && b->n < b->cap)
        b->s[b->n++] = *s++;
}

static void digits(struct bn_safe *b, uint64_t v, unsigned base)
{
    char buf[24];
    size_t n = sizeof(buf) - 1;

    buf[n] = '\0';
    do {
        buf[--n] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v > 0);
    bn_safe_str(b, buf + n);
}

void bn_safe_int(struct bn_safe *b, long long v)
{
    if (v < 0)
        bn_safe_str(b, "-");
    digits(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 10);
}

void bn_safe_hex(struct bn_safe *b, uint64_t v)
{
    bn_safe_str(b, "0x");
    digits(b, v, 16);
}

size_t bn_safe_read(const char *path, char *out, size_t size)
{
    int saved = errno, fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got = fd >= 0 ? 1 : 0;

    while (got > 0 && n < size - 1) {
        got = read(fd, out + n, size - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    out[n] = '\0';
    errno = saved;
    return n;
}

void bn_safe_write(int fd, const char *s, size_t n)
{
    int saved = errno;

    while (n > 0) {
        ssize_t done = write(fd, s, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            break;
        s += done;
        n -= (size_t)done;
    }
    errno = saved;
}
