/* One error type for the whole suite. The class says what a scheduler should
 * do, and is the exit status of a program that ends with it.
 */
#ifndef BN_BASE_ERR_H
#define BN_BASE_ERR_H

enum bn_err_code {
    BN_ERR_USAGE = 64,   /* bad config or arguments: never requeue */
    BN_ERR_DATA = 65,    /* bad dataset, tokenizer, model or checkpoint */
    BN_ERR_BUG = 70,     /* broken invariant in this program */
    BN_ERR_NUMERIC = 71, /* loss or gradient is NaN or Inf */
    BN_ERR_AGAIN = 75,   /* node, network, disk or preemption: try again */
};

struct bn_err {
    enum bn_err_code code;
    char text[480];
};

/* Fill 'err' (NULL is allowed) and return -1. errno is left as it was.
 * Text that does not fit ends in "+". Line breaks and other control
 * characters of the text become "?", so that an error is always one line.
 */
int bn_fail(struct bn_err *err, enum bn_err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Put "prefix: " before the text of a filled 'err' (NULL is allowed). Where
 * both do not fit, the prefix ends in "+", down to half of the room.
 * Returns -1; errno is left as it was.
 */
int bn_err_prefix(struct bn_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The class of a failed system call: no space, no file, no permission and
 * the like are BN_ERR_DATA (a person must act), interruptions and I/O errors
 * BN_ERR_AGAIN.
 */
enum bn_err_code bn_err_from_errno(int errnum);

/* "usage", "data", "bug", "numeric", "again"; "unknown" for any other. */
const char *bn_err_name(enum bn_err_code code);

#endif
