/* A growing string. 's' is always NUL-terminated once something was added,
 * and may hold NUL bytes before 'len'. A zeroed struct is an empty string.
 */
#ifndef BN_BASE_STR_H
#define BN_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bn_str {
    char *s;
    size_t len, cap;
};

void bn_str_release(struct bn_str *b); /* free; 'b' is empty again */
void bn_str_clear(struct bn_str *b);   /* keep the memory */
void bn_str_add(struct bn_str *b, const void *s, size_t n);
void bn_str_adds(struct bn_str *b, const char *s);
void bn_str_addc(struct bn_str *b, char c);
void bn_str_addf(struct bn_str *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void bn_str_vaddf(struct bn_str *b, const char *fmt, va_list ap);
/* The contents as a malloc'ed string ("" if empty); 'b' is empty again. */
char *bn_str_take(struct bn_str *b);
/* Append 's' as a JSON string with quotes; bytes that are not UTF-8 become
 * U+FFFD. */
void bn_str_add_json(struct bn_str *b, const char *s, size_t n);

/* Encode 'cp' as UTF-8 at 'out' (4 bytes of room); returns the length. */
int bn_utf8_put(char *out, uint32_t cp);
/* Decode one character of at most 'n' > 0 bytes. Returns its length, or 0 if
 * it is not well-formed UTF-8 (overlong, surrogate, above U+10FFFF, cut). */
int bn_utf8_get(const char *s, size_t n, uint32_t *cp);
/* Offset of the first byte that is not well-formed UTF-8; n if all is. */
size_t bn_utf8_check(const char *s, size_t n);

/* Edit distance (insert, delete, replace, swap of neighbours). */
int bn_str_distance(const char *a, const char *b);
/* The nearest of 'n' names to 'word' if near enough to be a slip of the
 * fingers, else NULL. */
const char *bn_str_nearest(const char *word, const char *const *names,
                           size_t n);

bool bn_str_starts(const char *s, const char *prefix);
bool bn_str_ends(const char *s, const char *suffix);

/* "1.5 GiB" and the like; 'out' has 32 bytes. Returns 'out'. */
char *bn_str_bytes(char *out, uint64_t n);

#endif
