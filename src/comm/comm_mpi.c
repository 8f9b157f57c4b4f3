/* Collectives of CPU ranks. Every rank sends to and receives from every
 * other one directly, which moves as many bytes as a ring does, makes every
 * rank wait for exactly those that are missing, and leaves the order of sums
 * to us. Large buffers go in pieces (DESIGN: known facts).
 */
#include "config.h"
#include "comm/comm.h"
#include "base/blocks.h"
#include "base/mem.h"
#include "comm/fold.h"
#include "comm/later.h"
#include "comm/world.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECE = BN_COMM_PIECE,
    SMALL = 4096,      /* bytes that every rank sums for itself */
    MESSAGE = 1 << 30, /* bytes of one between two ranks */
};

struct group {
    struct bn_world *w;
    int *world_rank; /* [size] */
    int tag; /* and the two behind it, for what is done later */
    struct bn_later *later; /* NULL until there is any */
    bool owner; /* of w */
    char *scratch; /* [size][PIECE] */
    const void **in; /* [size] */
};

static struct group *group(const struct bn_comm *c)
{
    return c->state;
}

static void send_to(struct bn_comm *c, const void *buf, size_t bytes, int r)
{
    struct group *g = group(c);

    bn_world_send(g->w, buf, bytes, g->world_rank[r], g->tag);
}

static void recv_from(struct bn_comm *c, void *buf, size_t bytes, int r)
{
    struct group *g = group(c);

    bn_world_recv(g->w, buf, bytes, g->world_rank[r], g->tag);
}

static int wait_all(struct bn_comm *c, const char *what, struct bn_err *err)
{
    return bn_world_wait(group(c)->w, what, err);
}

/* Send 'mine' to all and receive theirs into all[r], 'bytes' apart. */
static void swap_all(struct bn_comm *c, char *all, const void *mine,
                     size_t bytes, size_t stride)
{
    for (int r = 0; r < c->size; r++)
        if (r != c->rank)
            recv_from(c, all + (size_t)r * stride, bytes, r);
    for (int k = 1; k < c->size; k++) /* not all to rank 0 first */
        send_to(c, mine, bytes, (c->rank + k) % c->size);
}

static int allgather(struct bn_comm *c, void *out, const void *in,
                     enum bn_dtype type, size_t n, struct bn_err *err)
{
    size_t bytes = n * bn_dtype_size(type);
    char *own = (char *)out + (size_t)c->rank * bytes;

    if (own != in)
        memcpy(own, in, bytes);
    for (size_t at = 0; at < bytes || at == 0; at += PIECE) {
        size_t k = bytes - at < PIECE ? bytes - at : PIECE;

        swap_all(c, (char *)out + at, own + at, k, bytes);
        if (wait_all(c, "allgather", err) < 0)
            return -1;
    }
    return 0;
}

/* The reduction of in[0..size) where all inputs but this rank's are in
 * scratch. */
static int fold(struct bn_comm *c, void *out, const void *mine,
                enum bn_dtype type, size_t n, enum bn_comm_op op,
                struct bn_err *err)
{
    struct group *g = group(c);

    for (int r = 0; r < c->size; r++)
        g->in[r] = r == c->rank ? mine : g->scratch + (size_t)r * PIECE;
    return bn_fold(out, g->in, c->size, type, n, op, err);
}

/* Every rank gets all of a small buffer and reduces it for itself. */
static int allreduce_small(struct bn_comm *c, void *buf, enum bn_dtype type,
                           size_t n, enum bn_comm_op op, struct bn_err *err)
{
    swap_all(c, group(c)->scratch, buf, n * bn_dtype_size(type), PIECE);
    if (wait_all(c, "allreduce", err) < 0)
        return -1;
    return fold(c, buf, buf, type, n, op, err);
}

/* Elements [*from, *from + result) of n are rank r's to reduce. */
static size_t part(const struct bn_comm *c, size_t n, int r, size_t *from)
{
    *from = n * (size_t)r / (size_t)c->size;
    return n * (size_t)(r + 1) / (size_t)c->size - *from;
}

/* A block of at most size * PIECE bytes: each rank reduces its part of it
 * and gives it to all. */
static int allreduce_block(struct bn_comm *c, char *buf, enum bn_dtype type,
                           size_t n, enum bn_comm_op op, struct bn_err *err)
{
    size_t es = bn_dtype_size(type), from, at;
    size_t mine = part(c, n, c->rank, &from);
    char *own = buf + from * es;

    for (int r = 0; r < c->size; r++)
        if (r != c->rank)
            recv_from(c, group(c)->scratch + (size_t)r * PIECE, mine * es, r);
    for (int k = 1; k < c->size; k++) {
        int r = (c->rank + k) % c->size;
        size_t m = part(c, n, r, &at);

        send_to(c, buf + at * es, m * es, r);
    }
    if (wait_all(c, "allreduce", err) < 0
        || fold(c, own, own, type, mine, op, err) < 0)
        return -1;
    for (int r = 0; r < c->size; r++) {
        size_t m = part(c, n, r, &at);

        if (r != c->rank)
            recv_from(c, buf + at * es, m * es, r);
    }
    for (int k = 1; k < c->size; k++)
        send_to(c, own, mine * es, (c->rank + k) % c->size);
    return wait_all(c, "allreduce", err);
}

static int allreduce(struct bn_comm *c, void *buf, enum bn_dtype type,
                     size_t n, enum bn_comm_op op, struct bn_err *err)
{
    size_t es = bn_dtype_size(type);
    size_t block = PIECE / es * (size_t)c->size;

    if (n * es <= SMALL)
        return allreduce_small(c, buf, type, n, op, err);
    for (size_t at = 0; at < n; at += block) {
        size_t k = n - at < block ? n - at : block;

        if (allreduce_block(c, (char *)buf + at * es, type, k, op, err) < 0)
            return -1;
    }
    return 0;
}

static int reduce_scatter(struct bn_comm *c, void *out, const void *in,
                          enum bn_dtype type, size_t n, struct bn_err *err)
{
    size_t es = bn_dtype_size(type), step = PIECE / es;
    const char *from = in;

    for (size_t at = 0; at < n; at += step) {
        size_t k = n - at < step ? n - at : step;

        for (int r = 0; r < c->size; r++)
            if (r != c->rank)
                recv_from(c, group(c)->scratch + (size_t)r * PIECE, k * es,
                          r);
        for (int j = 1; j < c->size; j++) {
            int r = (c->rank + j) % c->size;

            send_to(c, from + ((size_t)r * n + at) * es, k * es, r);
        }
        if (wait_all(c, "reduce-scatter", err) < 0
            || fold(c, (char *)out + at * es,
                    from + ((size_t)c->rank * n + at) * es, type, k, BN_SUM,
                    err) < 0)
            return -1;
    }
    return 0;
}

static int reduce(struct bn_comm *c, void *out, const void *in,
                  enum bn_dtype type, size_t n, int root, struct bn_err *err)
{
    size_t es = bn_dtype_size(type), step = PIECE / es;
    const char *from = in;

    for (size_t at = 0; at < n; at += step) {
        size_t k = n - at < step ? n - at : step;

        for (int r = 0; c->rank == root && r < c->size; r++)
            if (r != root)
                recv_from(c, group(c)->scratch + (size_t)r * PIECE, k * es,
                          r);
        if (c->rank != root)
            send_to(c, from + at * es, k * es, root);
        if (wait_all(c, "reduce", err) < 0
            || (c->rank == root
                && fold(c, (char *)out + at * es, from + at * es, type, k,
                        BN_SUM, err) < 0))
            return -1;
    }
    return 0;
}

/* What does things later; NULL if the world is broken. */
static struct bn_later *later(struct bn_comm *c, struct bn_err *err)
{
    struct group *g = group(c);

    if (g->w->broken) {
        bn_fail(err, g->w->why.code, "%s", g->w->why.text);
        return NULL;
    }
    if (g->later == NULL)
        g->later = bn_later_create(g->w, c, g->world_rank, g->tag + 1);
    return g->later;
}

static int reduce_begin(struct bn_comm *c, void *out, const void *in,
                        enum bn_dtype type, size_t n, int root,
                        struct bn_err *err)
{
    struct bn_later *l = later(c, err);

    if (l != NULL)
        bn_later_reduce(l, out, in, type, n, root);
    return l != NULL ? 0 : -1;
}

static int allgather_begin(struct bn_comm *c, void *out, size_t bytes,
                           size_t stride, struct bn_err *err)
{
    struct bn_later *l = later(c, err);

    if (l != NULL)
        bn_later_allgather(l, out, bytes, stride);
    return l != NULL ? 0 : -1;
}

static int finish(struct bn_comm *c, struct bn_err *err)
{
    struct group *g = group(c);

    return g->later != NULL ? bn_later_finish(g->later, err) : 0;
}

static int bcast(struct bn_comm *c, void *buf, size_t bytes, int root,
                 struct bn_err *err)
{
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t k = bytes - at < PIECE ? bytes - at : PIECE;

        if (c->rank != root)
            recv_from(c, (char *)buf + at, k, root);
        for (int r = 0; c->rank == root && r < c->size; r++)
            if (r != root)
                send_to(c, (char *)buf + at, k, r);
        if (wait_all(c, "broadcast", err) < 0)
            return -1;
    }
    return 0;
}

static int sendrecv(struct bn_comm *c, const void *out, size_t out_bytes,
                    int to, void *in, size_t in_bytes, int from,
                    struct bn_err *err)
{
    for (size_t at = 0; from >= 0 && at < in_bytes; at += MESSAGE)
        recv_from(c, (char *)in + at,
                  in_bytes - at < MESSAGE ? in_bytes - at : MESSAGE, from);
    for (size_t at = 0; to >= 0 && at < out_bytes; at += MESSAGE)
        send_to(c, (const char *)out + at,
                out_bytes - at < MESSAGE ? out_bytes - at : MESSAGE, to);
    return wait_all(c, to < 0 ? "receive" : from < 0 ? "send" : "exchange",
                    err);
}

static int send(struct bn_comm *c, const void *buf, size_t bytes, int to,
                struct bn_err *err)
{
    return sendrecv(c, buf, bytes, to, NULL, 0, -1, err);
}

static int recv(struct bn_comm *c, void *buf, size_t bytes, int from,
                struct bn_err *err)
{
    return sendrecv(c, NULL, 0, -1, buf, bytes, from, err);
}

static int barrier(struct bn_comm *c, struct bn_err *err)
{
    swap_all(c, group(c)->scratch, c, 1, PIECE);
    return wait_all(c, "barrier", err);
}

static void destroy(struct bn_comm *c)
{
    struct group *g = group(c);

    bn_later_destroy(g->later);
    if (g->owner) {
        /* Nobody leaves while another may still need its messages. */
        if (!g->w->broken)
            barrier(c, NULL);
        bn_world_close(g->w);
    }
    bn_block_drop(g->scratch);
    free(g->scratch);
    free(g->in);
    free(g->world_rank);
    free(g);
    free(c);
}

static void leave(struct bn_comm *c)
{
    struct bn_world *w = group(c)->w;
    struct bn_err why;

    bn_fail(&why, BN_ERR_BUG, "this rank has left its world");
    pthread_mutex_lock(&w->lock);
    bn_world_break(w, &why);
    pthread_mutex_unlock(&w->lock);
}

static void stop(struct bn_comm *c, enum bn_err_code code)
{
    (void)c;
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

static struct bn_comm *split(struct bn_comm *c, int color, int key,
                             struct bn_err *err);

static const struct bn_comm_ops mpi_ops = {
    .name = "mpi",
    .allreduce = allreduce,
    .reduce_scatter = reduce_scatter,
    .reduce = reduce,
    .reduce_begin = reduce_begin,
    .allgather_begin = allgather_begin,
    .finish = finish,
    .allgather = allgather,
    .bcast = bcast,
    .send = send,
    .recv = recv,
    .sendrecv = sendrecv,
    .barrier = barrier,
    .split = split,
    .leave = leave,
    .abort = stop,
    .destroy = destroy,
};

/* A group of 'size' ranks; the caller fills world_rank. */
static struct bn_comm *create(struct bn_world *w, int rank, int size, int tag)
{
    struct bn_comm *c = BN_NEW(struct bn_comm);
    struct group *g = BN_NEW(struct group);

    g->w = w;
    g->tag = tag;
    g->world_rank = BN_NEWN(int, (size_t)size);
    g->scratch = bn_realloc(NULL, (size_t)size, PIECE);
    bn_block_add("comm", g->scratch, (size_t)size * PIECE, true);
    g->in = BN_NEWN(const void *, (size_t)size);
    *c = (struct bn_comm){rank, size, &mpi_ops, g};
    return c;
}

/* What a rank says at a split. */
struct vote {
    int color, key, rank, next_tag;
};

static int by_key(const void *a, const void *b)
{
    const struct vote *x = a, *y = b;

    if (x->color != y->color)
        return x->color < y->color ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The tag is one that no member has used: two groups that share a pair of
 * ranks never have the same. Groups of one split are disjoint. */
static struct bn_comm *split(struct bn_comm *c, int color, int key,
                             struct bn_err *err)
{
    struct group *g = group(c);
    struct vote me = {color, key, c->rank, g->w->next_tag};
    struct vote *all = BN_NEWN(struct vote, (size_t)c->size);
    int first = 0, size = 0, rank = 0, tag = 0;

    if (allgather(c, all, &me, BN_U8, sizeof(me), err) < 0) {
        free(all);
        return NULL;
    }
    for (int i = 0; i < c->size; i++)
        if (all[i].next_tag > tag)
            tag = all[i].next_tag;
    g->w->next_tag = tag + 3;
    qsort(all, (size_t)c->size, sizeof(*all), by_key);
    for (int i = c->size - 1; i >= 0; i--)
        if (all[i].color == color) {
            first = i;
            size++;
        }
    for (int i = 0; i < size; i++)
        if (all[first + i].rank == c->rank)
            rank = i;
    struct bn_comm *made = create(g->w, rank, size, tag);
    for (int i = 0; i < size; i++)
        group(made)->world_rank[i] = g->world_rank[all[first + i].rank];
    free(all);
    return made;
}

struct bn_comm *bn_comm_mpi(int rank, int size, double timeout,
                            const struct bn_watch *watch,
                            struct bn_err *err)
{
    struct bn_world *w = bn_world_open(rank, size, timeout, watch, err);

    if (w == NULL)
        return NULL;
    struct bn_comm *c = create(w, rank, size, w->next_tag);
    w->next_tag += 3;
    group(c)->owner = true;
    for (int r = 0; r < size; r++)
        group(c)->world_rank[r] = r;
    return c;
}
