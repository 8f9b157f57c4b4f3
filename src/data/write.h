/* Private: reading, tokenizing and writing at once. */
#ifndef BN_DATA_WRITE_H
#define BN_DATA_WRITE_H

#include "data/reader.h"
#include "data/tokens_impl.h"

/* Parse record i of a chunk; NULL or what is wrong. */
const char *bn_chunk_row(const struct bn_chunk *c, size_t i,
                         const char *const name[BN_COL_COUNT],
                         struct bn_row *row, struct bn_str *scratch,
                         char *why);
/* Tell shape and form from the first row that can be read. */
int bn_recipe_from_files(struct bn_recipe *r,
                         const struct bn_data_files *files,
                         struct bn_err *err);

enum { BN_SHOW_BAD = 5 }; /* bad rows that are named */

/* What became of one chunk. */
struct bn_part {
    struct bn_ids ids;
    uint8_t *mask;
    size_t mask_cap;
    struct bn_tokens_entry *entry; /* start counts from the chunk */
    size_t n, cap;
    uint64_t *hash; /* [n]; for a split */
    size_t hash_cap;
    struct bn_tokens_stats stats;
    uint32_t longest; /* tokens of an example in a batch */
    struct bn_str bad; /* lines */
    int nbad;
};
void bn_part_release(struct bn_part *p);

/* One thread's means of tokenizing chunks. */
struct bn_worker {
    const struct bn_recipe *recipe;
    const struct bn_data_files *files;
    struct bn_maker *maker;
    struct bn_made made;
    struct bn_str scratch;
};
/* Tokenize the rows of 'c' into 'p' (cleared first). */
void bn_worker_chunk(struct bn_worker *w, const struct bn_chunk *c,
                     struct bn_part *p);
void bn_worker_release(struct bn_worker *w);

/* The files of an entry in the making. */
struct bn_writer {
    const char *dir;
    struct {
        char *path;
        int fd;
    } file[4];
    struct bn_tokens_meta meta;
    struct bn_str bad;
    int nbad;
};
int bn_writer_open(struct bn_writer *w, const char *dir,
                   const struct bn_recipe *r, struct bn_err *err);
/* Append a part; in the order of chunks. */
int bn_writer_add(struct bn_writer *w, struct bn_part *p,
                  struct bn_err *err);
/* Check what was dropped, split, flush, write meta.json. */
int bn_writer_finish(struct bn_writer *w, const struct bn_recipe *r,
                     const struct bn_data_files *files, uint64_t bytes,
                     struct bn_err *err);
void bn_writer_release(struct bn_writer *w);

#endif
