/* Token sets that lie on disk. */
#include "config.h"
#include "data/tokens_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/blocks.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

struct bn_tokens {
    char *dir;
    int part;
    struct bn_map ids, mask, index;
    const struct bn_tokens_entry *entry;
    uint64_t count;
    struct bn_tokens_meta meta;
    char **file;
    size_t nfiles;
    enum bn_file_kind *kind;
    struct bn_hash key;
    bool cached;
};

char *bn_cache_dir(const char *configured)
{
    const char *e;

    if (configured != NULL)
        return bn_strdup(configured);
    e = getenv("BURNISH_CACHE");
    if (e != NULL && *e != '\0')
        return bn_strdup(e);
    e = getenv("XDG_CACHE_HOME");
    if (e != NULL && *e != '\0')
        return bn_path_join(e, "burnish");
    e = getenv("HOME");
    if (e != NULL && *e != '\0')
        return bn_path_join(e, ".cache/burnish");
    return bn_asprintf("/tmp/burnish-%ld", (long)getuid());
}

const char *bn_drop_name(enum bn_drop d)
{
    static const char *const name[BN_DROP_COUNT] = {
        "kept", "bad row", "empty prompt", "no answer",
        "chosen equals rejected", "prompt over max_length", "no target",
        "two BOS tokens", "in eval_file"};

    return name[d];
}

static int map(struct bn_map *m, const char *dir, const char *name,
               uint64_t bytes, struct bn_err *err)
{
    char *path = bn_path_join(dir, name);
    int rc = bn_map_open(m, path, err);

    if (rc == 0)
        bn_block_add("data", m->data, m->len, true);
    if (rc == 0 && m->len != bytes)
        rc = bn_fail(err, BN_ERR_DATA, "'%s' has %zu bytes where %" PRIu64
                     " should be; remove '%s'", path, m->len, bytes, dir);
    free(path);
    return rc;
}

static void unmap(struct bn_map *m)
{
    bn_block_drop(m->data);
    bn_map_close(m);
}

struct bn_tokens *bn_tokens_open(const char *dir, int part,
                                 const struct bn_data_files *files,
                                 struct bn_hash key, bool cached,
                                 struct bn_err *err)
{
    struct bn_tokens *ts = BN_NEW(struct bn_tokens);
    const struct bn_tokens_meta *m = &ts->meta;

    ts->dir = bn_strdup(dir);
    ts->part = part;
    ts->key = key;
    ts->cached = cached;
    ts->file = BN_NEWN(char *, files->n);
    ts->kind = BN_NEWN(enum bn_file_kind, files->n);
    ts->nfiles = files->n;
    for (size_t i = 0; i < files->n; i++) {
        ts->file[i] = bn_strdup(files->v[i].path);
        ts->kind[i] = files->v[i].kind;
    }
    if (bn_tokens_meta_read(&ts->meta, dir, err) < 0)
        goto fail;
    ts->count = m->part[part].count;
    if (map(&ts->ids, dir, "ids.bin", m->nids * sizeof(int32_t), err) < 0
        || (m->group == 1
            && map(&ts->mask, dir, "mask.bin", m->nids, err) < 0)
        || map(&ts->index, dir, part == 0 ? "train.idx" : "eval.idx",
               ts->count * sizeof(*ts->entry), err) < 0)
        goto fail;
    ts->entry = (const struct bn_tokens_entry *)ts->index.data;
    return ts;
fail:
    bn_tokens_close(ts);
    return NULL;
}

void bn_tokens_close(struct bn_tokens *ts)
{
    if (ts == NULL)
        return;
    unmap(&ts->ids);
    unmap(&ts->mask);
    unmap(&ts->index);
    bn_tokens_meta_release(&ts->meta);
    for (size_t i = 0; i < ts->nfiles; i++)
        free(ts->file[i]);
    free(ts->file);
    free(ts->kind);
    free(ts->dir);
    free(ts);
}

uint64_t bn_tokens_count(const struct bn_tokens *ts)
{
    return ts->count;
}

int bn_tokens_group(const struct bn_tokens *ts)
{
    return ts->meta.group;
}

void bn_tokens_get(const struct bn_tokens *ts, uint64_t i,
                   struct bn_example *ex)
{
    const struct bn_tokens_entry *e = &ts->entry[i];
    const int32_t *ids = (const int32_t *)ts->ids.data + e->start;

    *ex = (struct bn_example){.index = (int64_t)i, .ids = ids,
                              .n = (int32_t)e->n};
    if (ts->meta.group == 1) {
        ex->mask = (const uint8_t *)ts->mask.data + e->start;
        return;
    }
    ex->chosen = ids + e->n;
    ex->nchosen = (int32_t)e->nchosen;
    ex->rejected = ex->chosen + e->nchosen;
    ex->nrejected = (int32_t)e->nrejected;
}

void bn_tokens_targets(const struct bn_tokens *ts, uint64_t i, int flags,
                       int *ntok)
{
    const struct bn_tokens_entry *e = &ts->entry[i];

    if (ts->meta.group == 1) {
        ntok[0] = (int)e->targets;
        return;
    }
    ntok[0] = flags & BN_BATCH_SCORE_PROMPT ? (int)e->n - 1 : 0;
    ntok[1] = (int)e->nchosen;
    ntok[2] = (int)e->nrejected;
}

uint32_t bn_tokens_length(const struct bn_tokens *ts, uint64_t i)
{
    const struct bn_tokens_entry *e = &ts->entry[i];

    return e->n + e->nchosen + e->nrejected;
}

uint32_t bn_tokens_longest(const struct bn_tokens *ts)
{
    return ts->meta.part[ts->part].longest;
}

void bn_tokens_where(const struct bn_tokens *ts, uint64_t i,
                     struct bn_str *out)
{
    const struct bn_tokens_entry *e = &ts->entry[i];

    bn_str_addf(out, "%s:%" PRIu64, ts->file[e->file], e->line);
    if (e->row != e->line)
        bn_str_addf(out, " (row %" PRIu64 ")", e->row);
}

const struct bn_tokens_stats *bn_tokens_stats(const struct bn_tokens *ts)
{
    return &ts->meta.stats;
}

const char *bn_tokens_statement(const struct bn_tokens *ts)
{
    return ts->meta.statement;
}

const char *bn_tokens_notes(const struct bn_tokens *ts)
{
    return ts->meta.notes;
}

const char *bn_tokens_path(const struct bn_tokens *ts)
{
    return ts->dir;
}

struct bn_hash bn_tokens_hash(const struct bn_tokens *ts)
{
    struct bn_hasher *h = bn_hasher_begin();

    bn_hasher_add(h, &ts->key, sizeof(ts->key));
    bn_hasher_add(h, &ts->part, sizeof(ts->part));
    return bn_hasher_end(h);
}

bool bn_tokens_was_cached(const struct bn_tokens *ts)
{
    return ts->cached;
}

static void add_names(struct bn_hasher *h, const struct bn_data_opts *o)
{
    for (int c = 0; c < BN_COL_COUNT; c++)
        bn_hasher_adds(h, o->column[c] != NULL ? o->column[c]
                                               : bn_col_name(c));
}

struct bn_hash bn_tokens_key(const struct bn_data_opts *o,
                             const struct bn_tokens *held,
                             const struct bn_data_files *files,
                             const struct bn_tokenizer *t)
{
    struct bn_hasher *h = bn_hasher_begin();
    struct bn_hash th = bn_tokenizer_hash(t);
    const char *template = o->chat_template != NULL
                               ? o->chat_template
                               : bn_tokenizer_chat_template(t);
    int64_t n[] = {
        BN_TOKENS_VERSION, o->task, o->shape, o->max_length,
        o->max_prompt_length, o->keep_start, o->completion_only_loss,
        o->assistant_only_loss, o->last_turn_only, o->add_bos, o->add_eos,
        bn_tokenizer_bos(t), bn_tokenizer_eos(t)};
    double split = o->eval_split;
    uint64_t seed = split > 0 ? o->split_seed : 0;

    bn_hasher_add(h, n, sizeof(n));
    bn_hasher_add(h, &split, sizeof(split));
    bn_hasher_add(h, &seed, sizeof(seed));
    bn_hasher_add(h, &th, sizeof(th));
    bn_hasher_adds(h, template != NULL ? template : "");
    add_names(h, o);
    if (held != NULL) {
        struct bn_hash key = bn_tokens_hash(held);

        bn_hasher_add(h, &key, sizeof(key));
    }
    for (size_t i = 0; i < files->n; i++) {
        int32_t kind = files->v[i].kind;

        bn_hasher_add(h, &kind, sizeof(kind));
        bn_hasher_add(h, &files->v[i].size, sizeof(files->v[i].size));
        bn_hasher_add(h, &files->v[i].hash, sizeof(files->v[i].hash));
    }
    return bn_hasher_end(h);
}

static void list_drops(const struct bn_tokens_stats *s, struct bn_str *b)
{
    const char *sep = "";

    for (int d = BN_KEPT + 1; d < BN_DROP_COUNT; d++) {
        if (s->drops[d] == 0)
            continue;
        bn_str_addf(b, "%s%s %" PRIu64, sep, bn_drop_name(d), s->drops[d]);
        sep = ", ";
    }
}

int bn_tokens_check(const struct bn_tokens_stats *s, double max_fraction,
                    const struct bn_data_files *files, const char *first,
                    struct bn_err *err)
{
    uint64_t whole = s->rows - s->drops[BN_DROP_HELD];
    uint64_t lost = whole - s->drops[BN_KEPT];
    struct bn_str why = {0};
    int rc = 0;

    if (s->rows == 0)
        return bn_fail(err, BN_ERR_DATA, "'%s'%s: no row of data",
                       files->v[0].path, files->n > 1 ? " and others" : "");
    list_drops(s, &why);
    if (s->drops[BN_DROP_BAD_ROW] > 0)
        bn_str_addf(&why, "; first: %.*s", (int)strcspn(first, "\n"), first);
    if (s->drops[BN_KEPT] == 0)
        rc = bn_fail(err, BN_ERR_DATA, "'%s': all %" PRIu64 " rows were "
                     "dropped: %s", files->v[0].path, s->rows, why.s);
    else if ((double)lost > max_fraction * (double)whole)
        rc = bn_fail(err, BN_ERR_DATA, "'%s': %" PRIu64 " of %" PRIu64
                     " rows dropped, more than max_dropped_fraction %g: %s",
                     files->v[0].path, lost, whole, max_fraction, why.s);
    bn_str_release(&why);
    return rc;
}

/* Open both parts of the entry and check what it holds against 'o'. */
static int open_entry(const char *dir, struct bn_tokens *set[2],
                      const struct bn_data_opts *o,
                      const struct bn_data_files *files, struct bn_hash key,
                      bool cached, struct bn_err *err)
{
    set[0] = bn_tokens_open(dir, 0, files, key, cached, err);
    if (set[0] == NULL)
        return -1;
    if (bn_tokens_check(&set[0]->meta.stats, o->max_dropped_fraction, files,
                        set[0]->meta.notes, err) < 0)
        return -1;
    if (o->eval_split > 0) {
        set[1] = bn_tokens_open(dir, 1, files, key, cached, err);
        if (set[1] == NULL)
            return -1;
    }
    return 0;
}

/* The set of 'o' alone, without eval_files and what is held. */
static int make_one(struct bn_tokens *set[2], const struct bn_data_opts *o,
                    const struct bn_tokens *held,
                    const struct bn_tokenizer *t, struct bn_err *err)
{
    struct bn_data_files files = {0};
    struct bn_cache_lock lock = {0};
    char hex[BN_HASH_HEX];
    char *root = bn_cache_dir(o->cache_dir);
    char *sets = bn_path_join(root, "tokens"), *dir = NULL;
    bool cached = true;
    int rc = -1;

    if (bn_files_list(&files, o->files, o->nfiles, err) < 0
        || bn_files_hash(&files, root, err) < 0)
        goto out;
    struct bn_hash key = bn_tokens_key(o, held, &files, t);
    dir = bn_path_join(sets, bn_hash_hex(key, hex));
    if (!bn_is_dir(dir)) {
        if (bn_mkdirs(sets, err) < 0)
            goto out;
        int got = bn_cache_lock(&lock, dir, o->wait_seconds, err);
        if (got < 0)
            goto out;
        if (got > 0) {
            cached = false;
            if (bn_tokens_write(&lock, o, held, &files, t, err) < 0
                || bn_cache_commit(&lock, err) < 0)
                goto out;
        }
    }
    rc = open_entry(dir, set, o, &files, key, cached, err);
out:
    bn_cache_unlock(&lock);
    if (rc < 0) {
        bn_tokens_close(set[0]);
        bn_tokens_close(set[1]);
        set[0] = set[1] = NULL;
    }
    bn_files_release(&files);
    free(dir);
    free(sets);
    free(root);
    return rc;
}

static int check_ranges(const struct bn_data_opts *o, struct bn_err *err)
{
    if (o->eval_split < 0 || o->eval_split >= 1)
        return bn_fail(err, BN_ERR_USAGE, "eval_split: %g is not in [0, 1)",
                       o->eval_split);
    if (o->eval_split > 0 && o->neval_files > 0)
        return bn_fail(err, BN_ERR_USAGE, "eval_split and eval_file exclude "
                       "each other");
    if (o->max_length < 0 || o->max_length > INT32_MAX
        || o->max_prompt_length < 0 || o->max_prompt_length > INT32_MAX)
        return bn_fail(err, BN_ERR_USAGE, "max_length and max_prompt_length "
                       "must be 0 to 2^31 - 1");
    return 0;
}

/* The set of eval_files. */
static int make_eval(struct bn_tokens **eval, const struct bn_data_opts *o,
                     const struct bn_tokenizer *t, struct bn_err *err)
{
    struct bn_data_opts e = *o;
    struct bn_tokens *set[2] = {NULL, NULL};

    e.files = o->eval_files;
    e.nfiles = o->neval_files;
    e.eval_split = 0;
    if (make_one(set, &e, NULL, t, err) < 0)
        return -1;
    *eval = set[0];
    return 0;
}

int bn_tokens_make(struct bn_tokens **train, struct bn_tokens **eval,
                   const struct bn_data_opts *o,
                   const struct bn_tokenizer *t, struct bn_err *err)
{
    struct bn_tokens *set[2] = {NULL, NULL};
    int rc = 0;

    *train = *eval = NULL;
    if (check_ranges(o, err) < 0)
        return -1;
    if (o->neval_files > 0) {
        if (make_eval(eval, o, t, err) < 0)
            return -1;
        if (o->nfiles == 0)
            return 0;
    }
    rc = make_one(set, o, *eval, t, err);
    *train = set[0];
    if (rc < 0) {
        bn_tokens_close(*eval);
        *eval = NULL;
    } else if (set[1] != NULL) {
        *eval = set[1];
    }
    return rc;
}
