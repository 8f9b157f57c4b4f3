#include "config.h"
#include "model/seq.h"

int bn_seq_pad(const struct bn_mesh *mesh, int n)
{
    int ranks = mesh->sequence ? mesh->tp.size : 1;

    return (n + ranks - 1) / ranks;
}

/* The first of a rank's rows. */
static int first_row(const struct bn_mesh *mesh, int n)
{
    int at = mesh->sequence ? mesh->tp.index * bn_seq_pad(mesh, n) : 0;

    return at < n ? at : n;
}

int bn_seq_rows(const struct bn_mesh *mesh, int n)
{
    int rest = n - first_row(mesh, n), most = bn_seq_pad(mesh, n);

    return rest < most ? rest : most;
}

/* Elements of a rank's rows, with what pads them. */
static size_t share(const struct bn_model *m, const struct bn_acts *a)
{
    return (size_t)bn_seq_pad(m->mesh, a->n) * (size_t)m->cfg.hidden_size;
}

/* In a buffer of all rows, the place of those of rank tp.index. */
static char *place(const struct bn_model *m, const struct bn_acts *a,
                   void *all)
{
    size_t before = m->mesh->sequence ? (size_t)m->mesh->tp.index : 0;

    return (char *)all + before * share(m, a) * bn_dtype_size(m->t);
}

void *bn_seq_mine(const struct bn_model *m, const struct bn_acts *a, void *all)
{
    return place(m, a, all);
}

static void check(struct bn_model *m, int rc, const struct bn_err *err)
{
    if (rc < 0)
        bn_dev_fail(m->dev, err->code, "%s", err->text);
}

static void gather(struct bn_model *m, struct bn_acts *a, void *all,
                   const void *mine)
{
    struct bn_comm *c = m->mesh->tp.comm;
    struct bn_err err;

    if (!m->dev->failed)
        check(m, c->ops->allgather(c, all, mine, m->t, share(m, a), &err),
              &err);
}

const void *bn_seq_all(struct bn_model *m, struct bn_acts *a, const void *mine)
{
    if (!m->mesh->sequence)
        return mine;
    gather(m, a, a->all, mine);
    return a->all;
}

void bn_seq_gather(struct bn_model *m, struct bn_acts *a, void *all)
{
    if (m->mesh->sequence)
        gather(m, a, all, place(m, a, all));
}

void bn_seq_sum_to(struct bn_model *m, struct bn_acts *a, void *mine,
                   void *all)
{
    struct bn_comm *c = m->mesh->tp.comm;
    struct bn_err err;

    if (!m->dev->failed)
        check(m, c->ops->reduce_scatter(c, mine, all, m->t, share(m, a), &err),
              &err);
}

void bn_seq_sum(struct bn_model *m, struct bn_acts *a, void *all)
{
    struct bn_comm *c = m->mesh->tp.comm;
    struct bn_err err;

    if (m->mesh->sequence)
        bn_seq_sum_to(m, a, place(m, a, all), all);
    else if (c->size > 1 && !m->dev->failed)
        check(m, c->ops->allreduce(c, all, m->t, share(m, a), BN_SUM, &err),
              &err);
}
