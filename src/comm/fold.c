#include "config.h"
#include "comm/fold.h"
#include "kernels/number.h"

#include <stdint.h>
#include <string.h>

/* A block is summed aside, so that the output may be one of the inputs. */
enum { BLOCK = 1024 };

static void fold_f32(float *acc, const float *x, size_t n, enum bn_comm_op op)
{
    if (op == BN_SUM)
        for (size_t i = 0; i < n; i++)
            acc[i] += x[i];
    else if (op == BN_MAX)
        for (size_t i = 0; i < n; i++)
            acc[i] = x[i] > acc[i] ? x[i] : acc[i];
    else
        for (size_t i = 0; i < n; i++)
            acc[i] = x[i] < acc[i] ? x[i] : acc[i];
}

static void fold_f64(double *acc, const double *x, size_t n,
                     enum bn_comm_op op)
{
    for (size_t i = 0; i < n; i++) {
        if (op == BN_SUM)
            acc[i] += x[i];
        else if (op == BN_MAX ? x[i] > acc[i] : x[i] < acc[i])
            acc[i] = x[i];
    }
}

static void fold_i64(int64_t *acc, const int64_t *x, size_t n,
                     enum bn_comm_op op)
{
    for (size_t i = 0; i < n; i++) {
        if (op == BN_SUM)
            acc[i] += x[i];
        else if (op == BN_MAX ? x[i] > acc[i] : x[i] < acc[i])
            acc[i] = x[i];
    }
}

static void block_bf16(uint16_t *out, const void *const *in, int count,
                       size_t at, size_t n, enum bn_comm_op op)
{
    float acc[BLOCK], x[BLOCK];

    for (int r = 0; r < count; r++) {
        const uint16_t *b = (const uint16_t *)in[r] + at;
        float *to = r == 0 ? acc : x;

        for (size_t i = 0; i < n; i++)
            to[i] = bn_bf16_to_float(b[i]);
        if (r > 0)
            fold_f32(acc, x, n, op);
    }
    for (size_t i = 0; i < n; i++)
        out[at + i] = bn_float_to_bf16(acc[i]);
}

static void block_wide(char *out, const void *const *in, int count,
                       enum bn_dtype type, size_t at, size_t n,
                       enum bn_comm_op op)
{
    size_t size = bn_dtype_size(type);
    union {
        float f[BLOCK];
        double d[BLOCK];
        int64_t i[BLOCK];
    } acc;

    memcpy(&acc, (const char *)in[0] + at * size, n * size);
    for (int r = 1; r < count; r++) {
        const void *x = (const char *)in[r] + at * size;

        if (type == BN_F32)
            fold_f32(acc.f, x, n, op);
        else if (type == BN_F64)
            fold_f64(acc.d, x, n, op);
        else
            fold_i64(acc.i, x, n, op);
    }
    memcpy(out + at * size, &acc, n * size);
}

int bn_fold(void *out, const void *const *in, int count, enum bn_dtype type,
            size_t n, enum bn_comm_op op, struct bn_err *err)
{
    if (type != BN_F32 && type != BN_BF16 && type != BN_F64 && type != BN_I64)
        return bn_fail(err, BN_ERR_BUG, "cannot reduce numbers of type %s",
                       bn_dtype_name(type));
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t k = n - at < BLOCK ? n - at : BLOCK;

        if (type == BN_BF16)
            block_bf16(out, in, count, at, k, op);
        else
            block_wide(out, in, count, type, at, k, op);
    }
    return 0;
}
