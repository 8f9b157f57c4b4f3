#include "config.h"
#include "ops/cpu.h"
#include "ops/onednn.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static bool uses_library(const struct bn_dev *d, enum bn_dtype t)
{
    const struct bn_cpu *cpu = d->state;

    return t == BN_BF16 ? cpu->onednn_bf16 : cpu->onednn_f32;
}

void bn_cpu_gemm(struct bn_dev *d, struct bn_gemm *g)
{
    struct bn_cpu *cpu = d->state;
    struct bn_err err;

    if (d->failed || g->m == 0 || g->n == 0)
        return;
    if (uses_library(d, g->t) && g->k > 0) {
        if (bn_onednn_gemm(cpu->onednn, g, &err) < 0)
            bn_dev_fail(d, err.code, "%s", err.text);
        return;
    }
    g->threads = d->threads;
    g->work = cpu->gemm_work.base;
    bn_gemm_cpu(g);
}

static void mat_release(struct bn_dev *d, struct bn_mat *m)
{
    (void)d;
    if (m->pack != NULL)
        bn_arena_release(m->pack);
    free(m->pack);
    m->pack = NULL;
}

/* Operands are packed as they are used, but for these. m->pack is the arena
 * of the packed copy. */
static void mat_changed(struct bn_dev *d, enum bn_dtype t, struct bn_mat *m)
{
    struct bn_gemm g = {.t = t, .n = m->rows, .k = m->cols, .b = m->data,
                        .ldb = m->cols};
    struct bn_arena *a = m->pack;
    struct bn_err err;

    if (d->failed || !d->keep_packed || uses_library(d, t))
        return;
    g.packed_half = bn_gemm_halves_cpu(&g);
    if (a != NULL && g.packed_half != m->pack_half) {
        mat_release(d, m);
        a = NULL;
    }
    m->pack_half = g.packed_half;
    if (a == NULL) {
        size_t bytes = bn_gemm_packed_cpu(t, m->rows, m->cols);

        a = m->pack = BN_NEW(struct bn_arena);
        if (bn_arena_init(a, "packed matrix",
                          g.packed_half ? bytes / 2 : bytes, &err)
            < 0) {
            bn_dev_fail(d, err.code, "%s", err.text);
            return;
        }
    }
    bn_gemm_pack_cpu(&g, a->base);
}

static const void *packed(const struct bn_mat *w)
{
    const struct bn_arena *a = w->pack;

    return a != NULL ? a->base : NULL;
}

static void linear(struct bn_dev *d, enum bn_dtype t, void *y, int ldy,
                   const void *x, const struct bn_mat *w, const void *bias,
                   int n, bool acc)
{
    bn_cpu_gemm(d, &(struct bn_gemm){.t = t,
                                     .tc = t,
                                     .m = n,
                                     .n = w->rows,
                                     .k = w->cols,
                                     .a = x,
                                     .lda = w->cols,
                                     .b = w->data,
                                     .ldb = w->cols,
                                     .packed = packed(w),
                                     .packed_half = w->pack_half,
                                     .bias = bias,
                                     .c = y,
                                     .ldc = ldy,
                                     .acc = acc});
}

static void linear_f32(struct bn_dev *d, enum bn_dtype t, float *y, int ldy,
                       const void *x, const struct bn_mat *w, int n)
{
    bn_cpu_gemm(d, &(struct bn_gemm){.t = t,
                                     .tc = BN_F32,
                                     .m = n,
                                     .n = w->rows,
                                     .k = w->cols,
                                     .a = x,
                                     .lda = w->cols,
                                     .b = w->data,
                                     .ldb = w->cols,
                                     .packed = packed(w),
                                     .packed_half = w->pack_half,
                                     .c = y,
                                     .ldc = ldy});
}

static void linear_dx(struct bn_dev *d, enum bn_dtype t, void *dx,
                      const void *dy, int lddy, const struct bn_mat *w, int n,
                      bool acc)
{
    bn_cpu_gemm(d, &(struct bn_gemm){.t = t,
                                     .tc = t,
                                     .m = n,
                                     .n = w->cols,
                                     .k = w->rows,
                                     .a = dy,
                                     .lda = lddy,
                                     .b = w->data,
                                     .ldb = w->cols,
                                     .b_by_k = true,
                                     .c = dx,
                                     .ldc = w->cols,
                                     .acc = acc});
}

static void linear_dw(struct bn_dev *d, enum bn_dtype t, float *dw,
                      const void *dy, int lddy, const void *x, int rows,
                      int cols, int n)
{
    if (n == 0)
        return;
    bn_cpu_gemm(d, &(struct bn_gemm){.t = t,
                                     .tc = BN_F32,
                                     .m = rows,
                                     .n = cols,
                                     .k = n,
                                     .a = dy,
                                     .lda = lddy,
                                     .a_by_k = true,
                                     .b = x,
                                     .ldb = cols,
                                     .b_by_k = true,
                                     .c = dw,
                                     .ldc = cols,
                                     .acc = true});
}

int bn_cpu_gemm_init(struct bn_dev *d, struct bn_err *err)
{
    struct bn_cpu *cpu = d->state;
    const char *how = getenv("BURNISH_GEMM");
    bool library = how == NULL ? bn_onednn_amx() : strcmp(how, "onednn") == 0;

    d->op.mat_changed = mat_changed;
    d->op.mat_release = mat_release;
    d->op.linear = linear;
    d->op.linear_f32 = linear_f32;
    d->op.linear_dx = linear_dx;
    d->op.linear_dw = linear_dw;
    if (how != NULL && !library && strcmp(how, "own") != 0)
        return bn_fail(err, BN_ERR_USAGE,
                       "BURNISH_GEMM is '%s': say own or onednn", how);
    if (library) {
        cpu->onednn = bn_onednn_create(err);
        if (cpu->onednn == NULL)
            return bn_err_prefix(err, "BURNISH_GEMM");
        cpu->onednn_bf16 = bn_onednn_has(cpu->onednn, BN_BF16);
        cpu->onednn_f32 = how != NULL;
    }
    return bn_arena_init(&cpu->gemm_work, "matrix product scratch",
                         bn_gemm_work_cpu(d->threads), err);
}

void bn_cpu_gemm_release(struct bn_cpu *cpu)
{
    bn_onednn_destroy(cpu->onednn);
    bn_arena_release(&cpu->gemm_work);
}
