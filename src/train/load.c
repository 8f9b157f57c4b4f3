/* The weights a run begins with. */
#include "config.h"
#include "train/trainer.h"
#include "train/load.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/hf.h"
#include "model/init.h"

#include <stdlib.h>

static int fill(struct bn_trainer *t, float *flat, struct bn_err *err)
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
                            BN_F32);
        return 0;
    }
    if (rm->allow_nonfinite_weights)
        flags |= BN_LOAD_ALLOW_NONFINITE;
    if (rm->allow_zero_weights)
        flags |= BN_LOAD_ALLOW_ZERO;
    rc = bn_hf_load(rm->model_name_or_path, &m->cfg, &m->params, flat, BN_F32,
                    flags, &report, err);
    if (report.len > 0) /* the error itself says how many, and the first */
        bn_log_lines(rc < 0 ? BN_LOG_INFO : BN_LOG_DEBUG, report.s);
    bn_str_release(&report);
    return rc;
}

int bn_trainer_load(struct bn_trainer *t, struct bn_err *err)
{
    struct bn_model *m = t->model;
    const struct bn_ops *op = &t->dev->op;
    size_t n = m->params.elems;
    float *flat = bn_realloc(NULL, n, sizeof(float));
    int rc = fill(t, flat, err);

    if (rc == 0) {
        op->from_host(t->dev, m->w, m->t, flat, BN_F32, n);
        if (t->optim != NULL && m->t != BN_F32)
            op->from_host(t->dev, t->optim->master, BN_F32,
                          flat + t->optim->begin, BN_F32, t->optim->count);
        op->sync(t->dev);
        bn_model_changed(m);
        rc = bn_dev_check(t->dev, err);
    }
    free(flat);
    return rc;
}
