/* A set of named tensors read from files: what every reader of src/format
 * gives. Data stays where the reader put it (usually a read-only mapping of
 * the file, little-endian, row-major, any alignment) until the set is
 * closed.
 */
#ifndef BN_FORMAT_TENSORS_H
#define BN_FORMAT_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"

enum { BN_MAX_DIMS = 8 };

struct bn_named {
    const char *name;
    enum bn_dtype dtype;
    int ndim; /* 0: one element */
    int64_t dims[BN_MAX_DIMS];
    int64_t count;     /* product of dims */
    const void *data;  /* count elements; any alignment */
    const char *file;  /* where it came from, for messages */
    const char *quant; /* "Q4_K": stored so and dequantised; else NULL */
};

/* Items are sorted by name and no two have the same one. A zeroed struct is
 * an empty set. */
struct bn_tensors {
    struct bn_named *item;
    size_t n, cap;
    json_t *meta;            /* the file's metadata object, or NULL */
    struct bn_map *map;      /* owned mappings */
    size_t n_map, cap_map;
    void **block;            /* owned memory */
    size_t n_block, cap_block;
};

/* The tensor of that name; NULL if there is none. */
const struct bn_named *bn_tensors_find(const struct bn_tensors *ts,
                                       const char *name);
/* Unmap and free everything; 'ts' is an empty set again. */
void bn_tensors_close(struct bn_tensors *ts);

/* "[32, 64]" at 'out' (at least 200 bytes); returns 'out'. */
char *bn_dims_text(char *out, size_t size, int ndim, const int64_t *dims);

/* For readers. */

/* Map a file; the set owns the mapping. */
int bn_tensors_map(struct bn_tensors *ts, const char *path,
                   struct bn_map *map, struct bn_err *err);
/* 'p' (from malloc) is freed with the set. Returns 'p'. */
void *bn_tensors_own_take(struct bn_tensors *ts, void *p);
/* Append a copy of '*t'; its strings must live as long as the set.
 * t->count is computed. */
void bn_tensors_add(struct bn_tensors *ts, const struct bn_named *t);
/* Product of dims; -1 if a dimension is negative, there are too many, or
 * the bytes of 'dtype' would not fit in 62 bits. */
int64_t bn_dims_count(int ndim, const int64_t *dims, enum bn_dtype dtype);
/* Sort; two of one name are an error that names both files. */
int bn_tensors_finish(struct bn_tensors *ts, struct bn_err *err);

#endif
