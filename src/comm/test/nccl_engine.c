#include "config.h"
#include "comm/test/nccl_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    pthread_t thread;
    bool runs;
    struct job *first, **last;
} engine = {PTHREAD_MUTEX_INITIALIZER,
            PTHREAD_COND_INITIALIZER,
            0,
            false,
            NULL,
            &engine.first};

static const double for_ever = 1e8; /* seconds */

/* All ranks must have been given one id. */
static int check_id(struct bn_comm *c, int64_t id, struct bn_err *err)
{
    int64_t low = id, high = id;

    if (c->ops->allreduce(c, &low, BN_I64, 1, BN_MIN, err) < 0
        || c->ops->allreduce(c, &high, BN_I64, 1, BN_MAX, err) < 0)
        return -1;
    return low == high ? 0 : bn_fail(err, BN_ERR_USAGE, "ids differ");
}

static int init(struct job *j, struct bn_err *err)
{
    struct bn_emu_nccl *m = j->made;

    m->c = m->size > 1 ? bn_comm_mpi(m->rank, m->size, for_ever, NULL, err)
                       : bn_comm_self();
    return m->c != NULL ? check_id(m->c, j->id, err) : -1;
}

static int split(struct job *j, struct bn_err *err)
{
    struct bn_comm *c = j->comm->c;
    struct bn_comm *made = c->ops->split(c, j->color, j->key, err);

    if (made == NULL)
        return -1;
    if (j->made == NULL) {
        bn_comm_destroy(made);
        return 0;
    }
    j->made->c = made;
    j->made->rank = made->rank;
    j->made->size = made->size;
    return 0;
}

static int run(struct job *j, struct bn_err *err)
{
    struct bn_comm *c = j->comm != NULL ? j->comm->c : NULL;

    switch (j->kind) {
    case INIT:
        return init(j, err);
    case SPLIT:
        return split(j, err);
    case FREE:
        bn_comm_destroy(c);
        return 0;
    case ALLREDUCE:
        memcpy(j->out, j->in, j->in_bytes);
        return c->ops->allreduce(c, j->out, j->type, j->n, j->op, err);
    case REDUCE_SCATTER:
        return c->ops->reduce_scatter(c, j->out, j->in, j->type, j->n, err);
    case REDUCE:
        return c->ops->reduce(c, j->out, j->in, j->type, j->n, j->from, err);
    case ALLGATHER:
        return c->ops->allgather(c, j->out, j->in, BN_U8, j->n, err);
    case BCAST:
        memcpy(j->out, j->in, j->in_bytes);
        return c->ops->bcast(c, j->out, j->n, j->from, err);
    case SENDRECV:
        return c->ops->sendrecv(c, j->in, j->in_bytes, j->to, j->out,
                                j->out_bytes, j->from, err);
    }
    return -1;
}

static void finish_job(struct job *j)
{
    struct bn_emu_nccl *told = j->made != NULL ? j->made : j->comm;
    struct bn_err err = {0};

    if (run(j, &err) == 0) {
        if (j->kind == INIT || j->kind == SPLIT)
            told->state = ncclSuccess;
        if (j->kind == SPLIT) {
            __atomic_store_n(j->newcomm, j->made, __ATOMIC_RELEASE);
            j->comm->state = ncclSuccess;
        }
        atomic_store(&j->done, true);
        return;
    }
    j->failed = true;
    if (getenv("BN_NCCL_DEAF") != NULL)
        return; /* and nobody will ever know */
    snprintf(told->text, sizeof(told->text), "%s", err.text);
    told->state = err.code == BN_ERR_USAGE ? ncclInvalidUsage : ncclRemoteError;
}

static void *engine_run(void *arg)
{
    bool last = false;

    while (!last) {
        pthread_mutex_lock(&engine.lock);
        while (engine.first == NULL)
            pthread_cond_wait(&engine.cond, &engine.lock);
        struct job *j = engine.first;
        engine.first = j->next;
        if (engine.first == NULL)
            engine.last = &engine.first;
        pthread_mutex_unlock(&engine.lock);
        /* One that somebody waits for may be gone as soon as it is done. */
        bool unwatched = j->kind == INIT || j->kind == SPLIT;
        last = j->kind == FREE && j->key;
        finish_job(j);
        if (unwatched)
            free(j);
    }
    return arg;
}

void bn_emu_nccl_give(struct job *j)
{
    pthread_mutex_lock(&engine.lock);
    if (!engine.runs)
        engine.runs =
            pthread_create(&engine.thread, NULL, engine_run, NULL) == 0;
    *engine.last = j;
    engine.last = &j->next;
    pthread_cond_signal(&engine.cond);
    pthread_mutex_unlock(&engine.lock);
}

void bn_emu_nccl_join(void)
{
    pthread_join(engine.thread, NULL);
    engine.runs = false;
}
