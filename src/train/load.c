/* The weights a run begins with. */
#include "config.h"
#include "train/trainer.h"
#include "train/load.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/peft.h"
#include "model/init.h"
#include "tensor/convert.h"

#include <stdlib.h>

static void say(struct bn_str *report, int rc)
{
    if (report->len > 0) /* the error itself says how many, and the first */
        bn_log_lines(rc < 0 ? BN_LOG_INFO : BN_LOG_DEBUG, report->s);
    bn_str_release(report);
}

/* The model's own weights as type t. */
static int fill(struct bn_trainer *t, void *flat, enum bn_dtype type,
                struct bn_err *err)
{
    const struct bn_run_model *rm = &t->run->model;
    const struct bn_model *m = t->model;
    struct bn_str report = {0};
    unsigned flags = 0;
    int rc;

    if (rm->init == BN_RUN_INIT_RANDOM) {
        struct bn_model_config cfg = m->cfg;

        if (rm->init_std > 0)
            cfg.init_std = rm->init_std;
        bn_params_randomize(&m->params, &cfg, (uint64_t)t->run->seed, flat,
                            type);
        return 0;
    }
    if (rm->allow_nonfinite_weights)
        flags |= BN_LOAD_ALLOW_NONFINITE;
    if (rm->allow_zero_weights)
        flags |= BN_LOAD_ALLOW_ZERO;
    rc = bn_hf_load(rm->model_name_or_path, &m->cfg, &m->params, flat, type,
                    flags, &report, err);
    say(&report, rc);
    return rc;
}

/* What is trained begins with 'flat', float. */
static void begin(struct bn_trainer *t, const float *flat)
{
    struct bn_trained x = bn_model_trained(t->model);
    const struct bn_ops *op = &t->dev->op;

    op->from_host(t->dev, x.w, t->model->t, flat, BN_F32, x.params->elems);
    if (t->optim != NULL && t->model->t != BN_F32)
        op->from_host(t->dev, t->optim->master, BN_F32, flat + t->optim->begin,
                      BN_F32, t->optim->count);
}

/* A new adapter: random, with the model's own modules where it has copies. */
static void new_adapter(const struct bn_trainer *t, const void *base,
                        float *flat)
{
    const struct bn_model *m = t->model;
    const struct bn_params *ps = &m->adapter->params;

    bn_lora_randomize(ps, (uint64_t)t->run->seed, flat);
    for (int i = 0; i < ps->n; i++) {
        const struct bn_param *p = &ps->item[i], *q;

        q = bn_param_find(&m->params, p->kind, p->layer);
        if (p->kind < BN_P_LORA)
            bn_convert(flat + p->offset, BN_F32,
                       (const char *)base + q->offset * bn_dtype_size(m->t),
                       m->t, p->count);
    }
}

static int load_adapter(struct bn_trainer *t, const void *base,
                        struct bn_err *err)
{
    const struct bn_model *m = t->model;
    const char *dir = t->run->lora.adapter;
    float *flat = BN_NEWN(float, m->adapter->params.elems);
    struct bn_str report = {0};
    int rc = 0;

    if (dir == NULL)
        new_adapter(t, base, flat);
    else
        rc = bn_peft_load(dir, &m->cfg, &m->adapter->lora,
                          &m->adapter->params, flat, BN_F32, &report, err);
    say(&report, rc);
    if (rc == 0)
        begin(t, flat);
    t->dev->op.sync(t->dev);
    free(flat);
    return rc;
}

int bn_trainer_load(struct bn_trainer *t, struct bn_err *err)
{
    struct bn_model *m = t->model;
    /* Masters have more digits than weights; frozen weights have none. */
    bool frozen = m->adapter != NULL;
    enum bn_dtype type = frozen ? m->t : BN_F32;
    size_t n = m->params.elems;
    void *flat = bn_realloc(NULL, n, bn_dtype_size(type));
    int rc = fill(t, flat, type, err);

    if (rc == 0 && frozen) {
        t->dev->op.from_host(t->dev, m->w, m->t, flat, type, n);
        rc = load_adapter(t, flat, err);
    } else if (rc == 0) {
        begin(t, flat);
    }
    t->dev->op.sync(t->dev);
    if (rc == 0) {
        bn_model_changed(m);
        rc = bn_dev_check(t->dev, err);
    }
    free(flat);
    return rc;
}
