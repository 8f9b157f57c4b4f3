/* The safetensors format: 8 bytes little-endian header length, that many
 * bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]},
 * "__metadata__": {string: string}}, then the data with no holes. Big models
 * are several such files and a model.safetensors.index.json.
 */
#ifndef BN_FORMAT_SAFETENSORS_H
#define BN_FORMAT_SAFETENSORS_H

#include "format/tensors.h"

/* Read 'path': a .safetensors file, an index.json, or a folder that holds
 * model.safetensors or model.safetensors.index.json (both: refused). Every
 * byte of the data belongs to exactly one tensor, the length agrees with
 * dtype and shape, and of a sharded model each tensor lies in exactly the
 * shard that the index names. '*ts' must be empty; on failure it still is.
 * Local.
 */
int bn_safetensors_open(struct bn_tensors *ts, const char *path,
                        struct bn_err *err);
/* The same of bytes in memory, named 'name' in messages; they must outlive
 * the set. */
int bn_safetensors_parse(struct bn_tensors *ts, const void *data, size_t len,
                         const char *name, struct bn_err *err);

/* One tensor to write. Its bytes are 'data', or asked for in pieces. */
struct bn_st_entry {
    const char *name;
    enum bn_dtype dtype;
    int ndim;
    int64_t dims[BN_MAX_DIMS];
    const void *data;
};
/* Put elements first .. first+n-1 of entry 'index' into 'dst', in the dtype
 * of the entry. */
typedef int bn_st_read_f(void *arg, size_t index, int64_t first, int64_t n,
                         void *dst, struct bn_err *err);

/* Write 'n' tensors to the file 'path' (whole or not at all: temporary
 * file, fsync, rename). Order and header are those of the safetensors
 * library: widest dtype first, then by name, data aligned to 8 bytes.
 * 'read' may be NULL if every entry has data. 'entry' is not changed.
 */
int bn_safetensors_write(const char *path, const struct bn_st_entry *entry,
                         size_t n, bn_st_read_f *read, void *arg,
                         struct bn_err *err);

/* Write into the directory 'dir' one model.safetensors if the data have at
 * most 'max_bytes', else model-0000I-of-0000N.safetensors, each at most that
 * big (a larger tensor has a file of its own), and the index. The directory
 * is for the caller to make whole: write to a fresh one and rename it.
 */
int bn_safetensors_write_dir(const char *dir,
                             const struct bn_st_entry *entry, size_t n,
                             uint64_t max_bytes, bn_st_read_f *read,
                             void *arg, struct bn_err *err);

#endif
