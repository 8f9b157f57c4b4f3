/* pipeline_layer_split: measured. The split is measured once for a layout and
 * kept in the run's directory, so that a run that goes on has the same one,
 * and with it the same bits.
 */
#include "config.h"
#include "train/stages.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "train/pipeline.h"
#include "train/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 1, ROUNDS = 3, KEY_MAX = 256 };

/* --- Measuring --------------------------------------------------------- */

/* This rank's part of the first micro-batch of the run. */
static int first_micro(struct bn_trainer *t, struct bn_micro *m,
                       struct bn_err *err)
{
    int slots = bn_plan_slots(&t->plan, 0, 0), rc;
    uint64_t *index = BN_NEWN(uint64_t, (size_t)slots);

    for (int s = 0; s < slots; s++) {
        index[s] = bn_plan_example(&t->plan, 0, 0, s);
        bn_step_count(t, t->train, index[s], &m->denom);
    }
    rc = slots > 0 ? bn_step_batch(t, t->train, index, slots, &m->whole, err)
                   : 0;
    free(index);
    return rc < 0 ? -1 : bn_micro_split(t, m, err);
}

static int measure(struct bn_trainer *t, double *seconds, struct bn_err *err)
{
    struct bn_micro m = {0};
    int rc = first_micro(t, &m, err);

    for (int i = 0; i < WARM + ROUNDS && rc == 0; i++) {
        double s;

        rc = bn_pipeline_measure(t, &m, &s, err);
        if (i == WARM || (i > WARM && s < *seconds))
            *seconds = s;
    }
    bn_micro_release(&m);
    return rc;
}

/* Of the ranks of a stage, which are neighbours, the one that took longest: a
 * rank without data took no time. */
static double slowest(const double *all, int each, int stage)
{
    double most = 0;

    for (int r = stage * each; r < (stage + 1) * each; r++)
        if (all[r] > most)
            most = all[r];
    return most;
}

int bn_stages_measure(struct bn_trainer *t, int *layers, struct bn_err *err)
{
    struct bn_comm *w = t->mesh->world;
    int stages = t->mesh->pp.size, each = w->size / stages, first, end;
    double *all = BN_NEWN(double, (size_t)w->size), mine = 0;
    struct bn_stage_cost c;
    int rc = measure(t, &mine, err);

    if (rc == 0)
        rc = w->ops->allgather(w, all, &mine, BN_F64, 1, err);
    for (int s = 0; s < stages && rc == 0; s++) {
        all[s] = slowest(all, each, s);
        rc = bn_stages_layers(t->run, &t->model->cfg, stages, s, &first, &end,
                              err);
        layers[s] = end - first;
    }
    if (rc == 0) {
        c = bn_stages_cost(all, layers, stages);
        bn_part_split(&c, t->model->cfg.layers, stages, layers);
        if (w->rank == 0)
            bn_info("a layer takes %.3g ms of a micro-batch, the embedding "
                    "%.3g and the head %.3g", 1e3 * c.layer, 1e3 * c.embed,
                    1e3 * c.head);
    }
    free(all);
    return rc;
}

/* --- Remembering -------------------------------------------------------- */

static char *path_of(const struct bn_run *run)
{
    return bn_path_join(run->output_dir, "stages.json");
}

/* What the measured times depend on. */
static void key_of(char *key, const struct bn_session *s)
{
    const struct bn_mesh *m = &s->mesh;

    snprintf(key, KEY_MAX, "%d layers of %d, vocabulary %d, dp %d, tp %d, "
             "pp %d, cp %d, %s, %lld of %lld tokens", s->cfg.layers,
             s->cfg.hidden_size, s->cfg.vocab_size, m->dp.size, m->tp.size,
             m->pp.size, m->cp.size, s->dev->name,
             (long long)s->run->optim.per_device_train_batch_size,
             (long long)s->run->data.max_length);
}

static int load(const char *path, json_t **o, struct bn_err *err)
{
    *o = bn_exists(path) ? bn_json_load(path, err) : json_object();
    if (*o != NULL && json_is_object(*o))
        return 0;
    if (*o != NULL)
        bn_fail(err, BN_ERR_DATA, "'%s' is no object", path);
    bn_err_prefix(err, "measured splits (remove the file to measure anew)");
    json_decref(*o);
    *o = NULL;
    return -1;
}

/* 1: layers[stages] are what was measured under 'key'; 0: nothing was. */
static int recall(const struct bn_session *s, const char *key, int *layers,
                  struct bn_err *err)
{
    char *path = path_of(s->run);
    json_t *o, *list;
    int sum = 0, stages = s->mesh.pp.size, rc = load(path, &o, err);

    list = json_object_get(o, key);
    if (list != NULL && json_array_size(list) == (size_t)stages)
        for (int i = 0; i < stages; i++) {
            json_int_t n = json_integer_value(json_array_get(list, (size_t)i));

            layers[i] = n >= 1 && n <= s->cfg.layers ? (int)n : -s->cfg.layers;
            sum += layers[i];
        }
    if (list != NULL && sum != s->cfg.layers)
        rc = bn_fail(err, BN_ERR_DATA, "'%s': \"%s\" is not %d layers over %d "
                     "stages (remove the file to measure anew)", path, key,
                     s->cfg.layers, stages);
    json_decref(o);
    free(path);
    return rc < 0 ? -1 : list != NULL;
}

static int remember(const struct bn_session *s, const char *key,
                    const int *layers, struct bn_err *err)
{
    char *path = path_of(s->run), *text = NULL;
    json_t *o, *list = json_array();
    int rc = load(path, &o, err);

    for (int i = 0; i < s->mesh.pp.size; i++)
        json_array_append_new(list, json_integer(layers[i]));
    if (rc == 0 && json_object_set(o, key, list) == 0)
        text = json_dumps(o, JSON_INDENT(1) | JSON_SORT_KEYS);
    if (rc == 0 && text == NULL)
        rc = bn_fail(err, BN_ERR_BUG, "'%s' cannot be made", path);
    if (rc == 0)
        rc = bn_file_write(path, text, strlen(text), err);
    free(text);
    json_decref(list);
    json_decref(o);
    free(path);
    return rc;
}

int bn_stages_recall(struct bn_session *s, int *layers, struct bn_err *err)
{
    struct bn_comm *w = s->world;
    int64_t found = 0;
    char key[KEY_MAX];
    int rc = 0;

    key_of(key, s);
    if (w->rank == 0) {
        rc = recall(s, key, layers, err);
        found = rc > 0;
    }
    if (bn_session_agree(s, rc < 0 ? -1 : 0, NULL, err) < 0
        || w->ops->bcast(w, &found, sizeof(found), 0, err) < 0
        || w->ops->bcast(w, layers, (size_t)s->mesh.pp.size * sizeof(*layers),
                         0, err) < 0)
        return -1;
    return found != 0;
}

int bn_stages_remember(struct bn_session *s, const int *layers,
                       struct bn_err *err)
{
    char key[KEY_MAX];
    int rc = 0;

    key_of(key, s);
    if (s->world->rank == 0)
        rc = remember(s, key, layers, err);
    return bn_session_agree(s, rc, NULL, err);
}
