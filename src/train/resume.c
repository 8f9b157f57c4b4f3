/* Where a run goes on. */
#include "config.h"
#include "train/saved.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static bool leads(const struct bn_session *s)
{
    return s->info.rank == 0;
}

/* Whether all ranks could do it; one that could not has filled 'err'.
 * Collective. */
static int all_could(struct bn_session *s, bool could, const char *what,
                     bool *failed, struct bn_err *err)
{
    int64_t bad = !could;

    *failed = false;
    if (s->world->ops->allreduce(s->world, &bad, BN_I64, 1, BN_MAX,
                                 could ? err : NULL) < 0)
        return -1;
    *failed = bad != 0;
    if (*failed && could)
        bn_fail(err, BN_ERR_DATA, "%s", what);
    return *failed ? -1 : 0;
}

/* From host memory to where the trainer wants it. */
static int install(struct bn_trainer *t, const struct bn_ckpt_stage *g,
                   struct bn_err *err)
{
    struct bn_optim *o = t->optim;
    struct bn_model *m = t->model;
    struct bn_ckpt_state mem = {o->master, o->m, o->v};

    if (bn_ckpt_place_stage(g, &mem, t->dev, err) < 0)
        return -1;
    if (m->t != BN_F32)
        t->dev->op.cast(t->dev,
                        (char *)o->trained.w
                            + o->begin * bn_dtype_size(m->t),
                        m->t,
                        o->master, BN_F32, o->count);
    if (bn_optim_gather(o, err) < 0)
        return -1;
    bn_model_changed(m);
    return bn_dev_check(t->dev, err);
}

int bn_saved_restore(struct bn_session *s, const struct bn_ckpt *c,
                     float *mem, bool *failed, struct bn_err *err)
{
    const struct bn_optim *o = s->trainer->optim;
    struct bn_ckpt_stage g;
    char *what = bn_asprintf("another rank cannot read '%s'", c->path);
    double t0 = bn_now();
    int rc = bn_ckpt_stage(&g, c, o->trained.params, o->begin, o->count,
                           s->info.size, s->info.rank, mem, err);
    bool could = rc == 0;

    rc = all_could(s, could, what, failed, err);
    if (rc == 0)
        rc = bn_session_agree(s, install(s->trainer, &g, err), NULL, err);
    if (rc == 0 && leads(s))
        bn_debug("checkpoint '%s': read in %.3f s", c->path, bn_now() - t0);
    if (could)
        bn_ckpt_unstage(&g);
    free(what);
    return rc;
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

/* An adapter belongs to the very weights that it was trained beside. */
static int same_base(const struct bn_session *s, const struct bn_ckpt *c,
                     struct bn_err *err)
{
    const char *is = s->trainer->base;

    if (c->base == NULL && is[0] == '\0')
        return 0;
    if (c->base == NULL || is[0] == '\0')
        return bn_fail(err, BN_ERR_USAGE, "it holds %s and the run trains %s",
                       c->base != NULL ? "an adapter" : "a whole model",
                       c->base != NULL ? "a whole model" : "an adapter");
    if (strcmp(c->base, is) != 0)
        return bn_fail(err, BN_ERR_USAGE, "the model beside the adapter has "
                       "changed: its weights' hash was %s, that of '%s' is "
                       "%s", c->base, s->run->model.model_name_or_path, is);
    return 0;
}

/* Whether the run may go on from it, and where its loop then is. */
static int same_run(const struct bn_session *s, const struct bn_ckpt *c,
                    struct bn_saved *state, struct bn_err *err)
{
    char *print = bn_saved_fingerprint(s);
    int rc = bn_run_trajectory_same(c->trajectory, print, err);

    if (rc == 0)
        rc = same_model(s, c, err);
    if (rc == 0)
        rc = same_base(s, c, err);
    free(print);
    if (rc < 0)
        return bn_err_prefix(err, "cannot go on from '%s' (give another "
                             "output_dir)", c->path);
    return bn_saved_parse(c->loop, c->path, state, err);
}

/* Go on from a checkpoint; *failed as bn_saved_restore. Collective. */
static int resume(struct bn_session *s, const struct bn_ckpt *c,
                  struct bn_saved *state, struct bn_saver *v, bool *failed,
                  struct bn_err *err)
{
    float *mem = v != NULL ? bn_saver_memory(v) : NULL;
    struct bn_saved was;

    *failed = false;
    if (bn_session_agree(s, same_run(s, c, &was, err), NULL, err) < 0
        || bn_saved_restore(s, c, mem, failed, err) < 0)
        return -1;
    *state = was;
    s->trainer->optim->step = state->step;
    if (leads(s))
        bn_info("resumed from '%s' after step %ld", c->path, state->step);
    return 0;
}

/* resume: never, on a directory that holds a run: refuse to mix the two. */
static int must_be_new(const struct bn_session *s, struct bn_err *err)
{
    static const char *const marks[] = {"metrics.jsonl", "model", "adapter"};
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

struct bn_ckpt *bn_saved_open(struct bn_session *s, const char *path,
                              bool *failed, struct bn_err *err)
{
    struct bn_ckpt *c = bn_ckpt_open(path, err);
    char *what = bn_asprintf("another rank cannot open '%s'", path);

    if (all_could(s, c != NULL, what, failed, err) < 0) {
        bn_ckpt_close(c);
        c = NULL;
    }
    free(what);
    return c;
}

/* From the newest whole checkpoint, if there is one; newer ones that are not
 * whole are named. The list is rank 0's. */
static int resume_newest(struct bn_session *s, struct bn_saved *state,
                         struct bn_saver *v, struct bn_err *err)
{
    long *steps = NULL;
    size_t n = 0;
    int64_t step = 0;
    bool failed = true;
    int rc = leads(s) ? bn_ckpt_list(s->run->output_dir, &steps, &n, err) : 0;

    rc = bn_session_agree(s, rc, NULL, err);
    while (rc == 0 && failed && step >= 0) {
        step = leads(s) && n > 0 ? steps[--n] : -1;
        rc = s->world->ops->bcast(s->world, &step, sizeof(step), 0, err);
        if (rc < 0 || step < 0)
            break;
        char *path = bn_asprintf("%s/checkpoint-%lld", s->run->output_dir,
                                 (long long)step);
        struct bn_ckpt *c = bn_saved_open(s, path, &failed, err);
        rc = c != NULL ? resume(s, c, state, v, &failed, err) : -1;
        if (failed) {
            bn_warn("checkpoint '%s' cannot be used, trying an older one: %s",
                    path, err->text);
            rc = 0;
        }
        bn_ckpt_close(c);
        free(path);
    }
    free(steps);
    return rc;
}

static int resume_named(struct bn_session *s, const char *path,
                        struct bn_saved *state, struct bn_saver *v,
                        struct bn_err *err)
{
    bool failed;
    int rc = bn_is_dir(path)
                 ? 0
                 : bn_fail(err, BN_ERR_DATA, "resume: '%s' is no folder: give "
                           "auto, never or the folder of a checkpoint", path);

    if (bn_session_agree(s, rc, NULL, err) < 0)
        return -1;
    struct bn_ckpt *c = bn_saved_open(s, path, &failed, err);
    rc = c != NULL ? resume(s, c, state, v, &failed, err) : -1;

    bn_ckpt_close(c);
    return rc;
}

int bn_load_checkpoint(struct bn_session *s, struct bn_saver *v,
                       struct bn_saved *state, struct bn_err *err)
{
    const char *how = s->run->save.resume;

    *state = (struct bn_saved){.saved_step = -1, .eval_step = -1};
    if (strcmp(how, "auto") == 0)
        return resume_newest(s, state, v, err);
    if (strcmp(how, "never") != 0)
        return resume_named(s, how, state, v, err);
    return bn_session_agree(s, must_be_new(s, err), NULL, err);
}
