#include "config.h"
#include "train/saved.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>

json_t *bn_saved_json(const struct bn_saved *s, const struct bn_run *run)
{
    const struct bn_window *w = &s->window;
    json_t *sums = json_array();

    for (int k = 0; k < BN_LOSS_MAX_KEYS; k++)
        json_array_append_new(sums, json_real(w->sums[k]));
    return json_pack("{s:I, s:f, s:f, s:I, s:I, s:b, s:f, s:I, s:I, s:I, s:f,"
                     " s:f, s:o, s:s*, s:s}",
                     "step", (json_int_t)s->step, "tokens", w->total_tokens,
                     "examples", w->total_examples, "records",
                     (json_int_t)s->records, "eval_step",
                     (json_int_t)s->eval_step, "has_best", (int)s->has_best,
                     "best", s->best, "best_step", (json_int_t)s->best_step,
                     "bad_evals", (json_int_t)s->bad_evals, "window_steps",
                     (json_int_t)w->steps, "grad_norm", w->last.grad_norm,
                     "lr", w->last.lr, "window_sums", sums, "model",
                     run->model.model_name_or_path, "tokenizer",
                     run->model.tokenizer_name_or_path);
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

int bn_saved_parse(const json_t *o, const char *where, struct bn_saved *s,
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

/* What an adapter that was gone on from says; lora_* keys are in the run's own
 * text. */
static char *adapter_text(const struct bn_session *s)
{
    const struct bn_adapter *a = s->trainer->model->adapter;

    if (a == NULL || s->run->lora.adapter == NULL)
        return bn_strdup("");
    json_t *o = bn_lora_json(&a->lora);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17));
    char *line = bn_asprintf("adapter: %s\n", text);

    free(text);
    json_decref(o);
    return line;
}

char *bn_saved_fingerprint(const struct bn_session *s)
{
    char *keys = bn_run_trajectory(s->run);
    char hex[BN_HASH_HEX];
    char *lora = adapter_text(s);
    char *all = bn_asprintf(
        "%s%sglobal batch: %llu\ndata: %s\n", keys, lora,
        (unsigned long long)bn_plan_global_batch(&s->trainer->plan),
        bn_hash_hex(bn_tokens_hash(s->train), hex));

    free(keys);
    free(lora);
    return all;
}

struct bn_ckpt_of bn_saved_of(const struct bn_session *s)
{
    const struct bn_adapter *a = s->trainer->model->adapter;

    return (struct bn_ckpt_of){&s->cfg, a != NULL ? &a->lora : NULL,
                               s->trainer->base};
}

struct bn_ckpt_shard bn_saved_shard(const struct bn_session *s)
{
    const struct bn_optim *o = s->trainer->optim;

    return (struct bn_ckpt_shard){.part = s->trainer->model->params.part,
                                  .pp = s->mesh.pp.index,
                                  .dp = s->mesh.data.index,
                                  .begin = o->begin,
                                  .count = o->count};
}
