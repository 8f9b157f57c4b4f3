#include "config.h"
#include "ops/ops.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void bn_dev_destroy(struct bn_dev *d)
{
    if (d != NULL)
        d->destroy(d);
}

int bn_dev_check(struct bn_dev *d, struct bn_err *err)
{
    if (!d->failed)
        return 0;
    if (err != NULL)
        *err = d->err;
    return -1;
}

void bn_dev_fail(struct bn_dev *d, enum bn_err_code code, const char *fmt, ...)
{
    char text[sizeof(d->err.text)];
    va_list ap;

    if (d->failed)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&lock);
    if (!d->failed)
        bn_fail(&d->err, code, "%s", text);
    d->failed = true;
    pthread_mutex_unlock(&lock);
}
