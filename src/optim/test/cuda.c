/* A whole step on the emulated GPU: what it allocates (nothing), where it
 * waits for the device, and which parts a CUDA graph could hold.
 */
#include "config.h"
#include "base/mem.h"
#include "base/tap.h"
#include "kernels/emu/runtime.h"
#include "model/head.h"
#include "model/init.h"
#include "ops/cuda.h"
#include "optim/adamw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3, LENGTH = 20 };

static const struct bn_model_config cfg = {
    .family = BN_LLAMA, .vocab_size = 96, .hidden_size = 64,
    .intermediate_size = 64, .layers = 2, .heads = 2, .kv_heads = 1,
    .head_dim = 32, .max_position = LENGTH, .rms_eps = 1e-5, .init_std = 0.1,
    .rope = {.type = BN_ROPE_DEFAULT, .theta = 1e4}, .dtype = -1};

struct fixture {
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
};

static void must(int rc, const struct bn_err *err)
{
    if (rc < 0)
        fail_msg("%s", err->text);
}

static void make_batch(struct fixture *f)
{
    int32_t ids[ROWS][LENGTH];
    uint8_t mask[LENGTH];
    struct bn_example ex[ROWS];
    struct bn_err err;

    memset(mask, 1, sizeof(mask));
    mask[0] = 0;
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < LENGTH; k++)
            ids[i][k] = (7 * i + 5 * k) % 96;
        ex[i] = (struct bn_example){.index = i, .ids = ids[i], .mask = mask,
                                    .n = LENGTH - i};
    }
    must(bn_batch_build(&f->b, 1, ex, ROWS, 0, &err), &err);
    f->d.examples = ROWS;
    for (int i = 0; i < f->b.nseq; i++)
        f->d.tokens += f->b.seq[i].ntok;
}

static void carve(struct fixture *f, struct bn_arena *a)
{
    struct bn_acts_size size = {f->b.ntok, f->b.nseg, f->b.ntok,
                                BN_RECOMPUTE_NONE, true};

    bn_acts_init(&f->a, f->m, &size, a);
    bn_head_init(&f->h, f->m, f->b.nscore, f->b.nscore, f->b.nseq, true, a);
}

static void set_up(struct fixture *f)
{
    struct bn_optim_conf oc = {0.9, 0.999, 1e-8, 0.01, true, 1.0, 1};
    struct bn_cuda_options o = {.strict = true, .threads = 1};
    struct bn_part part = bn_part_whole(&cfg);
    struct bn_params ps;
    struct bn_arena plan;
    struct bn_err err;

    *f = (struct fixture){0};
    f->dev = bn_dev_cuda(&o, &err);
    assert_non_null(f->dev);
    f->world = bn_comm_self();
    must(bn_mesh_init(&f->mesh, f->world, 1, 1, 1, 1, &err), &err);
    must(bn_params_init(&ps, &cfg, &part, &err), &err);
    size_t n = ps.elems;
    must(f->dev->op.arena_init(f->dev, &f->state, "model",
                               bn_model_bytes(&cfg, &ps, NULL, BN_BF16, LENGTH,
                                              true)
                                   + bn_optim_bytes(BN_BF16, n), &err), &err);
    f->m = bn_model_create(&cfg, &ps, NULL, BN_BF16, LENGTH, true, f->dev,
                           &f->mesh, &f->state, &err);
    assert_non_null(f->m);
    f->optim = bn_optim_create(&oc, f->m, 0, n, &f->state, &err);
    uint16_t *flat = BN_NEWN(uint16_t, n);
    bn_params_randomize(&f->m->params, &cfg, 3, flat, BN_BF16);
    f->dev->op.from_host(f->dev, f->m->w, BN_BF16, flat, BN_BF16, n);
    free(flat);
    bn_optim_set_masters(f->optim);
    bn_model_changed(f->m);
    make_batch(f);
    bn_arena_plan(&plan, "plan");
    carve(f, &plan);
    bn_acts_release(&f->a);
    bn_head_release(&f->h);
    must(f->dev->op.arena_init(f->dev, &f->work, "work", plan.used, &err),
         &err);
    carve(f, &f->work);
}

static void tear_down(struct fixture *f)
{
    bn_batch_release(&f->b);
    bn_acts_release(&f->a);
    bn_head_release(&f->h);
    bn_optim_destroy(f->optim);
    bn_model_destroy(f->m);
    f->dev->op.arena_release(f->dev, &f->work);
    f->dev->op.arena_release(f->dev, &f->state);
    bn_mesh_release(&f->mesh);
    bn_comm_destroy(f->world);
    bn_dev_destroy(f->dev);
}

static void queue_head(struct fixture *f)
{
    static const struct bn_loss_params p = {0.1, -1e-6};
    struct bn_head_job job = {.loss = &bn_loss_sft, .params = &p,
                              .denom = &f->d, .batch = 3};
    struct bn_err err;

    bn_head_begin(f->m, &f->h);
    must(bn_head_queue(f->m, &f->h, &f->b, f->a.y_f, f->a.d_x, &job, &err),
         &err);
}

/* All of a step but for the reading of its results. */
static void queue_step(struct fixture *f)
{
    const struct bn_ops *op = &f->dev->op;
    struct bn_err err;

    bn_model_zero_grad(f->m);
    must(bn_model_forward(f->m, &f->a, &f->b, &err), &err);
    queue_head(f);
    bn_model_backward(f->m, &f->a, f->a.d_x);
    must(bn_optim_queue(f->optim, 1e-3, &err), &err);
    op->mail(f->dev, 0, f->h.acc, sizeof(*f->h.acc));
    op->mail(f->dev, sizeof(*f->h.acc), f->optim->sq, sizeof(double));
}

static const struct bn_loss_acc *collect(struct fixture *f, double *sq)
{
    const struct bn_loss_acc *acc = f->dev->op.collect(f->dev);

    *sq = *(const double *)(const void *)(acc + 1);
    return acc;
}

/* Nothing is allocated, and nothing waits for the device before the results
 * are read: once, and last. */
static void a_step_waits_for_nothing(void **state)
{
    struct fixture f;
    double first = 0, loss = 0, sq, norm;

    (void)state;
    set_up(&f);
    for (int i = 0; i < 3; i++) {
        struct bn_emu_calls was = bn_emu_calls(), now;
        struct bn_err err;

        queue_step(&f);
        now = bn_emu_calls();
        assert_int_equal(now.waits, was.waits);
        assert_int_equal(now.mallocs, was.mallocs);
        loss = collect(&f, &sq)->metrics[0];
        now = bn_emu_calls();
        assert_int_equal(now.waits, was.waits + 1);
        must(bn_optim_end(f.optim, sq, &norm, &err), &err);
        assert_true(norm > 0);
        first = i == 0 ? loss : first;
    }
    assert_true(loss < first); /* it was a step */
    tear_down(&f);
}

/* What waits all the same is found out. */
static void a_wait_in_a_step_is_a_failure(void **state)
{
    struct fixture f;
    struct bn_err err;
    float x;

    (void)state;
    set_up(&f);
    f.dev->queueing = true;
    queue_step(&f);
    must(bn_dev_check(f.dev, &err), &err);
    f.dev->op.to_host(f.dev, &x, BN_F32, f.optim->master, BN_F32, 1);
    assert_int_equal(bn_dev_check(f.dev, &err), -1);
    assert_string_equal(err.text, "to_host in the middle of a step");
    tear_down(&f);
}

/* A weight that is NaN: seen on the device, which changes nothing. */
static void a_bad_step_leaves_all_as_it_was(void **state)
{
    static const float nan_ = NAN;
    struct fixture f;
    double sq, norm;
    size_t n;
    struct bn_err err;

    (void)state;
    set_up(&f);
    n = f.m->params.elems;
    float *was = BN_NEWN(float, 3 * n), *now = BN_NEWN(float, 3 * n);
    const float *state_of[] = {f.optim->master, f.optim->m, f.optim->v};

    queue_step(&f);
    (void)collect(&f, &sq);
    must(bn_optim_end(f.optim, sq, &norm, &err), &err);
    for (int k = 0; k < 3; k++)
        f.dev->op.to_host(f.dev, was + (size_t)k * n, BN_F32, state_of[k],
                          BN_F32, n);
    /* A logit alone, of a token that is no target: no gradient need see it. */
    f.dev->op.from_host(f.dev, &f.h.acc->taint, BN_F32, &nan_, BN_F32, 1);
    f.optim->taint = &f.h.acc->taint;
    must(bn_optim_queue(f.optim, 1e-3, &err), &err);
    f.dev->op.to_host(f.dev, &sq, BN_F64, f.optim->sq, BN_F64, 1);
    assert_int_equal(bn_optim_end(f.optim, sq, &norm, &err), -1);
    assert_int_equal(err.code, BN_ERR_NUMERIC);
    assert_int_equal(f.optim->step, 1);
    /* And one that spoils the loss itself. */
    f.dev->op.from_host(f.dev, f.m->w, BN_BF16, &nan_, BN_F32, 1);
    queue_step(&f);
    const struct bn_loss_acc *acc = collect(&f, &sq);
    assert_true(acc->fault == BN_LOSS_SUM && acc->batch == 3);
    assert_int_equal(bn_head_fault(acc, &f.b, &err), -1);
    assert_non_null(strstr(err.text, "log-probability of example 0 is "));
    assert_int_equal(bn_optim_end(f.optim, sq, &norm, &err), -1);
    for (int k = 0; k < 3; k++)
        f.dev->op.to_host(f.dev, now + (size_t)k * n, BN_F32, state_of[k],
                          BN_F32, n);
    assert_memory_equal(was, now, 3 * n * sizeof(*was));
    free(was);
    free(now);
    tear_down(&f);
}

/* All of a step can be a graph, and its launches are the same steps to the
 * bit, learning rate and correction of bias included. */
static void a_step_can_be_a_graph(void **state)
{
    struct fixture f[2];
    struct bn_graph *graph = NULL;
    struct bn_err err;
    double sq[2], norm;

    (void)state;
    for (int k = 0; k < 2; k++)
        set_up(&f[k]);
    for (int i = 0; i < 4; i++) {
        struct bn_dev *d = f[1].dev;
        size_t fed = d->fed;

        queue_step(&f[0]);
        if (i > 0)
            d->op.graph_begin(d, graph, i == 1);
        queue_step(&f[1]);
        if (i > 0)
            d->op.graph_end(d, graph, true);
        const struct bn_loss_acc *a = collect(&f[0], &sq[0]);
        const struct bn_loss_acc *b = collect(&f[1], &sq[1]);
        assert_memory_equal(a, b, sizeof(*a));
        assert_true(sq[0] == sq[1]);
        for (int k = 0; k < 2; k++)
            must(bn_optim_end(f[k].optim, sq[k], &norm, &err), &err);
        if (i == 0)
            graph = d->op.graph_create(d, d->fed - fed, &err);
        assert_non_null(graph);
    }
    f[1].dev->op.graph_destroy(f[1].dev, graph);
    for (int k = 0; k < 2; k++)
        tear_down(&f[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_waits_for_nothing),
        cmocka_unit_test(a_wait_in_a_step_is_a_failure),
        cmocka_unit_test(a_bad_step_leaves_all_as_it_was),
        cmocka_unit_test(a_step_can_be_a_graph),
    };

    return BN_TAP_RUN(tests);
}
