/* Data files as streams of bytes, and lists of them. */
#ifndef BN_DATA_SOURCE_H
#define BN_DATA_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/hash.h"

enum bn_file_kind { BN_FILE_JSON, BN_FILE_CSV };

struct bn_data_file {
    char *path;
    enum bn_file_kind kind; /* JSON: array or lines, told by its first byte */
    uint64_t size;          /* bytes on disk */
    struct bn_hash hash;    /* of its bytes on disk; bn_files_hash */
    char *stamp;            /* its state when it was hashed */
};

struct bn_data_files {
    struct bn_data_file *v;
    size_t n;
};

/* Expand paths and globs. Nothing that matches, a directory, a name whose
 * ending is unknown and Parquet are errors that say what to do. */
int bn_files_list(struct bn_data_files *f, const char *const *paths, size_t n,
                  struct bn_err *err);
void bn_files_release(struct bn_data_files *f);
/* Hash every file. Hashes are remembered under 'cache_dir' by device, inode,
 * size and times, so that files that did not change are not read again. */
int bn_files_hash(struct bn_data_files *f, const char *cache_dir,
                  struct bn_err *err);
/* An error that names a file which changed since it was hashed. */
int bn_files_unchanged(const struct bn_data_files *f, struct bn_err *err);

/* One file, decompressed if its first bytes are those of gzip or zstd. */
struct bn_source;
struct bn_source *bn_source_open(const char *path, struct bn_err *err);
/* Up to 'n' bytes; fewer only at the end; 0 after it; -1 on failure (read
 * error, damaged or cut compressed data). */
ssize_t bn_source_read(struct bn_source *s, char *buf, size_t n,
                       struct bn_err *err);
/* Bytes read from the disk so far. */
uint64_t bn_source_at(const struct bn_source *s);
void bn_source_close(struct bn_source *s);

#endif
