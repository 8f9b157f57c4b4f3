/* Every backward kernel but attention's (attn.c) against differences of its
 * forward kernel, and the same bits in any order of threads.
 */
#include "config.h"
#include "kernels/add.h"
#include "kernels/cuda/test/gpu.h"
#include "kernels/dropout.h"
#include "kernels/embed.h"
#include "kernels/head.h"
#include "kernels/headnorm.h"
#include "kernels/loss.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/rows.h"
#include "kernels/score.h"
#include "kernels/swiglu.h"

enum { COLS = 24, HEADS = 3, HD = COLS / HEADS, MOST = 300, VOCAB = 5 };

static int n; /* rows */
static enum bn_dtype type;

/* Memory of the device, and what it was given; x and w are what is moved. */
static struct {
    float *x, *w, *dy, *y, *xo, *res_host;
    void *gx, *gw, *gy, *gdy, *gdx, *res;
    float *gdw, *rstd, *work, *cosine, *sine;
    int32_t *ids, *rows, *pos;
    size_t nx, nw, ny;
} s;

static void *copy_as(enum bn_dtype t, const float *x, size_t count)
{
    void *p = host_new(t, count, 0);

    for (size_t i = 0; i < count; i++)
        bn_put(t, p, i, x[i]);
    return gpu_copy(t, p, count);
}

static void begin(enum bn_dtype t, int rows, size_t nx, size_t nw, size_t ny)
{
    int32_t ids[MOST], other[MOST], pos[MOST];
    float *angle = host_new(BN_F32, MOST * HD / 2, 1);
    float *sine = host_new(BN_F32, MOST * HD / 2, 1);

    assert_true(rows <= MOST);
    n = rows;
    type = t;
    s.nx = nx;
    s.nw = nw;
    s.ny = ny;
    s.x = host_new(BN_F32, nx, 1);
    s.w = host_new(BN_F32, nw, 1);
    s.dy = host_new(BN_F32, ny, 1);
    s.y = host_new(BN_F32, ny, 0);
    s.xo = host_new(BN_F32, nx, 0);
    s.res_host = host_new(BN_F32, nx, 1);
    for (int i = 0; i < rows; i++) {
        ids[i] = i * 3 % VOCAB; /* each, and some again */
        other[i] = rows - 1 - i;
        pos[i] = (int32_t)rnd(MOST);
    }
    for (int i = 0; i < MOST * HD / 2; i++) {
        sine[i] = sinf(angle[i]);
        angle[i] = cosf(angle[i]);
    }
    s.gx = copy_as(t, s.x, nx);
    s.gw = copy_as(t, s.w, nw);
    s.gdy = copy_as(t, s.dy, ny);
    s.res = copy_as(t, s.res_host, nx);
    s.gy = gpu_new(NULL, ny * 4);
    s.gdx = gpu_new(NULL, nx * 4);
    s.gdw = gpu_new(NULL, nw * 4);
    s.rstd = gpu_new(NULL, (size_t)rows * HEADS * 4);
    s.work = gpu_new(NULL, (size_t)BN_NORM_PARTS * COLS * 4);
    s.cosine = gpu_copy(BN_F32, angle, MOST * HD / 2);
    s.sine = gpu_copy(BN_F32, sine, MOST * HD / 2);
    s.ids = gpu_copy(BN_I32, ids, (size_t)rows);
    s.rows = gpu_copy(BN_I32, other, (size_t)rows);
    s.pos = gpu_copy(BN_I32, pos, (size_t)rows);
}

/* dx and dw of what is in place; gradients of parameters are added to 0. */
static void backward(int (*f)(void))
{
    float *zero = host_new(BN_F32, s.nw, 1);

    memset(zero, 0, s.nw * 4);
    gpu_put(s.gdw, zero, s.nw * 4);
    gpu_ok(f(), "backward");
}

/* --- the kernels ----------------------------------------------------------- */

static int embed(void)
{
    return bn_embed_cuda(type, s.gy, s.gw, s.ids, 1, VOCAB - 1, COLS, n, NULL);
}
static int embed_grad(void)
{
    return bn_embed_grad_cuda(type, s.gdw, s.gdy, s.ids, 1, VOCAB - 1, COLS, n,
                              NULL);
}
static int rmsnorm(void)
{
    return bn_rmsnorm_cuda(type, s.gy, s.rstd, NULL, s.gx, NULL, s.gw, 1e-5f,
                           COLS, n, NULL);
}
static int rmsnorm_grad(void)
{
    return bn_rmsnorm_grad_cuda(type, s.gdx, s.gdw, s.gdy, NULL, s.gx, s.gw,
                                s.rstd, COLS, n, s.work, NULL);
}
/* y = norm(x + res), whose sum is what the gradient is given; the sum goes on
 * as it is, too: L = y . dy + xo . res. */
static void *sum_of;
static int rmsnorm_add(void)
{
    return bn_rmsnorm_cuda(type, s.gy, s.rstd, sum_of, s.gx, s.res, s.gw,
                           1e-5f, COLS, n, NULL);
}
static int rmsnorm_add_grad(void)
{
    return bn_rmsnorm_grad_cuda(type, s.gdx, s.gdw, s.gdy, s.res, sum_of, s.gw,
                                s.rstd, COLS, n, s.work, NULL);
}
static int headnorm(void)
{
    return bn_headnorm_cuda(type, s.gy, COLS, s.rstd, s.gx, COLS, s.gw, 1e-6f,
                            HEADS, HD, n, NULL);
}
static int headnorm_grad(void)
{
    return bn_headnorm_grad_cuda(type, s.gdx, COLS, s.gdw, s.gdy, COLS, s.gx,
                                 COLS, s.gw, s.rstd, HEADS, HD, n, s.work,
                                 NULL);
}
/* In place: of a copy. */
static int turn(void *to, const void *from, bool inverse)
{
    cudaError_t e = cudaMemcpyAsync(to, from,
                                    s.nx * bn_dtype_size(type),
                                    cudaMemcpyDeviceToDevice, NULL);

    return e != cudaSuccess
               ? (int)e
               : bn_rope_cuda(type, to, COLS, s.cosine, s.sine, s.pos, HEADS,
                              HD, n, inverse, NULL);
}
static int rope(void)
{
    return turn(s.gy, s.gx, false);
}
static int rope_grad(void)
{
    return turn(s.gdx, s.gdy, true);
}
static int swiglu(void)
{
    return bn_swiglu_cuda(type, s.gy, s.gx, COLS / 2, n, NULL);
}
static int swiglu_grad(void)
{
    return bn_swiglu_grad_cuda(type, s.gdx, NULL, s.gdy, s.gx, COLS / 2, n,
                               NULL);
}
static int drop(void *to, const void *from)
{
    /* Any numbers do for keys: those of ids. */
    struct bn_dropout p = {.scale = 1.6f, .below = 1u << 30, .salt = {3, 4},
                           .key = (const uint32_t *)s.pos};

    return bn_dropout_cuda(type, to, from, &p, false, COLS, n / 2, NULL);
}
static int dropout(void)
{
    return drop(s.gy, s.gx);
}
static int dropout_grad(void)
{
    return drop(s.gdx, s.gdy);
}
static int gather(void)
{
    return bn_gather_cuda(type, s.gy, s.gx, s.rows, COLS, n, NULL);
}
static int scatter(void)
{
    return bn_scatter_cuda(type, s.gdx, s.gdy, s.rows, COLS, n, NULL);
}
/* The bias of a product: y = w in every row. */
static int bias(void)
{
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++)
        rc = (int)cudaMemcpyAsync(
            (char *)s.gy + (size_t)i * COLS * bn_dtype_size(type), s.gw,
            COLS * bn_dtype_size(type), cudaMemcpyDeviceToDevice, NULL);
    return rc;
}
static int bias_grad(void)
{
    return bn_bias_grad_cuda(type, s.gdw, s.gdy, COLS, COLS, n, s.work, NULL);
}

/* How many elements x, w and y have: of COLS a row, or as said. */
static const struct pair {
    const char *name;
    int (*forward)(void), (*backward)(void);
    bool dx;
    int dw;      /* elements of w, 0 if it has no gradient */
    int per_y;   /* columns of y */
    int part;    /* of the rows are there: 1 / part */
} pairs[] = {
    {"embed", embed, embed_grad, false, (VOCAB - 1) * COLS, COLS, 1},
    {"rmsnorm", rmsnorm, rmsnorm_grad, true, COLS, COLS, 1},
    {"rmsnorm of a sum", rmsnorm_add, rmsnorm_add_grad, true, COLS, COLS, 1},
    {"headnorm", headnorm, headnorm_grad, true, HD, COLS, 1},
    {"rope", rope, rope_grad, true, 0, COLS, 1},
    {"swiglu", swiglu, swiglu_grad, true, 0, COLS / 2, 1},
    {"dropout", dropout, dropout_grad, true, 0, COLS, 2},
    {"gather", gather, scatter, true, 0, COLS, 1},
    {"bias", bias, bias_grad, false, COLS, COLS, 1},
};
enum { PAIRS = sizeof(pairs) / sizeof(pairs[0]) };

static void begin_pair(const struct pair *p, enum bn_dtype t, int rows)
{
    begin(t, rows, (size_t)rows / p->part * COLS,
          p->dw > 0 ? (size_t)p->dw : COLS,
          (size_t)rows / p->part * p->per_y);
    sum_of = gpu_new(NULL, s.nx * 4);
}

/* --- differences ------------------------------------------------------------ */

static const struct pair *now;

static double loss_of_pair(void)
{
    double l;

    gpu_ok(now->forward(), now->name);
    gpu_get(s.y, s.gy, s.ny * 4);
    l = dot_of(BN_F32, s.y, s.dy, s.ny);
    if (now->forward == rmsnorm_add) {
        gpu_get(s.xo, sum_of, s.nx * 4);
        l += dot_of(BN_F32, s.xo, s.res_host, s.nx);
    }
    return l;
}

/* The gradient 'got' of each of the elements of x, which dev has too. */
static void slopes(const float *x, float *dev, const float *got, size_t count,
                   double (*loss)(void), const char *what, const char *name)
{
    const float h = 0x1p-6f;

    for (size_t i = 0; i < count; i++) {
        double l[2];

        for (int side = 0; side < 2; side++) {
            float moved = x[i] + (side ? h : -h);

            gpu_put(dev + i, &moved, 4);
            l[side] = loss();
        }
        gpu_put(dev + i, &x[i], 4);
        double want = (l[1] - l[0]) / (2 * (double)h);
        if (!(fabs((double)got[i] - want) < 2e-3 * (1 + fabs(want))))
            fail_msg("%s, %s of element %zu: %g, by differences %g", name,
                     what, i, (double)got[i], want);
    }
}

static void test_differences(void **state)
{
    (void)state;
    for (now = pairs; now < pairs + PAIRS; now++) {
        begin_pair(now, BN_F32, 8);
        float *dx = host_new(BN_F32, s.nx, 0), *dw = host_new(BN_F32, s.nw, 0);

        gpu_ok(now->forward(), now->name);
        backward(now->backward);
        gpu_get(dx, s.gdx, s.nx * 4);
        gpu_get(dw, s.gdw, s.nw * 4);
        if (now->dx)
            slopes(s.x, s.gx, dx, s.nx, loss_of_pair, "dx", now->name);
        if (now->dw > 0)
            slopes(s.w, s.gw, dw, s.nw, loss_of_pair, "dw", now->name);
        gpu_end();
    }
}

static void test_same_bits(void **state)
{
    (void)state;
    for (int k = 0; k < 2 * PAIRS; k++) {
        const struct pair *p = &pairs[k / 2];

        /* More rows than there are groups of rows to be summed. */
        begin_pair(p, both_types[k % 2], MOST);
        size_t bytes = s.nx * bn_dtype_size(type);
        void *dx = host_new(BN_F32, s.nx, 0), *dw = host_new(BN_F32, s.nw, 0);

        gpu_ok(p->forward(), p->name);
        for (int round = 0; round < 3; round++) {
#ifdef BN_EMU
            bn_emu_seed((uint64_t)(100 * k + round));
#endif
            backward(p->backward);
            if (round == 0) {
                gpu_get(dx, s.gdx, bytes);
                gpu_get(dw, s.gdw, s.nw * 4);
            }
            if (p->dx)
                gpu_same(s.gdx, dx, bytes, p->name);
            gpu_same(s.gdw, dw, s.nw * 4, p->name);
        }
        gpu_end();
    }
}

/* --- from logits to a loss and back ------------------------------------------ */

/* A vocabulary in two shards; a row may have no target, or several. */
enum { SHARDS = 2, ROWS = 7, PART = 10, TARGETS = 11, SEQS = 6 };
static const int32_t row_ptr[ROWS + 1] = {0, 2, 2, 5, 6, 8, 9, TARGETS};
static const int32_t seq_of[TARGETS] = {0, 1, 1, 2, 0, 1, 2, 3, 4, 5, 5};
static const int32_t tokens[SEQS] = {2, 3, 2, 1, 1, 2};

static struct {
    enum bn_loss_kind kind;
    float *logits; /* [SHARDS][ROWS, PART], on the device */
    struct bn_head_rows shard[SHARDS];
    struct bn_score_stats st;
    struct bn_score_values v;
    struct bn_score_range range;
    struct bn_loss_seqs seqs;
    float *stat, *lse, *g;
    double *sums, *dlogp;
    struct bn_loss_denom *denom;
    struct bn_loss_acc *acc;
} c;
enum { STRIDE = 3 * ROWS + TARGETS };

static void begin_chain(enum bn_loss_kind kind, float smoothing)
{
    struct bn_loss_denom denom = {7, kind == BN_LOSS_ORPO ? 2 : SEQS};
    const int32_t *ptr = gpu_new(row_ptr, sizeof(row_ptr));
    int32_t target[TARGETS];

    c.kind = kind;
    for (int k = 0; k < SHARDS; k++) {
        for (int e = 0; e < TARGETS; e++)
            target[e] = e * 7 % (SHARDS * PART) - k * PART;
        c.shard[k] = (struct bn_head_rows){
            ROWS, PART, PART, SHARDS * PART, ptr,
            gpu_new(target, sizeof(target))};
    }
    c.stat = gpu_new(NULL, SHARDS * STRIDE * 4);
    c.st = (struct bn_score_stats){
        ROWS, SHARDS, SHARDS * PART, STRIDE, c.stat, c.stat + ROWS,
        c.stat + 2 * ROWS, c.stat + 3 * ROWS, ptr, smoothing};
    c.v = (struct bn_score_values){gpu_new(NULL, TARGETS * 8),
                                   gpu_new(NULL, TARGETS * 8),
                                   gpu_new(NULL, TARGETS * 8)};
    c.range = (struct bn_score_range){0, TARGETS,
                                      gpu_new(seq_of, sizeof(seq_of))};
    c.sums = gpu_new(NULL, 3 * SEQS * 8);
    c.seqs = (struct bn_loss_seqs){SEQS, c.sums, c.sums + SEQS,
                                   c.sums + 2 * SEQS,
                                   gpu_new(tokens, sizeof(tokens))};
    c.lse = gpu_new(NULL, ROWS * 4);
    c.g = gpu_new(NULL, TARGETS * 4);
    c.dlogp = gpu_new(NULL, SEQS * 8);
    c.denom = gpu_new(&denom, sizeof(denom));
    c.acc = gpu_new(NULL, sizeof(*c.acc));
}

static double loss_of_chain(void)
{
    static const struct bn_loss_acc none;
    static const double zero[3 * SEQS];
    struct bn_loss_params p = {0.7, 0};
    struct bn_loss_acc got;

    gpu_put(c.sums, zero, sizeof(zero));
    gpu_put(c.acc, &none, sizeof(none));
    for (int k = 0; k < SHARDS; k++) {
        float *st = c.stat + k * STRIDE;

        gpu_ok(bn_head_stats_cuda(&c.shard[k], c.logits + k * ROWS * PART, st,
                                  st + ROWS, st + 2 * ROWS, st + 3 * ROWS,
                                  NULL), "head_stats");
    }
    gpu_ok(bn_score_logp_cuda(&c.st, c.lse, &c.v, NULL), "score_logp");
    gpu_ok(bn_score_sums_cuda(c.sums, SEQS, 0, SEQS, &c.range, &c.v, NULL),
           "score_sums");
    gpu_ok(bn_loss_cuda(c.kind, &p, &c.seqs, c.denom, c.dlogp, c.acc, 0, 0,
                        NULL), "loss");
    gpu_get(&got, c.acc, sizeof(got));
    assert_int_equal(got.fault, BN_LOSS_FINE);
    return got.metrics[0];
}

static void test_chain(void **state)
{
    enum { ALL = SHARDS * ROWS * PART };

    (void)state;
    for (int i = 0; i < 4; i++) {
        float smoothing = i % 2 ? 0.2f : 0;
        float *x = host_new(BN_F32, ALL, 2), *dx = host_new(BN_F32, ALL, 0);
        float *gdx = gpu_new(NULL, ALL * 4);

        c.logits = gpu_copy(BN_F32, x, ALL);
        begin_chain(i < 2 ? BN_LOSS_SFT : BN_LOSS_ORPO, smoothing);
        (void)loss_of_chain();
        gpu_ok(bn_score_spread_cuda(c.g, c.dlogp, &c.range, NULL),
               "score_spread");
        for (int k = 0; k < SHARDS; k++)
            gpu_ok(bn_head_grad_cuda(BN_F32, &c.shard[k],
                                     gdx + k * ROWS * PART, PART,
                                     c.logits + k * ROWS * PART, c.lse, c.g,
                                     smoothing, NULL), "head_grad");
        gpu_get(dx, gdx, ALL * 4);
        slopes(x, c.logits, dx, ALL, loss_of_chain, "logits",
               i < 2 ? "sft" : "orpo");
        gpu_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_chain),
    };

    return BN_TAP_RUN(tests);
}
