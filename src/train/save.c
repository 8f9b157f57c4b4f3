/* Checkpoints in the background: training stops for a copy of the state. A
 * thread of each rank writes its shard; when all have agreed that they are
 * through, at the end of a step, a thread of rank 0 commits them; at the end
 * of another step all learn what came of it.
 */
#include "config.h"
#include "train/save.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/saved.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum phase { IDLE, WRITES, COMMITS };

struct bn_saver {
    struct bn_session *s;    /* borrowed */
    struct bn_metrics *with; /* borrowed; records are on disk before it */
    struct bn_arena copy; /* masters and moments, in host memory */
    struct bn_saved state;
    struct bn_ckpt_shard shard;
    char *tmp;
    enum phase phase; /* the same on all ranks */
    pthread_t toucher;
    bool touches;   /* it has to be joined */
    bool populates; /* it leaves what is there as it is */
    bool runs;    /* the thread has to be joined */
    atomic_bool done;
    pthread_t thread;
    void (*job)(struct bn_saver *v); /* of the thread */
    int rc;                          /* of the job */
    struct bn_err err;
    /* of rank 0, for the commit */
    struct bn_ckpt_shard *all; /* [ranks] */
    json_t *loop;
    char *print;
    double pause, began, ended;
};

static bool leads(const struct bn_saver *v)
{
    return v->s->info.rank == 0;
}

/* Signals are for the thread that trains. */
static bool in_background(pthread_t *id, void *(*run)(void *), void *arg)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool runs = pthread_create(id, NULL, run, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return runs;
}

/* This thread has the processors after those that train: it is the disk that
 * a save waits for. Once training has stopped nobody is before it. */
static void give_way(void)
{
    enum { NICE = 15 };

    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
}

/* Have pages made without a change of what is in them: false if the kernel
 * (before 5.14) cannot. */
static bool populate(const struct bn_arena *a, size_t at, size_t n)
{
#ifdef MADV_POPULATE_WRITE
    n = a->size - at < n ? a->size - at : n;
    return n == 0 || madvise(a->base + at, n, MADV_POPULATE_WRITE) == 0
           || errno != EINVAL;
#else
    (void)a, (void)at, (void)n;
    return false;
#endif
}

/* By a call for some, or by one byte of each page: the system has them zeroed.
 */
static void *touch(void *arg)
{
    enum { SOME = 16 << 20 };
    const struct bn_saver *v = arg;
    const struct bn_arena *a = &v->copy;
    size_t page = (size_t)sysconf(_SC_PAGE_SIZE);

    give_way();
    for (size_t at = 0; v->populates && at < a->size; at += SOME)
        populate(a, at, SOME);
    for (size_t at = 0; !v->populates && at < a->size; at += page)
        *(volatile char *)(a->base + at) = 0;
    return NULL;
}

struct bn_saver *bn_saver_create(struct bn_session *s, struct bn_err *err)
{
    struct bn_saver *v = BN_NEW(struct bn_saver);
    size_t bytes = 3 * s->trainer->optim->count * sizeof(float);

    v->s = s;
    if (bn_arena_init(&v->copy, "copy for checkpoints", bytes, err) < 0) {
        free(v);
        return NULL;
    }
    v->populates = populate(&v->copy, 0, (size_t)sysconf(_SC_PAGE_SIZE));
    v->touches = in_background(&v->toucher, touch, v);
    return v;
}

/* Its own thread of the copy's memory must be over. */
static void touched(struct bn_saver *v)
{
    if (v->touches)
        pthread_join(v->toucher, NULL);
    v->touches = false;
}

float *bn_saver_memory(struct bn_saver *v)
{
    if (!v->populates)
        touched(v);
    return (float *)(void *)v->copy.base;
}

void bn_saver_records(struct bn_saver *v, struct bn_metrics *m)
{
    v->with = m;
}

static void drop_parts(struct bn_saver *v)
{
    json_decref(v->loop);
    free(v->print);
    free(v->all);
    v->loop = NULL;
    v->print = NULL;
    v->all = NULL;
}

/* The thread must be over before the copy goes. */
static void join(struct bn_saver *v)
{
    if (v->runs)
        pthread_join(v->thread, NULL);
    v->runs = false;
}

void bn_saver_destroy(struct bn_saver *v)
{
    if (v == NULL)
        return;
    join(v);
    touched(v);
    if (v->phase == WRITES && leads(v))
        bn_remove_tree(v->tmp, NULL); /* else a later run does */
    bn_arena_release(&v->copy);
    drop_parts(v);
    free(v->tmp);
    free(v);
}

/* --- The copy, and its writer ------------------------------------------- */

static float *part(const struct bn_saver *v, int k)
{
    return (float *)(void *)v->copy.base + (size_t)k * v->shard.count;
}

static int take_copy(struct bn_saver *v, struct bn_err *err)
{
    struct bn_optim *o = v->s->trainer->optim;
    struct bn_dev *dev = v->s->trainer->dev;
    const float *from[3] = {o->master, o->m, o->v};

    for (int k = 0; k < 3; k++)
        dev->op.to_host(dev, part(v, k), BN_F32, from[k], BN_F32, o->count);
    return bn_dev_check(dev, err);
}

static void write_shard(struct bn_saver *v)
{
    const float *const data[3] = {part(v, 0), part(v, 1), part(v, 2)};

    v->rc = bn_ckpt_write_shard(v->tmp, &v->shard, data, &v->err);
}

static void *do_job(void *arg)
{
    struct bn_saver *v = arg;

    give_way();
    v->job(v);
    atomic_store(&v->done, true);
    return NULL;
}

/* Without a thread it is done here. */
static void start(struct bn_saver *v, void (*job)(struct bn_saver *))
{
    atomic_store(&v->done, false);
    v->job = job;
    v->runs = in_background(&v->thread, do_job, v);
    if (v->runs)
        return;
    job(v);
    atomic_store(&v->done, true);
}

int bn_save_begin(struct bn_saver *v, const struct bn_saved *state,
                  struct bn_err *err)
{
    double t0 = bn_now();
    int rc;

    if (bn_save_finish(v, err) < 0)
        return -1;
    free(v->tmp);
    v->tmp = bn_ckpt_tmp(v->s->run->output_dir, state->step);
    v->state = *state;
    v->shard = bn_saved_shard(v->s);
    touched(v);
    rc = leads(v) ? bn_ckpt_begin(v->tmp, err) : 0;
    if (rc == 0)
        rc = take_copy(v, err);
    if (bn_session_agree(v->s, rc, NULL, err) < 0)
        return -1;
    v->phase = WRITES;
    v->began = bn_now();
    v->pause = v->began - t0;
    start(v, write_shard);
    return 0;
}

/* --- The commit ---------------------------------------------------------- */

bool bn_save_pending(const struct bn_saver *v)
{
    return v->phase != IDLE;
}

bool bn_save_busy(const struct bn_saver *v)
{
    return v->phase != IDLE && !atomic_load(&v->done);
}

/* Rank 0 writes the manifest once every shard is on disk, and the records
 * that it says there are. */
static int put_manifest(struct bn_saver *v, struct bn_err *err)
{
    struct bn_session *s = v->s;
    const char *out = s->run->output_dir;
    struct bn_ckpt_of of = bn_saved_of(s);
    int rc = v->with != NULL ? bn_metrics_sync(v->with, err) : 0;

    if (rc == 0)
        rc = bn_ckpt_commit(v->tmp, out, v->state.step, v->all,
                            (size_t)s->info.size, &of, v->print, v->loop,
                            err);
    v->ended = bn_now();
    if (rc == 0) {
        bool best = s->run->eval.load_best_model_at_end && v->state.has_best;

        bn_ckpt_prune(out, (long)s->run->save.save_total_limit,
                      best ? v->state.best_step : -1);
    }
    return rc;
}

static void commit(struct bn_saver *v)
{
    v->rc = put_manifest(v, &v->err);
}

/* Shards are written: their hashes to rank 0, which begins the commit. */
static int gather_shards(struct bn_saver *v, struct bn_err *err)
{
    struct bn_session *s = v->s;

    drop_parts(v);
    v->all = BN_NEWN(struct bn_ckpt_shard, (size_t)s->info.size);
    if (s->world->ops->allgather(s->world, v->all, &v->shard, BN_U8,
                                 sizeof(*v->all), err) < 0)
        return -1;
    v->phase = COMMITS;
    if (leads(v)) {
        v->loop = bn_saved_json(&v->state, s->run);
        v->print = bn_saved_fingerprint(s);
        start(v, commit);
    }
    return 0;
}

int bn_save_advance(struct bn_saver *v, struct bn_err *err)
{
    enum phase was = v->phase;

    join(v);
    v->phase = IDLE;
    if (v->rc < 0)
        bn_fail(err, v->err.code, "%s", v->err.text);
    int rc = bn_session_agree(v->s, v->rc, NULL, err);
    if (rc == 0 && was == WRITES)
        rc = gather_shards(v, err);
    else if (rc == 0 && leads(v))
        bn_debug("checkpoint of step %ld: training paused %.4f s, committed "
                 "%.3f s later", v->state.step, v->pause,
                 v->ended - v->began);
    if (rc < 0 && leads(v))
        bn_remove_tree(v->tmp, NULL);
    return rc;
}

int bn_save_finish(struct bn_saver *v, struct bn_err *err)
{
    int rc = 0;

    while (rc == 0 && v->phase != IDLE)
        rc = bn_save_advance(v, err);
    return rc;
}
