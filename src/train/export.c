/* The model that a run ends with, as a Hugging Face folder, or its adapter in
 * PEFT's format. */
#include "config.h"
#include "train/saved.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/peft.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool leads(const struct bn_session *s)
{
    return s->info.rank == 0;
}

/* The best checkpoint's weights, if they are asked for and not these; all
 * ranks have them then, or all fail. */
static int load_best(struct bn_session *s, const struct bn_saved *state,
                     struct bn_err *err)
{
    struct bn_ckpt *c;
    bool failed;
    char *path;
    int rc;

    if (!s->run->eval.load_best_model_at_end || !state->has_best
        || state->best_step == state->step)
        return 0;
    path = bn_asprintf("%s/checkpoint-%ld", s->run->output_dir,
                       state->best_step);
    c = bn_saved_open(s, path, &failed, err);
    rc = c != NULL ? bn_saved_restore(s, c, NULL, &failed, err) : -1;
    if (rc == 0 && leads(s))
        bn_info("the model is that of step %ld, the best by %s (%.6g)",
                state->best_step, s->run->eval.metric_for_best_model,
                state->best);
    bn_ckpt_close(c);
    free(path);
    return rc;
}

/* The folder is whole before the former one goes. */
static int replace(const char *fresh, const char *dir, struct bn_err *err)
{
    char *old = bn_asprintf("%s.old", dir);
    int rc = bn_remove_tree(old, err);

    if (rc == 0 && bn_is_listed(dir) && rename(dir, old) < 0)
        rc = bn_fail(err, bn_err_from_errno(errno), "cannot move '%s' aside:"
                     " %s", dir, strerror(errno));
    if (rc == 0 && rename(fresh, dir) < 0)
        rc = bn_fail(err, bn_err_from_errno(errno), "cannot rename '%s': %s",
                     fresh, strerror(errno));
    if (rc == 0)
        rc = bn_remove_tree(old, err);
    free(old);
    return rc;
}

/* This rank's masters to rank 0. */
static int give(struct bn_session *s, struct bn_err *err)
{
    struct bn_optim *o = s->trainer->optim;
    struct bn_dev *dev = s->trainer->dev;
    struct bn_ckpt_shard shard = bn_saved_shard(s);
    float *host = bn_realloc(NULL, o->count, sizeof(float));
    int rc;

    dev->op.to_host(dev, host, BN_F32, o->master, BN_F32, o->count);
    rc = bn_dev_check(dev, err);
    if (rc == 0)
        rc = s->world->ops->send(s->world, &shard, sizeof(shard), 0, err);
    if (rc == 0)
        rc = s->world->ops->send(s->world, host, o->count * sizeof(float), 0,
                                 err);
    free(host);
    return rc;
}

/* Rank 0's own and every other rank's masters into the whole model. */
static int take(struct bn_session *s, const struct bn_params *whole,
                float *flat, struct bn_err *err)
{
    struct bn_optim *o = s->trainer->optim;
    struct bn_dev *dev = s->trainer->dev;
    struct bn_ckpt_shard shard = bn_saved_shard(s);
    struct bn_ckpt_of of = bn_saved_of(s);
    float *host = bn_realloc(NULL, o->count, sizeof(float));
    int rc;

    dev->op.to_host(dev, host, BN_F32, o->master, BN_F32, o->count);
    rc = bn_dev_check(dev, err);
    if (rc == 0)
        rc = bn_ckpt_place(flat, whole, &of, &shard, host, err);
    for (int r = 1; rc == 0 && r < s->info.size; r++) {
        rc = s->world->ops->recv(s->world, &shard, sizeof(shard), r, err);
        if (rc < 0)
            break;
        host = bn_realloc(host, shard.count, sizeof(float));
        rc = s->world->ops->recv(s->world, host, shard.count * sizeof(float),
                                 r, err);
        if (rc == 0)
            rc = bn_ckpt_place(flat, whole, &of, &shard, host, err);
    }
    free(host);
    return rc;
}

/* Rank 0 writes what all have given. */
static int write_folder(struct bn_session *s, const char *dir,
                        struct bn_err *err)
{
    const struct bn_run_model *rm = &s->run->model;
    struct bn_ckpt_of of = bn_saved_of(s);
    const char *model = rm->init == BN_RUN_INIT_PRETRAINED
                            ? rm->model_name_or_path
                            : NULL;
    struct bn_part part = bn_part_whole(&s->cfg);
    struct bn_params whole;

    if (bn_params_init_lora(&whole, &s->cfg, &part, of.lora, err) < 0)
        return -1;
    float *flat = BN_NEWN(float, whole.elems);
    int rc = take(s, &whole, flat, err);
    if (rc == 0 && of.lora != NULL)
        rc = bn_peft_save(dir, &s->cfg, of.lora, flat, model, &s->carried,
                          err);
    else if (rc == 0)
        rc = bn_hf_save_flat(dir, &s->cfg, flat, BN_F32,
                             s->trainer->model->t, (uint64_t)5 << 30,
                             &s->carried, err);
    bn_params_release(&whole);
    free(flat);
    return rc;
}

int bn_save_model(struct bn_session *s, const struct bn_saved *state,
                  struct bn_err *err)
{
    const char *what = s->trainer->model->adapter != NULL ? "adapter"
                                                          : "model";
    char *dir = bn_path_join(s->run->output_dir, what);
    char *fresh = bn_asprintf("%s/tmp.%s", s->run->output_dir, what);
    int rc = load_best(s, state, err);

    if (rc == 0 && leads(s)) {
        rc = bn_remove_tree(fresh, err);
        if (rc == 0)
            rc = write_folder(s, fresh, err);
        if (rc == 0)
            rc = replace(fresh, dir, err);
        if (rc == 0)
            bn_info("%s written to '%s'", what, dir);
    } else if (rc == 0) {
        rc = give(s, err);
    }
    free(fresh);
    free(dir);
    return bn_session_agree(s, rc, NULL, err);
}
