/* The run file: YAML in, one const struct out.
 *
 * One table (keys.c) names every key with its type, default, range, choices,
 * unit, group and help text; parsing, defaults, --help, --print-config,
 * completion and the man page are all loops over it. A field has the name of
 * its key: `learning_rate` is run->optim.learning_rate; `columns.prompt` is
 * run->data.columns.prompt. Paths are relative to the current directory.
 */
#ifndef BN_CONF_CONF_H
#define BN_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/hash.h"
#include "conf/problems.h"
#include "conf/yaml.h"

/* Choices; the order is that of the names in keys.c. */
enum bn_run_task { BN_RUN_TASK_SFT, BN_RUN_TASK_ORPO };
enum bn_run_tri { BN_RUN_NO, BN_RUN_YES, BN_RUN_AUTO };
enum bn_run_init { BN_RUN_INIT_PRETRAINED, BN_RUN_INIT_RANDOM };
enum bn_run_compute { BN_RUN_COMPUTE_FLOAT32, BN_RUN_COMPUTE_BFLOAT16 };
enum bn_run_recompute {
    BN_RUN_RECOMPUTE_NONE,
    BN_RUN_RECOMPUTE_ATTENTION,
    BN_RUN_RECOMPUTE_FULL
};
enum bn_run_data_format {
    BN_RUN_DATA_AUTO,
    BN_RUN_DATA_TEXT,
    BN_RUN_DATA_PROMPT_COMPLETION,
    BN_RUN_DATA_ALPACA,
    BN_RUN_DATA_MESSAGES,
    BN_RUN_DATA_SHAREGPT,
    BN_RUN_DATA_PREFERENCE
};
enum bn_run_truncation { BN_RUN_KEEP_END, BN_RUN_KEEP_START };
enum bn_run_decay_groups { BN_RUN_DECAY_MATRICES, BN_RUN_DECAY_ALL };
enum bn_run_lr_scheduler {
    BN_RUN_LR_LINEAR,
    BN_RUN_LR_COSINE,
    BN_RUN_LR_CONSTANT,
    BN_RUN_LR_CONSTANT_WITH_WARMUP,
    BN_RUN_LR_WARMUP_STABLE_DECAY
};
enum bn_run_lr_decay { BN_RUN_LR_DECAY_COSINE, BN_RUN_LR_DECAY_LINEAR };
enum bn_run_warmup_first { BN_RUN_WARMUP_ZERO, BN_RUN_WARMUP_ONE };
enum bn_run_nll_span { BN_RUN_NLL_FULL, BN_RUN_NLL_ANSWER };
enum bn_run_loss_reduction { BN_RUN_REDUCE_EXACT, BN_RUN_REDUCE_TRL };
enum bn_run_strategy {
    BN_RUN_STRATEGY_NO,
    BN_RUN_STRATEGY_STEPS,
    BN_RUN_STRATEGY_EPOCH
};
enum bn_run_device {
    BN_RUN_DEVICE_AUTO,
    BN_RUN_DEVICE_CPU,
    BN_RUN_DEVICE_CUDA
};
/* Bits. */
enum bn_run_report { BN_RUN_REPORT_TENSORBOARD = 1 };

struct bn_run_list {
    char **v;
    size_t n;
};

/* A char * is NULL where the key is unset and has no default. */
struct bn_run_model {
    char *model_name_or_path;     /* a Hugging Face folder */
    char *tokenizer_name_or_path; /* never NULL: the model's by default */
    enum bn_run_init init;
    char *config_name; /* init random: config.json or a folder with it */
    double init_std;   /* 0: initializer_range of the config */
    enum bn_run_compute dtype;
    enum bn_run_recompute activation_recompute;
    bool allow_zero_weights, allow_nonfinite_weights;
};

/* Names of columns; never NULL. */
struct bn_run_columns {
    char *text, *prompt, *completion, *chosen, *rejected;
    char *messages, *conversations, *instruction, *input, *output;
    char *system, *tools;
};

struct bn_run_data {
    struct bn_run_list train_file, eval_file; /* paths or globs */
    double eval_split;                    /* [0, 1): share held out */
    enum bn_run_data_format data_format;
    struct bn_run_columns columns;
    char *chat_template; /* path; NULL: the tokenizer's */
    int64_t max_length, max_prompt_length; /* tokens */
    enum bn_run_truncation truncation_mode;
    double max_dropped_fraction;
    enum bn_run_tri completion_only_loss; /* auto: where there is a prompt */
    bool assistant_only_loss, last_turn_only;
    enum bn_run_tri add_bos; /* auto: as the tokenizer's post-processor does */
    bool add_eos;
    bool shuffle;
    int64_t data_seed;        /* seed by default */
    int64_t dataset_num_proc; /* threads; 0: the CPUs allowed */
    char *token_cache_dir;    /* NULL: $BURNISH_CACHE, else ~/.cache/... */
};

struct bn_run_optim {
    int64_t max_steps;       /* > 0 overrides the epochs; else -1 */
    double num_train_epochs; /* may be a fraction */
    /* rows (sft) or pairs (orpo) a rank and micro-batch */
    int64_t per_device_train_batch_size;
    int64_t gradient_accumulation_steps;
    double learning_rate, weight_decay;
    enum bn_run_decay_groups weight_decay_groups;
    double adam_beta1, adam_beta2, adam_epsilon;
    double max_grad_norm; /* 0: no clipping */
    enum bn_run_lr_scheduler lr_scheduler_type;
    int64_t warmup_steps; /* > 0 overrides the ratio */
    double warmup_ratio;  /* of all steps; steps are rounded up */
    enum bn_run_warmup_first warmup_first;
    int64_t lr_decay_steps; /* warmup_stable_decay: > 0 overrides ratio */
    double lr_decay_ratio;
    enum bn_run_lr_decay lr_decay_type;
    double min_lr_ratio; /* floor of the decay, of learning_rate */
};

struct bn_run_loss {
    double beta;                /* orpo: weight of the odds-ratio term */
    enum bn_run_nll_span nll_span;  /* orpo */
    enum bn_run_loss_reduction loss_reduction;
    double label_smoothing_factor; /* sft */
};

struct bn_run_eval {
    enum bn_run_strategy eval_strategy;
    int64_t eval_steps;
    bool eval_on_start;
    int64_t per_device_eval_batch_size;
    bool load_best_model_at_end;
    char *metric_for_best_model; /* without "eval_"; never NULL */
    enum bn_run_tri greater_is_better; /* never auto: it is resolved */
    int64_t early_stopping_patience; /* evaluations; 0: off */
    double early_stopping_threshold;
};

struct bn_run_save {
    enum bn_run_strategy save_strategy;
    int64_t save_steps;
    int64_t save_total_limit; /* 0: keep all */
    bool save_on_signal;
    char *resume; /* "auto", "never" or the path of a checkpoint */
};

struct bn_run_log {
    int64_t logging_steps;
    unsigned report_to; /* enum bn_run_report; metrics.jsonl comes always */
};

struct bn_run_mesh {
    enum bn_run_device device;
    bool strict_device; /* nothing of a GPU run may run on the CPU */
    bool cuda_graph;    /* steps of a shape that came before are graphs */
    int64_t num_threads; /* 0: the CPUs allowed */
    int64_t data_parallel_size; /* 0: what the other axes leave */
    int64_t tensor_parallel_size, pipeline_parallel_size;
    int64_t context_parallel_size;
    struct bn_run_list pipeline_layer_split; /* numbers, or "measured"; empty: by size */
    bool sequence_parallel;
    int64_t zero_stage;  /* 1 or 2 */
    bool overlap_grad_reduce;
    bool overlap_param_gather;
    int64_t reduce_bucket_size; /* elements */
    double ddp_timeout;  /* seconds */
};

struct bn_run_lora {
    int64_t lora_r; /* 0: no adapter, train all weights */
    double lora_alpha, lora_dropout;
    struct bn_run_list lora_target_modules; /* "all-linear" alone, or names */
    bool use_rslora;
    struct bn_run_list modules_to_save;
    char *adapter; /* a PEFT folder to go on from; it says all of the above */
};

/* Early stopping by successive halving among the runs of a sweep. */
struct bn_run_asha {
    char *asha_dir;   /* NULL: off */
    struct bn_run_list asha_rungs; /* ascending numbers of steps */
    int64_t asha_reduction;
    char *asha_metric; /* without "eval_"; never NULL */
};

struct bn_run {
    enum bn_run_task task;
    char *run_name;   /* never NULL: the last part of output_dir */
    char *output_dir; /* NULL only under BN_RUN_NO_TRAIN */
    int64_t seed;
    struct bn_run_model model;
    struct bn_run_data data;
    struct bn_run_optim optim;
    struct bn_run_loss loss;
    struct bn_run_eval eval;
    struct bn_run_save save;
    struct bn_run_log log;
    struct bn_run_mesh mesh;
    struct bn_run_lora lora;
    struct bn_run_asha asha;
    struct bn_run_origin *origin; /* private: where each value came from */
};

/* --- Loading ---------------------------------------------------------- */

enum bn_run_flags {
    /* For scoring, evaluation and tools: train_file and output_dir are not
     * demanded, nor is evaluation data. */
    BN_RUN_NO_TRAIN = 1,
};

/* One value from elsewhere than the base file, such as a sweep's point. The
 * key may be dotted. */
struct bn_setting {
    const char *key;
    const struct bn_yaml *value;
};

/* What a run is made of; later layers win: base, settings, sets. */
struct bn_run_parts {
    const struct bn_yaml *base; /* a map, or NULL */
    const struct bn_setting *settings;
    size_t nsettings;
    const char *const *sets; /* "key=value": the value read as YAML */
    size_t nsets;
    unsigned flags; /* enum bn_run_flags */
};

/* Build a run from parsed parts (cheap: tens of microseconds). NULL after
 * adding at least one problem; every problem of the parts is added, in order
 * of place. The run keeps nothing of the parts. Thread safe. */
struct bn_run *bn_run_make(const struct bn_run_parts *parts,
                           struct bn_problems *p);

/* Parse the file at 'path' ("-": standard input; NULL: none) and build. */
struct bn_run *bn_run_load(const char *path, const char *const *sets,
                           size_t nsets, unsigned flags,
                           struct bn_problems *p);
void bn_run_free(struct bn_run *run);

/* --- Looking at a run ------------------------------------------------- */

/* Every effective value as YAML, each followed by a comment that says where
 * it came from: default, file:line, --set. */
void bn_run_print(const struct bn_run *run, FILE *out);
/* What is not a default, as canonical YAML that loads to the same run.
 * Malloc'ed. */
char *bn_run_yaml(const struct bn_run *run);
/* "key: value" lines of the keys that decide the trajectory of the weights
 * (paths, layout, batch size a rank and what only reports are left out: the
 * data, the start weights and the global batch have fingerprints of their
 * own). Malloc'ed. */
char *bn_run_trajectory(const struct bn_run *run);
struct bn_hash bn_run_fingerprint(const struct bn_run *run);
/* Compare two texts of bn_run_trajectory: 0 if equal, else -1 with an error
 * (class usage) that names each key that differs with both values. */
int bn_run_trajectory_same(const char *was, const char *is,
                           struct bn_err *err);
/* The same of all keys that ranks of one run must have alike: paths are left
 * out, as nodes may keep the same files in different places. Malloc'ed. */
char *bn_run_common(const struct bn_run *run);
/* As bn_run_trajectory_same, of bn_run_common on rank 0 and on this rank. */
int bn_run_common_same(const char *rank0, const char *mine,
                       struct bn_err *err);
/* pipeline_layer_split: measured */
bool bn_run_split_measured(const struct bn_run *run);
/* Where the value of 'key' came from; file NULL: a default. */
struct bn_place bn_run_place(const struct bn_run *run, const char *key);
/* The value of 'key' as one line of YAML, malloc'ed; NULL: no such key. */
char *bn_run_value(const struct bn_run *run, const char *key);

/* --- The table -------------------------------------------------------- */

enum bn_conf_type {
    BN_CONF_BOOL,
    BN_CONF_TRI,
    BN_CONF_INT,
    BN_CONF_NUM,
    BN_CONF_CHOICE,
    BN_CONF_STR,
    BN_CONF_LIST, /* of strings; one string is a list of one */
    BN_CONF_SET,  /* of choices, as bits; "none" is the empty one */
};

enum bn_conf_flags {
    BN_CONF_TRAJECTORY = 1, /* decides the trajectory of the weights */
    BN_CONF_PATH = 2,       /* for completion */
    BN_CONF_ABOVE = 4,      /* 'min' itself is not allowed */
    BN_CONF_BELOW = 8,      /* 'max' itself is not allowed */
    BN_CONF_SFT = 16,       /* only of use in this task */
    BN_CONF_ORPO = 32,
    BN_CONF_OWN = 64,       /* may differ from rank to rank */
};

struct bn_conf_key {
    const char *name, *group;
    enum bn_conf_type type;
    size_t offset;       /* in struct bn_run */
    const char *dflt;    /* as YAML; NULL: unset (or required) */
    const char *orpo;    /* default for task orpo where it differs */
    const char *from;    /* default is this key's value */
    double min, max;     /* INT, NUM; both 0: any */
    const char *const *choices; /* CHOICE, SET; NULL-terminated */
    unsigned flags;
    const char *unit;    /* or NULL */
    const char *help;
};

/* The keys in the order of the help; '*n' of them. */
const struct bn_conf_key *bn_conf_keys(size_t *n);
const struct bn_conf_key *bn_conf_find(const char *name);
/* Metrics of an evaluation that rank, without "eval_"; and whether more is
 * better. NULL-terminated names. */
const char *const *bn_conf_metrics(enum bn_run_task task);
bool bn_conf_metric_rises(const char *name);
/* The rules between keys: name and text of number i, or false. */
bool bn_conf_rule(size_t i, const char **name, const char **text);
/* All keys, for --help. */
void bn_run_help(FILE *out);

#endif
