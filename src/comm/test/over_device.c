#include "config.h"
#include "comm/test/over_device.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* What was begun: 'pieces' of 'bytes' are to be put at 'out', 'stride' apart;
 * of a reduction it is one. */
struct begun {
    struct bn_arena a;
    void *out; /* NULL: this rank is not the root */
    size_t bytes, stride;
    int pieces;
};

struct state {
    struct bn_comm *c;
    struct bn_dev *dev;
    struct bn_arena first; /* brings the back end's scratch along but once */
    struct begun begun[16];
    int n;
};

static struct state *state(const struct bn_comm *c)
{
    return c->state;
}

/* 'bytes' of device memory, with the contents of 'host' if that is given. */
static struct bn_arena lift(const struct bn_comm *c, const void *host,
                            size_t bytes)
{
    struct bn_dev *d = state(c)->dev;
    struct bn_arena a;
    struct bn_err err;

    if (d->op.arena_init(d, &a, "test", bytes + 1, &err) < 0)
        abort();
    if (host != NULL && bytes > 0)
        d->op.from_host(d, a.base, BN_U8, host, BN_U8, bytes);
    return a;
}

static int drop(const struct bn_comm *c, struct bn_arena *a, size_t from,
                void *host, size_t bytes, int rc, struct bn_err *err)
{
    struct bn_dev *d = state(c)->dev;

    if (rc == 0 && host != NULL && bytes > 0) {
        d->op.to_host(d, host, BN_U8, (char *)a->base + from, BN_U8, bytes);
        rc = bn_dev_check(d, err);
    }
    d->op.arena_release(d, a);
    return rc;
}

static int allreduce(struct bn_comm *c, void *buf, enum bn_dtype type, size_t n,
                     enum bn_comm_op op, struct bn_err *err)
{
    struct bn_comm *in = state(c)->c;
    size_t bytes = n * bn_dtype_size(type);
    struct bn_arena a = lift(c, buf, bytes);
    int rc = in->ops->allreduce(in, a.base, type, n, op, err);

    return drop(c, &a, 0, buf, bytes, rc, err);
}

/* Whether 'p' lies in the 'bytes' from 'base', and where. */
static bool inside(const void *p, const void *base, size_t bytes, size_t *at)
{
    const char *x = p, *b = base;

    *at = x >= b && x < b + bytes ? (size_t)(x - b) : 0;
    return x >= b && x < b + bytes;
}

static int reduce_scatter(struct bn_comm *c, void *out, const void *in,
                          enum bn_dtype type, size_t n, struct bn_err *err)
{
    struct bn_comm *under = state(c)->c;
    size_t bytes = n * bn_dtype_size(type), whole = bytes * (size_t)c->size;
    size_t at;
    struct bn_arena a = lift(c, in, whole), b = {0};

    if (inside(out, in, whole, &at)) {
        int rc = under->ops->reduce_scatter(under, (char *)a.base + at, a.base,
                                            type, n, err);
        return drop(c, &a, at, out, bytes, rc, err);
    }
    b = lift(c, NULL, bytes);
    int rc = under->ops->reduce_scatter(under, b.base, a.base, type, n, err);
    drop(c, &a, 0, NULL, 0, 0, NULL);
    return drop(c, &b, 0, out, bytes, rc, err);
}

static int reduce(struct bn_comm *c, void *out, const void *in,
                  enum bn_dtype type, size_t n, int root, struct bn_err *err)
{
    struct bn_comm *under = state(c)->c;
    size_t bytes = n * bn_dtype_size(type);
    struct bn_arena a = lift(c, in, bytes);
    bool mine = c->rank == root;
    /* In place there is as good as anywhere. */
    int rc = under->ops->reduce(under, mine ? a.base : NULL, a.base, type, n,
                                root, err);

    return drop(c, &a, 0, mine ? out : NULL, bytes, rc, err);
}

static int reduce_begin(struct bn_comm *c, void *out, const void *in,
                        enum bn_dtype type, size_t n, int root,
                        struct bn_err *err)
{
    struct bn_comm *under = state(c)->c;
    struct begun *b = &state(c)->begun[state(c)->n++];
    size_t bytes = n * bn_dtype_size(type);
    bool mine = c->rank == root;

    *b = (struct begun){lift(c, in, bytes), mine ? out : NULL, bytes, 0, 1};
    return under->ops->reduce_begin(under, mine ? b->a.base : NULL, b->a.base,
                                    type, n, root, err);
}

/* Only the pieces lie in device memory, with a gap of their own. */
static int allgather_begin(struct bn_comm *c, void *out, size_t bytes,
                           size_t stride, struct bn_err *err)
{
    struct bn_comm *under = state(c)->c;
    struct begun *b = &state(c)->begun[state(c)->n++];
    struct bn_dev *d = state(c)->dev;
    size_t gap = bytes + 16, at = (size_t)c->rank * gap;

    *b = (struct begun){lift(c, NULL, (size_t)c->size * gap), out, bytes,
                        stride, c->size};
    d->op.from_host(d, b->a.base + at, BN_U8,
                    (char *)out + (size_t)c->rank * stride, BN_U8, bytes);
    return under->ops->allgather_begin(under, b->a.base, bytes, gap, err);
}

static int finish(struct bn_comm *c, struct bn_err *err)
{
    struct bn_dev *d = state(c)->dev;
    int rc = state(c)->c->ops->finish(state(c)->c, err);

    for (int i = 0; i < state(c)->n; i++) {
        struct begun *b = &state(c)->begun[i];

        for (size_t k = 1; rc == 0 && k < (size_t)b->pieces; k++)
            d->op.to_host(d, (char *)b->out + k * b->stride, BN_U8,
                          b->a.base + k * (b->bytes + 16), BN_U8, b->bytes);
        rc = drop(c, &b->a, 0, b->out, b->bytes, rc, err);
    }
    state(c)->n = 0;
    return rc;
}

static int allgather(struct bn_comm *c, void *out, const void *in,
                     enum bn_dtype type, size_t n, struct bn_err *err)
{
    struct bn_comm *under = state(c)->c;
    size_t bytes = n * bn_dtype_size(type), whole = bytes * (size_t)c->size;
    size_t at;
    struct bn_arena a, b;

    if (inside(in, out, whole, &at)) {
        a = lift(c, out, whole);
        int rc = under->ops->allgather(under, a.base, (char *)a.base + at, type,
                                       n, err);
        return drop(c, &a, 0, out, whole, rc, err);
    }
    a = lift(c, NULL, whole);
    b = lift(c, in, bytes);
    int rc = under->ops->allgather(under, a.base, b.base, type, n, err);
    drop(c, &b, 0, NULL, 0, 0, NULL);
    return drop(c, &a, 0, out, whole, rc, err);
}

static int bcast(struct bn_comm *c, void *buf, size_t bytes, int root,
                 struct bn_err *err)
{
    struct bn_comm *under = state(c)->c;
    struct bn_arena a = lift(c, buf, bytes);
    int rc = under->ops->bcast(under, a.base, bytes, root, err);

    return drop(c, &a, 0, buf, bytes, rc, err);
}

static int sendrecv(struct bn_comm *c, const void *out, size_t out_bytes,
                    int to, void *in, size_t in_bytes, int from,
                    struct bn_err *err)
{
    struct bn_comm *under = state(c)->c;
    struct bn_arena a = lift(c, out, out_bytes), b = lift(c, NULL, in_bytes);
    int rc = under->ops->sendrecv(under, a.base, out_bytes, to, b.base,
                                  in_bytes, from, err);

    rc = drop(c, &b, 0, in, in_bytes, rc, err);
    drop(c, &a, 0, NULL, 0, 0, NULL);
    return rc;
}

static int send(struct bn_comm *c, const void *buf, size_t bytes, int to,
                struct bn_err *err)
{
    struct bn_comm *under = state(c)->c;
    struct bn_arena a = lift(c, buf, bytes);
    int rc = under->ops->send(under, a.base, bytes, to, err);

    return drop(c, &a, 0, NULL, 0, rc, err);
}

static int recv(struct bn_comm *c, void *buf, size_t bytes, int from,
                struct bn_err *err)
{
    struct bn_comm *under = state(c)->c;
    struct bn_arena a = lift(c, NULL, bytes);
    int rc = under->ops->recv(under, a.base, bytes, from, err);

    return drop(c, &a, 0, buf, bytes, rc, err);
}

static int barrier(struct bn_comm *c, struct bn_err *err)
{
    return state(c)->c->ops->barrier(state(c)->c, err);
}

static struct bn_comm *split(struct bn_comm *c, int color, int key,
                             struct bn_err *err)
{
    struct bn_comm *made =
        state(c)->c->ops->split(state(c)->c, color, key, err);

    return made != NULL ? over_device(made, state(c)->dev) : NULL;
}

static void leave(struct bn_comm *c)
{
    state(c)->c->ops->leave(state(c)->c);
}

static void stop(struct bn_comm *c, enum bn_err_code code)
{
    state(c)->c->ops->abort(state(c)->c, code);
}

static void destroy(struct bn_comm *c)
{
    struct bn_dev *d = state(c)->dev;

    bn_comm_destroy(state(c)->c);
    d->op.arena_release(d, &state(c)->first);
    free(c->state);
    free(c);
}

static const struct bn_comm_ops over_ops = {
    .name = "over device",
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

struct bn_comm *over_device(struct bn_comm *c, struct bn_dev *dev)
{
    struct bn_comm *made = BN_NEW(struct bn_comm);
    struct state *s = BN_NEW(struct state);

    *s = (struct state){.c = c, .dev = dev};
    *made = (struct bn_comm){c->rank, c->size, &over_ops, s};
    s->first = lift(made, NULL, 0);
    return made;
}
