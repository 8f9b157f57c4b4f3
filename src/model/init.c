#include "config.h"
#include "model/init.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "tensor/convert.h"

#include <math.h>
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

/* Elements at .. at+n-1 of the stream. Elements 2k and 2k + 1 share one draw
 * (Box-Muller), whose halves are uniforms of 32 bits: enough for 6.6 standard
 * deviations, at a quarter of the time of one draw of 53 bits each. */
static void normals(uint64_t seed, uint64_t stream, uint64_t at, size_t n,
                    double std, float *out)
{
    for (size_t i = 0; i < n;) {
        uint64_t bits = bn_rng_u64(seed, stream, (at + i) / 2);
        double u = ((double)(bits >> 32) + 0.5) * 0x1p-32;
        double angle = (double)(bits & UINT32_MAX) * 0x1p-32 * 2 * M_PI;
        double r = std * sqrt(-2 * log(u));

        if ((at + i) % 2 == 0) {
            out[i++] = (float)(r * cos(angle));
            if (i == n)
                return;
        }
        out[i++] = (float)(r * sin(angle));
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

        if (p->ndim == 2)
            normals(j->seed, stream, at, cols, j->std, row);
        else
            row[0] = constant_of(p->kind);
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
