#include "config.h"
#include "ops/floor.h"

#include "base/clock.h"
#include "kernels/number.h"
#include "ops/onednn.h"

enum { ROUNDS = 4, TRIES = 4 };

/* Operands of one shape. */
struct operands {
    struct bn_arena arena;
    struct bn_gemm g;
    struct bn_mat w;
    void *x, *y;
    float *dw;
};

static void fill(enum bn_dtype t, void *p, size_t n)
{
    /* A repeating pattern of exact values of every sign and size from 1/16
     * to 1: multipliers at rest would run faster than in a step. */
    for (size_t i = 0; i < n; i++) {
        int k = (int)(i * 2654435761u % 31);

        bn_put(t, p, i, (float)(k - 15) / 16);
    }
}

static int prepare(struct operands *o, enum bn_dtype t,
                   const struct bn_gemm_shape *s, struct bn_err *err)
{
    size_t size = bn_dtype_size(t), rows = (size_t)s->rows;
    size_t cols = (size_t)s->cols, n = (size_t)s->n;
    size_t all = (rows * cols + n * cols + n * rows) * size + rows * cols * 4;

    if (bn_arena_init(&o->arena, "operands", all + 4 * BN_ARENA_ALIGN, err) < 0)
        return -1;
    bn_arena_touch(&o->arena);
    void *w = bn_arena_get(&o->arena, rows * cols * size);
    o->x = bn_arena_get(&o->arena, n * cols * size);
    o->y = bn_arena_get(&o->arena, n * rows * size);
    o->dw = bn_arena_get(&o->arena, rows * cols * 4);
    fill(t, w, rows * cols);
    fill(t, o->x, n * cols);
    fill(t, o->y, n * rows);
    o->w = (struct bn_mat){.data = w, .rows = s->rows, .cols = s->cols};
    o->g = (struct bn_gemm){.t = t, .tc = t};
    struct bn_gemm *g = &o->g;
    g->m = s->kind == BN_GEMM_DW ? s->rows : s->n;
    g->n = s->kind == BN_GEMM_FORWARD ? s->rows : s->cols;
    g->k = s->kind == BN_GEMM_FORWARD ? s->cols
           : s->kind == BN_GEMM_DX    ? s->rows
                                      : s->n;
    g->a = s->kind == BN_GEMM_FORWARD ? o->x : o->y;
    g->b = s->kind == BN_GEMM_DW ? o->x : w;
    g->c = s->kind == BN_GEMM_FORWARD ? o->y
           : s->kind == BN_GEMM_DX    ? o->x
                                      : (void *)o->dw;
    g->lda = s->kind == BN_GEMM_FORWARD ? s->cols : s->rows;
    g->ldb = s->cols;
    g->ldc = g->n;
    g->a_by_k = s->kind == BN_GEMM_DW;
    g->b_by_k = s->kind != BN_GEMM_FORWARD;
    if (s->kind == BN_GEMM_DW) {
        g->tc = BN_F32;
        g->acc = true;
    }
    return 0;
}

static double table_time(struct bn_dev *d, enum bn_dtype t,
                         const struct bn_gemm_shape *s, struct operands *o)
{
    double best = -1;

    for (int i = 0; i < TRIES; i++) {
        double start = bn_now();

        if (s->kind == BN_GEMM_FORWARD)
            d->op.linear(d, t, o->y, s->rows, o->x, &o->w, NULL, s->n, false);
        else if (s->kind == BN_GEMM_DX)
            d->op.linear_dx(d, t, o->x, o->y, s->rows, &o->w, s->n, false);
        else
            d->op.linear_dw(d, t, o->dw, o->y, s->rows, o->x, s->rows, s->cols,
                            s->n);
        double took = bn_now() - start;
        if (best < 0 || took < best)
            best = took;
    }
    return best;
}

double bn_gemm_shape_seconds(struct bn_dev *d, enum bn_dtype t,
                             const struct bn_gemm_shape *s, double *own,
                             struct bn_err *err)
{
    struct bn_onednn *lib = NULL;
    struct operands o;
    double best = -1, table = -1;
    bool has = false;
    int rc = 0;

#ifdef HAVE_ONEDNN
    lib = bn_onednn_create(err);
    if (lib == NULL)
        return -1;
    has = bn_onednn_has(lib, t);
#endif
    if (prepare(&o, t, s, err) < 0) {
        bn_onednn_destroy(lib);
        return -1;
    }
    for (int i = 0; i < ROUNDS && rc == 0; i++) {
        double a = table_time(d, t, s, &o);
        double b = has ? bn_onednn_time(lib, &o.g, TRIES, err) : a;

        if (b < 0)
            rc = -1;
        if (table < 0 || a < table)
            table = a;
        if (best < 0 || b < best)
            best = b;
    }
    bn_arena_release(&o.arena);
    bn_onednn_destroy(lib);
    if (own != NULL)
        *own = table;
    return rc < 0 ? -1 : best;
}

double bn_gemm_floor_seconds(struct bn_dev *d, enum bn_dtype t,
                             const struct bn_gemm_shape *list, int nlist,
                             struct bn_err *err)
{
    double sum = 0;

    for (int i = 0; i < nlist; i++) {
        double s = bn_gemm_shape_seconds(d, t, &list[i], NULL, err);

        if (s < 0)
            return -1;
        sum += s * list[i].count;
    }
    return sum;
}
