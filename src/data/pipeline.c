/* All threads do whatever is next: write the part whose turn it is, else
 * read a chunk and tokenize it. Reading and writing are done by one thread at
 * a time, in the order of the file, so that the bytes written do not depend
 * on how many threads there are. */
#include "config.h"
#include "data/write.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/signal.h"
#include "base/thread.h"

/* Memory in flight: a chunk is charged for its text, what it is unescaped
 * into and its tokens; hostile text has a token a byte. */
enum { CHARGE = 8, CHARGE_LARGE = 24 };
static const size_t budget_base = (size_t)384 << 20;
static const size_t budget_thread = (size_t)16 << 20;

struct slot {
    bool done;
    size_t charge;
    struct bn_chunk chunk;
    struct bn_part part;
};

struct pipeline {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct bn_cache_lock *cache;
    const struct bn_recipe *recipe;
    const struct bn_data_files *files;
    struct bn_reader *reader;
    struct bn_writer writer;
    struct slot *slot;
    uint64_t nslots;
    uint64_t read, written; /* chunks; chunk i lives in slot i % nslots */
    uint64_t at, bytes; /* of the reader: from disk, and unpacked */
    size_t charged, budget;
    bool reading, writing, ended, failed;
    struct bn_err err;
    bool progress;
    double start;
};

static void show(const struct pipeline *p)
{
    const struct bn_tokens_stats *s = &p->writer.meta.stats;
    double took = bn_now() - p->start + 1e-9;
    char text[96];

    snprintf(text, sizeof(text), "%.0f rows/s, %.1f MB/s",
             (double)s->rows / took,
             (double)p->bytes / 1e6 / took);
    bn_progress_update(p->at / 1000000, text);
}

static void fail(struct pipeline *p, const struct bn_err *err)
{
    if (!p->failed)
        p->err = *err;
    p->failed = true;
}

static void write_next(struct pipeline *p)
{
    struct slot *s = &p->slot[p->written % p->nslots];
    struct bn_err err;
    int rc;

    p->writing = true;
    pthread_mutex_unlock(&p->lock);
    rc = bn_writer_add(&p->writer, &s->part, &err);
    if (s->charge > (size_t)CHARGE * 4 * BN_CHUNK) {
        bn_part_release(&s->part);
        bn_chunk_release(&s->chunk);
    }
    pthread_mutex_lock(&p->lock);
    if (rc < 0)
        fail(p, &err);
    p->writing = false;
    s->done = false;
    p->charged -= s->charge;
    p->written++;
    if (p->progress)
        show(p);
}

/* Read a chunk, and tokenize it when others may read again. */
static void read_next(struct pipeline *p, struct bn_worker *w)
{
    struct slot *s = &p->slot[p->read % p->nslots];
    struct bn_err err;
    int rc;

    p->reading = true;
    pthread_mutex_unlock(&p->lock);
    rc = bn_reader_next(p->reader, &s->chunk, &err);
    pthread_mutex_lock(&p->lock);
    p->reading = false;
    p->at = bn_reader_at(p->reader);
    p->bytes = bn_reader_bytes(p->reader);
    if (rc <= 0) {
        p->ended = true;
        if (rc < 0)
            fail(p, &err);
        return;
    }
    s->charge = s->chunk.len * (s->chunk.len > 4 * BN_CHUNK ? CHARGE_LARGE
                                                            : CHARGE);
    p->charged += s->charge;
    p->read++;
    pthread_cond_broadcast(&p->moved);
    pthread_mutex_unlock(&p->lock);
    bn_worker_chunk(w, &s->chunk, &s->part);
    pthread_mutex_lock(&p->lock);
    s->done = true;
}

static bool may_read(const struct pipeline *p)
{
    return !p->ended && !p->reading && p->read - p->written < p->nslots
           && (p->charged == 0 || p->charged < p->budget);
}

static void check_stop(struct pipeline *p)
{
    struct bn_err err;

    bn_cache_beat(p->cache);
    if (bn_stop_signal() == 0)
        return;
    bn_fail(&err, BN_ERR_AGAIN, "stopped by signal %d while tokenizing",
            bn_stop_signal());
    fail(p, &err);
}

static void work(void *arg, int index)
{
    struct pipeline *p = arg;
    struct bn_worker w = {.recipe = p->recipe, .files = p->files};

    (void)index;
    pthread_mutex_lock(&p->lock);
    while (!p->failed && !(p->ended && p->written == p->read)) {
        check_stop(p);
        if (p->failed)
            break;
        if (!p->writing && p->written < p->read
            && p->slot[p->written % p->nslots].done) {
            write_next(p);
        } else if (may_read(p)) {
            read_next(p, &w);
        } else {
            struct timespec until;

            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec++; /* to look at signals */
            pthread_cond_timedwait(&p->moved, &p->lock, &until);
            continue;
        }
        pthread_cond_broadcast(&p->moved);
    }
    pthread_cond_broadcast(&p->moved);
    pthread_mutex_unlock(&p->lock);
    bn_worker_release(&w);
}

static int run(struct pipeline *p, int threads, struct bn_err *err)
{
    uint64_t total = 0;

    for (size_t i = 0; i < p->files->n; i++)
        total += p->files->v[i].size;
    p->start = bn_now();
    p->progress = !p->recipe->o->quiet && total >= 1000000;
    if (p->progress)
        bn_progress_begin("tokenize MB", 0, total / 1000000, 30);
    bn_parallel(threads, work, p);
    if (p->progress)
        bn_progress_end();
    if (p->failed) {
        *err = p->err;
        return -1;
    }
    return bn_files_unchanged(p->files, err);
}

int bn_tokens_write(struct bn_cache_lock *l, const struct bn_data_opts *o,
                    const struct bn_tokens *held,
                    const struct bn_data_files *files,
                    const struct bn_tokenizer *t, struct bn_err *err)
{
    int threads = o->threads > 0 ? o->threads : bn_cpu_count();
    struct bn_recipe recipe;
    struct bn_held *apart = NULL;
    struct bn_err local;
    int rc = -1;
    struct pipeline p = {
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .moved = PTHREAD_COND_INITIALIZER,
        .cache = l,
        .recipe = &recipe,
        .files = files,
        .nslots = 3 * (uint64_t)threads,
        .budget = budget_base + budget_thread * (size_t)threads,
    };

    err = err != NULL ? err : &local;
    if (bn_recipe_init(&recipe, o, t, err) < 0)
        return -1;
    if (bn_recipe_from_files(&recipe, files, err) < 0
        || bn_writer_open(&p.writer, l->tmp, &recipe, err) < 0)
        goto out;
    recipe.held = apart = held != NULL ? bn_held_create(held) : NULL;
    p.slot = BN_NEWN(struct slot, p.nslots);
    p.reader = bn_reader_open(files, recipe.name);
    if (run(&p, threads, err) == 0)
        rc = bn_writer_finish(&p.writer, &recipe, files, p.bytes, err);
    bn_reader_close(p.reader);
    for (uint64_t i = 0; i < p.nslots; i++) {
        bn_chunk_release(&p.slot[i].chunk);
        bn_part_release(&p.slot[i].part);
    }
    free(p.slot);
    bn_held_destroy(apart);
out:
    if (p.writer.dir != NULL)
        bn_writer_release(&p.writer);
    bn_recipe_release(&recipe);
    return rc;
}
