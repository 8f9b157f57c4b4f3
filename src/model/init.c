#include "config.h"
#include "model/init.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "tensor/convert.h"

#include <stdlib.h>
#include <string.h>

struct job {
    const struct bn_params *ps;
    double std;
    uint64_t seed;
    char *flat;
    enum bn_dtype dtype;
    int threads;
};

static float constant_of(enum bn_param_kind kind)
{
    switch (kind) {
    case BN_P_ATTN_NORM:
    case BN_P_MLP_NORM:
    case BN_P_FINAL_NORM:
    case BN_P_Q_NORM:
    case BN_P_K_NORM:
        return 1;
    default:
        return 0;
    }
}

/* Rows 'y', 'y' + step, ... */
static void fill(const struct job *j, const struct bn_param *p, int y,
                 int step)
{
    size_t size = bn_dtype_size(j->dtype), cols = (size_t)p->cols;
    uint64_t stream = bn_hash_bytes(p->name, strlen(p->name)).lo;
    float *row = BN_NEWN(float, cols);

    for (; y < p->rows; y += step) {
        uint64_t at = (uint64_t)(p->row0 + y) * (uint64_t)p->full_cols
                      + (uint64_t)p->col0;

        for (size_t x = 0; x < cols; x++)
            row[x] = p->ndim == 2
                         ? (float)(j->std
                                   * bn_rng_normal(j->seed, stream, at + x))
                         : constant_of(p->kind);
        bn_convert(j->flat + (p->offset + (size_t)y * cols) * size, j->dtype,
                   row, BN_F32, cols);
    }
    free(row);
}

static void work(void *arg, int index)
{
    const struct job *j = arg;

    for (int i = 0; i < j->ps->n; i++)
        fill(j, &j->ps->item[i], index, j->threads);
}

void bn_params_randomize(const struct bn_params *ps,
                         const struct bn_model_config *c, uint64_t seed,
                         void *flat, enum bn_dtype dtype)
{
    struct job j = {ps, c->init_std, seed, flat, dtype, bn_cpu_count()};

    memset(flat, 0, ps->elems * bn_dtype_size(dtype));
    bn_parallel(j.threads, work, &j);
}
