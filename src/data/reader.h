/* Data files cut into records, a chunk at a time, in order. */
#ifndef BN_DATA_READER_H
#define BN_DATA_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/row.h"
#include "data/source.h"

enum {
    BN_CHUNK = 1 << 20,     /* bytes that a chunk aims at */
    BN_ROW_MAX = 32 << 20,  /* a longer row is a bad one */
};

/* A record's bytes in its chunk. */
struct bn_record {
    size_t at, len;
    uint64_t line; /* where it begins, from 1 */
};

/* Whole records of one file. */
struct bn_chunk {
    char *buf;
    size_t len, cap;
    uint32_t file;
    uint64_t row;     /* of the first record in its file, from 1 */
    uint64_t dropped; /* not 0: no records, but a row longer than BN_ROW_MAX
                         that began at this line */
    struct bn_record *rec;
    size_t nrec, rec_cap;
    const struct bn_csv_head *head; /* CSV: the file's header; else NULL */
};
void bn_chunk_release(struct bn_chunk *c);

struct bn_reader;
/* Read 'files' (borrowed) one after the other; 'name': the columns wanted
 * from a CSV header, borrowed. */
struct bn_reader *bn_reader_open(const struct bn_data_files *files,
                                 const char *const name[BN_COL_COUNT]);
/* Fill 'c', reusing its memory. 1; 0 after the last chunk; -1 on failure (a
 * file that cannot be read or that is damaged, an array or a quote that is
 * not closed): the error names file and line. One thread at a time. */
int bn_reader_next(struct bn_reader *r, struct bn_chunk *c,
                   struct bn_err *err);
/* Bytes read from the disk so far, and bytes decompressed. */
uint64_t bn_reader_at(const struct bn_reader *r);
uint64_t bn_reader_bytes(const struct bn_reader *r);
void bn_reader_close(struct bn_reader *r);

#endif
