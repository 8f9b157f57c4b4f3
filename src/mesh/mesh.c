#include "config.h"
#include "mesh/mesh.h"

#include <stdint.h>

static int split(struct bn_mesh *m, struct bn_axis *a, int size, int index,
                 int color, struct bn_err *err)
{
    a->size = size;
    a->index = index;
    a->comm = m->world->ops->split(m->world, color, index, err);
    return a->comm != NULL ? 0 : -1;
}

static int split_ends(struct bn_mesh *m, struct bn_err *err)
{
    bool end = m->pp.index == 0 || m->pp.index == m->pp.size - 1;
    struct bn_comm *c;

    if (m->pp.size == 1)
        return 0;
    c = m->pp.comm->ops->split(m->pp.comm, end, m->pp.index, err);
    if (c == NULL)
        return -1;
    if (end)
        m->ends = c;
    else
        bn_comm_destroy(c);
    return 0;
}

/* Ranks of different layouts would wait for each other in different groups. */
static int same_sizes(struct bn_comm *world, const int size[4],
                      struct bn_err *err)
{
    static const char *const axis[] = {"tensor", "pipeline", "context",
                                       "data"};
    int64_t v[8]; /* so that a maximum finds the smallest, too */

    if (world->size == 1)
        return 0;
    for (int i = 0; i < 4; i++) {
        v[i] = size[i];
        v[i + 4] = -size[i];
    }
    if (world->ops->allreduce(world, v, BN_I64, 8, BN_MAX, err) < 0)
        return -1;
    for (int i = 0; i < 4; i++)
        if (v[i] != -v[i + 4])
            return bn_fail(err, BN_ERR_USAGE, "ranks were not started with "
                           "the same run: %s_parallel_size is from %d to %d, "
                           "and %d on this one", axis[i], (int)-v[i + 4],
                           (int)v[i], size[i]);
    return 0;
}

int bn_mesh_init(struct bn_mesh *m, struct bn_comm *world, int dp, int tp,
                 int pp, int cp, struct bn_err *err)
{
    struct bn_mesh got = {.world = world};
    int rest = tp * pp * cp;
    int r = world->rank;

    if (tp < 1 || pp < 1 || cp < 1 || dp < 0)
        return bn_fail(err, BN_ERR_USAGE, "mesh sizes must be positive: dp %d"
                       " tp %d pp %d cp %d", dp, tp, pp, cp);
    if (dp == 0 && world->size >= rest)
        dp = world->size / rest;
    if (dp * rest != world->size)
        return bn_fail(err, BN_ERR_USAGE, "parallel sizes (data %d x tensor "
                       "%d x pipeline %d x context %d) do not make the %d "
                       "ranks that were started", dp > 0 ? dp : 1, tp, pp, cp,
                       world->size);
    if (same_sizes(world, (int[]){tp, pp, cp, dp}, err) < 0)
        return -1;
    int ti = r % tp, ci = r / tp % cp, di = r / tp / cp % dp;
    int pi = r / tp / cp / dp;
    /* The color of a group is its rank with that axis' coordinate zero. */
    if (split(&got, &got.tp, tp, ti, r - ti, err) < 0
        || split(&got, &got.cp, cp, ci, r - ci * tp, err) < 0
        || split(&got, &got.dp, dp, di, r - di * tp * cp, err) < 0
        || split(&got, &got.pp, pp, pi, r - pi * tp * cp * dp, err) < 0
        || split(&got, &got.data, dp * cp, di * cp + ci,
                 r - (di * cp + ci) * tp, err) < 0) {
        bn_mesh_release(&got);
        return -1;
    }
    if (split_ends(&got, err) < 0) {
        bn_mesh_release(&got);
        return -1;
    }
    *m = got;
    return 0;
}

void bn_mesh_release(struct bn_mesh *m)
{
    bn_comm_destroy(m->tp.comm);
    bn_comm_destroy(m->cp.comm);
    bn_comm_destroy(m->dp.comm);
    bn_comm_destroy(m->pp.comm);
    bn_comm_destroy(m->data.comm);
    bn_comm_destroy(m->ends);
    *m = (struct bn_mesh){0};
}
