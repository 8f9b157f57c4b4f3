/* From what a checkpoint stores to what a layout's rules are about: scales of
 * 8-bit matrices, norms less 1. Shards: merge.c. */
#include "config.h"
#include "convert/layout.h"
#include "base/mem.h"
#include "base/thread.h"
#include "convert/merge.h"
#include "tensor/convert.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static void *room(struct bn_tensors *ts, const struct bn_named *t,
                  enum bn_dtype dtype, struct bn_err *err)
{
    size_t n = (size_t)t->count * bn_dtype_size(dtype);
    void *p = malloc(n > 0 ? n : 1);

    if (p == NULL) {
        bn_fail(err, BN_ERR_AGAIN, "no memory for %zu bytes of '%s'", n,
                t->name);
        return NULL;
    }
    return bn_tensors_own_take(ts, p);
}

/* One matrix and its scales. */
struct dequant {
    const struct bn_layout *l;
    const unsigned char *codes;
    enum bn_dtype type;
    const float *scale;
    int64_t rows, cols;
    float *out;
    int threads;
    int64_t *bad; /* [threads]: an element that does not come back; -1 */
};

static float scale_at(const struct dequant *d, int64_t row, int64_t col)
{
    int64_t b = d->l->scale_block;

    switch (d->l->scale_of) {
    case BN_SCALE_TENSOR:
        return d->scale[0];
    case BN_SCALE_ROW:
        return d->scale[row];
    default:
        return d->scale[row / b * ((d->cols + b - 1) / b) + col / b];
    }
}

static void some_rows(void *arg, int index)
{
    const struct dequant *d = arg;
    float value[256];
    unsigned char codes[256], back;

    for (int i = 0; i < 256; i++)
        codes[i] = (unsigned char)i;
    bn_convert(value, BN_F32, codes, d->type, 256);
    d->bad[index] = -1;
    for (int64_t r = d->rows * index / d->threads;
         r < d->rows * (index + 1) / d->threads; r++)
        for (int64_t c = 0; c < d->cols; c++) {
            int64_t i = r * d->cols + c;
            float s = scale_at(d, r, c);
            float x = value[d->codes[i]] * s;
            float code = x / s;

            d->out[i] = x;
            bn_convert(&back, d->type, &code, BN_F32, 1);
            if (back != d->codes[i] && d->bad[index] < 0)
                d->bad[index] = i;
        }
}

/* Whether the scales have the shape that the layout declares. */
static bool fits(const struct bn_layout *l, const struct bn_named *t,
                 const struct bn_named *s)
{
    int64_t b = l->scale_block;

    if (s->dtype != BN_F32)
        return false;
    switch (l->scale_of) {
    case BN_SCALE_TENSOR:
        return s->count == 1;
    case BN_SCALE_ROW:
        return s->count == t->dims[0] && s->ndim >= 1
               && s->dims[0] == t->dims[0];
    default:
        return s->ndim == 2 && s->dims[0] == (t->dims[0] + b - 1) / b
               && s->dims[1] == (t->dims[1] + b - 1) / b;
    }
}

static int dequantize(const struct bn_layout *l, struct bn_tensors *ts,
                      struct bn_named *t, enum bn_dtype type,
                      const struct bn_named *s, const char *where,
                      struct bn_err *err)
{
    char a[200], b[200];

    if (t->ndim != 2 || !fits(l, t, s))
        return bn_fail(err, BN_ERR_DATA, "%s: '%s' is %s %s, which are not "
                       "the scales that the layout declares for '%s', %s",
                       where, s->name, bn_dtype_name(s->dtype),
                       bn_dims_text(a, sizeof(a), s->ndim, s->dims), t->name,
                       bn_dims_text(b, sizeof(b), t->ndim, t->dims));
    struct dequant d = {
        .l = l, .codes = t->data, .type = type, .rows = t->dims[0],
        .cols = t->dims[1], .threads = bn_cpu_count()};
    float *scale = bn_malloc((size_t)s->count * sizeof(float));
    int64_t bad = -1;

    memcpy(scale, s->data, (size_t)s->count * sizeof(float));
    d.scale = scale;
    d.bad = BN_NEWN(int64_t, (size_t)d.threads);
    d.out = room(ts, t, BN_F32, err);
    if (d.out != NULL)
        bn_parallel(d.threads, some_rows, &d);
    for (int i = 0; d.out != NULL && bad < 0 && i < d.threads; i++)
        bad = d.bad[i];
    free(d.bad);
    free(scale);
    if (d.out == NULL)
        return -1;
    if (bad >= 0)
        return bn_fail(err, BN_ERR_DATA, "%s: element %lld of '%s' does not "
                       "come back as its code: its scale is 0, too small or "
                       "not finite", where, (long long)bad, t->name);
    t->data = d.out;
    t->dtype = BN_F32;
    t->quant = bn_dtype_name(type);
    return 0;
}

/* Take out items marked with a NULL name; the order stays. */
static void drop_marked(struct bn_tensors *ts)
{
    size_t n = 0;

    for (size_t i = 0; i < ts->n; i++)
        if (ts->item[i].name != NULL)
            ts->item[n++] = ts->item[i];
    ts->n = n;
}

static bool holds_codes(const struct bn_layout *l, const struct bn_named *t,
                        enum bn_dtype *type)
{
    *type = t->dtype == BN_U8 && l->fp8_bytes >= 0
                ? (enum bn_dtype)l->fp8_bytes
                : t->dtype;
    return *type == BN_F8_E4M3 || *type == BN_F8_E5M2;
}

/* Every 8-bit tensor with its scales; these are used then. */
static int take_scales(const struct bn_layout *l, struct bn_tensors *ts,
                       const char *where, int *count, struct bn_err *err)
{
    bool *used = BN_NEWN(bool, ts->n);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < ts->n; i++) {
        struct bn_named *t = &ts->item[i];
        enum bn_dtype type;

        if (!holds_codes(l, t, &type))
            continue;
        char *name = bn_asprintf("%s%s", t->name,
                                 l->scale_suffix ? l->scale_suffix : "");
        const struct bn_named *s = bn_tensors_find(ts, name);

        if (l->scale_suffix == NULL || s == NULL) {
            /* bytes that are no codes, such as _extra_state */
            if (t->dtype != BN_U8)
                rc = bn_fail(err, BN_ERR_DATA, "%s: '%s' is %s, but %s",
                             where, t->name, bn_dtype_name(t->dtype),
                             l->scale_suffix == NULL
                                 ? "the layout declares no scales"
                                 : "its scales are not there");
        } else {
            used[s - ts->item] = true;
            rc = dequantize(l, ts, t, type, s, where, err);
            *count += rc == 0;
        }
        free(name);
    }
    for (size_t i = 0; rc == 0 && i < ts->n; i++)
        if (used[i])
            ts->item[i].name = NULL;
    drop_marked(ts);
    free(used);
    return rc;
}

static bool zero_centered(const struct bn_layout *l, const char *name)
{
    const char *plain = name;

    if (l->prefix != NULL && bn_str_starts(name, l->prefix))
        plain += strlen(l->prefix);
    for (size_t i = 0; i < l->n_zero; i++)
        if (fnmatch(l->zero[i], plain, 0) == 0)
            return true;
    return false;
}

/* In double, where 1 + x is exact for every x of 16 bits that is no tiny
 * one; what would not come back is refused. */
static int add_one(struct bn_tensors *ts, struct bn_named *t,
                   const char *where, struct bn_err *err)
{
    size_t size = bn_dtype_size(t->dtype);
    double *y = bn_dtype_is_float(t->dtype) ? room(ts, t, BN_F64, err) : NULL;
    char back[8];

    if (!bn_dtype_is_float(t->dtype))
        return bn_fail(err, BN_ERR_DATA, "%s: '%s' is %s: no weight", where,
                       t->name, bn_dtype_name(t->dtype));
    if (y == NULL)
        return -1;
    bn_convert(y, BN_F64, t->data, t->dtype, (size_t)t->count);
    for (int64_t i = 0; i < t->count; i++) {
        const char *at = (const char *)t->data + (size_t)i * size;

        y[i] += 1;
        double less = y[i] - 1;
        bn_convert(back, t->dtype, &less, BN_F64, 1);
        /* 0 of either sign is 0 */
        if (memcmp(back, at, size) != 0 && !bn_all_zero(at, t->dtype, 1))
            return bn_fail(err, BN_ERR_DATA, "%s: element %lld of '%s' is "
                           "lost when 1 is added", where, (long long)i,
                           t->name);
    }
    t->quant = bn_dtype_name(t->dtype);
    t->data = y;
    t->dtype = BN_F64;
    return 0;
}

static int add_ones(const struct bn_layout *l, struct bn_tensors *ts,
                    const char *where, int *count, struct bn_err *err)
{
    for (size_t i = 0; i < ts->n; i++) {
        if (!zero_centered(l, ts->item[i].name))
            continue;
        if (add_one(ts, &ts->item[i], where, err) < 0)
            return -1;
        ++*count;
    }
    return 0;
}

static void say(struct bn_str *report, int n, const char *what)
{
    if (report != NULL && n > 0)
        bn_str_addf(report, "%d %s\n", n, what);
}

int bn_layout_prepare(const struct bn_layout *l,
                      const struct bn_model_config *c, struct bn_tensors *src,
                      struct bn_tensors *shard, int n, const char *where,
                      struct bn_tensors *out, struct bn_str *report,
                      struct bn_err *err)
{
    int scaled = 0, ones = 0, merged = 0, rc;

    rc = take_scales(l, src, where, &scaled, err);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = take_scales(l, &shard[i], where, &scaled, err);
    if (rc < 0)
        return -1;
    if (n > 0) {
        if (bn_layout_merge(l, c, src, shard, n, where, out, &merged, err)
            < 0)
            return -1;
    } else {
        *out = *src;
        *src = (struct bn_tensors){0};
    }
    if (add_ones(l, out, where, &ones, err) < 0) {
        bn_tensors_close(out);
        return -1;
    }
    say(report, scaled, "8-bit matrices multiplied by their scales; every "
                        "code comes back");
    say(report, merged, "tensors merged from shards");
    say(report, ones, "norms of which the source holds the weight less 1");
    return 0;
}

int bn_layout_unprepare(const struct bn_layout *l, struct bn_tensors *ts,
                        struct bn_err *err)
{
    if (l->scale_suffix != NULL)
        return bn_fail(err, BN_ERR_USAGE, "%s: 8-bit weights cannot be "
                       "written: use the layout that it is based on",
                       l->path);
    for (size_t i = 0; i < ts->n; i++) {
        struct bn_named *t = &ts->item[i];

        if (!zero_centered(l, t->name))
            continue;
        double *y = room(ts, t, BN_F64, err);
        if (y == NULL)
            return -1;
        bn_convert(y, BN_F64, t->data, t->dtype, (size_t)t->count);
        for (int64_t k = 0; k < t->count; k++)
            y[k] -= 1;
        t->quant = bn_dtype_name(t->dtype);
        t->data = y;
        t->dtype = BN_F64;
    }
    return 0;
}
