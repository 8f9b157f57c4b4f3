/* Times training steps of a model on random tokens:
 *
 *     bench-step MODEL --batch B --length T [--dtype bf16] [--threads N]
 *         [--steps N] [--pairs P,C,R:P,C,R...] [--ids FILE] [--wait]
 *         [--floor]
 *
 * MODEL is a Hugging Face folder, or a config.json whose weights are drawn.
 * SFT on B rows of T tokens, or with --pairs ORPO on pairs with so many
 * tokens in the prompt, the chosen and the rejected answer.
 * With --ids the tokens are 32-bit integers read from FILE, so that another
 * program can be given the same. Prints a JSON line when it is ready, one a
 * step (seconds, loss) and a last one: page faults a step after step 2, peak
 * memory, tokens. With --wait a line on standard input starts each step, so
 * that two programs can take turns, and its end ends the steps. --floor: the
 * least time of a step's matrix products, measured after the steps, and that of
 * the whole step at the processor's peak, the most seen between them.
 */
#include "config.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ckpt/hf.h"
#include "model/head.h"
#include "model/init.h"
#include "ops/floor.h"
#include "optim/adamw.h"
#include "train/peak.h"
#include "train/trainer.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct opts {
    const char *model, *ids;
    const char *pairs; /* NULL: SFT */
    int batch, length, threads, steps;
    enum bn_dtype t;
    bool wait, floor;
};

struct bench {
    struct opts o;
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
    double peak; /* FLOP/s, the most that was seen */
};

static void must(int rc, const struct bn_err *err)
{
    if (rc < 0) {
        fprintf(stderr, "error: %s\n", err->text);
        exit(err->code);
    }
}

static int parse(int argc, char **argv, struct opts *o)
{
    static const struct option longs[] = {
        {"batch", 1, NULL, 'b'},   {"length", 1, NULL, 'l'},
        {"dtype", 1, NULL, 'd'},   {"threads", 1, NULL, 't'},
        {"steps", 1, NULL, 's'},   {"pairs", 1, NULL, 'p'},
        {"ids", 1, NULL, 'i'},     {"wait", 0, NULL, 'w'},
        {"floor", 0, NULL, 'f'},   {NULL, 0, NULL, 0}};
    int c;

    *o = (struct opts){.batch = 2, .length = 512, .steps = 5, .t = BN_F32};
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case 'b':
            o->batch = atoi(optarg);
            break;
        case 'l':
            o->length = atoi(optarg);
            break;
        case 'p':
            o->pairs = optarg;
            break;
        case 'd':
            o->t = strcmp(optarg, "bf16") == 0 ? BN_BF16 : BN_F32;
            break;
        case 't':
            o->threads = atoi(optarg);
            break;
        case 's':
            o->steps = atoi(optarg);
            break;
        case 'i':
            o->ids = optarg;
            break;
        case 'w':
            o->wait = true;
            break;
        case 'f':
            o->floor = true;
            break;
        default:
            return -1;
        }
    }
    if (optind + 1 != argc)
        return -1;
    o->model = argv[optind];
    return 0;
}

/* Tokens 0.. of the stream that the benchmark trains on. */
static int32_t *tokens(const struct opts *o, size_t n, int vocab)
{
    int32_t *ids = BN_NEWN(int32_t, n);
    struct bn_err err;
    struct bn_map map;

    if (o->ids != NULL) {
        must(bn_map_open(&map, o->ids, &err), &err);
        if (map.len < n * sizeof(*ids)) {
            fprintf(stderr, "error: '%s' is too short\n", o->ids);
            exit(BN_ERR_USAGE);
        }
        memcpy(ids, map.data, n * sizeof(*ids));
        bn_map_close(&map);
    } else {
        for (size_t i = 0; i < n; i++)
            ids[i] = (int32_t)(bn_rng_u64(1, 2, i) % (uint64_t)vocab);
    }
    return ids;
}

/* The next of the pairs P,C,R:P,C,R...; false after the last. */
static bool next_pair(const char **at, int *p, int *c, int *r)
{
    int used = 0;

    if (**at == '\0')
        return false;
    if (sscanf(*at, "%d,%d,%d%n", p, c, r, &used) != 3 || *p < 1 || *c < 1
        || *r < 1 || ((*at)[used] != '\0' && (*at)[used] != ':')) {
        fprintf(stderr, "error: --pairs: '%s' is not P,C,R:P,C,R...\n", *at);
        exit(BN_ERR_USAGE);
    }
    *at += used + ((*at)[used] == ':');
    return true;
}

/* The examples, how long each part of them is and no more. */
static int list_examples(const struct opts *o, struct bn_example **ex)
{
    int n = 0, p, c, r;
    const char *at = o->pairs;

    *ex = BN_NEWN(struct bn_example, at != NULL ? strlen(at)
                                                : (size_t)o->batch);
    if (at == NULL)
        for (; n < o->batch; n++)
            (*ex)[n] = (struct bn_example){.index = n, .n = o->length};
    else
        for (; next_pair(&at, &p, &c, &r); n++)
            (*ex)[n] = (struct bn_example){
                .index = n, .n = p, .nchosen = c, .nrejected = r};
    return n;
}

/* Rows of tokens, or pairs that share a prompt: every token counts, but the
 * first, which nothing foretells. */
static void make_batch(struct bench *x, int vocab)
{
    const struct opts *o = &x->o;
    struct bn_example *ex;
    struct bn_err err;
    size_t total = 0;
    int n = list_examples(o, &ex);

    for (int i = 0; i < n; i++)
        total += (size_t)(ex[i].n + ex[i].nchosen + ex[i].nrejected);
    int32_t *ids = tokens(o, total, vocab), *at = ids;
    uint8_t *mask = bn_malloc(total); /* one for all: as long as any */

    memset(mask, 1, total);
    mask[0] = 0;
    for (int i = 0; i < n; i++) {
        ex[i].ids = at;
        ex[i].mask = mask;
        ex[i].chosen = at + ex[i].n;
        ex[i].rejected = ex[i].chosen + ex[i].nchosen;
        at += ex[i].n + ex[i].nchosen + ex[i].nrejected;
    }
    must(bn_batch_build(&x->b, o->pairs != NULL ? 3 : 1, ex, n,
                        BN_BATCH_SCORE_PROMPT, &err), &err);
    for (int i = 0; i < x->b.nseq; i++)
        if (i % x->b.group < 2)
            x->d.tokens += x->b.seq[i].ntok;
    x->d.examples = n;
    free(ex);
    free(mask);
    free(ids);
}

/* Targets of the largest example: a pair must fit into a chunk (sizes.c). */
static int largest(const struct bn_batch *b)
{
    int most = 0;

    for (int i = 0, n = 0; i < b->nseq; i++) {
        n = (i % b->group > 0 ? n : 0) + b->seq[i].ntok;
        most = n > most ? n : most;
    }
    return most;
}

static void carve(struct bench *x, struct bn_arena *a)
{
    int rows = bn_head_chunk_rows(x->m, (size_t)128 << 20);
    int one = x->o.pairs != NULL ? largest(&x->b) : 0;

    if (one > rows)
        rows = one;
    if (rows > x->b.nscore)
        rows = x->b.nscore;
    struct bn_acts_size size = {x->b.ntok, x->b.nseg, x->b.ntok,
                                BN_RECOMPUTE_NONE, true};
    bn_acts_init(&x->a, x->m, &size, a);
    bn_head_init(&x->h, x->m, rows, x->b.nscore, x->b.nseq, true, a);
}

static void weights(struct bench *x)
{
    struct bn_model *m = x->m;
    const struct bn_ops *op = &x->dev->op;
    size_t n = m->params.elems;
    struct bn_err err;

    if (!bn_is_dir(x->o.model)) {
        bn_params_randomize(&m->params, &m->cfg, 1, m->w, m->t);
        bn_optim_set_masters(x->optim);
    } else {
        float *flat = BN_NEWN(float, n);

        must(bn_hf_load(x->o.model, &m->cfg, &m->params, flat, BN_F32, 0,
                        NULL, &err), &err);
        op->from_host(x->dev, m->w, m->t, flat, BN_F32, n);
        if (m->t != BN_F32)
            op->from_host(x->dev, x->optim->master, BN_F32, flat, BN_F32, n);
        free(flat);
    }
    bn_model_changed(m);
}

static void set_up(struct bench *x)
{
    const struct opts *o = &x->o;
    char *config = bn_is_dir(o->model) ? bn_path_join(o->model, "config.json")
                                       : bn_strdup(o->model);
    struct bn_optim_conf oc = {0.9, 0.999, 1e-8, 0.01, true, 1.0, 1};
    struct bn_model_config cfg;
    struct bn_params ps;
    struct bn_arena plan;
    struct bn_err err;

    must(bn_model_config_load(&cfg, config, NULL, &err), &err);
    free(config);
    x->dev = bn_dev_cpu(o->threads, &err);
    x->world = bn_comm_self();
    must(bn_mesh_init(&x->mesh, x->world, 1, 1, 1, 1, &err), &err);
    struct bn_part part = bn_part_whole(&cfg);
    must(bn_params_init(&ps, &cfg, &part, &err), &err);
    size_t n = ps.elems;
    size_t bytes = bn_model_bytes(&cfg, &ps, NULL, o->t, o->length, true)
                   + bn_optim_bytes(o->t, n);
    must(x->dev->op.arena_init(x->dev, &x->state, "model", bytes, &err), &err);
    x->m = bn_model_create(&cfg, &ps, NULL, o->t, o->length, true, x->dev, &x->mesh,
                           &x->state, &err);
    x->optim = bn_optim_create(&oc, x->m, 0, n, &x->state, &err);
    weights(x);
    make_batch(x, cfg.vocab_size);
    bn_arena_plan(&plan, "plan");
    carve(x, &plan);
    must(x->dev->op.arena_init(x->dev, &x->work, "activations", plan.used,
                               &err), &err);
    carve(x, &x->work);
}

static double step(struct bench *x)
{
    double metrics[BN_LOSS_MAX_KEYS] = {0}, norm;
    struct bn_loss_params p = {0.1, -1e-6};
    struct bn_head_job job = {
        .loss = x->o.pairs != NULL ? &bn_loss_orpo : &bn_loss_sft,
        .params = &p,
        .denom = &x->d,
        .metrics = metrics,
    };
    struct bn_err err;

    bn_model_zero_grad(x->m);
    must(bn_model_forward(x->m, &x->a, &x->b, &err), &err);
    must(bn_head_run(x->m, &x->h, &x->b, x->a.y_f, x->a.d_x, &job, &err),
         &err);
    bn_model_backward(x->m, &x->a, x->a.d_x);
    must(bn_optim_step(x->optim, 1e-4, &norm, &err), &err);
    return metrics[0];
}

/* The products of a step: each weight forward, to the input and to itself. */
static double floor_seconds(struct bench *x)
{
    const struct bn_model *m = x->m;
    int hidden = m->cfg.hidden_size, hd = m->cfg.head_dim;
    const struct bn_gemm_shape w[] = {
        {(m->heads + 2 * m->kv_heads) * hd, hidden, x->b.ntok, m->nlayers, 0},
        {hidden, m->heads * hd, x->b.ntok, m->nlayers, 0},
        {2 * m->ffn, hidden, x->b.ntok, m->nlayers, 0},
        {hidden, m->ffn, x->b.ntok, m->nlayers, 0},
        {m->vocab, hidden, x->b.nscore, 1, 0},
    };
    enum { N = sizeof(w) / sizeof(w[0]) };
    struct bn_gemm_shape all[3 * N];
    struct bn_err err;

    for (int i = 0; i < 3 * N; i++) {
        all[i] = w[i / 3];
        all[i].kind = (enum bn_gemm_kind)(i % 3);
    }
    double s = bn_gemm_floor_seconds(x->dev, x->o.t, all, 3 * N, &err);
    must(s < 0 ? -1 : 0, &err);
    return s;
}

/* Looked at after each step, since clocks come and go. */
static void see_peak(struct bench *x)
{
    char how[96];
    double now = bn_peak_flops(x->dev, x->o.t, how, sizeof(how));

    x->peak = now > x->peak ? now : x->peak;
}

static long faults(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return r.ru_minflt;
}

int main(int argc, char **argv)
{
    struct bench x = {0};
    struct rusage r;
    char line[64];
    long before = 0;

    if (parse(argc, argv, &x.o) < 0) {
        fprintf(stderr, "usage: bench-step MODEL [--batch B] [--length T] "
                "[--dtype fp32|bf16] [--threads N] [--steps N] "
                "[--pairs P,C,R:P,C,R...] [--ids FILE] [--wait] "
                "[--floor]\n");
        return BN_ERR_USAGE;
    }
    set_up(&x);
    printf("{\"ready\":true}\n");
    fflush(stdout);
    int i = 0;
    for (; i < x.o.steps; i++) {
        if (x.o.wait && fgets(line, sizeof(line), stdin) == NULL)
            break;
        if (i == 2)
            before = faults();
        double t0 = bn_now();
        double loss = step(&x);
        printf("{\"step\":%d,\"seconds\":%.6f,\"loss\":%.7g}\n", i,
               bn_now() - t0, loss);
        fflush(stdout);
        if (x.o.floor)
            see_peak(&x);
    }
    double each = i > 2 ? (double)(faults() - before) / (i - 2) : 0;
    getrusage(RUSAGE_SELF, &r);
    printf("{\"faults_a_step\":%.1f,\"peak_bytes\":%ld,\"tokens\":%d", each,
           r.ru_maxrss * 1024, x.b.ntok);
    if (x.o.floor)
        printf(",\"floor_seconds\":%.6f,\"peak_seconds\":%.6f",
               floor_seconds(&x),
               bn_batch_flops(&x.m->cfg, NULL, &x.b) / x.peak);
    printf("}\n");
    return 0;
}
