/* Times the slots of the CUDA back end on the shapes of a Llama of 3 billion
 * parameters and prints a line a figure:
 *
 *     measure NAME VALUE UNIT
 *
 * jobs/gpu-check.sh puts these beside PyTorch's. Bytes and products are those
 * that each contract counts, so a value is what the memory or the arithmetic
 * units were seen to do. Inputs are random, and larger than the cache.
 *
 *     bench-cuda [--smoke]      (--smoke: small, to see that it runs)
 */
#include "config.h"
#include "ops/cuda_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { HD = 128 };

static struct {
    int tokens, hidden, ffn, vocab, chunk, heads, kv, reps;
    size_t params;
} size = {24576, 3072, 8192, 65536, 4096, 24, 8, 10, (size_t)1 << 30};

static struct bn_dev *d;
static struct bn_arena arena;
static cudaEvent_t from, to;

static void die(const char *text)
{
    fprintf(stderr, "bench-cuda: %s\n", text);
    exit(1);
}

static void must(cudaError_t e)
{
    if (e != cudaSuccess)
        die(cudaGetErrorString(e));
}

/* n random elements. Drawn once in host memory and repeated: the products of
 * zeros would be faster. */
static void *fill(enum bn_dtype t, size_t n)
{
    enum { PERIOD = 1 << 20 };
    static float *host;
    size_t bytes = bn_dtype_size(t);
    char *p = bn_arena_get(&arena, n * bytes);

    if (host == NULL) {
        host = malloc(PERIOD * sizeof(*host));
        if (host == NULL)
            die("no memory");
        for (int i = 0; i < PERIOD; i++)
            host[i] = (float)bn_rng_normal(1, 0, (uint64_t)i) * 0.5f;
    }
    for (size_t at = 0; at < n; at += PERIOD)
        d->op.from_host(d, p + at * bytes, t, host, BN_F32,
                        n - at < PERIOD ? n - at : PERIOD);
    return p;
}

/* The least seconds of a slot, called through f. */
static double seconds(void (*f)(void *), void *arg)
{
    cudaStream_t stream = bn_cuda_stream(d);
    struct bn_err err;
    double best = HUGE_VAL;

    for (int i = 0; i < size.reps + 2; i++) {
        float ms;

        must(cudaEventRecord(from, stream));
        f(arg);
        must(cudaEventRecord(to, stream));
        must(cudaEventSynchronize(to));
        must(cudaEventElapsedTime(&ms, from, to));
        if (i >= 2 && ms < best * 1e3)
            best = ms / 1e3;
    }
    if (bn_dev_check(d, &err) < 0)
        die(err.text);
    return best;
}

static void report(const char *name, double work, double s, const char *unit)
{
    printf("measure %s %.6g %s\n", name, work / s, unit);
    fflush(stdout);
}

struct args {
    void *p[8];
    float *f[8];
    int32_t *ids;
    struct bn_mat m;
    struct bn_attn a;
    struct bn_attn_grad g;
    struct bn_head_rows h;
    size_t n;
};

static void run_copy(void *arg)
{
    struct args *a = arg;

    d->op.cast(d, a->p[0], BN_BF16, a->p[1], BN_BF16, a->n);
}

static void run_rmsnorm(void *arg)
{
    struct args *a = arg;

    d->op.rmsnorm(d, BN_BF16, a->p[0], a->f[0], a->p[1], a->p[1], a->p[2],
                  a->p[3], 1e-5f, size.hidden, size.tokens);
}

static void run_rmsnorm_grad(void *arg)
{
    struct args *a = arg;

    d->op.rmsnorm_grad(d, BN_BF16, a->p[0], a->f[1], a->p[0], a->p[2],
                       a->p[1], a->p[3], a->f[0], size.hidden, size.tokens);
}

static void norms(void)
{
    size_t n = (size_t)size.tokens * size.hidden, mark = arena.used;
    struct args a = {.n = n};

    for (int i = 0; i < 3; i++)
        a.p[i] = fill(BN_BF16, n);
    a.p[3] = fill(BN_BF16, (size_t)size.hidden);
    a.f[0] = fill(BN_F32, (size_t)size.tokens);
    a.f[1] = fill(BN_F32, (size_t)size.hidden);
    report("copy", 4.0 * n / 1e9, seconds(run_copy, &a), "GB/s");
    report("rmsnorm", 8.0 * n / 1e9, seconds(run_rmsnorm, &a), "GB/s");
    report("rmsnorm_grad", 8.0 * n / 1e9, seconds(run_rmsnorm_grad, &a),
           "GB/s");
    bn_arena_reset(&arena, mark);
}

static void run_rope(void *arg)
{
    struct args *a = arg;
    int heads = size.heads + size.kv;

    d->op.rope(d, BN_BF16, a->p[0], heads * HD, a->f[0], a->f[1], a->ids,
               heads, HD, size.tokens, false);
}

static void run_swiglu(void *arg)
{
    struct args *a = arg;

    d->op.swiglu(d, BN_BF16, a->p[1], a->p[2], size.ffn, size.tokens);
}

static void run_swiglu_grad(void *arg)
{
    struct args *a = arg;

    d->op.swiglu_grad(d, BN_BF16, a->p[2], NULL, a->p[1], a->p[2], size.ffn,
                      size.tokens);
}

static void layers(void)
{
    size_t n = (size_t)size.tokens * (size.heads + size.kv) * HD;
    size_t mark = arena.used;
    size_t f = (size_t)size.tokens * size.ffn;
    struct args a = {.p[0] = fill(BN_BF16, n)};

    a.f[0] = fill(BN_F32, 4096 * HD / 2);
    a.f[1] = fill(BN_F32, 4096 * HD / 2);
    a.ids = bn_arena_get(&arena, (size_t)size.tokens * 4);
    d->op.zero(d, a.ids, (size_t)size.tokens * 4);
    a.p[1] = fill(BN_BF16, f);
    a.p[2] = fill(BN_BF16, 2 * f);
    report("rope", 4.0 * n / 1e9, seconds(run_rope, &a), "GB/s");
    report("swiglu", 6.0 * f / 1e9, seconds(run_swiglu, &a), "GB/s");
    report("swiglu_grad", 10.0 * f / 1e9, seconds(run_swiglu_grad, &a),
           "GB/s");
    bn_arena_reset(&arena, mark);
}

static void run_linear(void *arg)
{
    struct args *a = arg;

    d->op.linear(d, BN_BF16, a->p[0], a->m.rows, a->p[1], &a->m, NULL,
                 size.tokens, false);
}

static void run_linear_dx(void *arg)
{
    struct args *a = arg;

    d->op.linear_dx(d, BN_BF16, a->p[1], a->p[0], a->m.rows, &a->m,
                    size.tokens, false);
}

static void run_linear_dw(void *arg)
{
    struct args *a = arg;

    d->op.linear_dw(d, BN_BF16, a->f[0], a->p[0], a->m.rows, a->p[1],
                    a->m.rows, a->m.cols, size.tokens);
}

static void products(void)
{
    const struct {
        const char *name;
        int rows, cols;
    } w[] = {{"qkv", (size.heads + 2 * size.kv) * HD, size.hidden},
             {"out", size.hidden, size.heads * HD},
             {"gate_up", 2 * size.ffn, size.hidden},
             {"down", size.hidden, size.ffn}};
    static void (*const run[])(void *) = {run_linear, run_linear_dx,
                                          run_linear_dw};
    static const char *const way[] = {"", "_dx", "_dw"};

    for (int i = 0; i < 4; i++) {
        size_t mark = arena.used;
        size_t rows = (size_t)w[i].rows, cols = (size_t)w[i].cols;
        struct args a = {.m = {.data = fill(BN_BF16, rows * cols),
                               .rows = w[i].rows,
                               .cols = w[i].cols}};

        a.p[0] = fill(BN_BF16, (size_t)size.tokens * rows);
        a.p[1] = fill(BN_BF16, (size_t)size.tokens * cols);
        a.f[0] = fill(BN_F32, rows * cols);
        for (int k = 0; k < 3; k++) {
            char name[40];

            snprintf(name, sizeof(name), "gemm_%s%s", w[i].name, way[k]);
            report(name, 2.0 * size.tokens * rows * cols / 1e12,
                   seconds(run[k], &a), "TFLOP/s");
        }
        bn_arena_reset(&arena, mark);
    }
}

static void run_attn(void *arg)
{
    d->op.attn(d, BN_BF16, &((struct args *)arg)->a);
}

static void run_attn_grad(void *arg)
{
    struct args *a = arg;

    d->op.attn_grad(d, BN_BF16, &a->a, &a->g);
}

/* Sequences of one length, packed. */
static void attention(int length)
{
    enum { MOST = 64 };
    const int heads = size.heads, kv = size.kv, ld = (heads + 2 * kv) * HD;
    struct bn_attn_seg seg[MOST];
    size_t mark = arena.used, n = (size_t)size.tokens * ld;
    int nseg = size.tokens / length < MOST ? size.tokens / length : MOST;
    int rows = nseg * length;
    uint16_t *qkv = fill(BN_BF16, n), *dqkv = fill(BN_BF16, n);
    struct args a = {.p[0] = qkv};
    char name[40];

    for (int i = 0; i < nseg; i++)
        seg[i] = (struct bn_attn_seg){i * length, length, 0, i * length,
                                      length, 0, 0};
    void *dseg = bn_arena_get(&arena, sizeof(seg));
    d->op.from_host(d, dseg, BN_I32, seg, BN_I32,
                    (size_t)nseg * sizeof(seg[0]) / 4);
    a.a = (struct bn_attn){
        qkv, qkv + heads * HD, qkv + (heads + kv) * HD,
        fill(BN_BF16, (size_t)rows * heads * HD),
        fill(BN_F32, (size_t)rows * heads), ld, ld, ld, heads * HD, rows,
        rows, heads, kv, HD, 1 / sqrtf(HD), 0, seg, dseg, nseg, NULL};
    a.a.work = bn_arena_get(&arena, d->op.attn_work(d, &a.a));
    a.g = (struct bn_attn_grad){fill(BN_BF16, (size_t)rows * heads * HD),
                                dqkv, dqkv + heads * HD,
                                dqkv + (heads + kv) * HD};
    double pairs = (double)nseg * length * (length + 1.0) / 2 * heads;
    double fwd = seconds(run_attn, &a), bwd = seconds(run_attn_grad, &a);
    snprintf(name, sizeof(name), "attn_%d", length);
    report(name, 4 * HD * pairs / 1e12, fwd, "TFLOP/s");
    snprintf(name, sizeof(name), "attn_grad_%d", length);
    report(name, 10 * HD * pairs / 1e12, bwd, "TFLOP/s");
    snprintf(name, sizeof(name), "attn_both_%d", length);
    report(name, 14 * HD * pairs / 1e12, fwd + bwd, "TFLOP/s");
    bn_arena_reset(&arena, mark);
}

static void run_head_stats(void *arg)
{
    struct args *a = arg;

    d->op.head_stats(d, &a->h, a->f[0], a->f[1], a->f[2], NULL, a->f[3]);
}

static void run_head_grad(void *arg)
{
    struct args *a = arg;

    d->op.head_grad(d, BN_BF16, &a->h, a->f[0], 2 * size.vocab, a->f[0],
                    a->f[1], a->f[4], 0);
}

/* A chunk of the head: logits, statistics, gradient over them, both
 * products back. */
static void run_head(void *arg)
{
    struct args *a = arg;

    d->op.linear_f32(d, BN_BF16, a->f[0], size.vocab, a->p[0], &a->m,
                     size.chunk);
    run_head_stats(a);
    run_head_grad(a);
    d->op.linear_dx(d, BN_BF16, a->p[1], a->f[0], 2 * size.vocab, &a->m,
                    size.chunk, false);
    d->op.linear_dw(d, BN_BF16, a->f[5], a->f[0], 2 * size.vocab, a->p[0],
                    size.vocab, size.hidden, size.chunk);
}

static void head(void)
{
    size_t mark = arena.used, rows = (size_t)size.chunk;
    size_t n = rows * (size_t)size.vocab;
    size_t w = (size_t)size.vocab * size.hidden;
    struct args a = {.m = {.data = fill(BN_BF16, w),
                           .rows = size.vocab,
                           .cols = size.hidden}};
    int32_t *host = malloc((rows + 1) * sizeof(*host));

    if (host == NULL)
        die("no memory");
    a.p[0] = fill(BN_BF16, rows * size.hidden);
    a.p[1] = fill(BN_BF16, rows * size.hidden);
    a.f[0] = fill(BN_F32, n);
    for (int i = 1; i < 5; i++)
        a.f[i] = fill(BN_F32, rows);
    a.f[5] = fill(BN_F32, w);
    for (int i = 0; i <= size.chunk; i++)
        host[i] = i;
    a.h = (struct bn_head_rows){size.chunk, size.vocab, size.vocab,
                                size.vocab, fill(BN_F32, rows + 1),
                                fill(BN_F32, rows)};
    d->op.from_host(d, (void *)(uintptr_t)a.h.row_ptr, BN_I32, host, BN_I32,
                    rows + 1);
    d->op.from_host(d, (void *)(uintptr_t)a.h.target, BN_I32, host, BN_I32,
                    rows);
    d->op.sync(d);
    free(host);
    double stats = seconds(run_head_stats, &a);
    double grad = seconds(run_head_grad, &a);
    report("head_stats", 4.0 * n / 1e9, stats, "GB/s");
    report("head_grad", 6.0 * n / 1e9, grad, "GB/s");
    report("ce", 10.0 * n / 1e9, stats + grad, "GB/s");
    report("head", 6.0 * n * size.hidden / 1e12, seconds(run_head, &a),
           "TFLOP/s");
    bn_arena_reset(&arena, mark);
}

static void run_adamw(void *arg)
{
    static const struct bn_adamw par = {0.9f, 0.95f, 1e-8f, 0.1f};
    struct args *a = arg;

    d->op.adamw(d, BN_BF16, &par, a->p[0], a->f[0], a->f[1], a->f[2],
                a->f[3], a->p[2], a->n);
}

static void run_sqnorm(void *arg)
{
    struct args *a = arg;

    d->op.sqnorm(d, a->p[1], a->f[3], a->n);
}

static void optimizer(void)
{
    size_t mark = arena.used;
    const struct bn_adamw_now now = {0.5f, 1e-5f, 0.1f, 0.05f};
    struct args a = {.n = size.params};

    a.p[0] = fill(BN_BF16, a.n);
    for (int i = 0; i < 4; i++)
        a.f[i] = fill(BN_F32, a.n);
    d->op.zero(d, a.f[2], a.n * 4); /* v is not negative */
    a.p[2] = bn_arena_get(&arena, sizeof(now));
    d->op.from_host(d, a.p[2], BN_F32, &now, BN_F32, sizeof(now) / 4);
    a.p[1] = bn_arena_get(&arena, 8);
    d->op.zero(d, a.p[1], 8);
    /* The gradient is float: 30 bytes move where the bar counts 28. */
    report("adamw", 28.0 * a.n / 1e9, seconds(run_adamw, &a), "GB/s");
    report("sqnorm", 4.0 * a.n / 1e9, seconds(run_sqnorm, &a), "GB/s");
    bn_arena_reset(&arena, mark);
}

int main(int argc, char **argv)
{
    struct bn_cuda_options o = {0};
    struct bn_err err;
    bool smoke = argc > 1 && strcmp(argv[1], "--smoke") == 0;

    if (smoke) {
        size.tokens = 128;
        size.hidden = 64;
        size.ffn = 96;
        size.vocab = 256;
        size.chunk = 32;
        size.params = 1000;
        size.heads = 3; /* three to a KV head, as in the large */
        size.kv = 1;
        size.reps = 1;
    }
    d = bn_dev_cuda(&o, &err);
    if (d == NULL
        || d->op.arena_init(d, &arena, "benchmark",
                            smoke ? (size_t)64 << 20 : (size_t)40 << 30, &err)
               < 0)
        die(err.text);
    must(cudaEventCreateWithFlags(&from, 0));
    must(cudaEventCreateWithFlags(&to, 0));
    norms();
    layers();
    products();
    for (int length = smoke ? 64 : 1024; length <= (smoke ? 128 : 4096);
         length *= 2)
        attention(length);
    head();
    optimizer();
    d->op.arena_release(d, &arena);
    must(cudaEventDestroy(from));
    must(cudaEventDestroy(to));
    bn_cuda_report(d);
    bn_dev_destroy(d);
    return 0;
}
