/* Text made where nothing may be called: in a signal handler. Every function
 * here and those of core.h are async-signal-safe: no allocation, no locks, no
 * stdio, errno kept.
 */
#ifndef BN_BASE_SAFE_H
#define BN_BASE_SAFE_H

#include <stddef.h>
#include <stdint.h>

/* Text in memory of a fixed size; what does not fit is cut. */
struct bn_safe {
    char *s;       /* borrowed; not NUL-terminated */
    size_t n, cap; /* n <= cap */
};

void bn_safe_str(struct bn_safe *b, const char *s);
void bn_safe_int(struct bn_safe *b, long long v);
void bn_safe_hex(struct bn_safe *b, uint64_t v); /* "0x..." */

/* At most size - 1 bytes of a file, NUL-terminated; returns how many, 0 if it
 * cannot be read. For small files of /proc. */
size_t bn_safe_read(const char *path, char *out, size_t size);
/* Write all of it, as far as the descriptor takes it. */
void bn_safe_write(int fd, const char *s, size_t n);

#endif
