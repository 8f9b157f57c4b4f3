#include "config.h"
#include "ckpt/hf.h"
#include "base/mem.h"
#include "base/signal.h"
#include "base/thread.h"
#include "tensor/convert.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A load in progress: threads take pieces of parameters in turn. */
struct load {
    const struct bn_tensors *ts;
    const struct bn_params *ps;
    const char *where;
    char *flat;
    enum bn_dtype dtype;
    unsigned flags;
    pthread_mutex_t lock;
    int param, row;   /* the next piece */
    int bad;          /* lowest parameter with a fault; ps->n: none */
    struct bn_err err;
    bool *nonzero;    /* [ps->n] */
};

enum { PIECE = 1 << 20 }; /* elements */

/* Whoever asked to stop does not wait for the rest of the weights. Under the
 * lock. */
static bool stopped(struct load *l)
{
    int sig = bn_stop_signal();

    if (sig == 0)
        return false;
    l->bad = 0;
    bn_fail(&l->err, BN_ERR_AGAIN, "stopped by signal %d while loading '%s'",
            sig, l->where);
    return true;
}

/* Take the next rows of a parameter; false when all are taken. */
static bool take(struct load *l, int *param, int *row, int *end)
{
    bool more;

    pthread_mutex_lock(&l->lock);
    more = l->param < l->ps->n && !stopped(l);
    if (more) {
        const struct bn_param *p = &l->ps->item[l->param];
        int step = PIECE / p->cols > 0 ? PIECE / p->cols : 1;

        *param = l->param;
        *row = l->row;
        *end = p->rows - l->row < step ? p->rows : l->row + step;
        l->row = *end;
        if (*end == p->rows) {
            l->param++;
            l->row = 0;
        }
    }
    pthread_mutex_unlock(&l->lock);
    return more;
}

static void blame(struct load *l, int param, const char *fmt, int row,
                  size_t col)
{
    const struct bn_param *p = &l->ps->item[param];

    pthread_mutex_lock(&l->lock);
    if (param < l->bad) {
        l->bad = param;
        bn_fail(&l->err, BN_ERR_DATA, fmt, l->where, p->name, row, col,
                bn_dtype_name(l->dtype));
    }
    pthread_mutex_unlock(&l->lock);
}

static void load_rows(struct load *l, int param, int row, int end)
{
    const struct bn_param *p = &l->ps->item[param];
    const struct bn_named *t = bn_tensors_find(l->ts, p->name);
    size_t in = bn_dtype_size(t->dtype), out = bn_dtype_size(l->dtype);
    size_t cols = (size_t)p->cols, n = cols;
    bool nonzero = false;

    /* whole rows of the source are one run */
    if (p->cols == p->full_cols)
        n *= (size_t)(end - row);
    for (int y = row; y < end; y += (int)(n / cols)) {
        size_t from = (size_t)(p->row0 + y) * (size_t)p->full_cols
                      + (size_t)p->col0;
        char *to = l->flat + (p->offset + (size_t)y * cols) * out;

        bn_convert(to, l->dtype, (const char *)t->data + from * in, t->dtype,
                   n);
        size_t at = bn_find_nonfinite(to, l->dtype, n);
        if (at < n && !(l->flags & BN_LOAD_ALLOW_NONFINITE))
            blame(l, param, "%s: %s[%d, %zu] is not finite as %s",
                  p->row0 + y + (int)(at / cols),
                  (size_t)p->col0 + at % cols);
        nonzero = nonzero || !bn_all_zero(to, l->dtype, n);
    }
    if (nonzero) {
        pthread_mutex_lock(&l->lock);
        l->nonzero[param] = true;
        pthread_mutex_unlock(&l->lock);
    }
}

static void work(void *arg, int index)
{
    struct load *l = arg;
    int param, row, end;

    (void)index;
    while (take(l, &param, &row, &end))
        load_rows(l, param, row, end);
}

/* A slice of a split matrix may be zero (rows of unused tokens); the whole
 * tensor may not. */
static void check_zero(struct load *l)
{
    for (int i = 0; i < l->ps->n && i < l->bad; i++) {
        const struct bn_param *p = &l->ps->item[i];
        const struct bn_named *t;

        if (l->nonzero[i] || p->ndim != 2)
            continue;
        t = bn_tensors_find(l->ts, p->name);
        if (bn_all_zero(t->data, t->dtype, (size_t)t->count)) {
            l->bad = i;
            bn_fail(&l->err, BN_ERR_DATA, "%s: %s is all zero", l->where,
                    p->name);
        }
    }
}

static void report_formats(const struct load *l, struct bn_str *report)
{
    int n[BN_NDTYPE] = {0};

    for (int i = 0; i < l->ps->n; i++)
        n[bn_tensors_find(l->ts, l->ps->item[i].name)->dtype]++;
    for (int t = 0; t < BN_NDTYPE; t++)
        if (n[t] > 0 && t != (int)l->dtype)
            bn_str_addf(report, "%d tensors converted from %s to %s\n", n[t],
                        bn_dtype_name((enum bn_dtype)t),
                        bn_dtype_name(l->dtype));
}

/* Zero what lies between the parameters. */
static void clear_padding(const struct load *l)
{
    size_t size = bn_dtype_size(l->dtype), at = 0;

    for (int i = 0; i <= l->ps->n; i++) {
        size_t next = i < l->ps->n ? l->ps->item[i].offset : l->ps->elems;

        memset(l->flat + at * size, 0, (next - at) * size);
        if (i < l->ps->n)
            at = next + l->ps->item[i].count;
    }
}

int bn_hf_load_tensors(const struct bn_tensors *ts, const char *where,
                       const struct bn_model_config *c,
                       const struct bn_params *ps, void *flat,
                       enum bn_dtype dtype, unsigned flags,
                       struct bn_str *report, struct bn_err *err)
{
    if (bn_hf_check(ts, where, c, report, err) < 0)
        return -1;
    return bn_hf_fill(ts, where, ps, flat, dtype, flags, report, err);
}

int bn_hf_fill(const struct bn_tensors *ts, const char *where,
               const struct bn_params *ps, void *flat, enum bn_dtype dtype,
               unsigned flags, struct bn_str *report, struct bn_err *err)
{
    struct load l = {.ts = ts, .ps = ps, .where = where, .flat = flat,
                     .dtype = dtype, .flags = flags, .bad = ps->n,
                     .lock = PTHREAD_MUTEX_INITIALIZER};

    l.nonzero = BN_NEWN(bool, (size_t)ps->n);
    clear_padding(&l);
    bn_parallel(bn_cpu_count(), work, &l);
    if (!(flags & BN_LOAD_ALLOW_ZERO))
        check_zero(&l);
    if (report != NULL)
        report_formats(&l, report);
    free(l.nonzero);
    if (l.bad == ps->n)
        return 0;
    if (err != NULL)
        *err = l.err;
    return -1;
}

int bn_hf_load(const char *dir, const struct bn_model_config *c,
               const struct bn_params *ps, void *flat, enum bn_dtype dtype,
               unsigned flags, struct bn_str *report, struct bn_err *err)
{
    struct bn_tensors ts;
    int rc;

    if (bn_safetensors_open(&ts, dir, err) < 0)
        return -1;
    rc = bn_hf_load_tensors(&ts, dir, c, ps, flat, dtype, flags, report,
                            err);
    bn_tensors_close(&ts);
    return rc;
}
