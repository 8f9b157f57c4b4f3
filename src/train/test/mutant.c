/* burnish-train with a fault planted by the linker (--wrap), for tests of the
 * tests: BN_MUTANT=lose|twice|sum|denominator|early|rows|norms|stale|slow;
 * unset: none.
 */
#include "config.h"
#include "base/mem.h"
#include "comm/fold.h"
#include "mesh/split.h"
#include "model/seq.h"
#include "train/pipeline.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int __real_bn_mesh_split(struct bn_batch *out, const struct bn_batch *whole,
                         int size, int rank, struct bn_err *err);
int __wrap_bn_mesh_split(struct bn_batch *out, const struct bn_batch *whole,
                         int size, int rank, struct bn_err *err);
int __real_bn_fold(void *out, const void *const *in, int count,
                   enum bn_dtype type, size_t n, enum bn_comm_op op,
                   struct bn_err *err);
int __wrap_bn_fold(void *out, const void *const *in, int count,
                   enum bn_dtype type, size_t n, enum bn_comm_op op,
                   struct bn_err *err);
int __real_bn_pipeline_train(struct bn_trainer *t, const struct bn_micro *m,
                             int n, bool full, int *where, bool *stopped,
                             struct bn_err *err);
int __wrap_bn_pipeline_train(struct bn_trainer *t, const struct bn_micro *m,
                             int n, bool full, int *where, bool *stopped,
                             struct bn_err *err);

void __real_bn_optim_made(void *optim, int layer);
void __wrap_bn_optim_made(void *optim, int layer);

int __real_bn_seq_rows(const struct bn_mesh *mesh, int n);
int __wrap_bn_seq_rows(const struct bn_mesh *mesh, int n);
int __real_bn_optim_reduce(struct bn_optim *o, struct bn_err *err);
int __wrap_bn_optim_reduce(struct bn_optim *o, struct bn_err *err);

int __real_bn_head_queue(struct bn_model *m, struct bn_head *h,
                         const struct bn_batch *b, const void *y, void *d_y,
                         const struct bn_head_job *job, struct bn_err *err);
int __wrap_bn_head_queue(struct bn_model *m, struct bn_head *h,
                         const struct bn_batch *b, const void *y, void *d_y,
                         const struct bn_head_job *job, struct bn_err *err);

struct bn_later;
void __real_bn_later_allgather(struct bn_later *l, void *out, size_t bytes,
                               size_t stride);
void __wrap_bn_later_allgather(struct bn_later *l, void *out, size_t bytes,
                               size_t stride);

static bool planted(const char *what)
{
    const char *m = getenv("BN_MUTANT");

    return m != NULL && strcmp(m, what) == 0;
}

int __wrap_bn_mesh_split(struct bn_batch *out, const struct bn_batch *whole,
                         int size, int rank, struct bn_err *err)
{
    struct bn_batch again;

    if (__real_bn_mesh_split(out, whole, size, rank, err) < 0)
        return -1;
    if (planted("twice"))
        return __real_bn_mesh_split(&again, out, size, rank, err);
    if (planted("lose")) /* what a second split leaves of the targets */
        out->nscore /= size;
    return 0;
}

int __wrap_bn_fold(void *out, const void *const *in, int count,
                   enum bn_dtype type, size_t n, enum bn_comm_op op,
                   struct bn_err *err)
{
    if (type == BN_F32 && op == BN_SUM && planted("sum"))
        count--;
    return __real_bn_fold(out, in, count, type, n, op, err);
}

int __wrap_bn_seq_rows(const struct bn_mesh *mesh, int n)
{
    int rows = __real_bn_seq_rows(mesh, n);

    /* The last row of all would be missed by nobody. */
    return planted("rows") && mesh->tp.index == 0 ? rows - 1 : rows;
}

/* Norms: what tensor ranks have of the gradients of norms is not summed, as
 * it need not be where each has all rows. */
int __wrap_bn_optim_reduce(struct bn_optim *o, struct bn_err *err)
{
    struct bn_mesh mesh = *o->model->mesh;
    const struct bn_mesh *was = o->model->mesh;

    if (planted("norms")) {
        mesh.sequence = false;
        o->model->mesh = &mesh;
    }
    int rc = __real_bn_optim_reduce(o, err);

    o->model->mesh = was;
    return rc;
}

#ifdef HAVE_MPI
/* Stale: of updated weights a part stays what it was on the other ranks. */
void __wrap_bn_later_allgather(struct bn_later *l, void *out, size_t bytes,
                               size_t stride)
{
    __real_bn_later_allgather(l, out, planted("stale") ? bytes / 2 : bytes,
                              stride);
}
#endif

int __wrap_bn_head_queue(struct bn_model *m, struct bn_head *h,
                         const struct bn_batch *b, const void *y, void *d_y,
                         const struct bn_head_job *job, struct bn_err *err)
{
    if (planted("slow"))
        usleep(200000);
    return __real_bn_head_queue(m, h, b, y, d_y, job, err);
}

/* Early: gradients are summed before they are made. */
void __wrap_bn_optim_made(void *optim, int layer)
{
    struct bn_optim *o = optim;
    struct bn_comm *data = o->model->mesh->data.comm;
    struct bn_err err;

    if (!planted("early")) {
        __real_bn_optim_made(optim, layer);
        return;
    }
    __real_bn_optim_made(optim, layer > 0 ? layer - 1 : 0);
    if (data->ops->finish(data, &err) < 0)
        bn_dev_fail(o->model->dev, err.code, "%s", err.text);
}

int __wrap_bn_pipeline_train(struct bn_trainer *t, const struct bn_micro *m,
                             int n, bool full, int *where, bool *stopped,
                             struct bn_err *err)
{
    struct bn_micro *local = bn_realloc(NULL, (size_t)n, sizeof(*m));
    int rc;

    memcpy(local, m, (size_t)n * sizeof(*m));
    for (int i = 0; planted("denominator") && i < n; i++) {
        local[i].denom.tokens /= t->mesh->dp.size;
        local[i].denom.examples /= t->mesh->dp.size;
    }
    rc = __real_bn_pipeline_train(t, local, n, full, where, stopped, err);
    free(local);
    return rc;
}
