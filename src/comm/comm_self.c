/* A world of one: every collective is a copy, or nothing. */
#include "config.h"
#include "comm/comm.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static int allreduce(struct bn_comm *c, void *buf, enum bn_dtype type,
                     size_t n, enum bn_comm_op op, struct bn_err *err)
{
    (void)c, (void)buf, (void)type, (void)n, (void)op, (void)err;
    return 0;
}

static int copy(struct bn_comm *c, void *out, const void *in,
                enum bn_dtype type, size_t n, struct bn_err *err)
{
    (void)c, (void)err;
    if (out != in)
        memcpy(out, in, n * bn_dtype_size(type));
    return 0;
}

static int reduce(struct bn_comm *c, void *out, const void *in,
                  enum bn_dtype type, size_t n, int root, struct bn_err *err)
{
    (void)root;
    return copy(c, out, in, type, n, err);
}

static int finish(struct bn_comm *c, struct bn_err *err)
{
    (void)c, (void)err;
    return 0;
}

static int bcast(struct bn_comm *c, void *buf, size_t bytes, int root,
                 struct bn_err *err)
{
    (void)c, (void)buf, (void)bytes, (void)root, (void)err;
    return 0;
}

static int send(struct bn_comm *c, const void *buf, size_t bytes, int to,
                struct bn_err *err)
{
    (void)c, (void)buf, (void)bytes;
    return bn_fail(err, BN_ERR_BUG, "send to rank %d in a world of one", to);
}

static int recv(struct bn_comm *c, void *buf, size_t bytes, int from,
                struct bn_err *err)
{
    (void)c, (void)buf, (void)bytes;
    return bn_fail(err, BN_ERR_BUG, "receive from rank %d in a world of one",
                   from);
}

static int sendrecv(struct bn_comm *c, const void *out, size_t out_bytes,
                    int to, void *in, size_t in_bytes, int from,
                    struct bn_err *err)
{
    if (to >= 0 && send(c, out, out_bytes, to, err) < 0)
        return -1;
    return from >= 0 ? recv(c, in, in_bytes, from, err) : 0;
}

static int allgather_begin(struct bn_comm *c, void *out, size_t bytes,
                           size_t stride, struct bn_err *err)
{
    (void)c, (void)out, (void)bytes, (void)stride, (void)err;
    return 0; /* it is there */
}

static int barrier(struct bn_comm *c, struct bn_err *err)
{
    (void)c, (void)err;
    return 0;
}

static struct bn_comm *split(struct bn_comm *c, int color, int key,
                             struct bn_err *err)
{
    (void)c, (void)color, (void)key, (void)err;
    return bn_comm_self();
}

static void leave(struct bn_comm *c)
{
    (void)c;
}

static void stop(struct bn_comm *c, enum bn_err_code code)
{
    (void)c, (void)code; /* nobody else to tell */
}

static void destroy(struct bn_comm *c)
{
    free(c);
}

static const struct bn_comm_ops self_ops = {
    .name = "self",
    .allreduce = allreduce,
    .reduce_scatter = copy,
    .reduce = reduce,
    .reduce_begin = reduce, /* of one rank it is a copy */
    .allgather_begin = allgather_begin,
    .finish = finish,
    .allgather = copy,
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

struct bn_comm *bn_comm_self(void)
{
    struct bn_comm *c = BN_NEW(struct bn_comm);

    c->size = 1;
    c->ops = &self_ops;
    return c;
}
