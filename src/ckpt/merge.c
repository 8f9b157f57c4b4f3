/* An adapter into its model, and out of it again. */
#include "config.h"
#include "ckpt/peft.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "tensor/convert.h"

#include <stdlib.h>

struct merge {
    struct bn_model_config cfg;
    struct bn_lora lora;
    struct bn_tensors base;
    struct bn_params model, adapter; /* tables of the whole */
    float *flat;                     /* of the adapter */
    double scale;
    enum bn_dtype dtype;
};

/* A run of one tensor. */
struct run {
    const struct merge *m;
    const struct bn_param *p;
    const struct bn_named *t;
    const float *a, *b; /* NULL: not adapted */
    int64_t first, n;
    char *dst;
    int threads;
};

/* Elements [from, from + n) of row y. */
static void merge_row(const struct run *r, int64_t y, int64_t from, int64_t n,
                      double *row)
{
    const struct merge *m = r->m;
    int64_t cols = r->p->cols, at = y * cols + from;
    size_t in = bn_dtype_size(r->t->dtype), out = bn_dtype_size(m->dtype);

    bn_convert(row, BN_F64, (const char *)r->t->data + (size_t)at * in,
               r->t->dtype, (size_t)n);
    for (int k = 0; k < m->lora.r; k++) {
        double b = m->scale * (double)r->b[y * m->lora.r + k];
        const float *a = r->a + k * cols + from;

        for (int64_t c = 0; c < n; c++)
            row[c] += b * (double)a[c];
    }
    bn_convert(r->dst + (size_t)(at - r->first) * out, m->dtype, row, BN_F64,
               (size_t)n);
}

static void merge_rows(void *arg, int index)
{
    const struct run *r = arg;
    int64_t cols = r->p->cols, end = r->first + r->n;
    double *row = BN_NEWN(double, (size_t)cols);

    for (int64_t y = r->first / cols + index; y * cols < end;
         y += r->threads) {
        int64_t from = y * cols < r->first ? r->first - y * cols : 0;
        int64_t to = (y + 1) * cols > end ? end - y * cols : cols;

        merge_row(r, y, from, to - from, row);
    }
    free(row);
}

/* A matrix with its adapter's product, a saved module, or as it is. */
static int read_merged(void *arg, size_t index, int64_t first, int64_t n,
                       void *dst, struct bn_err *err)
{
    const struct merge *m = arg;
    const struct bn_param *p = &m->model.item[index], *a = NULL, *b = NULL;
    const struct bn_param *saved = bn_param_find(&m->adapter, p->kind,
                                                 p->layer);
    const struct bn_named *t = bn_tensors_find(&m->base, p->name);

    (void)err;
    if (p->kind >= BN_P_Q && p->kind <= BN_P_DOWN) {
        a = bn_param_find(&m->adapter, bn_param_a(p->kind), p->layer);
        b = bn_param_find(&m->adapter, bn_param_b(p->kind), p->layer);
    }
    if (saved != NULL) {
        bn_convert(dst, m->dtype, m->flat + saved->offset + first, BN_F32,
                   (size_t)n);
    } else if (a == NULL || b == NULL) {
        bn_convert(dst, m->dtype,
                   (const char *)t->data
                       + (size_t)first * bn_dtype_size(t->dtype),
                   t->dtype, (size_t)n);
    } else {
        struct run r = {m, p, t, m->flat + a->offset, m->flat + b->offset,
                        first, n, dst, bn_cpu_count()};

        bn_parallel(r.threads, merge_rows, &r);
    }
    return 0;
}

static int open_base(struct merge *m, const char *base, struct bn_err *err)
{
    char *path = bn_path_join(base, "config.json");
    struct bn_part part;
    struct bn_str report = {0};
    int rc = bn_model_config_load(&m->cfg, path, NULL, err);

    free(path);
    if (rc < 0)
        return -1;
    part = bn_part_whole(&m->cfg);
    if (bn_params_init(&m->model, &m->cfg, &part, err) < 0
        || bn_safetensors_open(&m->base, base, err) < 0)
        return -1;
    rc = bn_hf_check(&m->base, base, &m->cfg, &report, err);
    if (report.len > 0)
        bn_log_lines(BN_LOG_INFO, report.s);
    bn_str_release(&report);
    return rc;
}

static int open_adapter(struct merge *m, const char *adapter, int sign,
                        struct bn_err *err)
{
    struct bn_part part = bn_part_whole(&m->cfg);
    struct bn_str report = {0};

    if (bn_lora_load(&m->lora, adapter, err) < 0
        || bn_lora_check(&m->lora, &m->cfg, adapter, err) < 0
        || bn_params_init_lora(&m->adapter, &m->cfg, &part, &m->lora, err) < 0)
        return -1;
    if (sign < 0 && m->lora.nsave > 0)
        return bn_fail(err, BN_ERR_USAGE, "%s: modules_to_save replaced '%s' "
                       "of the base when it was merged: only the base itself "
                       "has it", adapter, m->lora.save[0]);
    m->scale = sign * bn_lora_scale(&m->lora);
    m->flat = BN_NEWN(float, m->adapter.elems);
    int rc = bn_peft_load(adapter, &m->cfg, &m->lora, &m->adapter, m->flat,
                          BN_F32, &report, err);
    if (rc < 0 && report.len > 0)
        bn_log_lines(BN_LOG_INFO, report.s);
    bn_str_release(&report);
    return rc;
}

/* The format of the first matrix that can be adapted, if models are written
 * in it. */
static enum bn_dtype stored_as(const struct merge *m)
{
    const struct bn_param *p = bn_param_find(&m->model, BN_P_Q, 0);
    enum bn_dtype t = bn_tensors_find(&m->base, p->name)->dtype;

    return t == BN_BF16 || t == BN_F16 ? t : BN_F32;
}

int bn_peft_merge(const char *base, const char *adapter, const char *out,
                  int sign, const enum bn_dtype *dtype, struct bn_err *err)
{
    struct merge m = {0};
    struct bn_hf_files files = {0};
    int rc = -1;

    if (open_base(&m, base, err) == 0
        && open_adapter(&m, adapter, sign, err) == 0
        && bn_hf_files_load(&files, base, NULL, err) == 0) {
        m.dtype = dtype != NULL ? *dtype : stored_as(&m);
        rc = bn_hf_save(out, &m.cfg, m.dtype, (uint64_t)5 << 30, &files,
                        read_merged, &m, err);
    }
    bn_hf_files_release(&files);
    bn_params_release(&m.model);
    bn_params_release(&m.adapter);
    bn_tensors_close(&m.base);
    bn_lora_release(&m.lora);
    free(m.flat);
    return rc;
}
