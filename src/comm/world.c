#include "config.h"
#include "comm/world.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/times.h"
#include "comm/later.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double say_after = 30; /* seconds of waiting before a word */
static const double look_after = 1; /* and before looking who is dead */

/* --- Calls of MPI that cannot be given a deadline ---------------------- */

struct guard {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    double seconds;
    const char *what;
};

/* MPI_Init and MPI_Finalize wait for all ranks and cannot be broken off: if
 * one does not come back, only the end of the process is left. */
static void *guard_run(void *arg)
{
    struct guard *g = arg;
    struct timespec t;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)g->seconds + 1;
    pthread_mutex_lock(&g->lock);
    while (!g->done && rc == 0)
        rc = pthread_cond_timedwait(&g->cond, &g->lock, &t);
    bool done = g->done;
    pthread_mutex_unlock(&g->lock);
    if (!done) {
        bn_error("%s did not end in %.0f s: another rank is gone", g->what,
                 g->seconds);
        _exit(BN_ERR_AGAIN);
    }
    return NULL;
}

static bool guard_begin(struct guard *g, const char *what, double seconds)
{
    pthread_condattr_t a;

    *g = (struct guard){.what = what, .seconds = seconds};
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->cond, &a);
    pthread_condattr_destroy(&a);
    return pthread_create(&g->thread, NULL, guard_run, g) == 0;
}

static void guard_end(struct guard *g, bool runs)
{
    pthread_mutex_lock(&g->lock);
    g->done = true;
    pthread_cond_signal(&g->cond);
    pthread_mutex_unlock(&g->lock);
    if (runs)
        pthread_join(g->thread, NULL);
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->cond);
}

/* --- Messages ----------------------------------------------------------- */

static int slot(struct bn_world *w, int rank)
{
    if (w->n == w->cap) {
        w->cap = 2 * w->cap + 16;
        w->req = bn_realloc(w->req, (size_t)w->cap, sizeof(*w->req));
        w->to = bn_realloc(w->to, (size_t)w->cap, sizeof(*w->to));
    }
    w->req[w->n] = MPI_REQUEST_NULL;
    w->to[w->n] = rank;
    return w->n++;
}

void bn_world_break(struct bn_world *w, const struct bn_err *why)
{
    if (w->broken)
        return;
    w->why = *why;
    w->broken = true;
}

void bn_world_failed(struct bn_world *w, int code, const char *what, int rank)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    struct bn_err err;
    int len;

    MPI_Error_string(code, text, &len);
    bn_fail(&err, BN_ERR_AGAIN, "%s rank %d: %s", what, rank, text);
    bn_world_break(w, &err);
}

void bn_world_send(struct bn_world *w, const void *buf, size_t bytes,
                   int rank, int tag)
{
    int i = slot(w, rank);

    pthread_mutex_lock(&w->lock);
    int rc = w->broken ? MPI_SUCCESS
                       : MPI_Isend(buf, (int)bytes, MPI_BYTE, rank, tag,
                                   MPI_COMM_WORLD, &w->req[i]);
    if (rc != MPI_SUCCESS)
        bn_world_failed(w, rc, "cannot send to", rank);
    pthread_mutex_unlock(&w->lock);
}

void bn_world_recv(struct bn_world *w, void *buf, size_t bytes, int rank,
                   int tag)
{
    int i = slot(w, rank);

    pthread_mutex_lock(&w->lock);
    int rc = w->broken ? MPI_SUCCESS
                       : MPI_Irecv(buf, (int)bytes, MPI_BYTE, rank, tag,
                                   MPI_COMM_WORLD, &w->req[i]);
    if (rc != MPI_SUCCESS)
        bn_world_failed(w, rc, "cannot receive from", rank);
    pthread_mutex_unlock(&w->lock);
}

/* --- Waiting ------------------------------------------------------------ */

/* Complete what can be of the messages; true if nothing is left. */
static bool test_all(struct bn_world *w)
{
    for (int i = 0; i < w->n;) {
        MPI_Status st;
        int flag = 1, rc = MPI_Test(&w->req[i], &flag, &st);

        if (rc != MPI_SUCCESS) {
            bn_world_failed(w, rc, "lost the message of", w->to[i]);
            return true;
        }
        if (flag) {
            w->n--;
            w->req[i] = w->req[w->n];
            w->to[i] = w->to[w->n];
        } else {
            i++;
        }
    }
    return w->n == 0;
}

/* Complete what can be; true if nothing is left, or the world is broken. */
static bool progress(struct bn_world *w)
{
    pthread_mutex_lock(&w->lock);
    bool done = w->broken || test_all(w);
    if (w->later != NULL && !w->broken)
        done = bn_later_step(w->later) && done;
    pthread_mutex_unlock(&w->lock);
    return done;
}

/* Whether something is waited for from that rank. */
static bool waited_for(struct bn_world *w, int rank)
{
    bool waited = false;

    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < w->n; i++)
        waited |= w->to[i] == rank;
    if (w->later != NULL)
        waited |= bn_later_waits_for(w->later, rank);
    pthread_mutex_unlock(&w->lock);
    return waited;
}

/* The ranks that something is waited for from: "2 (load), 5 (step 7)". */
static void describe(struct bn_world *w, struct bn_str *out)
{
    for (int r = 0; r < w->size; r++) {
        char where[BN_WATCH_WHERE] = "";

        if (!waited_for(w, r))
            continue;
        if (w->watch.where != NULL)
            w->watch.where(w->watch.arg, r, where);
        bn_str_addf(out, "%s%d", out->len > 0 ? ", " : "", r);
        if (where[0] != '\0')
            bn_str_addf(out, " (%s)", where);
    }
}

/* Any rank that is lost ends the job: this one may wait for one that waits
 * for it. Failures that ranks tell of come before processes that are gone,
 * and are looked for after them: a process that ended because another rank
 * failed did so after that was told. */
static int anyone_lost(struct bn_world *w, const char *what,
                       struct bn_err *why)
{
    int gone = -1;

    for (int r = w->size - 1; r >= 0; r--)
        if (r != w->rank && bn_peer_gone(&w->peer[r], w->peer[w->rank].host))
            gone = r;
    for (int r = 0; r < w->size; r++)
        if (r != w->rank && w->watch.failed != NULL
            && w->watch.failed(w->watch.arg, r, why) < 0)
            return -1;
    if (gone < 0)
        return 0;
    return bn_fail(why, BN_ERR_AGAIN, "rank %d is gone: its process %lld "
                   "ended while this one waited in %s", gone,
                   (long long)w->peer[gone].pid, what);
}

/* After so long: say for whom, or give up with -1. */
static int lose_patience(struct bn_world *w, const char *what, double waited,
                         struct bn_err *why)
{
    struct bn_str who = {0};
    int rc = 0;

    describe(w, &who);
    if (waited >= w->timeout)
        rc = bn_fail(why, BN_ERR_AGAIN, "%s: rank %s did not come in %.0f s",
                     what, who.s, w->timeout);
    else
        bn_warn("%s: waiting for rank %s for %.0f s", what, who.s, waited);
    bn_str_release(&who);
    return rc;
}

static void give_up(struct bn_world *w, const struct bn_err *why)
{
    pthread_mutex_lock(&w->lock);
    bn_world_break(w, why);
    pthread_mutex_unlock(&w->lock);
}

static int wait_for(struct bn_world *w, const char *what, struct bn_err *err)
{
    double t0 = bn_now(), look = look_after, say = say_after;
    struct bn_err why;

    while (!progress(w)) {
        double waited = bn_now() - t0;

        if (waited >= look) {
            look = waited + look_after;
            if (anyone_lost(w, what, &why) < 0)
                give_up(w, &why);
        }
        if (waited >= say || waited >= w->timeout) {
            say += say_after;
            if (lose_patience(w, what, waited, &why) < 0)
                give_up(w, &why);
        }
        bn_rest(waited);
    }
    if (!w->broken)
        return 0;
    /* Buffers may go: without a further call MPI moves nothing. */
    w->n = 0;
    return bn_fail(err, w->why.code, "%s", w->why.text);
}

int bn_world_wait(struct bn_world *w, const char *what, struct bn_err *err)
{
    enum bn_time was = bn_times_enter_comm();
    int rc = wait_for(w, what, err);

    bn_times_enter(was);
    return rc;
}

/* --- The world ---------------------------------------------------------- */

/* Tell every rank which process each one is. */
static int exchange_peers(struct bn_world *w, struct bn_err *err)
{
    struct bn_peer me = bn_peer_self();
    struct bn_peer *got = BN_NEWN(struct bn_peer, (size_t)w->size);

    for (int r = 0; r < w->size; r++)
        if (r != w->rank)
            bn_world_recv(w, &got[r], sizeof(me), r, 0);
    for (int r = 0; r < w->size; r++)
        if (r != w->rank)
            bn_world_send(w, &me, sizeof(me), r, 0);
    int rc = bn_world_wait(w, "start", err);
    if (rc == 0) {
        got[w->rank] = me;
        memcpy(w->peer, got, (size_t)w->size * sizeof(me));
    }
    free(got);
    return rc;
}

static int check_world(const struct bn_world *w, struct bn_err *err)
{
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == w->rank && size == w->size)
        return 0;
    return bn_fail(err, BN_ERR_USAGE, "MPI says rank %d of %d, PMIx %d of %d:"
                   " this MPI does not know the launcher (Open MPI needs "
                   "'srun --mpi=pmix' or its own mpirun)", rank, size,
                   w->rank, w->size);
}

struct bn_world *bn_world_open(int rank, int size, double timeout,
                               const struct bn_watch *watch,
                               struct bn_err *err)
{
    struct bn_world *w = BN_NEW(struct bn_world);
    struct guard g;
    int got;

    w->rank = rank;
    w->size = size;
    w->timeout = timeout;
    w->next_tag = 1;
    pthread_mutex_init(&w->lock, NULL);
    w->peer = BN_NEWN(struct bn_peer, (size_t)size);
    if (watch != NULL)
        w->watch = *watch;
    /* Reading another process' memory is refused in many containers, with a
     * warning a message; a person's own setting stays. */
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    bool runs = guard_begin(&g, "starting MPI", timeout);
    int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &got);
    guard_end(&g, runs);
    w->threads = rc == MPI_SUCCESS && got >= MPI_THREAD_SERIALIZED;
    if (rc != MPI_SUCCESS) {
        bn_fail(err, BN_ERR_AGAIN, "cannot start MPI (error %d)", rc);
        w->broken = true;
    } else {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        w->broken = check_world(w, err) < 0 || exchange_peers(w, err) < 0;
    }
    if (!w->broken)
        return w;
    bn_world_close(w);
    return NULL;
}

void bn_world_close(struct bn_world *w)
{
    struct guard g;

    if (!w->broken) {
        bool runs = guard_begin(&g, "ending MPI", w->timeout);

        MPI_Finalize();
        guard_end(&g, runs);
    }
    pthread_mutex_destroy(&w->lock);
    free(w->peer);
    free(w->req);
    free(w->to);
    free(w);
}
