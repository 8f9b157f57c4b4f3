/* Zip archives whose entries are stored, not compressed, such as PyTorch
 * writes: entries are then ranges of the mapped file.
 */
#ifndef BN_FORMAT_ZIP_H
#define BN_FORMAT_ZIP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct bn_zip_entry {
    char *name;
    const unsigned char *data;
    size_t len;
};
struct bn_zip {
    struct bn_zip_entry *item; /* sorted by name */
    size_t n;
};

/* Read the directory of an archive in memory, which must outlive it; 64-bit
 * archives too. Compressed or encrypted entries, names that are twice there
 * and ranges outside the file are errors. 'name' is for messages. */
int bn_zip_open(struct bn_zip *z, const void *data, size_t len,
                const char *name, struct bn_err *err);
void bn_zip_close(struct bn_zip *z);
/* The entry of that name; NULL if there is none. */
const struct bn_zip_entry *bn_zip_find(const struct bn_zip *z,
                                       const char *name);

#endif
