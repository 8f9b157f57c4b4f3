#include "config.h"
#include "format/torch.h"
#include "format/pickle.h"
#include "format/zip.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_PICKLE = 16 << 20, /* 72B models have 200 KB */
    MAX_DEPTH = 32,        /* of containers */
    MAX_VISITS = 4 << 20,  /* of nodes: shared ones count each time */
};

static const struct {
    const char *storage, *scalar; /* names of the storage and the dtype */
    enum bn_dtype dtype;
} types[] = {
    {"torch.FloatStorage", "torch.float32", BN_F32},
    {"torch.BFloat16Storage", "torch.bfloat16", BN_BF16},
    {"torch.HalfStorage", "torch.float16", BN_F16},
    {"torch.DoubleStorage", "torch.float64", BN_F64},
    {"", "torch.float8_e4m3fn", BN_F8_E4M3},
    {"", "torch.float8_e5m2", BN_F8_E5M2},
    {"torch.CharStorage", "torch.int8", BN_I8},
    {"torch.ByteStorage", "torch.uint8", BN_U8},
    {"torch.ShortStorage", "torch.int16", BN_I16},
    {"torch.IntStorage", "torch.int32", BN_I32},
    {"torch.LongStorage", "torch.int64", BN_I64},
    {"torch.BoolStorage", "torch.bool", BN_BOOL},
};

struct reader {
    struct bn_tensors *ts;
    struct bn_zip zip;
    char *prefix; /* of the entries' names */
    const char *file;
    struct bn_err *err;
    struct bn_str path; /* of the node that is visited */
    int visits;
};

/* The path of what is visited, for messages. */
static const char *at(const struct reader *r)
{
    return r->path.len > 0 ? r->path.s : "the whole";
}

static int fail(const struct reader *r, const char *what)
{
    return bn_fail(r->err, BN_ERR_DATA, "%s: %s: %s", r->file, at(r), what);
}

static const struct bn_zip_entry *entry(const struct reader *r,
                                        const char *name)
{
    char *full = bn_asprintf("%s%s", r->prefix, name);
    const struct bn_zip_entry *e = bn_zip_find(&r->zip, full);

    free(full);
    return e;
}

static bool is(const struct bn_pk *v, enum bn_pk_kind kind, size_t n)
{
    return v->kind == kind && v->n >= n;
}

static bool is_text(const struct bn_pk *v, const char *text)
{
    return v->kind == BN_PK_STR && strcmp(v->s, text) == 0;
}

/* ("storage", class, key, location, elements); 'type' of an untyped storage
 * is left as it was. Gives the bytes of the storage. */
static const struct bn_zip_entry *storage(const struct reader *r,
                                          const struct bn_pk *v,
                                          enum bn_dtype *type)
{
    const struct bn_pk *id = is(v, BN_PK_PERSID, 1) ? v->item[0] : v;

    if (v == id || !is(id, BN_PK_TUPLE, 5) || !is_text(id->item[0], "storage")
        || id->item[1]->kind != BN_PK_GLOBAL
        || id->item[2]->kind != BN_PK_STR) {
        fail(r, "its storage is not understood");
        return NULL;
    }
    const char *class = id->item[1]->s;
    size_t i = 0;
    while (i < BN_COUNT(types) && strcmp(types[i].storage, class) != 0)
        i++;
    if (i < BN_COUNT(types))
        *type = types[i].dtype;
    else if (strcmp(class, "torch.storage.UntypedStorage") != 0) {
        bn_fail(r->err, BN_ERR_DATA, "%s: %s: storage class '%s' is not "
                "supported", r->file, at(r), class);
        return NULL;
    }
    char *name = bn_asprintf("data/%s", id->item[2]->s);
    const struct bn_zip_entry *e = entry(r, name);
    free(name);
    if (e == NULL)
        fail(r, "its storage is missing from the archive");
    return e;
}

/* Copy a strided view into a contiguous block. */
static void gather(char *out, const char *in, size_t size, int ndim,
                   const int64_t *dims, const int64_t *stride)
{
    if (ndim == 0) {
        memcpy(out, in, size);
        return;
    }
    size_t inner = size;
    for (int d = 1; d < ndim; d++)
        inner *= (size_t)dims[d];
    for (int64_t i = 0; i < dims[0]; i++)
        gather(out + (size_t)i * inner, in + (size_t)(i * stride[0]) * size,
               size, ndim - 1, dims + 1, stride + 1);
}

static int read_shape(const struct reader *r, struct bn_named *t,
                      const struct bn_pk *size, const struct bn_pk *stride,
                      int64_t *strides)
{
    if (size->kind != BN_PK_TUPLE || stride->kind != BN_PK_TUPLE
        || size->n != stride->n || size->n > BN_MAX_DIMS)
        return fail(r, "its shape is not understood");
    t->ndim = (int)size->n;
    for (size_t d = 0; d < size->n; d++) {
        if (size->item[d]->kind != BN_PK_INT
            || stride->item[d]->kind != BN_PK_INT || stride->item[d]->i < 0)
            return fail(r, "its shape is not understood");
        t->dims[d] = size->item[d]->i;
        strides[d] = stride->item[d]->i;
    }
    return 0;
}

/* Index of the last element, -1 if it overflows. */
static int64_t last_element(const struct bn_named *t, const int64_t *stride,
                            int64_t offset)
{
    int64_t last = offset, step;

    for (int d = 0; d < t->ndim; d++)
        if (__builtin_mul_overflow(t->dims[d] - 1, stride[d], &step)
            || __builtin_add_overflow(last, step, &last))
            return -1;
    return last;
}

static bool contiguous(const struct bn_named *t, const int64_t *stride)
{
    int64_t want = 1;

    for (int d = t->ndim - 1; d >= 0; d--) {
        if (t->dims[d] != 1 && stride[d] != want)
            return false;
        want *= t->dims[d];
    }
    return true;
}

/* Point 't' at its elements in the storage, or at a copy. */
static int locate(struct reader *r, struct bn_named *t,
                  const struct bn_zip_entry *e, int64_t offset,
                  const int64_t *stride)
{
    size_t size = bn_dtype_size(t->dtype);
    int64_t count = bn_dims_count(t->ndim, t->dims, t->dtype);
    int64_t last = count > 0 ? last_element(t, stride, offset) : 0;

    if (count < 0)
        return fail(r, "its shape is impossible");
    if (count > 0
        && (offset < 0 || last < 0 || (uint64_t)last >= e->len / size))
        return fail(r, "it reaches beyond its storage");
    t->data = e->data + (count > 0 ? (size_t)offset * size : 0);
    if (count == 0 || contiguous(t, stride))
        return 0;
    /* A copy may be larger than the file (an expanded tensor) but not
     * without bound. */
    if ((uint64_t)count > e->len / size)
        return fail(r, "it repeats elements of its storage, which is not "
                       "supported");
    char *copy = malloc((size_t)count * size);
    if (copy == NULL)
        return bn_fail(r->err, BN_ERR_AGAIN, "%s: no memory for '%s'",
                       r->file, at(r));
    gather(copy, t->data, size, t->ndim, t->dims, stride);
    t->data = bn_tensors_own_take(r->ts, copy);
    return 0;
}

static int find_dtype(const struct bn_pk *v)
{
    for (size_t i = 0; v->kind == BN_PK_GLOBAL && i < BN_COUNT(types); i++)
        if (strcmp(v->s, types[i].scalar) == 0)
            return types[i].dtype;
    return -1;
}

/* torch._utils._rebuild_tensor_v2 (storage, offset, size, stride, ...);
 * v3 has the dtype as its 7th argument, over an untyped storage. */
static int add_tensor(struct reader *r, const struct bn_pk *args, bool v3)
{
    struct bn_named t = {.file = r->file};
    int64_t stride[BN_MAX_DIMS];
    int dtype = -1;

    if (args->n < (v3 ? 7u : 4u) || args->item[1]->kind != BN_PK_INT)
        return fail(r, "its arguments are not understood");
    if (v3) {
        dtype = find_dtype(args->item[6]);
        if (dtype < 0)
            return fail(r, "its dtype is not supported");
    }
    enum bn_dtype type = BN_NDTYPE;
    const struct bn_zip_entry *e = storage(r, args->item[0], &type);
    if (e == NULL)
        return -1;
    t.dtype = v3 ? (enum bn_dtype)dtype : type;
    if (t.dtype == BN_NDTYPE)
        return fail(r, "its dtype is not known");
    if (read_shape(r, &t, args->item[2], args->item[3], stride) < 0
        || locate(r, &t, e, args->item[1]->i, stride) < 0)
        return -1;
    const char *name = r->path.len > 0 ? r->path.s : "";
    t.name = bn_tensors_own_take(r->ts, bn_strdup(name));
    bn_tensors_add(r->ts, &t);
    return 0;
}

static int visit(struct reader *r, const struct bn_pk *v, int depth);

/* Visit a member under one more step of the path. */
static int member(struct reader *r, const char *step, const struct bn_pk *v,
                  int depth)
{
    size_t len = r->path.len;
    int rc;

    if (len > 0)
        bn_str_addc(&r->path, '.');
    bn_str_adds(&r->path, step);
    rc = visit(r, v, depth + 1);
    r->path.len = len;
    if (r->path.s != NULL)
        r->path.s[len] = '\0';
    return rc;
}

static int visit_members(struct reader *r, const struct bn_pk *v, int depth)
{
    size_t each = v->kind == BN_PK_DICT ? 2 : 1;
    char number[24];

    if (depth > MAX_DEPTH)
        return fail(r, "containers are too deep");
    for (size_t i = 0; i + each <= v->n; i += each) {
        const struct bn_pk *key = v->item[i];
        const char *step = number;

        snprintf(number, sizeof(number), "%lld",
                 each == 1 ? (long long)i : (long long)key->i);
        if (each == 2 && key->kind == BN_PK_STR)
            step = key->s;
        else if (each == 2 && key->kind != BN_PK_INT)
            return fail(r, "a key is neither text nor a number");
        if (member(r, step, v->item[i + each - 1], depth) < 0)
            return -1;
    }
    return 0;
}

static int visit_call(struct reader *r, const struct bn_pk *v, int depth)
{
    const struct bn_pk *args = v->item[1];
    const char *f = v->item[0]->s;

    if (strcmp(f, "torch._utils._rebuild_tensor_v2") == 0)
        return add_tensor(r, args, false);
    if (strcmp(f, "torch._utils._rebuild_tensor_v3") == 0)
        return add_tensor(r, args, true);
    if (strcmp(f, "torch._utils._rebuild_parameter") == 0 && args->n >= 1)
        return visit(r, args->item[0], depth + 1);
    if (strcmp(f, "torch.Size") == 0 && args->n == 1)
        return visit(r, args->item[0], depth + 1);
    return bn_fail(r->err, BN_ERR_DATA, "%s: '%s' is made by '%s', which is "
                   "not allowed", r->file, at(r), f);
}

static void set_meta(struct reader *r, json_t *v)
{
    if (v != NULL && r->path.len > 0)
        json_object_set_new_nocheck(r->ts->meta, r->path.s, v);
    else
        json_decref(v);
}

static int visit(struct reader *r, const struct bn_pk *v, int depth)
{
    if (++r->visits > MAX_VISITS || depth > MAX_DEPTH)
        return fail(r, "too many or too deep containers");
    switch (v->kind) {
    case BN_PK_LIST:
    case BN_PK_TUPLE:
    case BN_PK_DICT:
        return visit_members(r, v, depth);
    case BN_PK_CALL:
        return visit_call(r, v, depth);
    case BN_PK_PERSID:
        return fail(r, "a storage outside a tensor");
    case BN_PK_GLOBAL:
        if (find_dtype(v) < 0)
            return bn_fail(r->err, BN_ERR_DATA, "%s: '%s' is '%s', which is "
                           "not allowed", r->file, at(r), v->s);
        set_meta(r, json_string(v->s));
        return 0;
    case BN_PK_NONE:
        set_meta(r, json_null());
        return 0;
    case BN_PK_BOOL:
        set_meta(r, json_boolean(v->i != 0));
        return 0;
    case BN_PK_INT:
        set_meta(r, json_integer(v->i));
        return 0;
    case BN_PK_FLOAT:
        set_meta(r, v->f - v->f == 0 ? json_real(v->f) : NULL);
        return 0;
    case BN_PK_STR:
        set_meta(r, json_stringn(v->s, v->len));
        return 0;
    case BN_PK_BYTES:
        return 0;
    }
    return 0;
}

/* "archive/" of the entry "archive/data.pkl". */
static const struct bn_zip_entry *find_pickle(struct reader *r)
{
    static const char tail[] = "data.pkl";

    for (size_t i = 0; i < r->zip.n; i++) {
        const char *name = r->zip.item[i].name;
        const char *slash = strchr(name, '/');

        if (slash == NULL || strcmp(slash + 1, tail) != 0)
            continue;
        r->prefix = bn_strndup(name, (size_t)(slash + 1 - name));
        return &r->zip.item[i];
    }
    bn_fail(r->err, BN_ERR_DATA, "%s: no 'data.pkl' in the archive: not a "
            "file of torch.save", r->file);
    return NULL;
}

static int read_archive(struct reader *r)
{
    const struct bn_zip_entry *e = find_pickle(r), *order;
    struct bn_pickle pk;
    int rc;

    if (e == NULL)
        return -1;
    order = entry(r, "byteorder");
    if (order != NULL && (order->len != 6
                          || memcmp(order->data, "little", 6) != 0))
        return bn_fail(r->err, BN_ERR_DATA, "%s: not little-endian, which is "
                       "not supported", r->file);
    if (e->len > MAX_PICKLE)
        return bn_fail(r->err, BN_ERR_DATA, "%s: its pickle is above 16 MiB",
                       r->file);
    if (bn_pickle_read(&pk, e->data, e->len, r->file, r->err) < 0)
        return -1;
    r->ts->meta = json_object();
    rc = visit(r, pk.root, 0);
    bn_pickle_release(&pk);
    return rc < 0 ? -1 : bn_tensors_finish(r->ts, r->err);
}

static int parse(struct bn_tensors *ts, const void *data, size_t len,
                 const char *name, struct bn_err *err)
{
    struct reader r = {.ts = ts, .err = err};
    int rc;

    r.file = bn_tensors_own_take(ts, bn_strdup(name));
    if (len > 2 && memcmp(data, "PK", 2) != 0
        && ((const unsigned char *)data)[0] == 0x80)
        return bn_fail(err, BN_ERR_DATA, "%s: a torch file older than 1.6: "
                       "load and save it with a newer PyTorch", name);
    if (bn_zip_open(&r.zip, data, len, name, err) < 0)
        return -1;
    rc = read_archive(&r);
    bn_zip_close(&r.zip);
    bn_str_release(&r.path);
    free(r.prefix);
    return rc;
}

int bn_torch_parse(struct bn_tensors *ts, const void *data, size_t len,
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

int bn_torch_open(struct bn_tensors *ts, const char *path,
                  struct bn_err *err)
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
