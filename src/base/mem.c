#include "config.h"
#include "base/mem.h"
#include "base/err.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(size_t n)
{
    fprintf(stderr, "error: out of memory for %zu bytes\n", n);
    exit(BN_ERR_AGAIN);
}

void *bn_malloc(size_t n)
{
    void *p = malloc(n > 0 ? n : 1);

    if (p == NULL)
        die(n);
    return p;
}

void *bn_calloc(size_t n, size_t size)
{
    void *p = calloc(n > 0 ? n : 1, size > 0 ? size : 1);

    if (p == NULL)
        die(n);
    return p;
}

void *bn_realloc(void *p, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        die(SIZE_MAX);
    p = realloc(p, bytes > 0 ? bytes : 1);
    if (p == NULL)
        die(bytes);
    return p;
}

char *bn_strdup(const char *s)
{
    return bn_strndup(s, strlen(s));
}

char *bn_strndup(const char *s, size_t n)
{
    char *d = bn_malloc(n + 1);

    memcpy(d, s, n);
    d[n] = '\0';
    return d;
}

char *bn_asprintf(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0)
        die(0);
    va_end(ap);
    return s;
}

void bn_grow(void *p, size_t *cap, size_t need, size_t size)
{
    void **pp = p;

    if (need <= *cap)
        return;
    size_t n = *cap < 16 ? 16 : *cap + *cap / 2;
    if (n < need)
        n = need;
    *pp = bn_realloc(*pp, n, size);
    *cap = n;
}
