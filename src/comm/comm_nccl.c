#include "config.h"
#include "comm/nccl_state.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct bn_nccl_group *group(const struct bn_comm *c)
{
    return c->state;
}

/* --- Types --------------------------------------------------------------- */

static int type_of(enum bn_dtype t, ncclDataType_t *out, struct bn_err *err)
{
    switch (t) {
    case BN_F32:
        *out = ncclFloat32;
        return 0;
    case BN_BF16:
        *out = ncclBfloat16;
        return 0;
    case BN_F64:
        *out = ncclFloat64;
        return 0;
    case BN_I64:
        *out = ncclInt64;
        return 0;
    default:
        return bn_fail(err, BN_ERR_BUG, "no sums of %s", bn_dtype_name(t));
    }
}

static ncclRedOp_t op_of(enum bn_comm_op op)
{
    return op == BN_SUM ? ncclSum : op == BN_MAX ? ncclMax : ncclMin;
}

/* Whether a buffer is the device's; one of no bytes may be anywhere. */
static bool on_device(const void *p)
{
    struct cudaPointerAttributes a;

    if (cudaPointerGetAttributes(&a, p) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    return a.type == cudaMemoryTypeDevice || a.type == cudaMemoryTypeManaged;
}

/* --- Slots ---------------------------------------------------------------- */

/* In a group of one. */
static int copy(struct bn_nccl *w, void *out, const void *in, size_t bytes,
                struct bn_err *err)
{
    if (out == in || bytes == 0)
        return 0;
    if (!on_device(out)) {
        memcpy(out, in, bytes);
        return 0;
    }
    cudaError_t e =
        cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice, w->compute);
    return e == cudaSuccess ? 0
                            : bn_fail(err, BN_ERR_BUG,
                                      "copy in a group of "
                                      "one: %s",
                                      cudaGetErrorString(e));
}

static int allreduce(struct bn_comm *c, void *buf, enum bn_dtype type, size_t n,
                     enum bn_comm_op op, struct bn_err *err)
{
    struct bn_nccl_call k = {.kind = BN_NCCL_ALLREDUCE,
                             .what = "allreduce",
                             .in = buf,
                             .out = buf,
                             .n = n,
                             .op = op_of(op)};

    if (type_of(type, &k.type, err) < 0)
        return -1;
    if (c->size == 1 || n == 0)
        return 0;
    if (on_device(buf))
        return bn_nccl_enqueue(group(c), &k, err);
    return bn_nccl_host_allreduce(group(c), &k, buf, n, bn_dtype_size(type),
                                  err);
}

static int reduce_scatter(struct bn_comm *c, void *out, const void *in,
                          enum bn_dtype type, size_t n, struct bn_err *err)
{
    struct bn_nccl_call k = {.kind = BN_NCCL_REDUCE_SCATTER,
                             .what = "reduce-scatter",
                             .in = in,
                             .out = out,
                             .n = n};

    if (type_of(type, &k.type, err) < 0)
        return -1;
    if (c->size == 1 || n == 0)
        return copy(group(c)->w, out, in, n * bn_dtype_size(type), err);
    if (on_device(out))
        return bn_nccl_enqueue(group(c), &k, err);
    return bn_nccl_host_reduce_scatter(group(c), &k, out, in, n,
                                       bn_dtype_size(type), err);
}

static int reduce_at(struct bn_comm *c, void *out, const void *in,
                     enum bn_dtype type, size_t n, int root, bool later,
                     struct bn_err *err)
{
    struct bn_nccl_call k = {.kind = BN_NCCL_REDUCE,
                             .what = "reduce",
                             .in = in,
                             .out = out,
                             .n = n,
                             .from = root,
                             .later = later};

    if (type_of(type, &k.type, err) < 0)
        return -1;
    if (c->size == 1 || n == 0)
        return copy(group(c)->w, out, in, n * bn_dtype_size(type), err);
    if (on_device(in))
        return bn_nccl_enqueue(group(c), &k, err);
    return bn_nccl_host_reduce(group(c), &k, out, in, n, bn_dtype_size(type),
                               err);
}

static int reduce(struct bn_comm *c, void *out, const void *in,
                  enum bn_dtype type, size_t n, int root, struct bn_err *err)
{
    return reduce_at(c, out, in, type, n, root, false, err);
}

/* Host memory does not wait for the device: it is reduced at once. */
static int reduce_begin(struct bn_comm *c, void *out, const void *in,
                        enum bn_dtype type, size_t n, int root,
                        struct bn_err *err)
{
    return reduce_at(c, out, in, type, n, root, n > 0 && on_device(in), err);
}

static int finish(struct bn_comm *c, struct bn_err *err)
{
    return bn_nccl_finish(group(c)->w, err);
}

static int allgather(struct bn_comm *c, void *out, const void *in,
                     enum bn_dtype type, size_t n, struct bn_err *err)
{
    size_t bytes = n * bn_dtype_size(type);
    struct bn_nccl_call k = {.kind = BN_NCCL_ALLGATHER,
                             .what = "allgather",
                             .in = in,
                             .out = out,
                             .n = bytes};

    if (c->size == 1 || n == 0)
        return copy(group(c)->w, out, in, bytes, err);
    if (on_device(out))
        return bn_nccl_enqueue(group(c), &k, err);
    return bn_nccl_host_allgather(group(c), &k, out, in, bytes, err);
}

static int bcast(struct bn_comm *c, void *buf, size_t bytes, int root,
                 struct bn_err *err)
{
    struct bn_nccl_call k = {.kind = BN_NCCL_BCAST,
                             .what = "broadcast",
                             .in = buf,
                             .out = buf,
                             .n = bytes,
                             .from = root};

    if (c->size == 1 || bytes == 0)
        return 0;
    if (on_device(buf))
        return bn_nccl_enqueue(group(c), &k, err);
    return bn_nccl_host_bcast(group(c), &k, buf, bytes, err);
}

/* Of host memory it is as many broadcasts, at once. */
static int allgather_begin(struct bn_comm *c, void *out, size_t bytes,
                           size_t stride, struct bn_err *err)
{
    const struct bn_nccl_call k = {.kind = BN_NCCL_GATHER,
                                   .what = "allgather",
                                   .out = out,
                                   .n = bytes,
                                   .stride = stride,
                                   .later = true};

    if (c->size == 1 || bytes == 0)
        return 0;
    if (on_device(out))
        return bn_nccl_enqueue(group(c), &k, err);
    for (int r = 0; r < c->size; r++)
        if (bcast(c, (char *)out + (size_t)r * stride, bytes, r, err) < 0)
            return -1;
    return 0;
}

static int sendrecv(struct bn_comm *c, const void *out, size_t out_bytes,
                    int to, void *in, size_t in_bytes, int from,
                    struct bn_err *err)
{
    bool sends = to >= 0 && out_bytes > 0, takes = from >= 0 && in_bytes > 0;
    struct bn_nccl_call k = {.kind = BN_NCCL_SENDRECV,
                             .what = "exchange",
                             .in = out,
                             .out = in,
                             .n = sends ? out_bytes : 0,
                             .n_out = takes ? in_bytes : 0,
                             .to = sends ? to : -1,
                             .from = takes ? from : -1};

    if (!sends && !takes)
        return 0;
    if (c->size == 1)
        return bn_fail(err, BN_ERR_BUG, "a message in a group of one");
    bool device = on_device(sends ? out : in);
    if (sends && takes && on_device(in) != device)
        return bn_fail(err, BN_ERR_BUG,
                       "exchange of host and device memory "
                       "in one call");
    if (device)
        return bn_nccl_enqueue(group(c), &k, err);
    return bn_nccl_host_sendrecv(group(c), &k, out, k.n, in, k.n_out, err);
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
    int64_t one = 1;

    return allreduce(c, &one, BN_I64, 1, BN_SUM, err);
}

static void leave(struct bn_comm *c)
{
    struct bn_nccl *w = group(c)->w;
    struct bn_err why;

    bn_fail(&why, BN_ERR_BUG, "this rank has left its world");
    pthread_mutex_lock(&w->lock);
    bn_nccl_break(w, &why, false);
    pthread_mutex_unlock(&w->lock);
}

static void stop(struct bn_comm *c, enum bn_err_code code)
{
    leave(c);
    _exit((int)code); /* srun --kill-on-bad-exit, mpirun end the others */
}

static struct bn_comm *split(struct bn_comm *c, int color, int key,
                             struct bn_err *err);
static void destroy(struct bn_comm *c);

static const struct bn_comm_ops nccl_ops = {
    .name = "nccl",
    .enqueues = true,
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

/* --- Groups --------------------------------------------------------------- */

/* The caller fills world_rank and comm. */
static struct bn_comm *create(struct bn_nccl *w, int rank, int size)
{
    struct bn_comm *c = BN_NEW(struct bn_comm);
    struct bn_nccl_group *g = BN_NEW(struct bn_nccl_group);

    g->w = w;
    g->rank = rank;
    g->size = size;
    g->world_rank = BN_NEWN(int, (size_t)size);
    *c = (struct bn_comm){rank, size, &nccl_ops, g};
    pthread_mutex_lock(&w->lock);
    g->next = w->groups;
    w->groups = g;
    pthread_mutex_unlock(&w->lock);
    return c;
}

static void unlink_group(struct bn_nccl_group *g)
{
    struct bn_nccl *w = g->w;
    struct bn_nccl_group **at = &w->groups;
    struct timespec t = {.tv_nsec = 1000000};

    pthread_mutex_lock(&w->lock);
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    while (w->looking == g) {
        pthread_mutex_unlock(&w->lock);
        nanosleep(&t, NULL);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

static void end_nccl(struct bn_nccl_group *g)
{
    ncclComm_t comm;

    /* Of a broken world an abort is at work on it, or is over. */
    pthread_mutex_lock(&g->w->lock);
    comm = g->w->broken ? NULL : g->comm;
    pthread_mutex_unlock(&g->w->lock);
    if (comm == NULL)
        return;
    if (bn_nccl_settle(g, comm, ncclCommFinalize(comm),
                       "end of a communicator", NULL)
        < 0)
        return; /* aborted with the rest */
    pthread_mutex_lock(&g->w->lock);
    comm = g->comm;
    g->comm = NULL;
    pthread_mutex_unlock(&g->w->lock);
    if (comm != NULL)
        (void)ncclCommDestroy(comm);
}

static void destroy(struct bn_comm *c)
{
    struct bn_nccl_group *g = group(c);
    struct bn_nccl *w = g->w;

    /* Nobody leaves while another may still need it. */
    if (g->owner)
        (void)barrier(c, NULL);
    (void)bn_nccl_wait(w, NULL);
    end_nccl(g);
    unlink_group(g);
    if (g->owner)
        bn_nccl_close(w);
    free(g->world_rank);
    free(g);
    free(c);
}

/* What a rank says at a split. */
struct vote {
    int color, key, rank;
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

/* NCCL's part of a split: every rank of 'g' takes part, but a group of one
 * needs no communicator. NCCL puts the new one in its place in the background,
 * once it is made; until the old one says so it is NULL. */
static int split_nccl(struct bn_nccl_group *g, struct bn_nccl_group *made,
                      int color, struct bn_err *err)
{
    struct bn_nccl *w = g->w;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t r = ncclInProgress;

    config.blocking = 0;
    pthread_mutex_lock(&w->lock);
    if (!w->broken)
        r = ncclCommSplit(g->comm, made->size > 1 ? color : NCCL_SPLIT_NOCOLOR,
                          made->rank, &made->comm, &config);
    pthread_mutex_unlock(&w->lock);
    if (bn_nccl_settle(g, g->comm, r, "split of a communicator", err) < 0)
        return -1;
    return made->size == 1 ? 0
                           : bn_nccl_settle(made, made->comm, ncclInProgress,
                                            "start of a communicator", err);
}

static struct bn_comm *split(struct bn_comm *c, int color, int key,
                             struct bn_err *err)
{
    struct bn_nccl_group *g = group(c), *m;
    struct vote me = {color, key, c->rank};
    struct vote *all = BN_NEWN(struct vote, (size_t)c->size);
    int first = 0, size = 0, rank = 0;

    if (allgather(c, all, &me, BN_U8, sizeof(me), err) < 0) {
        free(all);
        return NULL;
    }
    qsort(all, (size_t)c->size, sizeof(*all), by_key);
    for (int i = c->size - 1; i >= 0; i--)
        if (all[i].color == color) {
            first = i;
            size++;
        }
    for (int i = 0; i < size; i++)
        if (all[first + i].rank == c->rank)
            rank = i;
    struct bn_comm *made = create(g->w, rank, size);
    m = group(made);
    snprintf(m->name, sizeof(m->name), "%.30s.%d:%d", g->name, g->splits++,
             color);
    for (int i = 0; i < size; i++)
        m->world_rank[i] = g->world_rank[all[first + i].rank];
    free(all);
    if (c->size == 1 || split_nccl(g, m, color, err) == 0)
        return made;
    bn_comm_destroy(made);
    return NULL;
}

/* --- The world ------------------------------------------------------------ */

int bn_nccl_id(struct bn_nccl_id *id, struct bn_err *err)
{
    ncclUniqueId u;
    ncclResult_t r = ncclGetUniqueId(&u);

    _Static_assert(sizeof(u) == sizeof(id->bytes), "an id of NCCL");
    if (r != ncclSuccess)
        return bn_fail(err, BN_ERR_AGAIN, "NCCL gives no id: %s: %s",
                       ncclGetErrorString(r), ncclGetLastError(NULL));
    memcpy(id->bytes, &u, sizeof(u));
    return 0;
}

/* Same ranks, same machines, same bits: a person's own setting stays. */
static void pin_order(void)
{
    setenv("NCCL_ALGO", "Ring", 0);
    setenv("NCCL_PROTO", "Simple", 0);
}

static int start(struct bn_comm *c, const struct bn_nccl_id *id,
                 struct bn_err *err)
{
    struct bn_nccl_group *g = group(c);
    struct bn_nccl *w = g->w;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    struct bn_peer me = bn_peer_self();
    ncclUniqueId u;

    memcpy(&u, id->bytes, sizeof(u));
    config.blocking = 0;
    ncclResult_t r =
        ncclCommInitRankConfig(&g->comm, c->size, u, c->rank, &config);
    if (bn_nccl_settle(g, g->comm, r, "start of NCCL", err) < 0
        || bn_nccl_watch(w, err) < 0)
        return -1;
    return allgather(c, w->peer, &me, BN_U8, sizeof(me), err);
}

struct bn_comm *bn_comm_nccl(const struct bn_nccl_id *id,
                             const struct bn_nccl_options *o,
                             struct bn_dev *dev, struct bn_err *err)
{
    pin_order();
    struct bn_nccl *w = bn_nccl_open(o, dev, err);

    if (w == NULL)
        return NULL;
    struct bn_comm *c = create(w, o->rank, o->size);
    group(c)->owner = true;
    snprintf(group(c)->name, sizeof(group(c)->name), "0");
    for (int r = 0; r < o->size; r++)
        group(c)->world_rank[r] = r;
    if (start(c, id, err) == 0)
        return c;
    leave(c);
    bn_comm_destroy(c);
    return NULL;
}
