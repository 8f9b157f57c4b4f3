#include "config.h"
#include "train/save.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/ckpt.h"
#include "ckpt/hf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *loop_json(const struct bn_saved *s)
{
    return json_pack("{s:I, s:f, s:f, s:I, s:b, s:f, s:I, s:I}", "step",
                     (json_int_t)s->step, "tokens", s->tokens, "examples",
                     s->examples, "eval_step", (json_int_t)s->eval_step,
                     "has_best", (int)s->has_best, "best", s->best,
                     "best_step", (json_int_t)s->best_step, "bad_evals",
                     (json_int_t)s->bad_evals);
}

static int loop_parse(const json_t *o, const char *where, struct bn_saved *s,
                      struct bn_err *err)
{
    int64_t step = 0, eval_step = 0, best_step = 0, bad = 0;

    *s = (struct bn_saved){0};
    if (bn_json_int(o, where, "step", &step, err) < 0
        || bn_json_num(o, where, "tokens", &s->tokens, err) < 0
        || bn_json_num(o, where, "examples", &s->examples, err) < 0
        || bn_json_int(o, where, "eval_step", &eval_step, err) < 0
        || bn_json_bool(o, where, "has_best", &s->has_best, err) < 0
        || bn_json_num(o, where, "best", &s->best, err) < 0
        || bn_json_int(o, where, "best_step", &best_step, err) < 0
        || bn_json_int(o, where, "bad_evals", &bad, err) < 0)
        return -1;
    s->step = s->saved_step = (long)step;
    s->eval_step = (long)eval_step;
    s->best_step = (long)best_step;
    s->bad_evals = (long)bad;
    return 0;
}

/* What must be the same for a run to go on: the keys that decide the
 * trajectory, and the data itself. */
static char *fingerprint(const struct bn_session *s)
{
    char *keys = bn_run_trajectory(s->run);
    char hex[BN_HASH_HEX];
    char *all = bn_asprintf("%sdata: %s\n", keys,
                            bn_hash_hex(bn_tokens_hash(s->train), hex));

    free(keys);
    return all;
}

int bn_save_checkpoint(struct bn_session *s, const struct bn_saved *state,
                       struct bn_err *err)
{
    struct bn_trainer *t = s->trainer;
    struct bn_optim *o = t->optim;
    const char *out = s->run->output_dir;
    struct bn_ckpt_shard shard = {.part = t->model->params.part,
                                  .pp = s->mesh.pp.index,
                                  .dp = s->mesh.data.index,
                                  .begin = o->begin,
                                  .count = o->count};
    struct bn_ckpt_state mem = {o->master, o->m, o->v};
    char *tmp = bn_ckpt_begin(out, state->step, err);
    int rc = -1;

    if (tmp == NULL)
        return -1;
    json_t *loop = loop_json(state);
    char *print = fingerprint(s);
    if (bn_ckpt_write_shard(tmp, &shard, &mem, t->dev, err) == 0)
        rc = bn_ckpt_commit(tmp, out, state->step, &shard, 1, &s->cfg, print,
                            loop, err);
    else
        bn_remove_tree(tmp, NULL);
    if (rc == 0) {
        bool best = s->run->eval.load_best_model_at_end && state->has_best;

        bn_ckpt_prune(out, (long)s->run->save.save_total_limit,
                      best ? state->best_step : -1);
    }
    json_decref(loop);
    free(print);
    free(tmp);
    return rc;
}

/* Weights, masters and moments of an open checkpoint. */
static int restore(struct bn_trainer *t, const struct bn_ckpt *c,
                   struct bn_err *err)
{
    struct bn_optim *o = t->optim;
    struct bn_model *m = t->model;
    struct bn_ckpt_state mem = {o->master, o->m, o->v};

    if (bn_ckpt_read(c, &m->params, o->begin, o->count, &mem, t->dev, err)
        < 0)
        return -1;
    if (m->t != BN_F32)
        t->dev->op.cast(t->dev,
                        (char *)m->w + o->begin * bn_dtype_size(m->t), m->t,
                        o->master, BN_F32, o->count);
    bn_model_changed(m);
    return bn_dev_check(t->dev, err);
}

static int resume(struct bn_session *s, const struct bn_ckpt *c,
                  struct bn_saved *state, struct bn_err *err)
{
    char *print = fingerprint(s);
    int rc = bn_run_trajectory_same(c->trajectory, print, err);

    free(print);
    if (rc < 0)
        return bn_err_prefix(err, "cannot go on from '%s' (give another "
                             "output_dir, or resume: never)", c->path);
    if (loop_parse(c->loop, c->path, state, err) < 0
        || restore(s->trainer, c, err) < 0)
        return -1;
    s->trainer->optim->step = state->step;
    bn_info("resumed from '%s' after step %ld", c->path, state->step);
    return 0;
}

/* resume: never, on a directory that holds a run: refuse to mix the two. */
static int must_be_new(const struct bn_session *s, struct bn_err *err)
{
    long *steps;
    size_t n;

    if (bn_ckpt_list(s->run->output_dir, &steps, &n, err) < 0)
        return -1;
    free(steps);
    if (n > 0)
        return bn_fail(err, BN_ERR_USAGE, "'%s' holds %zu checkpoints of "
                       "another run and resume is never: give another "
                       "output_dir or remove them", s->run->output_dir, n);
    return 0;
}

int bn_load_checkpoint(struct bn_session *s, struct bn_saved *state,
                       struct bn_err *err)
{
    const char *how = s->run->save.resume;
    struct bn_ckpt *c = NULL;
    int rc = 0;

    *state = (struct bn_saved){.saved_step = -1, .eval_step = -1};
    if (strcmp(how, "never") == 0)
        return must_be_new(s, err);
    if (strcmp(how, "auto") == 0) {
        if (bn_ckpt_newest(s->run->output_dir, &c, err) < 0)
            return -1;
    } else {
        c = bn_ckpt_open(how, true, err);
        if (c == NULL)
            return -1;
    }
    if (c != NULL)
        rc = resume(s, c, state, err);
    bn_ckpt_close(c);
    return rc;
}

/* The best checkpoint's weights, if they are asked for and not these. */
static int load_best(struct bn_session *s, const struct bn_saved *state,
                     struct bn_err *err)
{
    struct bn_ckpt *c;
    char *path;
    int rc;

    if (!s->run->eval.load_best_model_at_end || !state->has_best
        || state->best_step == state->step)
        return 0;
    path = bn_asprintf("%s/checkpoint-%ld", s->run->output_dir,
                       state->best_step);
    c = bn_ckpt_open(path, true, err);
    rc = c != NULL ? restore(s->trainer, c, err) : -1;
    if (rc == 0)
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

    if (rc == 0 && bn_exists(dir) && rename(dir, old) < 0)
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

static int write_folder(struct bn_session *s, const char *dir,
                        struct bn_err *err)
{
    const struct bn_run_model *rm = &s->run->model;
    struct bn_model *m = s->trainer->model;
    bool pretrained = rm->init == BN_RUN_INIT_PRETRAINED;
    struct bn_hf_files files = {0};
    float *flat = bn_realloc(NULL, m->params.elems, sizeof(float));
    int rc = -1;

    m->dev->op.to_host(m->dev, flat, BN_F32, s->trainer->optim->master,
                       BN_F32, m->params.elems);
    if (bn_dev_check(m->dev, err) == 0
        && bn_hf_files_load(&files, pretrained ? rm->model_name_or_path : NULL,
                            rm->tokenizer_name_or_path, err) == 0)
        rc = bn_hf_save_flat(dir, &s->cfg, flat, BN_F32, m->t,
                             (uint64_t)5 << 30, &files, err);
    bn_hf_files_release(&files);
    free(flat);
    return rc;
}

int bn_save_model(struct bn_session *s, const struct bn_saved *state,
                  struct bn_err *err)
{
    char *dir = bn_path_join(s->run->output_dir, "model");
    char *fresh = bn_path_join(s->run->output_dir, "tmp.model");
    int rc = load_best(s, state, err);

    if (rc == 0)
        rc = bn_remove_tree(fresh, err);
    if (rc == 0)
        rc = write_folder(s, fresh, err);
    if (rc == 0)
        rc = replace(fresh, dir, err);
    if (rc == 0 && s->info.rank == 0)
        bn_info("model written to '%s'", dir);
    free(fresh);
    free(dir);
    return rc;
}
