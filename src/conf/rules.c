/* Rules between keys, as a table. Applied by judge.c. */
#include "config.h"
#include "conf/key.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define WRITTEN(key) bn_run_written(r, key)
#define TRAINS(r) (!((r)->origin->flags & BN_RUN_NO_TRAIN))

static bool has_eval_data(const struct bn_run *r)
{
    return r->data.eval_file.n > 0 || r->data.eval_split > 0;
}

static bool same_file(const struct bn_run *r)
{
    const struct bn_run_list *a = &r->data.train_file, *b = &r->data.eval_file;

    for (size_t i = 0; i < a->n; i++)
        for (size_t j = 0; j < b->n; j++)
            if (strcmp(a->v[i], b->v[j]) == 0 /* also of globs */
                || bn_path_within(a->v[i], b->v[j]))
                return true;
    return false;
}

/* Each returns true if 'r' breaks the rule, with the reason added to 'why'.
 */
static bool task_missing(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "task is missing: sft or orpo");
    return !WRITTEN("task");
}

static bool output_missing(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "output_dir is missing");
    return TRAINS(r) && r->output_dir == NULL;
}

static bool train_missing(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "train_file is missing");
    return TRAINS(r) && r->data.train_file.n == 0;
}

static bool model_missing(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "model_name_or_path is missing (or give init: random"
                     " with config_name)");
    return r->model.init == BN_RUN_INIT_PRETRAINED
           && r->model.model_name_or_path == NULL;
}

static bool random_model(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "init is random, so no weights are read: give"
                     " config_name and tokenizer_name_or_path, not"
                     " model_name_or_path");
    return r->model.init == BN_RUN_INIT_RANDOM
           && r->model.model_name_or_path != NULL;
}

static bool random_config(const struct bn_run *r, struct bn_str *why)
{
    if (r->model.init != BN_RUN_INIT_RANDOM
        || r->model.model_name_or_path != NULL)
        return false;
    if (r->model.config_name == NULL)
        bn_str_adds(why, "init is random: config_name is missing");
    else if (r->model.tokenizer_name_or_path == NULL)
        bn_str_adds(why, "init is random: tokenizer_name_or_path is missing");
    return why->len > 0;
}

static bool random_only(const struct bn_run *r, struct bn_str *why)
{
    bn_str_addf(why, "%s has no effect unless init is random",
                WRITTEN("config_name") ? "config_name" : "init_std");
    return r->model.init != BN_RUN_INIT_RANDOM
           && (r->model.config_name != NULL || r->model.init_std > 0);
}

static bool model_is_file(const struct bn_run *r, struct bn_str *why)
{
    const char *path = r->model.model_name_or_path;

    bn_str_addf(why, "model_name_or_path: '%s' is a file, not the folder of a"
                     " Hugging Face model (burnish convert makes one)",
                path != NULL ? path : "");
    return path != NULL && bn_exists(path) && !bn_is_dir(path);
}

static bool output_is_model(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "model_name_or_path lies in output_dir, which would be"
                     " written over");
    return TRAINS(r) && r->output_dir != NULL
           && r->model.model_name_or_path != NULL
           && bn_path_within(r->model.model_name_or_path, r->output_dir);
}

static bool orpo_data(const struct bn_run *r, struct bn_str *why)
{
    bool any = r->data.data_format == BN_RUN_DATA_AUTO;
    bool pairs = r->data.data_format == BN_RUN_DATA_PREFERENCE;

    bn_str_adds(why, pairs ? "preference data needs task: orpo"
                           : "orpo needs data_format: preference or auto");
    if (r->task == BN_RUN_TASK_ORPO)
        return !any && !pairs;
    return pairs;
}

static bool assistant_chats(const struct bn_run *r, struct bn_str *why)
{
    enum bn_run_data_format f = r->data.data_format;

    bn_str_adds(why, "assistant_only_loss needs chats (data_format: messages,"
                     " sharegpt or auto)");
    return r->data.assistant_only_loss && f != BN_RUN_DATA_AUTO
           && f != BN_RUN_DATA_MESSAGES && f != BN_RUN_DATA_SHAREGPT;
}

static bool last_turn(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "last_turn_only needs assistant_only_loss: true");
    return r->data.last_turn_only && !r->data.assistant_only_loss;
}

static bool completion_text(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "completion_only_loss needs a prompt, and data_format is"
                     " text");
    return r->data.completion_only_loss == BN_RUN_YES
           && r->data.data_format == BN_RUN_DATA_TEXT;
}

static bool prompt_length(const struct bn_run *r, struct bn_str *why)
{
    bn_str_addf(why, "max_prompt_length (%lld) must be less than max_length"
                     " (%lld)", (long long)r->data.max_prompt_length,
                (long long)r->data.max_length);
    return r->data.max_prompt_length >= r->data.max_length;
}

static bool eval_twice(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "eval_split and eval_file are both set; choose one");
    return r->data.eval_split > 0 && r->data.eval_file.n > 0;
}

static bool eval_overlap(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "a file is both in train_file and in eval_file");
    return TRAINS(r) && same_file(r);
}

static bool eval_data(const struct bn_run *r, struct bn_str *why)
{
    bn_str_addf(why, "%s needs evaluation data: eval_file or eval_split",
                r->eval.eval_strategy != BN_RUN_STRATEGY_NO
                    ? "eval_strategy"
                    : "eval_on_start");
    return TRAINS(r) && !has_eval_data(r)
           && (r->eval.eval_strategy != BN_RUN_STRATEGY_NO
               || r->eval.eval_on_start);
}

static bool eval_steps_unused(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "eval_steps has no effect unless eval_strategy is"
                     " steps");
    return WRITTEN("eval_steps")
           && r->eval.eval_strategy != BN_RUN_STRATEGY_STEPS;
}

static bool save_steps_unused(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "save_steps has no effect unless save_strategy is"
                     " steps");
    return WRITTEN("save_steps")
           && r->save.save_strategy != BN_RUN_STRATEGY_STEPS;
}

static bool best_strategy(const struct bn_run *r, struct bn_str *why)
{
    static const char *const name[] = {"no", "steps", "epoch"};

    if (!r->eval.load_best_model_at_end)
        return false;
    if (r->eval.eval_strategy == BN_RUN_STRATEGY_NO)
        bn_str_adds(why, "load_best_model_at_end needs eval_strategy: steps"
                         " or epoch");
    else if (r->eval.eval_strategy != r->save.save_strategy)
        bn_str_addf(why, "load_best_model_at_end needs the same eval_strategy"
                         " (%s) and save_strategy (%s)",
                    name[r->eval.eval_strategy], name[r->save.save_strategy]);
    return why->len > 0;
}

static bool best_steps(const struct bn_run *r, struct bn_str *why)
{
    bn_str_addf(why, "load_best_model_at_end needs save_steps (%lld) to be a"
                     " multiple of eval_steps (%lld)",
                (long long)r->save.save_steps, (long long)r->eval.eval_steps);
    return r->eval.load_best_model_at_end
           && r->eval.eval_strategy == BN_RUN_STRATEGY_STEPS
           && r->save.save_strategy == BN_RUN_STRATEGY_STEPS
           && r->save.save_steps % r->eval.eval_steps != 0;
}

/* Whether the task does not measure what 'key' names. */
static bool unmeasured(const struct bn_run *r, const char *key,
                       const char *metric, struct bn_str *why)
{
    const char *const *names = bn_conf_metrics(r->task);
    size_t n = 0;

    for (; names[n] != NULL; n++)
        if (strcmp(names[n], metric) == 0)
            return false;
    const char *near = bn_str_nearest(metric, names, n);
    bn_str_addf(why, "%s: '%s' is not measured", key, metric);
    if (near != NULL)
        bn_str_addf(why, "; did you mean '%s'?", near);
    else
        for (size_t i = 0; i < n; i++)
            bn_str_addf(why, "%s%s", i == 0 ? "; there is " : ", ", names[i]);
    return true;
}

static bool best_metric(const struct bn_run *r, struct bn_str *why)
{
    return unmeasured(r, "metric_for_best_model",
                      r->eval.metric_for_best_model, why);
}

static bool asha_metric(const struct bn_run *r, struct bn_str *why)
{
    return r->asha.asha_dir != NULL
           && unmeasured(r, "asha_metric", r->asha.asha_metric, why);
}

static bool asha_both(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "asha_dir and asha_rungs go together");
    return (r->asha.asha_dir != NULL) != (r->asha.asha_rungs.n > 0);
}

static bool asha_rungs(const struct bn_run *r, struct bn_str *why)
{
    const struct bn_run_list *l = &r->asha.asha_rungs;
    long long every = r->eval.eval_steps, last = 0;

    if (r->asha.asha_dir == NULL || l->n == 0)
        return false;
    if (r->eval.eval_strategy != BN_RUN_STRATEGY_STEPS)
        bn_str_adds(why, "asha_rungs needs eval_strategy: steps");
    for (size_t i = 0; i < l->n && why->len == 0; i++) {
        const char *t = l->v[i];
        long long step = strtoll(t, NULL, 10);

        if (*t == '\0' || t[strspn(t, "0123456789")] || step <= last)
            bn_str_addf(why, "asha_rungs: '%s' is not a number of steps above"
                             " %lld: they must ascend", t, last);
        else if (step % every != 0)
            bn_str_addf(why, "asha_rungs: %lld is not a multiple of"
                             " eval_steps (%lld)", step, every);
        else if (r->optim.max_steps > 0 && step >= r->optim.max_steps)
            bn_str_addf(why, "asha_rungs: %lld is not below max_steps (%lld)",
                        step, (long long)r->optim.max_steps);
        last = step;
    }
    return why->len > 0;
}

static bool asha_name(const struct bn_run *r, struct bn_str *why)
{
    bn_str_addf(why, "run_name '%s' cannot name a file in asha_dir: leave out"
                     " slashes, and take at most 200 characters",
                r->run_name);
    return r->asha.asha_dir != NULL
           && (strchr(r->run_name, '/') != NULL || strlen(r->run_name) > 200);
}

static bool early_stop(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "early_stopping_patience needs eval_strategy: steps or"
                     " epoch");
    return r->eval.early_stopping_patience > 0
           && r->eval.eval_strategy == BN_RUN_STRATEGY_NO;
}

static bool early_threshold(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "early_stopping_threshold has no effect without"
                     " early_stopping_patience");
    return r->eval.early_stopping_patience == 0
           && r->eval.early_stopping_threshold > 0;
}

static bool warmup_twice(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "warmup_steps and warmup_ratio are both set; choose"
                     " one");
    return r->optim.warmup_steps > 0 && r->optim.warmup_ratio > 0;
}

static bool warmup_constant(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "lr_scheduler_type constant has no warm-up; write"
                     " constant_with_warmup");
    return r->optim.lr_scheduler_type == BN_RUN_LR_CONSTANT
           && (r->optim.warmup_steps > 0 || r->optim.warmup_ratio > 0);
}

static bool warmup_long(const struct bn_run *r, struct bn_str *why)
{
    const struct bn_run_optim *o = &r->optim;
    bool wsd = o->lr_scheduler_type == BN_RUN_LR_WARMUP_STABLE_DECAY;
    int64_t need = o->warmup_steps + (wsd ? o->lr_decay_steps : 0);

    bn_str_addf(why, "%s (%lld) is more than max_steps (%lld)",
                wsd ? "warmup_steps and lr_decay_steps" : "warmup_steps",
                (long long)need, (long long)o->max_steps);
    return o->max_steps > 0 && need > o->max_steps;
}

static bool decay_unused(const struct bn_run *r, struct bn_str *why)
{
    bn_str_addf(why, "%s has no effect unless lr_scheduler_type is"
                     " warmup_stable_decay",
                WRITTEN("lr_decay_steps")   ? "lr_decay_steps"
                : WRITTEN("lr_decay_ratio") ? "lr_decay_ratio"
                                            : "lr_decay_type");
    return r->optim.lr_scheduler_type != BN_RUN_LR_WARMUP_STABLE_DECAY
           && (WRITTEN("lr_decay_steps") || WRITTEN("lr_decay_ratio")
               || WRITTEN("lr_decay_type"));
}

static bool min_lr_unused(const struct bn_run *r, struct bn_str *why)
{
    enum bn_run_lr_scheduler t = r->optim.lr_scheduler_type;

    bn_str_adds(why, "min_lr_ratio has no effect on a constant learning"
                     " rate");
    return r->optim.min_lr_ratio > 0
           && (t == BN_RUN_LR_CONSTANT || t == BN_RUN_LR_CONSTANT_WITH_WARMUP);
}

static bool zero_steps(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "max_steps must be positive, or -1 for not set");
    return r->optim.max_steps == 0;
}

static bool sequence_tensor(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "sequence_parallel needs tensor_parallel_size of at"
                     " least 2");
    return r->mesh.sequence_parallel && r->mesh.tensor_parallel_size == 1;
}

static bool graph_one(const struct bn_run *r, struct bn_str *why)
{
    const struct bn_run_mesh *m = &r->mesh;
    bool many = m->data_parallel_size > 1 || m->tensor_parallel_size > 1
                || m->pipeline_parallel_size > 1 || m->context_parallel_size > 1;

    bn_str_adds(why, "cuda_graph is for one GPU, not the CPU or several ranks");
    return m->cuda_graph && (many || m->device == BN_RUN_DEVICE_CPU);
}

bool bn_run_split_measured(const struct bn_run *run)
{
    const struct bn_run_list *l = &run->mesh.pipeline_layer_split;

    return l->n == 1 && strcmp(l->v[0], "measured") == 0;
}

static bool stages_split(const struct bn_run *r, struct bn_str *why)
{
    const struct bn_run_list *l = &r->mesh.pipeline_layer_split;
    long long stages = r->mesh.pipeline_parallel_size;

    if (bn_run_split_measured(r))
        return false;
    for (size_t i = 0; i < l->n && why->len == 0; i++) {
        const char *t = l->v[i];
        size_t n = strlen(t);

        if (n == 0 || n > 6 || t[strspn(t, "0123456789")] || atol(t) < 1)
            bn_str_addf(why, "pipeline_layer_split: '%s' is neither a number of"
                             " layers above 0 nor, alone, measured", t);
    }
    if (l->n > 0 && why->len == 0 && l->n != (size_t)stages)
        bn_str_addf(why, "pipeline_layer_split is of %zu stages, and"
                         " pipeline_parallel_size is %lld", l->n, stages);
    return why->len > 0;
}

static bool lora_unused(const struct bn_run *r, struct bn_str *why)
{
    static const char *const key[] = {"lora_alpha", "lora_dropout",
                                      "lora_target_modules", "use_rslora",
                                      "modules_to_save"};

    for (size_t i = 0; i < BN_COUNT(key) && why->len == 0; i++)
        if (WRITTEN(key[i]))
            bn_str_addf(why, "%s has no effect unless lora_r is set", key[i]);
    if (r->lora.adapter != NULL && why->len > 0) {
        bn_str_clear(why);
        bn_str_adds(why, "adapter says rank, alpha, dropout and modules"
                         " itself: leave the lora_* keys out");
    }
    return r->lora.lora_r == 0 && why->len > 0;
}

static bool lora_twice(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "lora_r makes a new adapter and adapter goes on from one:"
                     " give one of them");
    return r->lora.lora_r > 0 && r->lora.adapter != NULL;
}

static bool lora_random(const struct bn_run *r, struct bn_str *why)
{
    bn_str_adds(why, "adapters on random weights make no sense: lora_r needs"
                     " init: pretrained");
    if (r->lora.adapter != NULL) {
        bn_str_clear(why);
        bn_str_adds(why, "adapters on random weights make no sense: adapter"
                         " needs init: pretrained");
    }
    return (r->lora.lora_r > 0 || r->lora.adapter != NULL)
           && r->model.init == BN_RUN_INIT_RANDOM;
}

const struct bn_rule bn_rules[] = {
    {"task", {"task"}, "task is given.", task_missing},
    {"output", {"output_dir"}, "A training run has an output_dir.",
     output_missing},
    {"train-data", {"train_file"}, "A training run has a train_file.",
     train_missing},
    {"model", {"init", "model_name_or_path"},
     "init: pretrained has a model_name_or_path.", model_missing},
    {"random-model", {"model_name_or_path", "init"},
     "init: random has no model_name_or_path.", random_model},
    {"random-config",
     {"init", "config_name", "tokenizer_name_or_path", "model_name_or_path"},
     "init: random has a config_name and a tokenizer_name_or_path.",
     random_config},
    {"random-only", {"config_name", "init_std", "init"},
     "config_name and init_std go with init: random only.", random_only},
    {"model-folder", {"model_name_or_path"},
     "model_name_or_path is a folder.", model_is_file},
    {"output-model", {"output_dir", "model_name_or_path"},
     "The folder of the model does not lie in output_dir.", output_is_model},
    {"orpo-data", {"data_format", "task"},
     "Preference data go with orpo, all other shapes with sft.", orpo_data},
    {"assistant-chats", {"assistant_only_loss", "data_format"},
     "assistant_only_loss goes with chats.", assistant_chats},
    {"last-turn", {"last_turn_only", "assistant_only_loss"},
     "last_turn_only goes with assistant_only_loss.", last_turn},
    {"completion-text", {"completion_only_loss", "data_format"},
     "completion_only_loss: true does not go with data_format: text.",
     completion_text},
    {"prompt-length", {"max_prompt_length", "max_length"},
     "max_prompt_length is less than max_length.", prompt_length},
    {"eval-once", {"eval_split", "eval_file"},
     "Evaluation data come from eval_split or from eval_file, not both.",
     eval_twice},
    {"eval-overlap", {"eval_file", "train_file"},
     "No file is both in train_file and in eval_file.", eval_overlap},
    {"eval-data",
     {"eval_strategy", "eval_on_start", "eval_file", "eval_split"},
     "Evaluation has data: eval_file or eval_split.", eval_data},
    {"eval-steps", {"eval_steps", "eval_strategy"},
     "eval_steps goes with eval_strategy: steps.", eval_steps_unused},
    {"save-steps", {"save_steps", "save_strategy"},
     "save_steps goes with save_strategy: steps.", save_steps_unused},
    {"best-strategy",
     {"load_best_model_at_end", "eval_strategy", "save_strategy"},
     "load_best_model_at_end has an eval_strategy, and the same"
     " save_strategy.",
     best_strategy},
    {"best-steps",
     {"save_steps", "eval_steps", "load_best_model_at_end", "logging_steps"},
     "With load_best_model_at_end, save_steps is a multiple of eval_steps.",
     best_steps},
    {"best-metric", {"metric_for_best_model", "task"},
     "metric_for_best_model is one that the task measures.", best_metric},
    {"early-stop", {"early_stopping_patience", "eval_strategy"},
     "early_stopping_patience goes with evaluation.", early_stop},
    {"early-threshold",
     {"early_stopping_threshold", "early_stopping_patience"},
     "early_stopping_threshold goes with early_stopping_patience.",
     early_threshold},
    {"asha-both", {"asha_rungs", "asha_dir"},
     "asha_dir and asha_rungs go together.", asha_both},
    {"asha-rungs", {"asha_rungs", "eval_steps", "eval_strategy", "max_steps"},
     "asha_rungs are ascending multiples of eval_steps, below max_steps.",
     asha_rungs},
    {"asha-metric", {"asha_metric", "asha_dir", "task"},
     "asha_metric is one that the task measures.", asha_metric},
    {"asha-name", {"run_name", "asha_dir"},
     "With asha_dir, run_name can name a file.", asha_name},
    {"max-steps", {"max_steps"}, "max_steps is positive or -1.", zero_steps},
    {"warmup-once", {"warmup_ratio", "warmup_steps"},
     "warmup_steps or warmup_ratio, not both.", warmup_twice},
    {"warmup-constant",
     {"lr_scheduler_type", "warmup_steps", "warmup_ratio"},
     "lr_scheduler_type: constant has no warm-up.", warmup_constant},
    {"warmup-long",
     {"warmup_steps", "max_steps", "lr_decay_steps", "lr_scheduler_type"},
     "Warm-up and decay fit in max_steps.", warmup_long},
    {"decay-only",
     {"lr_decay_steps", "lr_decay_ratio", "lr_decay_type",
      "lr_scheduler_type"},
     "lr_decay_* go with lr_scheduler_type: warmup_stable_decay.",
     decay_unused},
    {"min-lr", {"min_lr_ratio", "lr_scheduler_type"},
     "min_lr_ratio goes with a learning rate that decays.", min_lr_unused},
    {"graph-one", {"cuda_graph", "device"},
     "cuda_graph is for one GPU.", graph_one},
    {"sequence-tensor", {"sequence_parallel", "tensor_parallel_size"},
     "sequence_parallel goes with tensor_parallel_size above 1.",
     sequence_tensor},
    {"stages-split", {"pipeline_layer_split", "pipeline_parallel_size"},
     "pipeline_layer_split is measured, or has a number of layers for each of"
     " pipeline_parallel_size stages.", stages_split},
    {"lora-only",
     {"lora_alpha", "lora_dropout", "lora_target_modules", "use_rslora",
      "modules_to_save", "lora_r"},
     "lora_alpha, lora_dropout, lora_target_modules, use_rslora and"
     " modules_to_save go with lora_r.",
     lora_unused},
    {"lora-twice", {"adapter", "lora_r"},
     "lora_r and adapter are not given together.", lora_twice},
    {"lora-random", {"lora_r", "adapter", "init"},
     "lora_r and adapter go with init: pretrained.", lora_random},
};

const size_t bn_nrules = BN_COUNT(bn_rules);
