/* Small host allocations. They never return NULL: a process that cannot get
 * a few kilobytes prints "out of memory" and exits 75. Large memory that is
 * planned from sizes in a file comes from an arena or a mapping, which fail
 * with an error instead.
 */
#ifndef BN_BASE_MEM_H
#define BN_BASE_MEM_H

#include <stddef.h>

void *bn_malloc(size_t n);
void *bn_calloc(size_t n, size_t size);           /* zeroed */
void *bn_realloc(void *p, size_t n, size_t size); /* n * size, checked */
char *bn_strdup(const char *s);
char *bn_strndup(const char *s, size_t n);
char *bn_asprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Grow '*p' (elements of 'size' bytes, '*cap' of them) to hold 'need'. */
void bn_grow(void *p, size_t *cap, size_t need, size_t size);

#define BN_NEW(type) ((type *)bn_calloc(1, sizeof(type)))
#define BN_NEWN(type, n) ((type *)bn_calloc((n), sizeof(type)))
#define BN_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#endif
