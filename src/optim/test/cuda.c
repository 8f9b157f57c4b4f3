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

static void forward(struct fixture *f)
{
    struct bn_err err;

    bn_model_zero_grad(f->m);
    must(bn_model_forward(f->m, &f->a, &f->b, &err), &err);
}

static double head(struct fixture *f)
{
    double metrics[BN_LOSS_MAX_KEYS] = {0};
    struct bn_loss_params p = {0.1, -1e-6};
    struct bn_head_job job = {.loss = &bn_loss_sft, .params = &p,
                              .denom = &f->d, .metrics = metrics};
    struct bn_err err;

    must(bn_head_run(f->m, &f->h, &f->b, f->a.y_f, f->a.d_x, &job, &err),
         &err);
    return metrics[0];
}

static void backward(struct fixture *f)
{
    bn_model_backward(f->m, &f->a, f->a.d_x);
}

static void update(struct fixture *f)
{
    double norm;
    struct bn_err err;

    must(bn_optim_step(f->optim, 1e-3, &norm, &err), &err);
    assert_true(norm > 0);
}

/* How often a part waited for the device since 'was', which goes on. */
static unsigned long waits(struct bn_emu_calls *was)
{
    struct bn_emu_calls now = bn_emu_calls();
    unsigned long n = now.waits - was->waits;

    assert_int_equal(now.mallocs, was->mallocs);
    *was = now;
    return n;
}

/* Nothing is allocated. The host waits where it has to know: for the sums of
 * log-probabilities, of which the loss is made, and for the norm. */
static void what_a_step_waits_for(void **state)
{
    struct fixture f;
    double first = 0, loss = 0;

    (void)state;
    set_up(&f);
    for (int i = 0; i < 3; i++) {
        struct bn_emu_calls was = bn_emu_calls();

        forward(&f);
        assert_int_equal(waits(&was), 0);
        loss = head(&f);
        unsigned long n = waits(&was);
        if (n < 1 || n > 4)
            fail_msg("the head waits %lu times", n);
        backward(&f);
        assert_int_equal(waits(&was), 0);
        update(&f);
        assert_true(waits(&was) <= 2);
        first = i == 0 ? loss : first;
    }
    assert_true(loss < first); /* it was a step */
    tear_down(&f);
}

/* What lies between those waits can be captured: forward, and backward. */
static void what_a_graph_can_hold(void **state)
{
    struct fixture f;
    cudaGraph_t graph;
    cudaStream_t stream;

    (void)state;
    set_up(&f);
    stream = bn_cuda_stream(f.dev);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cudaStreamBeginCapture(stream,
                                                cudaStreamCaptureModeGlobal),
                         0);
        forward(&f);
        assert_int_equal(cudaStreamEndCapture(stream, &graph), 0);
        cudaGraphDestroy(graph);
        (void)head(&f);
        assert_int_equal(cudaStreamBeginCapture(stream,
                                                cudaStreamCaptureModeGlobal),
                         0);
        backward(&f);
        assert_int_equal(cudaStreamEndCapture(stream, &graph), 0);
        cudaGraphDestroy(graph);
        update(&f);
    }
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_step_waits_for),
        cmocka_unit_test(what_a_graph_can_hold),
    };

    return BN_TAP_RUN(tests);
}
