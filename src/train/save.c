/* Checkpoints in the background: training stops for a copy of the state, a
 * thread writes it, and the ranks commit it together at the end of a step.
 */
#include "config.h"
#include "train/save.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/saved.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

struct bn_saver {
    struct bn_session *s; /* borrowed */
    struct bn_arena copy; /* masters and moments, in host memory */
    struct bn_saved state;
    struct bn_ckpt_shard shard;
    char *tmp;
    bool pending;   /* begun on all ranks, and not yet committed */
    bool runs;      /* the thread has to be joined */
    atomic_bool done;
    pthread_t thread;
    int rc;
    struct bn_err err;
    double pause, began;
};

static bool leads(const struct bn_saver *v)
{
    return v->s->info.rank == 0;
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
    return v;
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
    if (v->pending && leads(v))
        bn_remove_tree(v->tmp, NULL); /* else a later run does */
    bn_arena_release(&v->copy);
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

static void *run(void *arg)
{
    struct bn_saver *v = arg;
    const float *const data[3] = {part(v, 0), part(v, 1), part(v, 2)};

    v->rc = bn_ckpt_write_shard(v->tmp, &v->shard, data, &v->err);
    atomic_store(&v->done, true);
    return NULL;
}

/* Signals are for the thread that trains. Without a thread it is done here.
 */
static void start(struct bn_saver *v)
{
    sigset_t all, old;

    atomic_store(&v->done, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    v->runs = pthread_create(&v->thread, NULL, run, v) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!v->runs)
        run(v);
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
    rc = leads(v) ? bn_ckpt_begin(v->tmp, err) : 0;
    if (rc == 0)
        rc = take_copy(v, err);
    if (bn_session_agree(v->s, rc, NULL, err) < 0)
        return -1;
    v->pending = true;
    v->began = bn_now();
    v->pause = v->began - t0;
    start(v);
    return 0;
}

/* --- The commit ---------------------------------------------------------- */

bool bn_save_pending(const struct bn_saver *v)
{
    return v->pending;
}

bool bn_save_busy(const struct bn_saver *v)
{
    return v->pending && !atomic_load(&v->done);
}

/* Rank 0 writes the manifest once every shard is on disk. */
static int put_manifest(struct bn_saver *v, const struct bn_ckpt_shard *all,
                        struct bn_err *err)
{
    struct bn_session *s = v->s;
    const char *out = s->run->output_dir;
    json_t *loop = bn_saved_json(&v->state, s->run);
    char *print = bn_saved_fingerprint(s);
    struct bn_ckpt_of of = bn_saved_of(s);
    int rc = bn_ckpt_commit(v->tmp, out, v->state.step, all,
                            (size_t)s->info.size, &of, print, loop, err);

    if (rc == 0) {
        bool best = s->run->eval.load_best_model_at_end && v->state.has_best;

        bn_ckpt_prune(out, (long)s->run->save.save_total_limit,
                      best ? v->state.best_step : -1);
    }
    json_decref(loop);
    free(print);
    return rc;
}

int bn_save_commit(struct bn_saver *v, struct bn_err *err)
{
    struct bn_session *s = v->s;
    struct bn_ckpt_shard *all = BN_NEWN(struct bn_ckpt_shard,
                                        (size_t)s->info.size);
    int rc;

    join(v);
    v->pending = false;
    if (v->rc < 0)
        bn_fail(err, v->err.code, "%s", v->err.text);
    rc = bn_session_agree(s, v->rc, NULL, err);
    if (rc == 0)
        rc = s->world->ops->allgather(s->world, all, &v->shard, BN_U8,
                                      sizeof(*all), err);
    if (rc == 0 && leads(v))
        rc = put_manifest(v, all, err);
    rc = bn_session_agree(s, rc, NULL, err);
    if (rc < 0 && leads(v))
        bn_remove_tree(v->tmp, NULL);
    if (rc == 0 && leads(v))
        bn_debug("checkpoint of step %ld: training paused %.4f s, committed "
                 "%.3f s later", v->state.step, v->pause,
                 bn_now() - v->began);
    free(all);
    return rc;
}

int bn_save_finish(struct bn_saver *v, struct bn_err *err)
{
    return v->pending ? bn_save_commit(v, err) : 0;
}
