#include "config.h"
#include "format/tensors.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    const struct bn_named *x = a, *y = b;

    return strcmp(x->name, y->name);
}

const struct bn_named *bn_tensors_find(const struct bn_tensors *ts,
                                       const char *name)
{
    struct bn_named key = {.name = name};

    if (ts->n == 0)
        return NULL;
    return bsearch(&key, ts->item, ts->n, sizeof(key), by_name);
}

void bn_tensors_close(struct bn_tensors *ts)
{
    for (size_t i = 0; i < ts->n_map; i++)
        bn_map_close(&ts->map[i]);
    for (size_t i = 0; i < ts->n_block; i++)
        free(ts->block[i]);
    free(ts->map);
    free(ts->block);
    free(ts->item);
    json_decref(ts->meta);
    *ts = (struct bn_tensors){0};
}

char *bn_dims_text(char *out, size_t size, int ndim, const int64_t *dims)
{
    int at = snprintf(out, size, "[");

    for (int i = 0; i < ndim && (size_t)at < size; i++)
        at += snprintf(out + at, size - (size_t)at, "%s%lld",
                       i > 0 ? ", " : "", (long long)dims[i]);
    if ((size_t)at < size)
        snprintf(out + at, size - (size_t)at, "]");
    return out;
}

int bn_tensors_map(struct bn_tensors *ts, const char *path,
                   struct bn_map *map, struct bn_err *err)
{
    if (bn_map_open(map, path, err) < 0)
        return -1;
    bn_grow(&ts->map, &ts->cap_map, ts->n_map + 1, sizeof(*ts->map));
    ts->map[ts->n_map++] = *map;
    return 0;
}

void *bn_tensors_own_take(struct bn_tensors *ts, void *p)
{
    bn_grow(&ts->block, &ts->cap_block, ts->n_block + 1, sizeof(*ts->block));
    ts->block[ts->n_block++] = p;
    return p;
}

void bn_tensors_add(struct bn_tensors *ts, const struct bn_named *t)
{
    bn_grow(&ts->item, &ts->cap, ts->n + 1, sizeof(*ts->item));
    ts->item[ts->n] = *t;
    ts->item[ts->n].count = bn_dims_count(t->ndim, t->dims, t->dtype);
    ts->n++;
}

int64_t bn_dims_count(int ndim, const int64_t *dims, enum bn_dtype dtype)
{
    int64_t n = (int64_t)bn_dtype_size(dtype);
    bool empty = false;

    if (ndim < 0 || ndim > BN_MAX_DIMS)
        return -1;
    for (int i = 0; i < ndim; i++) {
        if (dims[i] < 0)
            return -1;
        empty = empty || dims[i] == 0;
    }
    if (empty)
        return 0;
    for (int i = 0; i < ndim; i++)
        if (__builtin_mul_overflow(n, dims[i], &n) || n >= (int64_t)1 << 62)
            return -1;
    return n / (int64_t)bn_dtype_size(dtype);
}

int bn_tensors_finish(struct bn_tensors *ts, struct bn_err *err)
{
    if (ts->n > 0)
        qsort(ts->item, ts->n, sizeof(*ts->item), by_name);
    for (size_t i = 1; i < ts->n; i++) {
        const struct bn_named *a = &ts->item[i - 1], *b = &ts->item[i];

        if (strcmp(a->name, b->name) == 0)
            return bn_fail(err, BN_ERR_DATA, "tensor '%s' is twice there, in "
                           "'%s' and '%s'", a->name, a->file, b->file);
    }
    return 0;
}
