/* The world of the NCCL back end: calls in flight, and the thread that
 * watches them. NCCL itself waits for a lost rank for ever.
 */
#include "config.h"
#include "comm/nccl_state.h"
#include "base/blocks.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/times.h"
#include "ops/cuda.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double announce_after = 0.2; /* seconds of waiting */
static const double abort_max = 30;       /* that an abort may take */
static const double remote_max = 3; /* to see whose end NCCL has noticed */

static struct timespec after(clockid_t clock, double seconds)
{
    struct timespec t;

    clock_gettime(clock, &t);
    t.tv_sec += (time_t)seconds;
    t.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* --- Failure ------------------------------------------------------------ */

static int fail_as(const struct bn_nccl *w, struct bn_err *err)
{
    return bn_fail(err, w->why.code, "%s", w->why.text);
}

static enum bn_err_code class_of(ncclResult_t r)
{
    switch (r) {
    case ncclInvalidUsage:
        return BN_ERR_USAGE;
    case ncclInvalidArgument:
    case ncclInternalError:
        return BN_ERR_BUG;
    default:
        return BN_ERR_AGAIN;
    }
}

/* What NCCL says of a communicator, with the lock held. It notices a lost
 * rank by a connection, and cannot say whose process ended: that is looked
 * for here, without the lock. */
static void explain(struct bn_nccl *w, ncclComm_t comm, ncclResult_t r,
                    const char *what, struct bn_err *err)
{
    const char *more = ncclGetLastError(comm);
    double t0 = bn_now();
    struct bn_err who;

    bn_fail(err, class_of(r), "%s: NCCL: %s%s%s", what, ncclGetErrorString(r),
            more != NULL && *more != '\0' ? ": " : "",
            more != NULL ? more : "");
    if (r != ncclRemoteError)
        return;
    pthread_mutex_unlock(&w->lock);
    while (bn_now() - t0 < remote_max) {
        struct timespec t = {.tv_nsec = 100000000};

        if (bn_nccl_lost(w, what, &who) < 0) {
            *err = who;
            break;
        }
        nanosleep(&t, NULL);
    }
    pthread_mutex_lock(&w->lock);
}

/* An abort may take its time, or never end: on a thread of its own. */
static void *abort_all(void *arg)
{
    ncclComm_t *comm = arg;

    for (int i = 0; comm[i] != NULL; i++)
        (void)ncclCommAbort(comm[i]);
    free(comm);
    return NULL;
}

/* With the lock held. */
static void abandon(struct bn_nccl *w)
{
    ncclComm_t *comm;
    int n = 0;

    for (struct bn_nccl_group *g = w->groups; g != NULL; g = g->next)
        n += g->comm != NULL;
    comm = BN_NEWN(ncclComm_t, (size_t)n + 1);
    n = 0;
    for (struct bn_nccl_group *g = w->groups; g != NULL; g = g->next) {
        if (g->comm != NULL)
            comm[n++] = g->comm;
        g->comm = NULL;
    }
    w->aborting = pthread_create(&w->aborter, NULL, abort_all, comm) == 0;
    if (!w->aborting)
        abort_all(comm);
    w->aborted = bn_now();
    pthread_cond_broadcast(&w->cond);
}

void bn_nccl_break(struct bn_nccl *w, const struct bn_err *why, bool device)
{
    if (w->broken)
        return;
    w->why = *why;
    w->broken = true;
    /* Before the stream goes on: what follows on it computes with rubbish. */
    if (device)
        bn_dev_fail(w->dev, why->code, "%s", why->text);
    abandon(w);
}

static void die(struct bn_nccl *w)
{
    bn_error("%s; and NCCL did not abort within %.0f s", w->why.text,
             abort_max);
    if (w->dying != NULL)
        w->dying(&w->why);
    _exit(BN_ERR_AGAIN);
}

static int cuda_failed(struct bn_nccl *w, cudaError_t e, const char *what)
{
    struct bn_err err;

    bn_fail(&err, BN_ERR_BUG, "%s: %s: %s", what, cudaGetErrorName(e),
            cudaGetErrorString(e));
    bn_nccl_break(w, &err, true);
    return -1;
}

/* --- Calls in flight ---------------------------------------------------- */

static struct bn_nccl_flight *oldest(struct bn_nccl *w)
{
    return w->flying > 0 ? &w->flight[w->first] : NULL;
}

/* Forget the calls that are over. */
static void retire(struct bn_nccl *w)
{
    struct bn_nccl_flight *f;

    while ((f = oldest(w)) != NULL && f->enqueued
           && cudaEventQuery(f->end) == cudaSuccess) {
        w->first = (w->first + 1) % BN_NCCL_FLIGHTS;
        w->flying--;
    }
}

/* The stream of a call, which goes on while the device computes, or behind
 * which the device waits. */
static cudaStream_t stream_of(const struct bn_nccl *w, bool later)
{
    return later ? w->side : w->stream;
}

int bn_nccl_begin(struct bn_nccl_group *g, const char *what, bool later,
                  struct bn_err *err)
{
    struct bn_nccl *w = g->w;
    cudaStream_t stream = stream_of(w, later);
    double t0 = bn_now();

    pthread_mutex_lock(&w->lock);
    retire(w);
    while (!w->broken && w->flying == BN_NCCL_FLIGHTS) {
        pthread_mutex_unlock(&w->lock);
        bn_rest(bn_now() - t0);
        pthread_mutex_lock(&w->lock);
        retire(w);
    }
    if (!w->broken) {
        struct bn_nccl_flight *f =
            &w->flight[(w->first + w->flying) % BN_NCCL_FLIGHTS];
        cudaEvent_t begin = f->begin, end = f->end;

        *f = (struct bn_nccl_flight){.begin = begin,
                                     .end = end,
                                     .g = g,
                                     .what = what,
                                     .call = ++g->calls,
                                     .later = later,
                                     .next = bn_nccl_first};
        cudaError_t e = cudaEventRecord(w->ready, w->compute);
        if (e == cudaSuccess)
            e = cudaStreamWaitEvent(stream, w->ready, 0);
        if (e == cudaSuccess)
            e = cudaEventRecord(f->begin, stream);
        if (e != cudaSuccess)
            cuda_failed(w, e, what);
        else
            w->flying++;
    }
    if (!w->broken)
        return 0;
    fail_as(w, err);
    pthread_mutex_unlock(&w->lock);
    return -1;
}

int bn_nccl_done(struct bn_nccl_group *g, ncclResult_t r, struct bn_err *err)
{
    struct bn_nccl *w = g->w;
    struct bn_nccl_flight *f =
        &w->flight[(w->first + w->flying - 1) % BN_NCCL_FLIGHTS];
    double t0 = bn_now();
    struct bn_err why;

    while (!w->broken && r == ncclInProgress) {
        pthread_mutex_unlock(&w->lock);
        bn_rest(bn_now() - t0);
        pthread_mutex_lock(&w->lock);
        ncclResult_t got;
        if (!w->broken)
            r = ncclCommGetAsyncError(g->comm, &got) == ncclSuccess
                    ? got
                    : ncclInternalError;
    }
    if (!w->broken && r != ncclSuccess) {
        explain(w, g->comm, r, f->what, &why);
        bn_nccl_break(w, &why, true);
    }
    if (!w->broken) {
        cudaError_t e = cudaEventRecord(f->end, stream_of(w, f->later));

        if (e == cudaSuccess && !f->later)
            e = cudaStreamWaitEvent(w->compute, f->end, 0);
        f->enqueued = true;
        if (e != cudaSuccess)
            cuda_failed(w, e, f->what);
    }
    int rc = w->broken ? fail_as(w, err) : 0;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

int bn_nccl_finish(struct bn_nccl *w, struct bn_err *err)
{
    int rc = 0;

    pthread_mutex_lock(&w->lock);
    if (!w->broken) {
        cudaError_t e = cudaEventRecord(w->aside, w->side);

        if (e == cudaSuccess)
            e = cudaStreamWaitEvent(w->compute, w->aside, 0);
        if (e != cudaSuccess)
            cuda_failed(w, e, "end of what was done later");
    }
    if (w->broken)
        rc = fail_as(w, err);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static int wait_for(struct bn_nccl *w, struct bn_err *err)
{
    double t0 = bn_now();
    cudaError_t e = cudaEventRecord(w->copied, w->stream);
    int rc = 0;

    for (bool over = false; !over && rc == 0;) {
        if (e == cudaSuccess)
            e = cudaEventQuery(w->copied);
        over = e != cudaErrorNotReady;
        pthread_mutex_lock(&w->lock);
        if (over && e != cudaSuccess)
            cuda_failed(w, e, "waiting for NCCL");
        if (w->broken)
            rc = fail_as(w, err);
        pthread_mutex_unlock(&w->lock);
        if (!over && rc == 0)
            bn_rest(bn_now() - t0);
        e = over ? e : cudaSuccess;
    }
    return rc;
}

int bn_nccl_wait(struct bn_nccl *w, struct bn_err *err)
{
    enum bn_time was = bn_times_enter_comm();
    int rc = wait_for(w, err);

    bn_times_enter(was);
    return rc;
}

int bn_nccl_settle(struct bn_nccl_group *g, ncclComm_t comm, ncclResult_t r,
                   const char *what, struct bn_err *err)
{
    struct bn_nccl *w = g->w;
    struct bn_nccl_next next = bn_nccl_first;
    double t0 = bn_now();
    uint64_t call = ++g->calls;
    struct bn_err why;
    bool announced = false;
    int rc = 0;

    while (r == ncclInProgress && rc == 0) {
        double waited = bn_now() - t0;

        bn_rest(waited);
        if (!announced && waited >= announce_after) {
            bn_nccl_announce(g, call);
            announced = true;
        }
        rc = bn_nccl_judge(g, what, call, waited, &next, &why);
        pthread_mutex_lock(&w->lock);
        if (rc == 0 && w->broken)
            rc = fail_as(w, &why);
        ncclResult_t got;
        if (rc == 0)
            r = ncclCommGetAsyncError(comm, &got) == ncclSuccess
                    ? got
                    : ncclInternalError;
        pthread_mutex_unlock(&w->lock);
    }
    if (rc == 0 && r == ncclSuccess)
        return 0;
    pthread_mutex_lock(&w->lock);
    if (rc == 0)
        explain(w, comm, r, what, &why);
    bn_nccl_break(w, &why, true);
    rc = fail_as(w, err);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* --- The watchdog ------------------------------------------------------- */

/* Whether NCCL has noticed an error: -1 with the reason. */
static int ask_nccl(struct bn_nccl *w, struct bn_err *err)
{
    for (struct bn_nccl_group *g = w->groups; g != NULL; g = g->next) {
        ncclResult_t r;

        if (g->comm == NULL || ncclCommGetAsyncError(g->comm, &r) != ncclSuccess
            || r == ncclSuccess || r == ncclInProgress)
            continue;
        explain(w, g->comm, r,
                w->flying > 0 ? w->flight[w->first].what : "NCCL", err);
        return -1;
    }
    return 0;
}

/* The oldest call that is not over, which all others wait for. */
static int ask_oldest(struct bn_nccl *w, struct bn_err *err)
{
    struct bn_nccl_flight *f;
    double now = bn_now();

    retire(w);
    f = oldest(w);
    if (f == NULL)
        return 0;
    if (f->since == 0) {
        if (cudaEventQuery(f->begin) != cudaSuccess)
            return 0;
        f->since = now;
    }
    double waited = now - f->since;
    if (waited < announce_after)
        return 0;
    /* With the lock given back the place may become another call's. */
    struct bn_nccl_flight mine = *f;
    f->announced = true;
    w->looking = mine.g;
    pthread_mutex_unlock(&w->lock);
    if (!mine.announced)
        bn_nccl_announce(mine.g, mine.call);
    int rc =
        bn_nccl_judge(mine.g, mine.what, mine.call, waited, &mine.next, err);
    pthread_mutex_lock(&w->lock);
    f = oldest(w);
    bool same = f != NULL && f->g == mine.g && f->call == mine.call;
    if (same)
        f->next = mine.next;
    w->looking = NULL;
    return same ? rc : 0;
}

static void *watchdog(void *arg)
{
    struct bn_nccl *w = arg;
    struct bn_err err;

    (void)cudaSetDevice(w->device);
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        struct timespec t = after(CLOCK_MONOTONIC, w->flying > 0 ? 0.02 : 0.5);

        pthread_cond_timedwait(&w->cond, &w->lock, &t);
        if (w->stop)
            break;
        if (!w->broken
            && (ask_oldest(w, &err) < 0
                || (!w->broken && ask_nccl(w, &err) < 0)))
            bn_nccl_break(w, &err, true);
        retire(w);
        if (w->broken && w->flying > 0 && w->flight[w->first].enqueued
            && bn_now() - w->aborted > abort_max)
            die(w);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int bn_nccl_watch(struct bn_nccl *w, struct bn_err *err)
{
    sigset_t all, old;

    /* Signals are for the thread that works. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&w->watchdog, NULL, watchdog, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    w->watching = rc == 0;
    return rc == 0 ? 0
                   : bn_fail(err, BN_ERR_AGAIN, "cannot start a thread: %s",
                             strerror(rc));
}

/* --- Life --------------------------------------------------------------- */

static cudaError_t take(struct bn_nccl *w)
{
    cudaError_t e = cudaGetDevice(&w->device);
    void *p = NULL;

    if (e == cudaSuccess)
        e = cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking);
    if (e == cudaSuccess)
        e = cudaStreamCreateWithFlags(&w->side, cudaStreamNonBlocking);
    if (e == cudaSuccess)
        e = cudaEventCreateWithFlags(&w->aside, cudaEventDisableTiming);
    if (e == cudaSuccess)
        e = cudaEventCreateWithFlags(&w->ready, cudaEventDisableTiming);
    if (e == cudaSuccess)
        e = cudaEventCreateWithFlags(&w->copied, cudaEventDisableTiming);
    if (e == cudaSuccess)
        e = cudaMallocHost(&p, BN_NCCL_ROOM);
    w->stage = p;
    bn_block_add("nccl staging", p, BN_NCCL_ROOM, false);
    p = NULL;
    if (e == cudaSuccess)
        e = cudaMalloc(&p, BN_NCCL_ROOM);
    w->scratch = p;
    bn_block_add("nccl scratch", p, BN_NCCL_ROOM, false);
    for (int i = 0; i < BN_NCCL_FLIGHTS && e == cudaSuccess; i++) {
        e = cudaEventCreateWithFlags(&w->flight[i].begin,
                                     cudaEventDisableTiming);
        if (e == cudaSuccess)
            e = cudaEventCreateWithFlags(&w->flight[i].end,
                                         cudaEventDisableTiming);
    }
    return e;
}

struct bn_nccl *bn_nccl_open(const struct bn_nccl_options *o,
                             struct bn_dev *dev, struct bn_err *err)
{
    struct bn_nccl *w = BN_NEW(struct bn_nccl);
    pthread_condattr_t a;

    w->rank = o->rank;
    w->size = o->size;
    w->timeout = o->timeout;
    w->boot = o->boot;
    w->dying = o->dying;
    if (o->watch != NULL)
        w->watch = *o->watch;
    w->peer = BN_NEWN(struct bn_peer, (size_t)o->size);
    w->dev = dev;
    w->compute = bn_cuda_stream(dev);
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&w->cond, &a);
    pthread_condattr_destroy(&a);
    cudaError_t e = take(w);
    if (e == cudaSuccess)
        return w;
    bn_fail(err, BN_ERR_AGAIN, "cannot prepare NCCL: %s: %s",
            cudaGetErrorName(e), cudaGetErrorString(e));
    bn_nccl_close(w);
    return NULL;
}

void bn_nccl_close(struct bn_nccl *w)
{
    struct timespec t = after(CLOCK_REALTIME, abort_max);

    if (w->watching) {
        pthread_mutex_lock(&w->lock);
        w->stop = true;
        pthread_cond_broadcast(&w->cond);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->watchdog, NULL);
    }
    if (w->aborting && pthread_timedjoin_np(w->aborter, NULL, &t) == ETIMEDOUT)
        die(w);
    for (int i = 0; i < BN_NCCL_FLIGHTS; i++) {
        if (w->flight[i].begin != NULL)
            (void)cudaEventDestroy(w->flight[i].begin);
        if (w->flight[i].end != NULL)
            (void)cudaEventDestroy(w->flight[i].end);
    }
    if (w->ready != NULL)
        (void)cudaEventDestroy(w->ready);
    if (w->copied != NULL)
        (void)cudaEventDestroy(w->copied);
    if (w->aside != NULL)
        (void)cudaEventDestroy(w->aside);
    if (w->stream != NULL)
        (void)cudaStreamDestroy(w->stream);
    if (w->side != NULL)
        (void)cudaStreamDestroy(w->side);
    bn_block_drop(w->scratch);
    bn_block_drop(w->stage);
    (void)cudaFree(w->scratch);
    (void)cudaFreeHost(w->stage);
    pthread_cond_destroy(&w->cond);
    pthread_mutex_destroy(&w->lock);
    free(w->peer);
    free(w);
}
