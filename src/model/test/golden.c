/* Every architecture variant against the independent float64 reference:
 * logits, loss and gradients, in each recompute mode. And pairs that share
 * their prompt against pairs that repeat it.
 */
#include "config.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"
#include "ckpt/hf.h"
#include "model/head.h"
#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const variants[] = {
    "llama-untied",     "llama3-rope",   "mistral-window",
    "qwen2-bias-tied", "qwen3-qknorm-tied",
};

struct fixture {
    struct bn_dev *dev;
    struct bn_comm *world;
    struct bn_mesh mesh;
    struct bn_arena state, work;
    struct bn_model *m;
    struct bn_acts a;
    struct bn_head h;
    json_t *ref;
    struct bn_example ex[8];
    struct bn_batch b;
    int n;
};

static char *path_of(const char *variant, const char *file)
{
    const char *src = getenv("BN_SRCDIR");

    return bn_asprintf("%s/t/data/arch-variants/%s%s", src ? src : ".",
                       variant, file);
}

static void must(int rc, const struct bn_err *err)
{
    if (rc < 0)
        fail_msg("%s", err->text);
}

static void load_model(struct fixture *f, const char *variant,
                       enum bn_dtype t)
{
    struct bn_err err;
    char *dir = path_of(variant, ""), *cfg_path = path_of(variant,
                                                          "/config.json");
    struct bn_model_config cfg;
    struct bn_params ps;

    must(bn_model_config_load(&cfg, cfg_path, NULL, &err), &err);
    struct bn_part part = bn_part_whole(&cfg);
    must(bn_params_init(&ps, &cfg, &part, &err), &err);
    size_t bytes = bn_model_bytes(&cfg, &ps, NULL, t, 64, true);
    must(f->dev->op.arena_init(f->dev, &f->state, "model", bytes, &err), &err);
    f->m = bn_model_create(&cfg, &ps, NULL, t, 64, true, f->dev, &f->mesh,
                           &f->state, &err);
    if (f->m == NULL)
        fail_msg("%s", err.text);
    assert_int_equal(f->state.used, bytes);
    must(bn_hf_load(dir, &cfg, &f->m->params, f->m->w, t, 0, NULL, &err),
         &err);
    bn_model_changed(f->m);
    free(cfg_path);
    free(dir);
}

/* The reference's sequences; every token but the first is a target. */
static void load_batch(struct fixture *f)
{
    json_t *seqs = json_object_get(f->ref, "sequences"), *s, *v;
    struct bn_err err;
    size_t i, j;

    f->n = 0;
    json_array_foreach(seqs, i, s)
    {
        int n = (int)json_array_size(s);
        int32_t *ids = BN_NEWN(int32_t, (size_t)n);
        uint8_t *mask = bn_malloc((size_t)n);

        memset(mask, 1, (size_t)n);
        mask[0] = 0;
        json_array_foreach(s, j, v)
            ids[j] = (int32_t)json_integer_value(v);
        f->ex[f->n++] = (struct bn_example){
            .index = (int64_t)i, .ids = ids, .mask = mask, .n = n};
    }
    must(bn_batch_build(&f->b, 1, f->ex, f->n, 0, &err), &err);
}

static void lay_out(struct fixture *f, enum bn_recompute mode, int chunk)
{
    struct bn_arena plan;
    struct bn_acts a;
    struct bn_head h;
    struct bn_err err;

    bn_arena_plan(&plan, "plan");
    struct bn_acts_size size = {f->b.ntok, f->b.nseg, f->b.ntok, mode, true};
    bn_acts_init(&a, f->m, &size, &plan);
    bn_head_init(&h, f->m, chunk, f->b.nscore, f->b.nseq, true, &plan);
    bn_acts_release(&a);
    must(f->dev->op.arena_init(f->dev, &f->work, "work", plan.used, &err),
         &err);
    memset(f->work.base, 0xff, plan.used); /* NaN wherever nothing is written */
    bn_acts_init(&f->a, f->m, &size, &f->work);
    bn_head_init(&f->h, f->m, chunk, f->b.nscore, f->b.nseq, true, &f->work);
    assert_int_equal(f->work.used, plan.used);
}

static void open_fixture(struct fixture *f, const char *variant,
                         enum bn_dtype t, enum bn_recompute mode, int chunk)
{
    struct bn_err err;
    char *ref = path_of(variant, "/reference.json");

    memset(f, 0, sizeof(*f));
    f->dev = bn_dev_cpu(2, &err);
    f->world = bn_comm_self();
    must(bn_mesh_init(&f->mesh, f->world, 1, 1, 1, 1, &err), &err);
    f->ref = bn_json_load(ref, &err);
    if (f->ref == NULL)
        fail_msg("%s", err.text);
    free(ref);
    load_model(f, variant, t);
    load_batch(f);
    lay_out(f, mode, chunk);
}

static void close_fixture(struct fixture *f)
{
    bn_acts_release(&f->a);
    bn_head_release(&f->h);
    bn_batch_release(&f->b);
    for (int i = 0; i < f->n; i++) {
        free((void *)(uintptr_t)f->ex[i].ids);
        free((void *)(uintptr_t)f->ex[i].mask);
    }
    bn_model_destroy(f->m);
    f->dev->op.arena_release(f->dev, &f->work);
    f->dev->op.arena_release(f->dev, &f->state);
    bn_mesh_release(&f->mesh);
    bn_comm_destroy(f->world);
    json_decref(f->ref);
    bn_dev_destroy(f->dev);
}

/* Forward, loss and backward; returns the loss. */
static double run(struct fixture *f)
{
    struct bn_err err;
    struct bn_loss_denom d = {0};
    struct bn_loss_params p = {0};
    double metrics[BN_LOSS_MAX_KEYS] = {0};
    struct bn_head_job job = {.loss = &bn_loss_sft,
                              .params = &p,
                              .denom = &d,
                              .metrics = metrics};

    for (int i = 0; i < f->b.nseq; i++)
        d.tokens += f->b.seq[i].ntok;
    d.examples = f->b.nseq;
    bn_model_zero_grad(f->m);
    must(bn_model_forward(f->m, &f->a, &f->b, &err), &err);
    must(bn_head_run(f->m, &f->h, &f->b, f->a.y_f, f->a.d_x, &job, &err),
         &err);
    bn_model_backward(f->m, &f->a, f->a.d_x);
    must(bn_dev_check(f->dev, &err), &err);
    return metrics[0];
}

static double num(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void check_logits(struct fixture *f, double tol)
{
    int vocab = f->m->cfg.vocab_size, row = 0;
    float *logits = BN_NEWN(float, (size_t)(f->b.ntok * vocab));
    json_t *all = json_object_get(f->ref, "logits"), *seq, *at, *x;
    size_t s, p, v;
    double worst = 0;

    f->dev->op.linear_f32(f->dev, f->m->t, logits, vocab, f->a.y_f,
                          &f->m->head, f->b.ntok);
    json_array_foreach(all, s, seq)
    {
        json_array_foreach(seq, p, at)
        {
            json_array_foreach(at, v, x)
            {
                double d = fabs(logits[row * vocab + (int)v]
                                - json_number_value(x));
                worst = d > worst ? d : worst;
            }
            row++;
        }
    }
    assert_int_equal(row, f->b.ntok);
    free(logits);
    if (!(worst <= tol))
        fail_msg("logits are off by %g", worst);
}

static void check_gradient(const struct fixture *f, const struct bn_param *p,
                           const json_t *want)
{
    const float *g = f->m->g + p->offset;
    double sq = 0, l2 = num(want, "l2");
    json_t *first = json_object_get(want, "first"), *v;
    size_t i;

    for (size_t k = 0; k < p->count; k++)
        sq += (double)g[k] * g[k];
    if (!(fabs(sqrt(sq) - l2) <= 5e-6 * l2))
        fail_msg("%s: gradient norm %.9g, expected %.9g", p->name, sqrt(sq),
                 l2);
    json_array_foreach(first, i, v)
    {
        double d = fabs(g[i] - json_number_value(v));

        if (!(d <= 1e-5 * l2))
            fail_msg("%s[%zu]: gradient %.9g, expected %.9g", p->name, i,
                     g[i], json_number_value(v));
    }
}

static void check(const char *variant, enum bn_recompute mode, int chunk)
{
    struct fixture f;

    open_fixture(&f, variant, BN_F32, mode, chunk);
    json_t *want = json_object_get(f.ref, "float64");
    json_t *grads = json_object_get(want, "gradients");
    double loss = run(&f), ref = num(want, "loss");

    if (!(fabs(loss - ref) <= 1e-6 * ref))
        fail_msg("%s: loss %.9g, expected %.9g", variant, loss, ref);
    check_logits(&f, 5e-5);
    assert_int_equal(json_object_size(grads), f.m->params.n);
    for (int i = 0; i < f.m->params.n; i++) {
        const struct bn_param *p = &f.m->params.item[i];
        json_t *g = json_object_get(grads, p->name);

        if (g == NULL)
            fail_msg("%s: no gradient of %s", variant, p->name);
        check_gradient(&f, p, g);
    }
    close_fixture(&f);
}

static void variants_equal_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < BN_COUNT(variants); i++)
        check(variants[i], BN_RECOMPUTE_NONE, 64);
}

static void recomputing_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < BN_COUNT(variants); i++) {
        check(variants[i], BN_RECOMPUTE_ATTENTION, 64);
        check(variants[i], BN_RECOMPUTE_FULL, 64);
    }
}

/* A chunk of logits smaller than a sequence takes the two-pass way. */
static void small_chunks_change_nothing(void **state)
{
    (void)state;
    check("llama-untied", BN_RECOMPUTE_NONE, 16);
    check("qwen2-bias-tied", BN_RECOMPUTE_NONE, 7);
}

static void bf16_is_near(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, "llama-untied-bf16", BN_BF16, BN_RECOMPUTE_NONE, 64);
    double loss = run(&f);
    double ref = num(json_object_get(f.ref, "float64"), "loss");
    if (!(fabs(loss - ref) <= 1e-2 * ref))
        fail_msg("loss %.9g, expected %.9g", loss, ref);
    check_logits(&f, 0.25);
    close_fixture(&f);
}

/* Pairs of the reference's tokens: prompts and answers of many lengths, one
 * answer of a single token. */
static int make_pairs(const struct fixture *f, struct bn_example *pair)
{
    int n = 0;

    for (int i = 0; i < f->n; i++) {
        const struct bn_example *a = &f->ex[i], *b = &f->ex[(i + 1) % f->n];
        int cut = 1 + (a->n - 2) * (i + 1) / (f->n + 1);

        pair[n++] = (struct bn_example){
            .index = i, .ids = a->ids, .n = cut, .chosen = a->ids + cut,
            .nchosen = a->n - cut, .rejected = b->ids + b->n / 2,
            .nrejected = i == 0 ? 1 : b->n - b->n / 2};
    }
    return n;
}

/* ORPO's metrics and gradients of the fixture's batch. */
static void run_pairs(struct fixture *f, double *metrics)
{
    struct bn_err err;
    struct bn_loss_denom d = {0};
    struct bn_loss_params p = {0.25, -1e-6};
    struct bn_head_job job = {.loss = &bn_loss_orpo,
                              .params = &p,
                              .denom = &d,
                              .metrics = metrics};

    for (int i = 0; i < f->b.nseq; i += 3) {
        d.tokens += f->b.seq[i].ntok + f->b.seq[i + 1].ntok;
        d.examples++;
    }
    memset(metrics, 0, BN_LOSS_MAX_KEYS * sizeof(*metrics));
    bn_model_zero_grad(f->m);
    must(bn_model_forward(f->m, &f->a, &f->b, &err), &err);
    must(bn_head_run(f->m, &f->h, &f->b, f->a.y_f, f->a.d_x, &job, &err),
         &err);
    bn_model_backward(f->m, &f->a, f->a.d_x);
    must(bn_dev_check(f->dev, &err), &err);
}

static void set_batch(struct fixture *f, const struct bn_example *pair, int n,
                      bool repeated, int flags)
{
    struct bn_err err;

    bn_acts_release(&f->a);
    bn_head_release(&f->h);
    bn_batch_release(&f->b);
    f->dev->op.arena_release(f->dev, &f->work);
    if (repeated)
        must(bn_batch_build_repeated(&f->b, pair, n, flags, &err), &err);
    else
        must(bn_batch_build(&f->b, 3, pair, n, flags, &err), &err);
    lay_out(f, BN_RECOMPUTE_NONE, 64);
}

static void compare_pairs(const char *variant, int flags)
{
    struct fixture f;
    struct bn_example pair[8];
    double shared[BN_LOSS_MAX_KEYS], repeated[BN_LOSS_MAX_KEYS];
    double diff = 0, sq = 0;

    open_fixture(&f, variant, BN_F32, BN_RECOMPUTE_NONE, 64);
    int n = make_pairs(&f, pair);
    assert_true(n >= 2);
    set_batch(&f, pair, n, false, flags);
    int tokens = f.b.ntok;
    run_pairs(&f, shared);
    size_t elems = f.m->params.elems;
    float *g = BN_NEWN(float, elems);
    memcpy(g, f.m->g, elems * sizeof(*g));
    set_batch(&f, pair, n, true, flags);
    assert_true(f.b.ntok > tokens); /* else nothing is repeated */
    run_pairs(&f, repeated);
    for (int k = 0; k < bn_loss_orpo.nkeys; k++)
        if (!(fabs(shared[k] - repeated[k]) <= 2e-6 * (1 + fabs(shared[k]))))
            fail_msg("%s: %s %.9g shared, %.9g repeated", variant,
                     bn_loss_orpo.keys[k], shared[k], repeated[k]);
    for (size_t i = 0; i < elems; i++) {
        double d = (double)g[i] - f.m->g[i];

        diff += d * d;
        sq += (double)g[i] * g[i];
    }
    if (!(sqrt(diff) <= 3e-6 * sqrt(sq) && sq > 0))
        fail_msg("%s: gradients differ by %g of %g", variant, sqrt(diff),
                 sqrt(sq));
    free(g);
    close_fixture(&f);
}

static void shared_prompts_equal_repeated_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < BN_COUNT(variants); i++) {
        compare_pairs(variants[i], 0);
        compare_pairs(variants[i], BN_BATCH_SCORE_PROMPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_prompts_equal_repeated_ones),
        cmocka_unit_test(variants_equal_the_reference),
        cmocka_unit_test(recomputing_changes_nothing),
        cmocka_unit_test(small_chunks_change_nothing),
        cmocka_unit_test(bf16_is_near),
    };

    return BN_TAP_RUN(tests);
}
