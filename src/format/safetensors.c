#include "config.h"
#include "format/safetensors.h"
#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* The header that the safetensors library accepts. */
enum { MAX_HEADER = 100000000 };
static const char index_name[] = "model.safetensors.index.json";

/* Byte range of one tensor, to check that the ranges tile the data. */
struct span {
    int64_t begin, end;
    const char *name;
};

static int by_begin(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int check_tiling(struct span *s, size_t n, int64_t len,
                        const char *file, struct bn_err *err)
{
    int64_t at = 0;

    if (n > 0)
        qsort(s, n, sizeof(*s), by_begin);
    for (size_t i = 0; i < n; i++) {
        if (s[i].begin < at)
            return bn_fail(err, BN_ERR_DATA, "%s: tensors '%s' and '%s' "
                           "overlap", file, s[i - 1].name, s[i].name);
        if (s[i].begin > at)
            return bn_fail(err, BN_ERR_DATA, "%s: bytes %lld to %lld before "
                           "tensor '%s' belong to no tensor", file,
                           (long long)at, (long long)s[i].begin, s[i].name);
        at = s[i].end;
    }
    if (at < len)
        return bn_fail(err, BN_ERR_DATA, "%s: %lld bytes after the last "
                       "tensor", file, (long long)(len - at));
    return 0;
}

static int parse_shape(struct bn_named *t, const json_t *shape,
                       struct bn_err *err)
{
    if (!json_is_array(shape))
        return bn_fail(err, BN_ERR_DATA, "'shape' must be a list");
    if (json_array_size(shape) > BN_MAX_DIMS)
        return bn_fail(err, BN_ERR_DATA, "more than %d dimensions",
                       BN_MAX_DIMS);
    t->ndim = (int)json_array_size(shape);
    for (int i = 0; i < t->ndim; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);

        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return bn_fail(err, BN_ERR_DATA, "shape[%d] must be an integer "
                           "that is not negative", i);
        t->dims[i] = json_integer_value(d);
    }
    return 0;
}

static int parse_tensor(struct bn_named *t, struct span *s, const json_t *o,
                        const char *data, int64_t len, struct bn_err *err)
{
    const char *dtype = json_string_value(json_object_get(o, "dtype"));
    const json_t *at = json_object_get(o, "data_offsets");
    const json_t *b = json_array_get(at, 0), *e = json_array_get(at, 1);

    if (!json_is_object(o) || json_object_size(o) != 3 || dtype == NULL)
        return bn_fail(err, BN_ERR_DATA, "must be an object of 'dtype', "
                       "'shape' and 'data_offsets'");
    int type = bn_dtype_from_name(dtype);
    if (type < 0)
        return bn_fail(err, BN_ERR_DATA, "dtype '%s' is not supported",
                       dtype);
    t->dtype = (enum bn_dtype)type;
    if (parse_shape(t, json_object_get(o, "shape"), err) < 0)
        return -1;
    if (json_array_size(at) != 2 || !json_is_integer(b)
        || !json_is_integer(e))
        return bn_fail(err, BN_ERR_DATA, "'data_offsets' must be two "
                       "integers");
    s->begin = json_integer_value(b);
    s->end = json_integer_value(e);
    if (s->begin < 0 || s->end < s->begin)
        return bn_fail(err, BN_ERR_DATA, "data_offsets [%lld, %lld] are no "
                       "range", (long long)s->begin, (long long)s->end);
    if (s->end > len)
        return bn_fail(err, BN_ERR_DATA, "data ends at byte %lld but the "
                       "file has %lld: it is cut short", (long long)s->end,
                       (long long)len);
    int64_t count = bn_dims_count(t->ndim, t->dims, t->dtype);
    if (count < 0
        || count * (int64_t)bn_dtype_size(t->dtype) != s->end - s->begin) {
        char dims[200];

        return bn_fail(err, BN_ERR_DATA, "%lld bytes for %s %s",
                       (long long)(s->end - s->begin), dtype,
                       bn_dims_text(dims, sizeof(dims), t->ndim, t->dims));
    }
    t->data = data + s->begin;
    return 0;
}

static int parse_meta(struct bn_tensors *ts, json_t *meta, const char *file,
                      struct bn_err *err)
{
    const char *key;
    json_t *v;

    if (!json_is_object(meta))
        return bn_fail(err, BN_ERR_DATA, "%s: '__metadata__' must be an "
                       "object of strings", file);
    json_object_foreach(meta, key, v)
        if (!json_is_string(v))
            return bn_fail(err, BN_ERR_DATA, "%s: __metadata__ '%s' must be "
                           "a string", file, key);
    if (ts->meta == NULL)
        ts->meta = json_incref(meta);
    return 0;
}

static int parse_header(struct bn_tensors *ts, json_t *root, const char *data,
                        int64_t len, const char *file, struct bn_err *err)
{
    struct span *spans = BN_NEWN(struct span, json_object_size(root));
    size_t n = 0;
    const char *key;
    json_t *v;
    int rc = -1;

    json_object_foreach(root, key, v)
    {
        struct bn_named t = {.file = file};

        if (strcmp(key, "__metadata__") == 0) {
            if (parse_meta(ts, v, file, err) < 0)
                goto out;
            continue;
        }
        if (parse_tensor(&t, &spans[n], v, data, len, err) < 0) {
            bn_err_prefix(err, "%s: tensor '%s'", file, key);
            goto out;
        }
        t.name = bn_tensors_own_take(ts, bn_strdup(key));
        spans[n++].name = t.name;
        bn_tensors_add(ts, &t);
    }
    rc = check_tiling(spans, n, len, file, err);
out:
    free(spans);
    return rc;
}

/* Add the tensors of one file's bytes. */
static int add_file(struct bn_tensors *ts, const char *data, size_t len,
                    const char *name, struct bn_err *err)
{
    const char *file = bn_tensors_own_take(ts, bn_strdup(name));
    uint64_t head;
    json_t *root;
    int rc;

    if (len < 8)
        return bn_fail(err, BN_ERR_DATA, "%s: %zu bytes are no safetensors "
                       "file", file, len);
    memcpy(&head, data, 8);
    head = le64toh(head);
    if (head > MAX_HEADER)
        return bn_fail(err, BN_ERR_DATA, "%s: header length %llu is above "
                       "%d: no safetensors file", file,
                       (unsigned long long)head, MAX_HEADER);
    if (head > len - 8)
        return bn_fail(err, BN_ERR_DATA, "%s: header of %llu bytes in a file "
                       "of %zu: it is cut short", file,
                       (unsigned long long)head, len);
    root = bn_json_parse(data + 8, head, file, err);
    if (root == NULL)
        return -1;
    rc = json_is_object(root)
             ? parse_header(ts, root, data + 8 + head,
                            (int64_t)(len - 8 - head), file, err)
             : bn_fail(err, BN_ERR_DATA, "%s: the header is not a JSON "
                       "object", file);
    json_decref(root);
    return rc;
}

int bn_safetensors_parse(struct bn_tensors *ts, const void *data, size_t len,
                         const char *name, struct bn_err *err)
{
    struct bn_tensors got = {0};

    if (add_file(&got, data, len, name, err) < 0
        || bn_tensors_finish(&got, err) < 0) {
        bn_tensors_close(&got);
        return -1;
    }
    *ts = got;
    return 0;
}

static int map_file(struct bn_tensors *ts, const char *path,
                    struct bn_err *err)
{
    struct bn_map m;

    if (bn_tensors_map(ts, path, &m, err) < 0)
        return -1;
    return add_file(ts, m.data, m.len, path, err);
}

/* Open every shard that the weight map names, once each. */
static int map_shards(struct bn_tensors *ts, json_t *weights,
                      const char *index, struct bn_err *err)
{
    json_t *seen = json_object();
    char *dir = bn_path_dir(index);
    const char *name;
    json_t *v;
    int rc = -1;

    json_object_foreach(weights, name, v)
    {
        const char *shard = json_string_value(v);

        if (shard == NULL || *shard == '\0' || strchr(shard, '/') != NULL) {
            bn_fail(err, BN_ERR_DATA, "%s: the shard of '%s' must be a file "
                    "name", index, name);
            goto out;
        }
        if (json_object_get(seen, shard) != NULL)
            continue;
        json_object_set_new(seen, shard, json_true());
        char *path = bn_path_join(dir, shard);
        int bad = map_file(ts, path, err);
        if (bad && !bn_exists(path))
            bn_fail(err, BN_ERR_DATA, "%s: shard '%s', which has '%s', is "
                    "missing", index, shard, name);
        free(path);
        if (bad)
            goto out;
    }
    rc = 0;
out:
    free(dir);
    json_decref(seen);
    return rc;
}

/* Shards and index must tell the same. */
static int check_index(const struct bn_tensors *ts, json_t *weights,
                       const char *index, struct bn_err *err)
{
    const char *name;
    json_t *v;

    json_object_foreach(weights, name, v)
    {
        const struct bn_named *t = bn_tensors_find(ts, name);
        const char *shard = json_string_value(v);

        if (t == NULL)
            return bn_fail(err, BN_ERR_DATA, "%s: tensor '%s' is not in "
                           "shard '%s'", index, name, shard);
        if (strcmp(bn_path_base(t->file), shard) != 0)
            return bn_fail(err, BN_ERR_DATA, "%s: tensor '%s' is in '%s', "
                           "not in shard '%s'", index, name,
                           bn_path_base(t->file), shard);
    }
    for (size_t i = 0; i < ts->n; i++)
        if (json_object_get(weights, ts->item[i].name) == NULL)
            return bn_fail(err, BN_ERR_DATA, "%s: tensor '%s' of '%s' is not "
                           "in the index", index, ts->item[i].name,
                           bn_path_base(ts->item[i].file));
    return 0;
}

static int open_index(struct bn_tensors *ts, const char *path,
                      struct bn_err *err)
{
    json_t *root = bn_json_load(path, err), *weights;
    int rc = -1;

    if (root == NULL)
        return -1;
    weights = json_object_get(root, "weight_map");
    if (!json_is_object(weights) || json_object_size(weights) == 0)
        bn_fail(err, BN_ERR_DATA, "%s: 'weight_map' is missing or empty",
                path);
    else if (map_shards(ts, weights, path, err) == 0
             && bn_tensors_finish(ts, err) == 0)
        rc = check_index(ts, weights, path, err);
    json_decref(root);
    return rc;
}

/* Weights of another kind in a folder without safetensors; NULL: none. */
static const char *other_weights(const char *dir)
{
    static const char *const names[] = {
        "pytorch_model.bin", "pytorch_model.bin.index.json",
        "consolidated.00.pth", "consolidated.safetensors"};
    const char *found = NULL;

    for (size_t i = 0; i < BN_COUNT(names) && found == NULL; i++) {
        char *path = bn_path_join(dir, names[i]);

        if (bn_exists(path))
            found = names[i];
        free(path);
    }
    return found;
}

/* A folder that was copied without its index. */
static bool has_first_shard(const char *dir)
{
    DIR *d = opendir(dir);
    bool found = false;

    for (struct dirent *e = d != NULL ? readdir(d) : NULL;
         e != NULL && !found; e = readdir(d))
        found = bn_str_starts(e->d_name, "model-00001-of-");
    if (d != NULL)
        closedir(d);
    return found;
}

static int no_weights(const char *dir, struct bn_err *err)
{
    const char *other = other_weights(dir);

    if (has_first_shard(dir))
        return bn_fail(err, BN_ERR_DATA, "'%s' holds parts of a model, but "
                       "not %s, which says what is in them: copy it too", dir,
                       index_name);
    return bn_fail(err, BN_ERR_DATA, "'%s' holds neither model.safetensors "
                   "nor %s%s%s", dir, index_name,
                   other != NULL ? "; burnish convert makes it of " : "",
                   other != NULL ? other : "");
}

static int open_dir(struct bn_tensors *ts, const char *dir,
                    struct bn_err *err)
{
    char *one = bn_path_join(dir, "model.safetensors");
    char *index = bn_path_join(dir, index_name);
    bool has_one = bn_is_listed(one), has_index = bn_is_listed(index);
    int rc;

    if (has_one && has_index)
        rc = bn_fail(err, BN_ERR_DATA, "'%s' holds both model.safetensors "
                     "and %s: name the one to read, or move the other away",
                     dir, index_name);
    else if (has_one)
        rc = map_file(ts, one, err);
    else if (has_index)
        rc = open_index(ts, index, err);
    else
        rc = no_weights(dir, err);
    free(one);
    free(index);
    return rc;
}

int bn_safetensors_open(struct bn_tensors *ts, const char *path,
                        struct bn_err *err)
{
    struct bn_tensors got = {0};
    int rc;

    if (bn_is_dir(path))
        rc = open_dir(&got, path, err);
    else if (bn_str_ends(path, ".json"))
        rc = open_index(&got, path, err);
    else
        rc = map_file(&got, path, err);
    if (rc == 0)
        rc = bn_tensors_finish(&got, err);
    if (rc < 0) {
        bn_tensors_close(&got);
        return -1;
    }
    *ts = got;
    return 0;
}
