/* Times whole training steps on a GPU, with nothing but what a machine with
 * CUDA alone can build, and prints a line a figure:
 *
 *     measure NAME VALUE UNIT
 *
 *     bench-cuda-step [--smoke] WEIGHTS         draw weights, write them to that
 *                                               file, train on them
 *     bench-cuda-step [--smoke] --first SINCE WEIGHTS
 *         read them and take one step: seconds since SINCE (of the epoch)
 *
 * A Llama of 3.2 billion parameters in bf16 with fp32 masters, without
 * recomputation: SFT on packed sequences of 1536 tokens, then ORPO on pairs
 * that share a prompt. WEIGHTS holds the flat parameters (model/params.h) as
 * bf16. jobs/gpu/torch-steps.py does the same with the same weights and
 * tokens; jobs/gpu-check.sh puts the figures side by side. --smoke: a small
 * model, to see that it runs.
 */
#include "config.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/head.h"
#include "model/init.h"
#include "ops/cuda.h"
#include "optim/adamw.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Tokens of a row, of a pair's prompt; rows and pairs of a step. */
static struct {
    int length, prompt, rows, pairs, steps;
} size = {1536, 512, 16, 8, 6};

static struct bn_model_config cfg = {
    .family = BN_LLAMA,
    .vocab_size = 65536,
    .hidden_size = 3072,
    .intermediate_size = 8192,
    .layers = 28,
    .heads = 24,
    .kv_heads = 8,
    .head_dim = 128,
    .max_position = 1536,
    .rms_eps = 1e-5,
    .init_std = 0.02,
    .rope = {.type = BN_ROPE_DEFAULT, .theta = 500000},
    .dtype = -1,
};

struct bench {
    struct bn_dev *dev;
    struct bn_comm *world;
    struct bn_mesh mesh;
    struct bn_arena state, work;
    struct bn_model *m;
    struct bn_optim *optim;
    struct bn_acts a;
    struct bn_head h;
    struct bn_batch b;
    struct bn_loss_denom d;
    bool orpo;
};

static void die(const char *text)
{
    fprintf(stderr, "bench-cuda-step: %s\n", text);
    exit(1);
}

static void must(int rc, const struct bn_err *err)
{
    if (rc < 0)
        die(err->text);
}

static void report(const char *name, double value, const char *unit)
{
    printf("measure %s %.6g %s\n", name, value, unit);
    fflush(stdout);
}

static void make_small(void)
{
    cfg.vocab_size = 256;
    cfg.hidden_size = 64;
    cfg.intermediate_size = 128;
    cfg.layers = 2;
    cfg.heads = 2;
    cfg.kv_heads = 1;
    cfg.head_dim = 64;
    size.length = cfg.max_position = 24;
    size.prompt = 8;
    size.rows = 2;
    size.pairs = 1;
    size.steps = 3;
}

/* --- weights ------------------------------------------------------------- */

static void write_all(const char *path, const void *p, size_t bytes)
{
    FILE *f = fopen(path, "wb");

    if (f == NULL || fwrite(p, 1, bytes, f) != bytes || fclose(f) != 0) {
        fprintf(stderr, "bench-cuda-step: cannot write '%s': %s\n", path,
                strerror(errno));
        exit(1);
    }
}

/* Read in pieces, each on its way to the device while the next is read. */
static void read_weights(struct bench *x, const char *path)
{
    enum { PIECE = 32 << 20 };
    const struct bn_model *m = x->m;
    uint16_t *piece = bn_malloc((size_t)PIECE * 2);
    FILE *f = fopen(path, "rb");

    if (f == NULL)
        die("cannot open the weights");
    for (size_t at = 0; at < m->params.elems; at += PIECE) {
        size_t n = m->params.elems - at < PIECE ? m->params.elems - at : PIECE;

        if (fread(piece, 2, n, f) != n)
            die("the file of weights is too short");
        x->dev->op.from_host(x->dev, (uint16_t *)m->w + at, BN_BF16, piece,
                             BN_BF16, n);
    }
    if (fclose(f) != 0)
        die("cannot read the weights");
    free(piece);
}

static void draw_weights(struct bench *x, const char *path)
{
    const struct bn_model *m = x->m;
    size_t n = m->params.elems;
    uint16_t *flat = bn_malloc(n * 2);

    bn_params_randomize(&m->params, &m->cfg, 1, flat, BN_BF16);
    write_all(path, flat, n * 2);
    x->dev->op.from_host(x->dev, m->w, BN_BF16, flat, BN_BF16, n);
    x->dev->op.sync(x->dev);
    free(flat);
}

static void open_model(struct bench *x)
{
    struct bn_optim_conf oc = {0.9, 0.999, 1e-8, 0.01, true, 1.0, 1};
    struct bn_cuda_options o = {.strict = true};
    struct bn_part part = bn_part_whole(&cfg);
    struct bn_params ps;
    struct bn_err err;

    x->dev = bn_dev_cuda(&o, &err);
    if (x->dev == NULL)
        die(err.text);
    x->world = bn_comm_self();
    must(bn_mesh_init(&x->mesh, x->world, 1, 1, 1, 1, &err), &err);
    must(bn_params_init(&ps, &cfg, &part, &err), &err);
    size_t n = ps.elems;
    size_t bytes = bn_model_bytes(&cfg, &ps, NULL, BN_BF16, size.length, true)
                   + bn_optim_bytes(BN_BF16, n);
    must(x->dev->op.arena_init(x->dev, &x->state, "model", bytes, &err), &err);
    x->m = bn_model_create(&cfg, &ps, NULL, BN_BF16, size.length, true, x->dev,
                           &x->mesh, &x->state, &err);
    if (x->m == NULL)
        die(err.text);
    x->optim = bn_optim_create(&oc, x->m, 0, n, &x->state, &err);
    if (x->optim == NULL)
        die(err.text);
}

static void start_over(struct bench *x)
{
    bn_model_changed(x->m);
    bn_optim_set_masters(x->optim);
    x->dev->op.zero(x->dev, x->optim->m, x->optim->count * sizeof(float));
    x->dev->op.zero(x->dev, x->optim->v, x->optim->count * sizeof(float));
    x->optim->step = 0;
}

/* --- batches ------------------------------------------------------------- */

/* The token at place i of the stream, as torch-steps.py makes it. */
static int32_t token(uint32_t i)
{
    return (int32_t)(((i + 1) * 2654435761u >> 7) % (uint32_t)cfg.vocab_size);
}

static void make_batch(struct bench *x)
{
    int n = x->orpo ? size.pairs : size.rows;
    int each = x->orpo ? 2 * size.length - size.prompt : size.length;
    int answer = size.length - size.prompt;
    int32_t *ids = BN_NEWN(int32_t, (size_t)n * (size_t)each);
    uint8_t *mask = bn_malloc((size_t)size.length);
    struct bn_example *ex = BN_NEWN(struct bn_example, (size_t)n);
    struct bn_err err;

    memset(mask, 1, (size_t)size.length);
    mask[0] = 0;
    for (int i = 0; i < n * each; i++)
        ids[i] = token((uint32_t)i);
    for (int i = 0; i < n; i++) {
        int32_t *p = ids + (size_t)i * (size_t)each;

        ex[i] = (struct bn_example){.index = i, .ids = p, .mask = mask,
                                    .n = size.length};
        if (!x->orpo)
            continue;
        ex[i].n = size.prompt;
        ex[i].chosen = p + size.prompt;
        ex[i].rejected = p + size.length;
        ex[i].nchosen = ex[i].nrejected = answer;
    }
    must(bn_batch_build(&x->b, x->orpo ? 3 : 1, ex, n, BN_BATCH_SCORE_PROMPT,
                        &err), &err);
    x->d = (struct bn_loss_denom){.examples = n};
    for (int i = 0; i < x->b.nseq; i++)
        if (i % x->b.group < 2)
            x->d.tokens += x->b.seq[i].ntok;
    free(ex);
    free(mask);
    free(ids);
}

static void carve_head(struct bench *x, struct bn_arena *a)
{
    int rows = bn_head_chunk_rows(x->m, (size_t)1 << 30);

    if (rows > x->b.nscore)
        rows = x->b.nscore;
    bn_head_init(&x->h, x->m, rows, x->b.nscore, x->b.nseq, true, a);
}

static void carve(struct bench *x, struct bn_arena *a)
{
    struct bn_acts_size s = {x->b.ntok, x->b.nseg, x->b.ntok,
                             BN_RECOMPUTE_NONE, true};

    bn_acts_init(&x->a, x->m, &s, a);
    carve_head(x, a);
}

static void lay_out(struct bench *x, bool orpo)
{
    struct bn_arena plan;
    struct bn_err err;

    x->orpo = orpo;
    make_batch(x);
    bn_arena_plan(&plan, "plan");
    carve(x, &plan);
    bn_acts_release(&x->a);
    bn_head_release(&x->h);
    must(x->dev->op.arena_init(x->dev, &x->work, "activations", plan.used,
                               &err), &err);
    carve(x, &x->work);
}

static void clear_away(struct bench *x)
{
    bn_acts_release(&x->a);
    bn_head_release(&x->h);
    bn_batch_release(&x->b);
    x->dev->op.arena_release(x->dev, &x->work);
}

/* --- steps --------------------------------------------------------------- */

/* From hidden states to the loss, and to their gradient. */
static double run_head(struct bench *x)
{
    double metrics[BN_LOSS_MAX_KEYS] = {0};
    struct bn_loss_params p = {0.1, -1e-6};
    struct bn_head_job job = {
        .loss = x->orpo ? &bn_loss_orpo : &bn_loss_sft,
        .params = &p,
        .denom = &x->d,
        .metrics = metrics,
    };
    struct bn_err err;

    must(bn_head_run(x->m, &x->h, &x->b, x->a.y_f, x->a.d_x, &job, &err),
         &err);
    return metrics[0];
}

static double step(struct bench *x)
{
    struct bn_err err;
    double loss, norm;

    bn_model_zero_grad(x->m);
    must(bn_model_forward(x->m, &x->a, &x->b, &err), &err);
    loss = run_head(x);
    bn_model_backward(x->m, &x->a, x->a.d_x);
    must(bn_optim_step(x->optim, 1e-4, &norm, &err), &err);
    x->dev->op.sync(x->dev);
    must(bn_dev_check(x->dev, &err), &err);
    return loss;
}

/* The head alone, on the states of a forward pass; and its memory. */
static void time_head(struct bench *x)
{
    struct bn_head used = x->h;
    struct bn_arena plan;
    struct bn_err err;
    double best = HUGE_VAL;

    must(bn_model_forward(x->m, &x->a, &x->b, &err), &err);
    for (int i = 0; i < size.steps; i++) {
        x->dev->op.sync(x->dev);
        double t0 = bn_now();

        (void)run_head(x);
        x->dev->op.sync(x->dev);
        double s = bn_now() - t0;
        if (i > 0 && s < best)
            best = s;
    }
    must(bn_dev_check(x->dev, &err), &err);
    report("head_orpo", size.pairs / best, "pairs/s");
    bn_arena_plan(&plan, "head");
    carve_head(x, &plan);
    bn_head_release(&x->h);
    x->h = used;
    report("head_orpo_memory", (double)plan.used / 1e9 / size.pairs,
           "GB/pair");
}

/* By the count of perf's 6 N + 6 L heads head_dim T a token: products and the
 * causal half of attention, nothing twice. */
static double flops_a_token(void)
{
    double q = (double)cfg.heads * cfg.head_dim;
    double kv = (double)cfg.kv_heads * cfg.head_dim, hidden = cfg.hidden_size;
    double layer = hidden * (2 * q + 2 * kv)
                   + 3 * hidden * (double)cfg.intermediate_size;
    double n = layer * cfg.layers + hidden * (double)cfg.vocab_size;

    return 6 * n + 6 * cfg.layers * q * size.length;
}

static void time_task(struct bench *x, bool orpo)
{
    const char *task = orpo ? "orpo" : "sft";
    double best = HUGE_VAL, loss = 0, peak;
    char name[40], what[64];

    lay_out(x, orpo);
    for (int i = 0; i < size.steps; i++) {
        double t0 = bn_now();

        loss = step(x);
        double s = bn_now() - t0;
        if (i > 0 && s < best)
            best = s;
    }
    if (!orpo) {
        double rate = (double)size.rows * size.length / best;

        report("step_sft", rate, "tokens/s");
        peak = bn_cuda_peak_flops(x->dev, BN_BF16, what, sizeof(what));
        if (peak > 0)
            report("step_sft_mfu", rate * flops_a_token() / peak, "of peak");
    } else {
        report("step_orpo", size.pairs / best, "pairs/s");
        report("step_orpo_memory", (double)x->work.size / 1e9 / size.pairs,
               "GB/pair");
        time_head(x);
    }
    snprintf(name, sizeof(name), "step_%s_loss", task);
    report(name, loss, "nats");
    clear_away(x);
}

static void train(struct bench *x, const char *path)
{
    draw_weights(x, path);
    start_over(x);
    time_task(x, false);
    read_weights(x, path);
    start_over(x);
    time_task(x, true);
}

static void first_step(struct bench *x, const char *path, const char *since)
{
    struct timespec now;

    read_weights(x, path);
    start_over(x);
    lay_out(x, false);
    (void)step(x);
    if (timespec_get(&now, TIME_UTC) != TIME_UTC)
        die("no clock");
    report("first_step", (double)now.tv_sec + (double)now.tv_nsec * 1e-9
                             - strtod(since, NULL), "s");
    clear_away(x);
}

int main(int argc, char **argv)
{
    struct bench x = {0};
    const char *since = NULL, *path = NULL;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--smoke") == 0)
            make_small();
        else if (strcmp(argv[i], "--first") == 0 && i + 1 < argc)
            since = argv[++i];
        else
            path = argv[i];
    if (path == NULL)
        die("usage: bench-cuda-step [--smoke] [--first SINCE] WEIGHTS");
    open_model(&x);
    if (since != NULL)
        first_step(&x, path, since);
    else
        train(&x, path);
    bn_optim_destroy(x.optim);
    bn_model_destroy(x.m);
    x.dev->op.arena_release(x.dev, &x.state);
    bn_mesh_release(&x.mesh);
    bn_comm_destroy(x.world);
    bn_cuda_report(x.dev);
    bn_dev_destroy(x.dev);
    return 0;
}
