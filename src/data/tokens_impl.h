/* Private to src/data: the format on disk (doc/formats/tokens.md) and the
 * parts of making it.
 */
#ifndef BN_DATA_TOKENS_IMPL_H
#define BN_DATA_TOKENS_IMPL_H

#include "data/cache.h"
#include "data/data.h"
#include "data/maker.h"
#include "data/source.h"

/* Raise it with every change of the format, and of what any rule makes of
 * any row: it is part of the cache key. */
enum { BN_TOKENS_VERSION = 4 };

/* One example in train.idx or eval.idx. Its tokens are ids[start ..), the
 * prompt or text first, then the chosen, then the rejected answer. */
struct bn_tokens_entry {
    uint64_t start;
    uint64_t row;  /* in its file, from 1 */
    uint64_t line; /* where the row begins, from 1 */
    uint32_t file;
    uint32_t n, nchosen, nrejected;
    uint32_t targets; /* of the text, or of both answers */
    uint32_t unused;
};

/* A part of a set: train or eval. */
struct bn_tokens_part {
    uint64_t count;
    uint32_t longest;
};

/* meta.json */
struct bn_tokens_meta {
    int group;
    struct bn_tokens_stats stats;
    uint64_t nids; /* in ids.bin, and bytes of mask.bin for sft */
    struct bn_tokens_part part[2]; /* train, eval */
    char *statement, *notes;
};
void bn_tokens_meta_release(struct bn_tokens_meta *m);
int bn_tokens_meta_write(const struct bn_tokens_meta *m, const char *dir,
                         const struct bn_data_files *files,
                         struct bn_err *err);
int bn_tokens_meta_read(struct bn_tokens_meta *m, const char *dir,
                        struct bn_err *err);

/* Open a part (0 train, 1 eval) of the entry at 'dir'. 'files': those that
 * the caller named, in order. */
struct bn_tokens *bn_tokens_open(const char *dir, int part,
                                 const struct bn_data_files *files,
                                 struct bn_hash key, bool cached,
                                 struct bn_err *err);

/* Everything that decides the tokens of 'files' under 'o', with 'held' (may be
 * NULL) left out. */
struct bn_hash bn_tokens_key(const struct bn_data_opts *o,
                             const struct bn_tokens *held,
                             const struct bn_data_files *files,
                             const struct bn_tokenizer *t);

/* Tokenize 'files' into directory l->tmp, which then is complete and
 * flushed, but not committed. */
int bn_tokens_write(struct bn_cache_lock *l, const struct bn_data_opts *o,
                    const struct bn_tokens *held,
                    const struct bn_data_files *files,
                    const struct bn_tokenizer *t, struct bn_err *err);

/* Cut the index in l->tmp into train.idx and eval.idx by the hashes of the
 * examples; split.c. */
int bn_tokens_split(struct bn_tokens_meta *m, const char *dir,
                    double fraction, struct bn_err *err);

/* Of n examples, how many that holds out. */
uint64_t bn_split_count(double fraction, uint64_t n);

/* An error if there is nothing to train on or too much was dropped. 'first'
 * says what is wrong with the first bad row, or is "". */
int bn_tokens_check(const struct bn_tokens_stats *s, double max_fraction,
                    const struct bn_data_files *files, const char *first,
                    struct bn_err *err);

#endif
