#include "config.h"
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void clean(char *s)
{
    for (; *s != '\0'; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f)
            *s = '?';
}

static void set(struct bn_err *err, const char *fmt, va_list ap)
{
    int n = vsnprintf(err->text, sizeof(err->text), fmt, ap);

    if (n >= (int)sizeof(err->text))
        err->text[sizeof(err->text) - 2] = '+';
    clean(err->text);
}

int bn_fail(struct bn_err *err, enum bn_err_code code, const char *fmt, ...)
{
    int saved = errno;

    if (err != NULL) {
        va_list ap;

        err->code = code;
        va_start(ap, fmt);
        set(err, fmt, ap);
        va_end(ap);
    }
    errno = saved;
    return -1;
}

int bn_err_prefix(struct bn_err *err, const char *fmt, ...)
{
    int saved = errno;

    if (err != NULL) {
        char old[sizeof(err->text)];
        size_t n;
        va_list ap;

        memcpy(old, err->text, sizeof(old));
        va_start(ap, fmt);
        set(err, fmt, ap);
        va_end(ap);
        n = strlen(err->text);
        /* Rather half of where than half of why. */
        const size_t room = sizeof(old) - sizeof(": "), why = strlen(old);
        size_t most = why < room / 2 ? room - why : room / 2;
        if (n > most) {
            n = most;
            err->text[n - 1] = '+';
        }
        if (snprintf(err->text + n, sizeof(err->text) - n, ": %s", old)
            >= (int)(sizeof(err->text) - n))
            err->text[sizeof(err->text) - 2] = '+';
    }
    errno = saved;
    return -1;
}

enum bn_err_code bn_err_from_errno(int errnum)
{
    switch (errnum) {
    case EINTR:
    case EAGAIN:
    case EIO:
    case ETIMEDOUT:
    case ESTALE:
    case ENOMEM:
        return BN_ERR_AGAIN;
    default:
        return BN_ERR_DATA;
    }
}

const char *bn_err_name(enum bn_err_code code)
{
    switch (code) {
    case BN_ERR_USAGE:
        return "usage";
    case BN_ERR_DATA:
        return "data";
    case BN_ERR_BUG:
        return "bug";
    case BN_ERR_NUMERIC:
        return "numeric";
    case BN_ERR_AGAIN:
        return "again";
    }
    return "unknown";
}
