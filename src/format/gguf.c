#include "config.h"
#include "format/gguf.h"
#include "base/mem.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 4 }; /* of arrays of arrays */

/* A cursor that never leaves the file. */
struct in {
    const unsigned char *p;
    size_t len, at;
    const char *file;
    struct bn_err *err;
};

enum value_type { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64,
                  I64, F64, NVALUE };

static const unsigned char *take(struct in *in, uint64_t n)
{
    const unsigned char *p = in->p + in->at;

    if (n > in->len - in->at) {
        bn_fail(in->err, BN_ERR_DATA, "%s: ends at byte %zu in the middle of "
                "a field: it is cut short", in->file, in->len);
        return NULL;
    }
    in->at += n;
    return p;
}

/* An unsigned number of 'n' bytes. */
static int number(struct in *in, int n, uint64_t *out)
{
    const unsigned char *p = take(in, (uint64_t)n);

    if (p == NULL)
        return -1;
    *out = 0;
    for (int i = 0; i < n; i++)
        *out |= (uint64_t)p[i] << 8 * i;
    return 0;
}

static const char *string(struct in *in, size_t *len)
{
    uint64_t n;

    if (number(in, 8, &n) < 0)
        return NULL;
    *len = n;
    return (const char *)take(in, n);
}

/* NULL: failed. */
static json_t *scalar(struct in *in, enum value_type type)
{
    static const int size[NVALUE] = {
        [U8] = 1, [I8] = 1, [U16] = 2, [I16] = 2,  [U32] = 4, [I32] = 4,
        [F32] = 4, [BOOL] = 1, [U64] = 8, [I64] = 8, [F64] = 8};
    uint64_t u;
    size_t len;

    if (type == STRING) {
        const char *s = string(in, &len);

        return s != NULL ? json_stringn_nocheck(s, len) : NULL;
    }
    if (number(in, size[type], &u) < 0)
        return NULL;
    if (type == BOOL)
        return json_boolean(u != 0);
    if (type == F32 || type == F64) {
        uint32_t b = (uint32_t)u;
        float f;
        double d;

        memcpy(&f, &b, 4);
        memcpy(&d, &u, 8);
        d = type == F32 ? f : d;
        /* JSON has no NaN and no infinity */
        return d - d == 0 ? json_real(d) : json_null();
    }
    if (type == I8 || type == I16 || type == I32) {
        int shift = 64 - 8 * size[type];

        u = (uint64_t)((int64_t)(u << shift) >> shift);
    }
    return json_integer((json_int_t)u);
}

static json_t *value(struct in *in, uint64_t type, int depth)
{
    uint64_t of, n;
    json_t *list, *v;

    if (type >= NVALUE || depth > MAX_DEPTH) {
        bn_fail(in->err, BN_ERR_DATA, "%s: value of unknown type %llu",
                in->file, (unsigned long long)type);
        return NULL;
    }
    if (type != ARRAY)
        return scalar(in, (enum value_type)type);
    if (number(in, 4, &of) < 0 || number(in, 8, &n) < 0)
        return NULL;
    list = json_array();
    for (uint64_t i = 0; i < n; i++) {
        v = value(in, of, depth + 1);
        if (v == NULL) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, v);
    }
    return list;
}

static int pairs(struct in *in, uint64_t n, json_t *meta)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t type;
        size_t len;
        const char *s = string(in, &len);

        if (s == NULL || number(in, 4, &type) < 0)
            return -1;
        char *key = bn_strndup(s, len);
        json_t *v = value(in, type, 0);
        int rc = v != NULL ? 0 : -1;
        if (rc == 0 && json_object_get(meta, key) != NULL)
            rc = bn_fail(in->err, BN_ERR_DATA, "%s: key '%s' is twice there",
                         in->file, key);
        if (rc == 0)
            json_object_set_nocheck(meta, key, v);
        json_decref(v);
        free(key);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* A tensor as the file describes it. */
struct entry {
    struct bn_named t;
    const struct bn_quant *quant;
    uint64_t offset, bytes;
};

static int plain_type(uint64_t id)
{
    switch (id) {
    case 0:
        return BN_F32;
    case 1:
        return BN_F16;
    case 24:
        return BN_I8;
    case 25:
        return BN_I16;
    case 26:
        return BN_I32;
    case 27:
        return BN_I64;
    case 28:
        return BN_F64;
    case 30:
        return BN_BF16;
    default:
        return -1;
    }
}

static int entry_type(struct in *in, struct entry *e, uint64_t id)
{
    static const char *const others[] = {
        [9] = "Q8_1", [10] = "Q2_K", [11] = "Q3_K", [15] = "Q8_K",
        [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS",
        [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S",
        [23] = "IQ4_XS", [29] = "IQ1_M", [34] = "TQ1_0", [35] = "TQ2_0",
        [39] = "MXFP4"};
    struct bn_named *t = &e->t;
    int plain = plain_type(id);

    e->quant = plain < 0 && id < 1000 ? bn_quant_find((int)id) : NULL;
    if (plain < 0 && e->quant == NULL)
        return bn_fail(in->err, BN_ERR_DATA, "%s: tensor '%s' has type %llu "
                       "(%s), which is not supported", in->file, t->name,
                       (unsigned long long)id,
                       id < BN_COUNT(others) && others[id] != NULL
                           ? others[id]
                           : "unknown");
    t->dtype = e->quant != NULL ? BN_F32 : (enum bn_dtype)plain;
    int64_t count = bn_dims_count(t->ndim, t->dims, t->dtype);
    if (count < 0)
        return bn_fail(in->err, BN_ERR_DATA, "%s: tensor '%s' is too big",
                       in->file, t->name);
    e->bytes = (uint64_t)count * bn_dtype_size(t->dtype);
    if (e->quant == NULL)
        return 0;
    t->quant = e->quant->name;
    if (t->ndim == 0 || t->dims[t->ndim - 1] % e->quant->elems != 0)
        return bn_fail(in->err, BN_ERR_DATA, "%s: rows of tensor '%s' are no "
                       "whole blocks of %s", in->file, t->name, t->quant);
    e->bytes = (uint64_t)(count / e->quant->elems)
               * (uint64_t)e->quant->bytes;
    return 0;
}

static int read_entry(struct in *in, struct bn_tensors *ts, struct entry *e)
{
    uint64_t dims, id, ext;
    size_t len;
    const char *s = string(in, &len);

    if (s == NULL || number(in, 4, &dims) < 0)
        return -1;
    *e = (struct entry){.t = {.file = in->file}};
    e->t.name = bn_tensors_own_take(ts, bn_strndup(s, len));
    if (dims > BN_MAX_DIMS)
        return bn_fail(in->err, BN_ERR_DATA, "%s: tensor '%s' has %llu "
                       "dimensions", in->file, e->t.name,
                       (unsigned long long)dims);
    e->t.ndim = (int)dims;
    for (int d = e->t.ndim - 1; d >= 0; d--) {
        if (number(in, 8, &ext) < 0)
            return -1;
        e->t.dims[d] = ext > INT64_MAX ? -1 : (int64_t)ext;
    }
    if (number(in, 4, &id) < 0 || number(in, 8, &e->offset) < 0)
        return -1;
    return entry_type(in, e, id);
}

static int by_offset(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Every tensor inside the file, aligned, none over another. */
static int place(struct in *in, struct entry *e, size_t n, uint64_t align)
{
    size_t start = (size_t)((in->at + align - 1) / align * align);
    uint64_t end = 0, len = start < in->len ? in->len - start : 0;

    if (n > 0)
        qsort(e, n, sizeof(*e), by_offset);
    for (size_t i = 0; i < n; i++) {
        if (e[i].offset % align != 0)
            return bn_fail(in->err, BN_ERR_DATA, "%s: tensor '%s' is not "
                           "aligned to %llu bytes", in->file, e[i].t.name,
                           (unsigned long long)align);
        if (e[i].offset > len || e[i].bytes > len - e[i].offset)
            return bn_fail(in->err, BN_ERR_DATA, "%s: tensor '%s' ends after "
                           "the file: it is cut short", in->file,
                           e[i].t.name);
        if (e[i].offset < end)
            return bn_fail(in->err, BN_ERR_DATA, "%s: tensors '%s' and '%s' "
                           "overlap", in->file, e[i - 1].t.name,
                           e[i].t.name);
        end = e[i].offset + e[i].bytes;
        e[i].t.data = in->p + start + e[i].offset;
    }
    return 0;
}

struct job {
    float *out;
    const unsigned char *in;
    const struct bn_quant *q;
    size_t blocks;
    int threads;
};

static void dequantize(void *arg, int index)
{
    const struct job *j = arg;
    size_t t = (size_t)j->threads, k = (size_t)index;

    for (size_t b = j->blocks * k / t; b < j->blocks * (k + 1) / t; b++)
        j->q->dequantize(j->out + b * (size_t)j->q->elems,
                         j->in + b * (size_t)j->q->bytes);
}

static int expand(struct in *in, struct bn_tensors *ts, struct entry *e)
{
    if (e->quant != NULL && e->bytes > 0) {
        size_t blocks = e->bytes / (size_t)e->quant->bytes;
        size_t n = blocks * (size_t)e->quant->elems;
        float *out = malloc(n * sizeof(float));

        if (out == NULL)
            return bn_fail(in->err, BN_ERR_AGAIN, "%s: no memory for %zu "
                           "values of '%s'", in->file, n, e->t.name);
        bn_tensors_own_take(ts, out);
        struct job j = {out, e->t.data, e->quant, blocks, bn_cpu_count()};
        bn_parallel(j.threads, dequantize, &j);
        e->t.data = out;
    }
    bn_tensors_add(ts, &e->t);
    return 0;
}

/* 0: failed. */
static uint64_t alignment(struct in *in, const json_t *meta)
{
    const json_t *v = json_object_get(meta, "general.alignment");
    json_int_t a = v == NULL ? 32 : json_integer_value(v);

    if (a < 1 || a > 1 << 20) {
        bn_fail(in->err, BN_ERR_DATA, "%s: general.alignment must be a size",
                in->file);
        return 0;
    }
    return (uint64_t)a;
}

/* One description in the file takes at least 24 bytes, so their number is
 * bounded before memory is taken. */
static int read_tensors(struct in *in, struct bn_tensors *ts, uint64_t n)
{
    int rc = -1;

    if (n > (in->len - in->at) / 24)
        return bn_fail(in->err, BN_ERR_DATA, "%s: too short for its %llu "
                       "tensors", in->file, (unsigned long long)n);
    struct entry *e = BN_NEWN(struct entry, n);
    for (uint64_t i = 0; i < n; i++)
        if (read_entry(in, ts, &e[i]) < 0)
            goto out;
    uint64_t align = alignment(in, ts->meta);
    if (align == 0 || place(in, e, n, align) < 0)
        goto out;
    for (uint64_t i = 0; i < n; i++)
        if (expand(in, ts, &e[i]) < 0)
            goto out;
    rc = 0;
out:
    free(e);
    return rc;
}

static int parse(struct bn_tensors *ts, const void *data, size_t len,
                 const char *name, struct bn_err *err)
{
    struct in in = {data, len, 0, NULL, err};
    uint64_t version, tensors, n;

    in.file = bn_tensors_own_take(ts, bn_strdup(name));
    if (len < 24 || memcmp(data, "GGUF", 4) != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: no GGUF file", name);
    in.at = 4;
    if (number(&in, 4, &version) < 0 || number(&in, 8, &tensors) < 0
        || number(&in, 8, &n) < 0)
        return -1;
    if (version != 2 && version != 3)
        return bn_fail(err, BN_ERR_DATA, "%s: GGUF version %llu is not "
                       "supported (known: 2 and 3, little-endian)", name,
                       (unsigned long long)version);
    ts->meta = json_object();
    if (pairs(&in, n, ts->meta) < 0 || read_tensors(&in, ts, tensors) < 0)
        return -1;
    return bn_tensors_finish(ts, err);
}

int bn_gguf_parse(struct bn_tensors *ts, const void *data, size_t len,
                  const char *name, struct bn_err *err)
{
    struct bn_tensors got = {0};

    if (parse(&got, data, len, name, err) < 0) {
        bn_tensors_close(&got);
        return -1;
    }
    *ts = got;
    return 0;
}

int bn_gguf_open(struct bn_tensors *ts, const char *path, struct bn_err *err)
{
    struct bn_tensors got = {0};
    struct bn_map m;

    if (bn_tensors_map(&got, path, &m, err) < 0
        || parse(&got, m.data, m.len, path, err) < 0) {
        bn_tensors_close(&got);
        return -1;
    }
    *ts = got;
    return 0;
}
