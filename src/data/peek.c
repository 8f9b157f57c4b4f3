/* The first rows of data files, before anything is made of the rest. */
#include "config.h"
#include "data/write.h"

#include <stdlib.h>

#include "base/mem.h"

enum { PEEK_ROWS = 4096, PEEK_ROWS_MIN = 16 };

/* Rows to look at in each of 'n' files. */
static size_t share_of(size_t n)
{
    return n < PEEK_ROWS / PEEK_ROWS_MIN ? PEEK_ROWS / n : PEEK_ROWS_MIN;
}

static void take(struct bn_peek *p, const struct bn_part *part)
{
    p->stats.rows += part->stats.rows;
    for (int d = 0; d < BN_DROP_COUNT; d++)
        p->stats.drops[d] += part->stats.drops[d];
    if (part->longest > p->longest)
        p->longest = part->longest;
    if (part->bad.len > 0 && p->nbad < BN_SHOW_BAD)
        bn_str_adds(&p->bad, part->bad.s);
    p->nbad += part->nbad;
}

/* One file's first chunk of whole rows, and whether there is more. */
static int peek_file(struct bn_peek *p, struct bn_worker *w,
                     const struct bn_data_files *one, size_t rows,
                     struct bn_err *err)
{
    struct bn_reader *r = bn_reader_open(one, w->recipe->name);
    struct bn_chunk c = {0};
    struct bn_part part = {0};
    int rc = bn_reader_next(r, &c, err);

    w->files = one;
    if (rc > 0) {
        bool cut = c.nrec > rows;

        c.nrec = cut ? rows : c.nrec;
        bn_worker_chunk(w, &c, &part);
        take(p, &part);
        rc = cut ? 1 : bn_reader_next(r, &c, err);
        p->whole &= rc == 0;
    }
    bn_part_release(&part);
    bn_chunk_release(&c);
    bn_reader_close(r);
    return rc < 0 ? -1 : 0;
}

/* By the rules that hold once all rows are read, where it is sure or likely
 * that they will not be kept. */
static int judge(const struct bn_peek *p, const struct bn_data_opts *o,
                 const struct bn_data_files *files, struct bn_err *err)
{
    if (!p->whole && p->stats.rows < 100)
        return 0;
    if (bn_tokens_check(&p->stats, o->max_dropped_fraction, files,
                        p->bad.len > 0 ? p->bad.s : "", err) < 0)
        return p->whole ? -1
                        : bn_err_prefix(err, "of the first %llu rows",
                                        (unsigned long long)p->stats.rows);
    if (p->whole && o->eval_split > 0
        && bn_split_count(o->eval_split, p->stats.drops[BN_KEPT])
               == p->stats.drops[BN_KEPT])
        return bn_fail(err, BN_ERR_DATA, "eval_split %g holds out all %llu "
                       "examples: none is left to train on", o->eval_split,
                       (unsigned long long)p->stats.drops[BN_KEPT]);
    return 0;
}

int bn_data_peek(struct bn_peek *p, const struct bn_data_opts *o,
                 const struct bn_tokenizer *t, struct bn_err *err)
{
    struct bn_data_files files = {0};
    struct bn_recipe recipe;
    struct bn_worker w = {.recipe = &recipe};
    int rc = -1;

    *p = (struct bn_peek){.whole = true};
    if (bn_files_list(&files, o->files, o->nfiles, err) < 0)
        return -1;
    if (bn_recipe_init(&recipe, o, t, err) < 0) {
        bn_files_release(&files);
        return -1;
    }
    rc = bn_recipe_from_files(&recipe, &files, err);
    for (size_t i = 0; rc == 0 && i < files.n; i++) {
        struct bn_data_files one = {&files.v[i], 1};

        rc = peek_file(p, &w, &one, share_of(files.n), err);
    }
    if (rc == 0)
        rc = judge(p, o, &files, err);
    if (rc < 0)
        bn_peek_release(p);
    bn_worker_release(&w);
    bn_recipe_release(&recipe);
    bn_files_release(&files);
    return rc;
}

void bn_peek_release(struct bn_peek *p)
{
    bn_str_release(&p->bad);
    *p = (struct bn_peek){0};
}
