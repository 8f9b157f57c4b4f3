#include "config.h"
#include "model/test/lora_fixture.h"
#include "base/mem.h"
#include "kernels/number.h"
#include "model/init.h"

#include <stdlib.h>
#include <string.h>

/* Rows of several lengths; as pairs, too. */
static void make_examples(struct fixture *f)
{
    memset(f->mask, 1, sizeof(f->mask));
    f->mask[0] = 0;
    for (int i = 0; i < EXAMPLES; i++) {
        for (int p = 0; p < 3; p++)
            for (int k = 0; k < LONGEST; k++)
                f->ids[i][p][k] = (int32_t)(bn_rng_u64(5, (uint64_t)(3 * i + p),
                                                       (uint64_t)k)
                                            % (uint64_t)f->cfg.vocab_size);
        f->ex[i] = (struct bn_example){.index = 100 + i,
                                       .ids = f->ids[i][0],
                                       .mask = f->mask,
                                       .n = LONGEST - 2 * i,
                                       .chosen = f->ids[i][1],
                                       .nchosen = LONGEST - i,
                                       .rejected = f->ids[i][2],
                                       .nrejected = 1 + 3 * i};
    }
}

static void make_model(struct fixture *f, enum bn_dtype t)
{
    struct bn_part part = bn_part_whole(&f->cfg);
    const struct bn_adapter *adapter = NULL;
    struct bn_params ps;
    struct bn_err err;

    must(bn_params_init(&ps, &f->cfg, &part, &err), &err);
    if (f->adapter.lora.r > 0) {
        must(bn_params_init_lora(&f->adapter.params, &f->cfg, &part,
                                 &f->adapter.lora, &err), &err);
        adapter = &f->adapter;
    }
    size_t bytes = bn_model_bytes(&f->cfg, &ps, adapter, t, MAX_POS, true);
    must(f->dev->op.arena_init(f->dev, &f->state, "model", bytes, &err),
         &err);
    f->m = bn_model_create(&f->cfg, &ps, adapter, t, MAX_POS, true, f->dev,
                           &f->mesh, &f->state, &err);
    if (f->m == NULL)
        fail_msg("%s", err.text);
    assert_int_equal(f->state.used, bytes);
    bn_params_randomize(&f->m->params, &f->cfg, 3, f->m->w, t);
    for (size_t i = 0; adapter != NULL && i < adapter->params.elems; i++)
        bn_put(t, f->m->adapter_w, i, (float)(0.1 * normal(7, i)));
    bn_model_changed(f->m);
}

static void lay_out(struct fixture *f, enum bn_recompute mode)
{
    struct bn_acts_size size = {EXAMPLES * 4 * LONGEST, 3 * EXAMPLES,
                                EXAMPLES * 4 * LONGEST, mode, true};
    int scores = EXAMPLES * 5 * LONGEST, seqs = 3 * EXAMPLES;
    struct bn_arena plan;
    struct bn_acts a;
    struct bn_head h;
    struct bn_err err;

    bn_arena_plan(&plan, "plan");
    bn_acts_init(&a, f->m, &size, &plan);
    bn_head_init(&h, f->m, 256, scores, seqs, true, &plan);
    bn_acts_release(&a);
    bn_head_release(&h);
    must(f->dev->op.arena_init(f->dev, &f->work, "work", plan.used, &err),
         &err);
    memset(f->work.base, 0xff, plan.used); /* NaN where nothing is written */
    bn_acts_init(&f->a, f->m, &size, &f->work);
    bn_head_init(&f->h, f->m, 256, scores, seqs, true, &f->work);
    assert_int_equal(f->work.used, plan.used);
}

void open_fixture(struct fixture *f, const char *variant, enum bn_dtype t,
                  struct bn_lora lora, enum bn_recompute mode)
{
    const char *src = getenv("BN_SRCDIR");
    char *path = bn_asprintf("%s/t/data/arch-variants/%s/config.json",
                             src ? src : ".", variant);
    struct bn_err err;

    memset(f, 0, sizeof(*f));
    f->dev = bn_dev_cpu(2, &err);
    f->world = bn_comm_self();
    must(bn_mesh_init(&f->mesh, f->world, 1, 1, 1, 1, &err), &err);
    must(bn_model_config_load(&f->cfg, path, NULL, &err), &err);
    f->cfg.init_std = 0.08;
    f->adapter.lora = lora;
    if (lora.r > 0)
        bn_lora_all_linear(&f->adapter.lora);
    make_model(f, t);
    lay_out(f, mode);
    make_examples(f);
    free(path);
}

void close_fixture(struct fixture *f)
{
    bn_acts_release(&f->a);
    bn_head_release(&f->h);
    bn_model_destroy(f->m);
    bn_params_release(&f->adapter.params);
    bn_lora_release(&f->adapter.lora);
    f->dev->op.arena_release(f->dev, &f->work);
    f->dev->op.arena_release(f->dev, &f->state);
    bn_mesh_release(&f->mesh);
    bn_comm_destroy(f->world);
    bn_dev_destroy(f->dev);
}

double run(struct fixture *f, const struct bn_batch *b, double denom)
{
    struct bn_err err;
    struct bn_loss_denom d = {denom, denom};
    struct bn_loss_params p = {0.25, -1e-6};
    double metrics[BN_LOSS_MAX_KEYS] = {0};
    struct bn_head_job job = {.loss = b->group == 3 ? &bn_loss_orpo
                                                    : &bn_loss_sft,
                              .params = &p,
                              .denom = &d,
                              .metrics = metrics};

    must(bn_model_forward(f->m, &f->a, b, &err), &err);
    must(bn_head_run(f->m, &f->h, b, f->a.y_f, f->a.d_x, &job, &err), &err);
    bn_model_backward(f->m, &f->a, f->a.d_x);
    must(bn_dev_check(f->dev, &err), &err);
    return metrics[0];
}

double run_text(struct fixture *f, const struct bn_example *ex, int n)
{
    struct bn_batch b;
    struct bn_err err;

    must(bn_batch_build(&b, 1, ex, n, 0, &err), &err);
    bn_model_zero_grad(f->m);
    double loss = run(f, &b, 40);
    bn_batch_release(&b);
    return loss;
}
