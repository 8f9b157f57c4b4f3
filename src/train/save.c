#include "config.h"
#include "train/save.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "ckpt/hf.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *loop_json(const struct bn_saved *s)
{
    const struct bn_window *w = &s->window;
    json_t *sums = json_array();

    for (int k = 0; k < BN_LOSS_MAX_KEYS; k++)
        json_array_append_new(sums, json_real(w->sums[k]));
    return json_pack("{s:I, s:f, s:f, s:I, s:I, s:b, s:f, s:I, s:I, s:I, s:f,"
                     " s:f, s:o}",
                     "step", (json_int_t)s->step, "tokens", w->total_tokens,
                     "examples", w->total_examples, "records",
                     (json_int_t)s->records, "eval_step",
                     (json_int_t)s->eval_step, "has_best", (int)s->has_best,
                     "best", s->best, "best_step", (json_int_t)s->best_step,
                     "bad_evals", (json_int_t)s->bad_evals, "window_steps",
                     (json_int_t)w->steps, "grad_norm", w->last.grad_norm,
                     "lr", w->last.lr, "window_sums", sums);
}

static int parse_sums(const json_t *o, const char *where,
                      struct bn_window *w, struct bn_err *err)
{
    const json_t *sums = json_object_get(o, "window_sums");

    if (json_array_size(sums) != BN_LOSS_MAX_KEYS)
        return bn_fail(err, BN_ERR_DATA, "%s: manifest: the loop's "
                       "'window_sums' are not %d numbers", where,
                       BN_LOSS_MAX_KEYS);
    for (size_t k = 0; k < BN_LOSS_MAX_KEYS; k++)
        w->sums[k] = json_number_value(json_array_get(sums, k));
    return 0;
}

static int loop_parse(const json_t *o, const char *where, struct bn_saved *s,
                      struct bn_err *err)
{
    int64_t step, eval_step, best_step, bad, steps;
    struct bn_window *w = &s->window;
    const struct {
        const char *key;
        int64_t *i; /* one of the two */
        double *d;
    } want[] = {
        {"step", &step, NULL}, {"tokens", NULL, &w->total_tokens},
        {"examples", NULL, &w->total_examples}, {"records", &s->records, NULL},
        {"eval_step", &eval_step, NULL}, {"best", NULL, &s->best},
        {"best_step", &best_step, NULL}, {"bad_evals", &bad, NULL},
        {"window_steps", &steps, NULL},
        {"grad_norm", NULL, &w->last.grad_norm}, {"lr", NULL, &w->last.lr},
    };

    *s = (struct bn_saved){0};
    for (size_t k = 0; k < BN_COUNT(want); k++) {
        int got = want[k].i != NULL
                      ? bn_json_int(o, where, want[k].key, want[k].i, err)
                      : bn_json_num(o, where, want[k].key, want[k].d, err);

        if (got == 0)
            bn_fail(err, BN_ERR_DATA, "%s: manifest: the loop has no '%s'",
                    where, want[k].key);
        if (got != 1)
            return -1;
    }
    if (bn_json_bool(o, where, "has_best", &s->has_best, err) < 0
        || parse_sums(o, where, w, err) < 0)
        return -1;
    s->step = s->saved_step = (long)step;
    s->eval_step = (long)eval_step;
    s->best_step = (long)best_step;
    s->bad_evals = (long)bad;
    w->steps = (long)steps;
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

static bool leads(const struct bn_session *s)
{
    return s->info.rank == 0;
}

/* What this rank writes: nobody else holds it. */
static struct bn_ckpt_shard my_shard(const struct bn_session *s)
{
    const struct bn_optim *o = s->trainer->optim;

    return (struct bn_ckpt_shard){.part = s->trainer->model->params.part,
                                  .pp = s->mesh.pp.index,
                                  .dp = s->mesh.data.index,
                                  .begin = o->begin,
                                  .count = o->count};
}

/* Rank 0 writes the manifest once every shard is on disk. */
static int commit(struct bn_session *s, const struct bn_saved *state,
                  const char *tmp, const struct bn_ckpt_shard *all,
                  struct bn_err *err)
{
    json_t *loop = loop_json(state);
    char *print = fingerprint(s);
    int rc = bn_ckpt_commit(tmp, s->run->output_dir, state->step, all,
                            (size_t)s->info.size, &s->cfg, print, loop, err);

    if (rc == 0) {
        bool best = s->run->eval.load_best_model_at_end && state->has_best;

        bn_ckpt_prune(s->run->output_dir, (long)s->run->save.save_total_limit,
                      best ? state->best_step : -1);
    }
    json_decref(loop);
    free(print);
    return rc;
}

static int write_shards(struct bn_session *s, const struct bn_saved *state,
                        const char *tmp, struct bn_err *err)
{
    struct bn_optim *o = s->trainer->optim;
    struct bn_ckpt_state mem = {o->master, o->m, o->v};
    struct bn_ckpt_shard shard = my_shard(s);
    struct bn_ckpt_shard *all = BN_NEWN(struct bn_ckpt_shard,
                                        (size_t)s->info.size);
    int rc = bn_ckpt_write_shard(tmp, &shard, &mem, s->trainer->dev, err);

    rc = bn_session_agree(s, rc, NULL, err);
    if (rc == 0)
        rc = s->world->ops->allgather(s->world, all, &shard, BN_U8,
                                      sizeof(shard), err);
    if (rc == 0 && leads(s))
        rc = commit(s, state, tmp, all, err);
    free(all);
    return bn_session_agree(s, rc, NULL, err);
}

int bn_save_checkpoint(struct bn_session *s, const struct bn_saved *state,
                       struct bn_err *err)
{
    char *tmp = bn_ckpt_tmp(s->run->output_dir, state->step);
    int rc = leads(s) ? bn_ckpt_begin(tmp, err) : 0;

    rc = bn_session_agree(s, rc, NULL, err);
    if (rc == 0)
        rc = write_shards(s, state, tmp, err);
    if (rc < 0 && leads(s))
        bn_remove_tree(tmp, NULL);
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

/* The config beside the shards must be this run's: equal shapes would not
 * show another RoPE, window or norm. */
static int same_model(const struct bn_session *s, const struct bn_ckpt *c,
                      struct bn_err *err)
{
    json_t *was = bn_model_config_json(&c->cfg, NULL, BN_F32);
    json_t *is = bn_model_config_json(&s->cfg, NULL, BN_F32), *v;
    const char *key;
    int rc = 0;

    json_object_update_missing(was, is); /* keys of both, for the loop */
    json_object_foreach(was, key, v)
        if (rc == 0 && !json_equal(v, json_object_get(is, key))) {
            char *a = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
            char *b = json_dumps(json_object_get(is, key),
                                 JSON_ENCODE_ANY | JSON_COMPACT);

            rc = bn_fail(err, BN_ERR_USAGE, "the model has changed: %s was %s"
                         " and is %s", key, a, b != NULL ? b : "absent");
            free(a);
            free(b);
        }
    json_decref(was);
    json_decref(is);
    return rc;
}

static int resume(struct bn_session *s, const struct bn_ckpt *c,
                  struct bn_saved *state, struct bn_err *err)
{
    char *print = fingerprint(s);
    int rc = bn_run_trajectory_same(c->trajectory, print, err);

    if (rc == 0)
        rc = same_model(s, c, err);
    free(print);
    if (rc < 0)
        return bn_err_prefix(err, "cannot go on from '%s' (give another "
                             "output_dir)", c->path);
    if (loop_parse(c->loop, c->path, state, err) < 0
        || restore(s->trainer, c, err) < 0)
        return -1;
    s->trainer->optim->step = state->step;
    if (leads(s))
        bn_info("resumed from '%s' after step %ld", c->path, state->step);
    return 0;
}

/* resume: never, on a directory that holds a run: refuse to mix the two. */
static int must_be_new(const struct bn_session *s, struct bn_err *err)
{
    static const char *const marks[] = {"metrics.jsonl", "model"};
    const char *out = s->run->output_dir;
    long *steps;
    size_t n;
    int rc = 0;

    if (bn_ckpt_list(out, &steps, &n, err) < 0)
        return -1;
    free(steps);
    if (n > 0)
        rc = bn_fail(err, BN_ERR_USAGE, "'%s' holds %zu checkpoints of "
                     "another run and resume is never: give another "
                     "output_dir or remove them", out, n);
    for (size_t i = 0; i < BN_COUNT(marks) && rc == 0; i++) {
        char *path = bn_path_join(out, marks[i]);

        if (bn_exists(path))
            rc = bn_fail(err, BN_ERR_USAGE, "'%s' is there already and resume "
                         "is never: give another output_dir or remove it",
                         path);
        free(path);
    }
    return rc;
}

/* Open a checkpoint on all ranks, each checking its share of the hashes.
 * NULL with *failed if a rank could not: that rank says why. */
static struct bn_ckpt *open_everywhere(struct bn_session *s, const char *path,
                                       bool *failed, struct bn_err *err)
{
    struct bn_ckpt *c = bn_ckpt_open(path, s->info.size, s->info.rank, err);
    int64_t bad = c == NULL;

    *failed = true;
    if (s->world->ops->allreduce(s->world, &bad, BN_I64, 1, BN_MAX,
                                 c != NULL ? err : NULL) < 0) {
        bn_ckpt_close(c);
        return NULL;
    }
    if (bad != 0 && c != NULL) {
        bn_ckpt_close(c);
        bn_fail(err, BN_ERR_DATA, "another rank cannot open '%s'", path);
        return NULL;
    }
    *failed = bad != 0;
    return c;
}

/* The newest whole checkpoint, NULL if there is none; newer ones that are
 * not whole are named. The list is rank 0's. */
static int newest(struct bn_session *s, struct bn_ckpt **found,
                  struct bn_err *err)
{
    long *steps = NULL;
    size_t n = 0;
    int64_t step = 0;
    bool failed = true;

    *found = NULL;
    int rc = leads(s) ? bn_ckpt_list(s->run->output_dir, &steps, &n, err) : 0;
    rc = bn_session_agree(s, rc, NULL, err);
    while (rc == 0 && failed && step >= 0) {
        struct bn_err why;

        step = leads(s) && n > 0 ? steps[--n] : -1;
        rc = s->world->ops->bcast(s->world, &step, sizeof(step), 0, err);
        if (rc < 0 || step < 0)
            break;
        char *path = bn_asprintf("%s/checkpoint-%lld", s->run->output_dir,
                                 (long long)step);
        *found = open_everywhere(s, path, &failed, &why);
        if (failed)
            bn_warn("checkpoint '%s' cannot be used, trying an older one: %s",
                    path, why.text);
        free(path);
    }
    free(steps);
    return rc;
}

int bn_load_checkpoint(struct bn_session *s, struct bn_saved *state,
                       struct bn_err *err)
{
    const char *how = s->run->save.resume;
    struct bn_ckpt *c = NULL;
    bool failed = false;
    int rc = 0;

    *state = (struct bn_saved){.saved_step = -1, .eval_step = -1};
    if (strcmp(how, "never") == 0)
        return bn_session_agree(s, must_be_new(s, err), NULL, err);
    if (strcmp(how, "auto") == 0)
        rc = newest(s, &c, err);
    else
        c = open_everywhere(s, how, &failed, err);
    if (failed)
        rc = -1;
    if (rc == 0 && c != NULL)
        rc = resume(s, c, state, err);
    bn_ckpt_close(c);
    return bn_session_agree(s, rc, NULL, err);
}

/* The best checkpoint's weights, if they are asked for and not these. */
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
    c = open_everywhere(s, path, &failed, err);
    rc = c != NULL ? restore(s->trainer, c, err) : -1;
    if (rc == 0 && leads(s))
        bn_info("the model is that of step %ld, the best by %s (%.6g)",
                state->best_step, s->run->eval.metric_for_best_model,
                state->best);
    bn_ckpt_close(c);
    free(path);
    return rc;
}

/* Whether 'name' in output_dir is something half done: what is being
 * written, and what had stepped aside for it. */
static bool half_done(const char *out, const char *name)
{
    static const char *const prefixes[] = {"tmp.checkpoint-", "tmp.gone-",
                                           "tmp.model"};
    size_t len = strlen(name);

    for (size_t i = 0; i < BN_COUNT(prefixes); i++)
        if (bn_str_starts(name, prefixes[i]))
            return true;
    if (!bn_str_ends(name, ".old")
        || !(bn_str_starts(name, "checkpoint-")
             || strcmp(name, "model.old") == 0))
        return false;
    char *path = bn_asprintf("%s/%.*s", out, (int)(len - 4), name);
    bool there = bn_exists(path);

    free(path);
    return there;
}

void bn_save_clean(const struct bn_run *run)
{
    const char *out = run->output_dir;
    DIR *d = opendir(out);

    if (d == NULL)
        return; /* whoever writes there will say why */
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        struct bn_err err;
        char *path = bn_path_join(out, e->d_name);

        if (half_done(out, e->d_name)) {
            bn_info("removing '%s', which an interrupted run left", path);
            if (bn_remove_tree(path, &err) < 0)
                bn_warn("%s", err.text);
        }
        free(path);
    }
    closedir(d);
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

/* This rank's masters to rank 0. */
static int give(struct bn_session *s, struct bn_err *err)
{
    struct bn_optim *o = s->trainer->optim;
    struct bn_dev *dev = s->trainer->dev;
    struct bn_ckpt_shard shard = my_shard(s);
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
    struct bn_ckpt_shard shard = my_shard(s);
    float *host = bn_realloc(NULL, o->count, sizeof(float));
    int rc;

    dev->op.to_host(dev, host, BN_F32, o->master, BN_F32, o->count);
    rc = bn_dev_check(dev, err);
    if (rc == 0)
        rc = bn_ckpt_place(flat, whole, &s->cfg, &shard, host, err);
    for (int r = 1; rc == 0 && r < s->info.size; r++) {
        rc = s->world->ops->recv(s->world, &shard, sizeof(shard), r, err);
        if (rc < 0)
            break;
        host = bn_realloc(host, shard.count, sizeof(float));
        rc = s->world->ops->recv(s->world, host, shard.count * sizeof(float),
                                 r, err);
        if (rc == 0)
            rc = bn_ckpt_place(flat, whole, &s->cfg, &shard, host, err);
    }
    free(host);
    return rc;
}

/* Rank 0 writes what all have given. */
static int write_folder(struct bn_session *s, const char *dir,
                        struct bn_err *err)
{
    const struct bn_run_model *rm = &s->run->model;
    bool pretrained = rm->init == BN_RUN_INIT_PRETRAINED;
    struct bn_hf_files files = {0};
    struct bn_part part = bn_part_whole(&s->cfg);
    struct bn_params whole;

    if (bn_params_init(&whole, &s->cfg, &part, err) < 0)
        return -1;
    float *flat = BN_NEWN(float, whole.elems);
    int rc = take(s, &whole, flat, err);
    if (rc == 0)
        rc = bn_hf_files_load(&files,
                              pretrained ? rm->model_name_or_path : NULL,
                              rm->tokenizer_name_or_path, err);
    if (rc == 0)
        rc = bn_hf_save_flat(dir, &s->cfg, flat, BN_F32,
                             s->trainer->model->t, (uint64_t)5 << 30, &files,
                             err);
    bn_hf_files_release(&files);
    bn_params_release(&whole);
    free(flat);
    return rc;
}

int bn_save_model(struct bn_session *s, const struct bn_saved *state,
                  struct bn_err *err)
{
    char *dir = bn_path_join(s->run->output_dir, "model");
    char *fresh = bn_path_join(s->run->output_dir, "tmp.model");
    int rc = load_best(s, state, err);

    if (rc == 0 && leads(s)) {
        rc = bn_remove_tree(fresh, err);
        if (rc == 0)
            rc = write_folder(s, fresh, err);
        if (rc == 0)
            rc = replace(fresh, dir, err);
        if (rc == 0)
            bn_info("model written to '%s'", dir);
    } else if (rc == 0) {
        rc = give(s, err);
    }
    free(fresh);
    free(dir);
    return bn_session_agree(s, rc, NULL, err);
}
