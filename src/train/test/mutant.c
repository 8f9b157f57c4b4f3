/* burnish-train with a fault planted by the linker (--wrap), for tests of the
 * tests: BN_MUTANT=lose|twice|sum|denominator; unset: none.
 */
#include "config.h"
#include "base/mem.h"
#include "comm/fold.h"
#include "mesh/split.h"
#include "train/pipeline.h"

#include <stdlib.h>
#include <string.h>

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
                             int n, double *metrics, int *where,
                             bool *stopped, struct bn_err *err);
int __wrap_bn_pipeline_train(struct bn_trainer *t, const struct bn_micro *m,
                             int n, double *metrics, int *where,
                             bool *stopped, struct bn_err *err);

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

int __wrap_bn_pipeline_train(struct bn_trainer *t, const struct bn_micro *m,
                             int n, double *metrics, int *where,
                             bool *stopped, struct bn_err *err)
{
    struct bn_micro *local = bn_realloc(NULL, (size_t)n, sizeof(*m));
    int rc;

    memcpy(local, m, (size_t)n * sizeof(*m));
    for (int i = 0; planted("denominator") && i < n; i++) {
        local[i].denom.tokens /= t->mesh->dp.size;
        local[i].denom.examples /= t->mesh->dp.size;
    }
    rc = __real_bn_pipeline_train(t, local, n, metrics, where, stopped, err);
    free(local);
    return rc;
}
