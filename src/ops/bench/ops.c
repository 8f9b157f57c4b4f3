/* Times the CPU back end on the shapes of two models and prints a line a
 * figure: bench NAME RATIO target T ours A peer B UNIT. Exits 1 if a figure
 * is short of its target.
 *
 *     bench-ops [--threads N] [--all]
 *
 * Products: our rate against the best that oneDNN has (packed weights too).
 * Attention: our rate against that of the product of the same model. AdamW:
 * bytes against memcpy's. --all: every shape of a line of its own.
 */
#include "config.h"
#include "base/clock.h"
#include "ops/floor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 1024, LENGTH = 512, ROUNDS = 9 };

struct llama {
    const char *name;
    int layers, hidden, heads, kv_heads, hd, ffn, vocab;
};

static const struct llama models[] = {
    {"28m", 8, 512, 8, 4, 64, 1408, 8192},
    {"135m", 30, 576, 9, 3, 64, 1536, 49152},
};

static bool all_shapes;
static int missed;

static void report(const char *name, double ours, double peer, double target,
                   const char *unit)
{
    double ratio = ours / peer;

    printf("bench %s %.2f target %.2f ours %.4g peer %.4g %s\n", name, ratio,
           target, ours, peer, unit);
    fflush(stdout);
    if (ratio < target)
        missed++;
}

static void die(const struct bn_err *err)
{
    fprintf(stderr, "bench-ops: %s\n", err->text);
    exit(err->code);
}

/* All products of a step; returns the rate of ours, FLOP/s. */
static double products(struct bn_dev *d, enum bn_dtype t, const struct llama *m)
{
    const int qkv = (m->heads + 2 * m->kv_heads) * m->hd;
    const struct {
        int rows, cols, count;
    } w[] = {{qkv, m->hidden, m->layers},
             {m->hidden, m->heads * m->hd, m->layers},
             {2 * m->ffn, m->hidden, m->layers},
             {m->hidden, m->ffn, m->layers},
             {m->vocab, m->hidden, 1}};
    static const char *const kinds[] = {"forward", "dx", "dw"};
    double flop = 0, ours = 0, peer = 0;
    char name[80];

    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 3; k++) {
            struct bn_gemm_shape s = {w[i].rows, w[i].cols, TOKENS, w[i].count,
                                      (enum bn_gemm_kind)k};
            double f = 2.0 * s.rows * s.cols * s.n, own;
            struct bn_err err;
            double lib = bn_gemm_shape_seconds(d, t, &s, &own, &err);

            if (lib < 0)
                die(&err);
            flop += f * s.count;
            ours += own * s.count;
            peer += lib * s.count;
            if (!all_shapes)
                continue;
            snprintf(name, sizeof(name), "gemm-%s-%s-%dx%d", m->name, kinds[k],
                     s.rows, s.cols);
            report(name, f / own * 1e-9, f / lib * 1e-9, 0, "GFLOP/s");
        }
    }
    snprintf(name, sizeof(name), "gemm-%s-%s", m->name,
             t == BN_F32 ? "fp32" : "bf16");
    report(name, flop / ours * 1e-9, flop / peer * 1e-9, 0.85, "GFLOP/s");
    return flop / ours;
}

static void attention(struct bn_dev *d, enum bn_dtype t, const struct llama *m,
                      double gemm_rate)
{
    enum { SEGS = TOKENS / LENGTH };
    size_t size = bn_dtype_size(t), cols = (size_t)m->heads * m->hd;
    size_t ld = cols + 2 * (size_t)m->kv_heads * m->hd;
    struct bn_attn_seg seg[SEGS];
    struct bn_attn a = {.ldq = (int)ld,
                        .ldk = (int)ld,
                        .ldv = (int)ld,
                        .ldo = (int)cols,
                        .nq = TOKENS,
                        .nkv = TOKENS,
                        .heads = m->heads,
                        .kv_heads = m->kv_heads,
                        .hd = m->hd,
                        .scale = 0.125f,
                        .host_seg = seg,
                        .seg = seg,
                        .nseg = SEGS};
    size_t work = d->op.attn_work(d, &a);
    struct bn_arena mem;
    struct bn_err err;
    double forward = 1e9, backward = 1e9;
    char name[80];

    for (int i = 0; i < SEGS; i++)
        seg[i] = (struct bn_attn_seg){i * LENGTH, LENGTH, 0, i * LENGTH,
                                      LENGTH,     0,      0};
    if (bn_arena_init(&mem, "attention",
                      work + TOKENS * (2 * ld + 2 * cols) * size
                          + TOKENS * (size_t)m->heads * 4 + 1024,
                      &err)
        < 0)
        die(&err);
    bn_arena_touch(&mem);
    char *qkv = bn_arena_get(&mem, TOKENS * ld * size);
    char *grad = bn_arena_get(&mem, TOKENS * ld * size);
    a.o = bn_arena_get(&mem, TOKENS * cols * size);
    void *d_o = bn_arena_get(&mem, TOKENS * cols * size);
    a.lse = bn_arena_get(&mem, TOKENS * (size_t)m->heads * 4);
    a.work = bn_arena_get(&mem, work);
    for (size_t i = 0; i < TOKENS * ld; i++) {
        float f = (float)(i * 2654435761u % 61) / 16 - 2;

        d->op.cast(d, qkv + i * size, t, &f, BN_F32, 1);
        if (i < TOKENS * cols)
            d->op.cast(d, (char *)d_o + i * size, t, &f, BN_F32, 1);
    }
    size_t k = cols * size, v = k + (size_t)m->kv_heads * m->hd * size;
    a.q = qkv;
    a.k = qkv + k;
    a.v = qkv + v;
    const struct bn_attn_grad g = {d_o, grad, grad + k, grad + v};
    for (int i = 0; i < ROUNDS; i++) {
        double t0 = bn_now();
        d->op.attn(d, t, &a);
        double t1 = bn_now();
        d->op.attn_grad(d, t, &a, &g);
        double t2 = bn_now();

        forward = t1 - t0 < forward ? t1 - t0 : forward;
        backward = t2 - t1 < backward ? t2 - t1 : backward;
    }
    double flop = 4.0 * (double)cols * SEGS * LENGTH * (LENGTH + 1) / 2;
    const char *type = t == BN_F32 ? "fp32" : "bf16";
    snprintf(name, sizeof(name), "attn-%s-%s-forward", m->name, type);
    report(name, flop / forward * 1e-9, gemm_rate * 1e-9, 0, "GFLOP/s");
    snprintf(name, sizeof(name), "attn-%s-%s-backward", m->name, type);
    report(name, 2.5 * flop / backward * 1e-9, gemm_rate * 1e-9, 0, "GFLOP/s");
    bn_arena_release(&mem);
}

/* Bytes read and written a second, against memcpy by the same threads. */
static void adamw(struct bn_dev *d)
{
    const size_t n = 64u << 20;
    const struct bn_adamw a = {0.9f, 0.999f, 1e-8f, 0.1f};
    const struct bn_adamw_now now = {1, 1e-4f, 0.5f, 0.5f};
    struct bn_arena mem;
    struct bn_err err;
    double ours = 1e9, peer = 1e9;

    if (bn_arena_init(&mem, "parameters", n * 20, &err) < 0)
        die(&err);
    bn_arena_touch(&mem);
    float *p = (float *)mem.base, *m = p + n, *v = m + n, *g = v + n;
    uint16_t *w = (uint16_t *)(g + n);
    for (int i = 0; i < ROUNDS; i++) {
        double t0 = bn_now();
        d->op.adamw(d, BN_BF16, &a, w, p, m, v, g, &now, n);
        double t1 = bn_now();
        d->op.cast(d, m, BN_F32, p, BN_F32, n); /* memcpy in pieces */
        double t2 = bn_now();

        ours = t1 - t0 < ours ? t1 - t0 : ours;
        peer = t2 - t1 < peer ? t2 - t1 : peer;
    }
    report("adamw-bf16-vs-memcpy", (double)n * 30 / ours * 1e-9,
           (double)n * 8 / peer * 1e-9, 1.2, "GB/s");
    bn_arena_release(&mem);
}

int main(int argc, char **argv)
{
    int threads = 0;
    struct bn_err err;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--all") == 0)
            all_shapes = true;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            threads = atoi(argv[++i]);
        else {
            fprintf(stderr, "usage: bench-ops [--threads N] [--all]\n");
            return BN_ERR_USAGE;
        }
    }
    struct bn_dev *d = bn_dev_cpu(threads, &err);
    if (d == NULL)
        die(&err);
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        for (int t = 0; t < 2; t++) {
            enum bn_dtype type = t ? BN_BF16 : BN_F32;

            attention(d, type, &models[i], products(d, type, &models[i]));
        }
    }
    adamw(d);
    bn_dev_destroy(d);
    return missed > 0;
}
