#include "config.h"
#include "comm/later.h"
#include "base/blocks.h"
#include "base/mem.h"
#include "comm/fold.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* n elements that this rank is the root of; 'in' is its own part. */
struct job {
    char *out;
    const char *in;
    enum bn_dtype type;
    size_t n;
};

/* A piece of a job on its way here from all other ranks. */
struct slot {
    struct job piece;
    char *scratch; /* [size][BN_COMM_PIECE] */
    MPI_Request *req; /* [size]; that of this rank is null */
    bool busy, adding;
};

struct bn_later {
    struct bn_world *w;
    int rank, size, tag;
    const int *world_rank;
    char *scratch;
    const void **in; /* [size], for the sum of a piece */
    MPI_Request *part; /* messages of what needs no sum, to and from */
    int *part_rank;    /* world ranks */
    int nparts, part_cap;
    struct job *job; /* those not taken into slots yet, from 'first' */
    size_t first, njobs, job_cap;
    struct slot slot[BN_LATER_SLOTS];
    bool adds; /* a piece is being added, without the lock */
    pthread_t thread;
    pthread_cond_t cond;
    bool runs, quit;
};

/* --- What is left to do, with the lock held ------------------------------ */

static bool idle(const struct bn_later *l)
{
    bool busy = l->nparts > 0 || l->first < l->njobs;

    for (int i = 0; i < BN_LATER_SLOTS; i++)
        busy |= l->slot[i].busy;
    return !busy;
}

bool bn_later_waits_for(const struct bn_later *l, int rank)
{
    for (int i = 0; i < l->nparts; i++)
        if (l->part_rank[i] == rank)
            return true;
    for (int i = 0; i < BN_LATER_SLOTS; i++)
        for (int r = 0; l->slot[i].busy && r < l->size; r++)
            if (l->world_rank[r] == rank
                && l->slot[i].req[r] != MPI_REQUEST_NULL)
                return true;
    return false;
}

/* --- Steps, with the lock held ------------------------------------------- */

static bool over(struct bn_later *l, MPI_Request *req, int world_rank)
{
    int flag = 1, rc;

    if (l->w->broken || *req == MPI_REQUEST_NULL)
        return !l->w->broken;
    rc = MPI_Test(req, &flag, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        bn_world_failed(l->w, rc, "lost the message of", world_rank);
    return rc == MPI_SUCCESS && flag;
}

static void test_parts(struct bn_later *l)
{
    for (int i = 0; i < l->nparts;) {
        if (!over(l, &l->part[i], l->part_rank[i])) {
            i++;
            continue;
        }
        l->nparts--;
        l->part[i] = l->part[l->nparts];
        l->part_rank[i] = l->part_rank[l->nparts];
    }
}

/* The next piece of the jobs into a slot that is free. */
static void post(struct bn_later *l, struct slot *s)
{
    struct job *j = &l->job[l->first];
    size_t es = bn_dtype_size(j->type), most = BN_COMM_PIECE / es;

    s->piece = *j;
    if (s->piece.n > most)
        s->piece.n = most;
    j->in += s->piece.n * es;
    j->out += s->piece.n * es;
    j->n -= s->piece.n;
    if (j->n == 0 && ++l->first == l->njobs)
        l->first = l->njobs = 0;
    s->busy = true;
    for (int r = 0; r < l->size; r++) {
        int rc = MPI_SUCCESS;

        s->req[r] = MPI_REQUEST_NULL;
        if (r != l->rank)
            rc = MPI_Irecv(s->scratch + (size_t)r * BN_COMM_PIECE,
                           (int)(s->piece.n * es), MPI_BYTE,
                           l->world_rank[r], l->tag, MPI_COMM_WORLD,
                           &s->req[r]);
        if (rc != MPI_SUCCESS)
            bn_world_failed(l->w, rc, "cannot receive from",
                            l->world_rank[r]);
    }
}

static bool arrived(struct bn_later *l, struct slot *s)
{
    bool all = true;

    for (int r = 0; r < l->size; r++)
        all &= over(l, &s->req[r], l->world_rank[r]);
    return all;
}

/* Add up a piece that is there, in the order of ranks. Others may use MPI
 * meanwhile. */
static void add(struct bn_later *l, struct slot *s)
{
    struct bn_err err;

    l->adds = s->adding = true;
    pthread_mutex_unlock(&l->w->lock);
    for (int r = 0; r < l->size; r++)
        l->in[r] = r == l->rank ? s->piece.in
                                : s->scratch + (size_t)r * BN_COMM_PIECE;
    int rc = bn_fold(s->piece.out, l->in, l->size, s->piece.type, s->piece.n,
                     BN_SUM, &err);
    pthread_mutex_lock(&l->w->lock);
    if (rc < 0)
        bn_world_break(l->w, &err);
    l->adds = s->adding = s->busy = false;
}

bool bn_later_step(struct bn_later *l)
{
    test_parts(l);
    for (int i = 0; i < BN_LATER_SLOTS && !l->w->broken; i++) {
        struct slot *s = &l->slot[i];

        if (s->busy && !s->adding && !l->adds && arrived(l, s))
            add(l, s);
        if (!s->busy && !l->w->broken && l->first < l->njobs)
            post(l, s);
    }
    return idle(l);
}

/* --- The thread ----------------------------------------------------------- */

/* The thread that computes has the CPU first. */
static const struct timespec rest = {.tv_nsec = 20000};

static void *run(void *arg)
{
    struct bn_later *l = arg;
    struct bn_world *w = l->w;

    pthread_mutex_lock(&w->lock);
    while (!l->quit) {
        if (w->broken || idle(l)) {
            pthread_cond_wait(&l->cond, &w->lock);
            continue;
        }
        bn_later_step(l);
        pthread_mutex_unlock(&w->lock);
        nanosleep(&rest, NULL);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct bn_later *bn_later_create(struct bn_world *w, const struct bn_comm *c,
                                 const int *world_rank, int tag)
{
    struct bn_later *l = BN_NEW(struct bn_later);
    size_t size = (size_t)c->size;
    size_t bytes = BN_LATER_SLOTS * size * BN_COMM_PIECE;
    sigset_t all, old;

    l->w = w;
    l->rank = c->rank;
    l->size = c->size;
    l->tag = tag;
    l->world_rank = world_rank;
    l->in = BN_NEWN(const void *, size);
    l->scratch = bn_realloc(NULL, bytes, 1);
    bn_block_add("comm", l->scratch, bytes, true);
    for (size_t i = 0; i < BN_LATER_SLOTS; i++) {
        l->slot[i].scratch = l->scratch + i * size * BN_COMM_PIECE;
        l->slot[i].req = BN_NEWN(MPI_Request, size);
    }
    pthread_cond_init(&l->cond, NULL);
    if (!w->threads)
        return l;
    /* Signals are for the thread that works. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    l->runs = pthread_create(&l->thread, NULL, run, l) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return l;
}

void bn_later_destroy(struct bn_later *l)
{
    struct bn_err left;

    if (l == NULL)
        return;
    bn_fail(&left, BN_ERR_BUG, "a reduction was begun and not finished");
    pthread_mutex_lock(&l->w->lock);
    if (!idle(l))
        bn_world_break(l->w, &left);
    l->quit = true;
    pthread_cond_signal(&l->cond);
    pthread_mutex_unlock(&l->w->lock);
    if (l->runs)
        pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->cond);
    for (int i = 0; i < BN_LATER_SLOTS; i++)
        free(l->slot[i].req);
    bn_block_drop(l->scratch);
    free(l->scratch);
    free(l->in);
    free(l->part);
    free(l->part_rank);
    free(l->job);
    free(l);
}

/* --- Calls of the thread that works --------------------------------------- */

/* Room for a message to or from a rank. */
static MPI_Request *new_part(struct bn_later *l, int world_rank)
{
    if (l->nparts == l->part_cap) {
        l->part_cap = 2 * l->part_cap + 16;
        l->part = bn_realloc(l->part, (size_t)l->part_cap, sizeof(*l->part));
        l->part_rank = bn_realloc(l->part_rank, (size_t)l->part_cap,
                                  sizeof(*l->part_rank));
    }
    l->part[l->nparts] = MPI_REQUEST_NULL;
    l->part_rank[l->nparts] = world_rank;
    return &l->part[l->nparts++];
}

static void send_piece(struct bn_later *l, const char *buf, size_t bytes,
                       int world_rank, int tag)
{
    MPI_Request *req = new_part(l, world_rank);
    int rc = MPI_Isend(buf, (int)bytes, MPI_BYTE, world_rank, tag,
                       MPI_COMM_WORLD, req);

    if (rc != MPI_SUCCESS)
        bn_world_failed(l->w, rc, "cannot send to", world_rank);
}

static void recv_piece(struct bn_later *l, char *buf, size_t bytes,
                       int world_rank, int tag)
{
    MPI_Request *req = new_part(l, world_rank);
    int rc = MPI_Irecv(buf, (int)bytes, MPI_BYTE, world_rank, tag,
                       MPI_COMM_WORLD, req);

    if (rc != MPI_SUCCESS)
        bn_world_failed(l->w, rc, "cannot receive from", world_rank);
}

static size_t piece_at(size_t at, size_t bytes)
{
    return bytes - at < BN_COMM_PIECE ? bytes - at : BN_COMM_PIECE;
}

void bn_later_reduce(struct bn_later *l, void *out, const void *in,
                     enum bn_dtype type, size_t n, int root)
{
    size_t bytes = n * bn_dtype_size(type);

    pthread_mutex_lock(&l->w->lock);
    if (root == l->rank && n > 0) {
        bn_grow(&l->job, &l->job_cap, l->njobs + 1, sizeof(*l->job));
        l->job[l->njobs++] = (struct job){out, in, type, n};
    }
    for (size_t at = 0; root != l->rank && at < bytes && !l->w->broken;
         at += BN_COMM_PIECE)
        send_piece(l, (const char *)in + at, piece_at(at, bytes),
                   l->world_rank[root], l->tag);
    if (!l->w->broken)
        bn_later_step(l);
    pthread_cond_signal(&l->cond);
    pthread_mutex_unlock(&l->w->lock);
}

/* Parts are received at once, those of a sum when there is room for them, so
 * their messages must not be taken for each other. */
void bn_later_allgather(struct bn_later *l, void *out, size_t bytes,
                        size_t stride)
{
    char *own = (char *)out + (size_t)l->rank * stride;

    pthread_mutex_lock(&l->w->lock);
    for (size_t at = 0; at < bytes; at += BN_COMM_PIECE)
        for (int k = 1; k < l->size && !l->w->broken; k++) {
            int to = (l->rank + k) % l->size; /* not all to rank 0 first */
            int from = (l->rank + l->size - k) % l->size;

            recv_piece(l, (char *)out + (size_t)from * stride + at,
                       piece_at(at, bytes), l->world_rank[from], l->tag + 1);
            send_piece(l, own + at, piece_at(at, bytes), l->world_rank[to],
                       l->tag + 1);
        }
    if (!l->w->broken)
        bn_later_step(l);
    pthread_cond_signal(&l->cond);
    pthread_mutex_unlock(&l->w->lock);
}

int bn_later_finish(struct bn_later *l, struct bn_err *err)
{
    l->w->later = l;
    int rc = bn_world_wait(l->w, "reduce or allgather", err);

    l->w->later = NULL;
    return rc;
}
