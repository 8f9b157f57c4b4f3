/* The key table. Field names are key names, so that a line here says key,
 * place and type at once; AT refuses to compile when the type is another.
 */
#include "config.h"
#include "conf/key.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

#define AT(ctype, field)                                                      \
    (offsetof(struct bn_run, field)                                           \
     + 0 * sizeof(char[_Generic(((struct bn_run *)0)->field, ctype: 1)]))
#define KEY(word, sub, t, ctype, field)                                       \
    .name = word, .group = #sub, .type = BN_CONF_##t,                         \
    .offset = AT(ctype, field)
#define BOOL(sub, key) KEY(#key, sub, BOOL, bool, sub.key)
#define TRI(sub, key) KEY(#key, sub, TRI, unsigned, sub.key)
#define INT(sub, key) KEY(#key, sub, INT, int64_t, sub.key)
#define NUM(sub, key) KEY(#key, sub, NUM, double, sub.key)
#define STR(sub, key) KEY(#key, sub, STR, char *, sub.key)
#define LIST(sub, key) KEY(#key, sub, LIST, struct bn_run_list, sub.key)
#define CHOICE(sub, key, ...)                                                 \
    KEY(#key, sub, CHOICE, unsigned, sub.key),                                \
    .choices = (const char *const[]){__VA_ARGS__, NULL}
#define SET(sub, key, ...)                                                    \
    KEY(#key, sub, SET, unsigned, sub.key),                                   \
    .choices = (const char *const[]){__VA_ARGS__, NULL}
#define COLUMN(key, what)                                                     \
    {                                                                         \
        KEY("columns." #key, data, STR, char *, data.columns.key),            \
            .dflt = #key, .help = "name of the column that holds " what       \
    }

#define MANY BN_CONF_INT_MAX
#define TRAJ BN_CONF_TRAJECTORY
#define PATH BN_CONF_PATH
#define ABOVE BN_CONF_ABOVE
#define BELOW BN_CONF_BELOW
#define SFT BN_CONF_SFT
#define ORPO BN_CONF_ORPO
#define OWN BN_CONF_OWN

/* clang-format off */
static const struct bn_conf_key keys[] = {
    /* run */
    {KEY("task", run, CHOICE, unsigned, task), .flags = TRAJ,
     .choices = (const char *const[]){"sft", "orpo", NULL},
     .help = "what to train: supervised fine-tuning, or odds-ratio preference"
             " optimization on pairs of answers; required"},
    {KEY("output_dir", run, STR, char *, output_dir), .flags = PATH,
     .help = "folder for metrics, checkpoints and the final model; required"},
    {KEY("run_name", run, STR, char *, run_name),
     .help = "name in logs and reports; by default the last part of"
             " output_dir"},
    {KEY("seed", run, INT, int64_t, seed), .dflt = "42", .max = MANY,
     .flags = TRAJ,
     .help = "of everything random: start weights, dropout, data order"},

    /* model */
    {STR(model, model_name_or_path), .flags = PATH,
     .help = "Hugging Face folder with config.json and safetensors"},
    {STR(model, tokenizer_name_or_path), .flags = PATH,
     .from = "model_name_or_path",
     .help = "folder with tokenizer.json"},
    {CHOICE(model, init, "pretrained", "random"), .dflt = "pretrained",
     .flags = TRAJ,
     .help = "where weights come from: the model's folder, or random numbers"
             " of the seed for the shape in config_name"},
    {STR(model, config_name), .flags = PATH,
     .help = "init random: config.json of the model to make, or a folder"
             " that holds one"},
    {NUM(model, init_std), .dflt = "0", .max = 10, .flags = TRAJ,
     .help = "init random: standard deviation of the start weights; 0 takes"
             " initializer_range of the config"},
    {CHOICE(model, dtype, "float32", "bfloat16"), .dflt = "float32",
     .flags = TRAJ,
     .help = "type of the computation; master weights, gradient sums and"
             " optimizer states are float32 either way"},
    {CHOICE(model, activation_recompute, "none", "attention", "full"),
     .dflt = "none",
     .help = "what the backward pass computes again instead of keeping it:"
             " less memory for more time"},
    {BOOL(model, allow_zero_weights), .dflt = "false",
     .help = "accept a model with weight matrices that are all zero"},
    {BOOL(model, allow_nonfinite_weights), .dflt = "false",
     .help = "accept a model with NaN or infinite weights"},

    /* data */
    {LIST(data, train_file), .flags = PATH,
     .help = "training data: a file, a glob, or a list of them (JSONL, JSON,"
             " CSV; plain, gzip or zstd); required"},
    {LIST(data, eval_file), .flags = PATH,
     .help = "evaluation data, as train_file"},
    {NUM(data, eval_split), .dflt = "0", .max = 1, .flags = TRAJ | BELOW,
     .help = "share of the training rows held out for evaluation"},
    {CHOICE(data, data_format, "auto", "text", "prompt_completion", "alpaca",
            "messages", "sharegpt", "preference"), .dflt = "auto",
     .flags = TRAJ,
     .help = "shape of the rows; auto looks at the columns of the first"},
    COLUMN(text, "plain text"),
    COLUMN(prompt, "the prompt"),
    COLUMN(completion, "the answer to a prompt"),
    COLUMN(chosen, "the better answer of a pair"),
    COLUMN(rejected, "the worse answer of a pair"),
    COLUMN(messages, "a chat as a list of role and content"),
    COLUMN(conversations, "a chat in ShareGPT's form"),
    COLUMN(instruction, "Alpaca's instruction"),
    COLUMN(input, "Alpaca's input"),
    COLUMN(output, "Alpaca's output"),
    COLUMN(system, "the system message"),
    COLUMN(tools, "the tools offered in a chat"),
    {STR(data, chat_template), .flags = PATH,
     .help = "file with the Jinja template of chats; by default the"
             " tokenizer's own"},
    {INT(data, max_length), .dflt = "1024", .min = 2, .max = 1 << 24,
     .unit = "tokens", .flags = TRAJ,
     .help = "longest row: prompt and answer together"},
    {INT(data, max_prompt_length), .min = 1, .max = 1 << 24,
     .unit = "tokens", .flags = TRAJ,
     .help = "a longer prompt is cut before its answers are; by default half"
             " of max_length"},
    {CHOICE(data, truncation_mode, "keep_end", "keep_start"),
     .dflt = "keep_end", .flags = TRAJ,
     .help = "which part of a prompt that is too long stays"},
    {NUM(data, max_dropped_fraction), .dflt = "0.05", .max = 1,
     .help = "refuse to start when a larger share of the rows is unusable"},
    {TRI(data, completion_only_loss), .dflt = "auto", .flags = TRAJ | SFT,
     .help = "score the answer and not the prompt; auto: where the row has a"
             " prompt"},
    {BOOL(data, assistant_only_loss), .dflt = "false", .flags = TRAJ | SFT,
     .help = "chats: score what the assistant says, nothing else"},
    {BOOL(data, last_turn_only), .dflt = "false", .flags = TRAJ | SFT,
     .help = "chats with assistant_only_loss: score the last turn alone"},
    {TRI(data, add_bos), .dflt = "auto", .flags = TRAJ,
     .help = "begin a row with the tokenizer's begin-of-text token; auto: if"
             " the tokenizer itself does"},
    {BOOL(data, add_eos), .dflt = "true", .flags = TRAJ,
     .help = "end an answer with the tokenizer's end-of-text token, unless"
             " it ends so already or was cut"},
    {BOOL(data, shuffle), .dflt = "true", .flags = TRAJ,
     .help = "visit the rows in a new random order each epoch"},
    {INT(data, data_seed), .from = "seed", .max = MANY, .flags = TRAJ,
     .help = "of the order of the rows and of eval_split"},
    {INT(data, dataset_num_proc), .dflt = "0", .max = 4096,
     .unit = "threads", .flags = OWN,
     .help = "for reading and tokenizing; 0: SLURM_CPUS_PER_TASK, else the"
             " CPUs allowed"},
    {STR(data, token_cache_dir), .flags = PATH,
     .help = "where tokenized data is kept and shared between runs; by"
             " default $BURNISH_CACHE, else burnish in $XDG_CACHE_HOME or"
             " ~/.cache"},

    /* optim */
    {INT(optim, max_steps), .dflt = "-1", .min = -1, .max = MANY,
     .unit = "steps", .flags = TRAJ,
     .help = "stop after so many optimizer steps; overrides"
             " num_train_epochs; -1: not set"},
    {NUM(optim, num_train_epochs), .dflt = "3", .max = 1e6,
     .unit = "epochs", .flags = TRAJ | ABOVE,
     .help = "passes over the training data; may be a fraction"},
    {INT(optim, per_device_train_batch_size), .dflt = "8", .min = 1,
     .max = 1 << 20, .unit = "rows",
     .help = "rows (orpo: pairs) a rank takes in one micro-batch"},
    {INT(optim, gradient_accumulation_steps), .dflt = "1", .min = 1,
     .max = 1 << 20,
     .help = "micro-batches before each optimizer step"},
    {NUM(optim, learning_rate), .dflt = "2e-5", .orpo = "1e-6", .max = 10,
     .flags = TRAJ | ABOVE,
     .help = "peak learning rate of AdamW"},
    {NUM(optim, weight_decay), .dflt = "0", .max = 10, .flags = TRAJ,
     .help = "decoupled weight decay"},
    {CHOICE(optim, weight_decay_groups, "matrices", "all"),
     .dflt = "matrices", .flags = TRAJ,
     .help = "what decays: matrices only, or biases and norms too"},
    {NUM(optim, adam_beta1), .dflt = "0.9", .max = 1, .flags = TRAJ | BELOW,
     .help = "decay rate of the first moment"},
    {NUM(optim, adam_beta2), .dflt = "0.999", .max = 1,
     .flags = TRAJ | BELOW, .help = "decay rate of the second moment"},
    {NUM(optim, adam_epsilon), .dflt = "1e-8", .max = 1, .flags = TRAJ,
     .help = "added to the root of the second moment"},
    {NUM(optim, max_grad_norm), .dflt = "1", .max = INFINITY, .flags = TRAJ,
     .help = "scale gradients down to this global norm; 0: do not clip"},
    {CHOICE(optim, lr_scheduler_type, "linear", "cosine", "constant",
            "constant_with_warmup", "warmup_stable_decay"),
     .dflt = "linear", .flags = TRAJ,
     .help = "shape of the learning rate over the steps"},
    {INT(optim, warmup_steps), .dflt = "0", .max = MANY, .unit = "steps",
     .flags = TRAJ, .help = "steps of linear warm-up"},
    {NUM(optim, warmup_ratio), .dflt = "0", .max = 1, .flags = TRAJ,
     .help = "warm-up as a share of all steps, rounded up"},
    {CHOICE(optim, warmup_first, "zero", "one"), .dflt = "zero",
     .flags = TRAJ,
     .help = "learning rate of the first warm-up step: zero (as Hugging"
             " Face: the step changes nothing) or one part of the ramp"},
    {INT(optim, lr_decay_steps), .dflt = "0", .max = MANY, .unit = "steps",
     .flags = TRAJ,
     .help = "warmup_stable_decay: length of the decay at the end; 0: take"
             " lr_decay_ratio"},
    {NUM(optim, lr_decay_ratio), .dflt = "0.1", .max = 1, .flags = TRAJ,
     .help = "warmup_stable_decay: the decay as a share of all steps,"
             " rounded up"},
    {CHOICE(optim, lr_decay_type, "cosine", "linear"), .dflt = "cosine",
     .flags = TRAJ,
     .help = "warmup_stable_decay: shape of the decay"},
    {NUM(optim, min_lr_ratio), .dflt = "0", .max = 1, .flags = TRAJ,
     .help = "where the decay ends, as a share of learning_rate"},

    /* loss */
    {NUM(loss, beta), .dflt = "0.1", .max = 1000, .flags = TRAJ | ORPO,
     .help = "weight of the odds-ratio term (the paper's lambda)"},
    {CHOICE(loss, nll_span, "full", "answer"), .dflt = "full",
     .flags = TRAJ | ORPO,
     .help = "tokens of the likelihood term: prompt and chosen answer, as"
             " TRL, or the answer alone"},
    {CHOICE(loss, loss_reduction, "exact", "trl"), .dflt = "exact",
     .flags = TRAJ,
     .help = "exact: sums over the global batch divided by its counts, the"
             " same at any accumulation and layout, as TRL's SFT; trl: the mean"
             " of each micro-batch's mean, as TRL's ORPO. Evaluation is exact"},
    {NUM(loss, label_smoothing_factor), .dflt = "0", .max = 1,
     .flags = TRAJ | BELOW | SFT,
     .help = "share of the target spread evenly over the vocabulary"},

    /* eval */
    {CHOICE(eval, eval_strategy, "no", "steps", "epoch"), .dflt = "no",
     .help = "when to evaluate; other than no: after the last step, too"},
    {INT(eval, eval_steps), .from = "logging_steps", .min = 1, .max = MANY,
     .unit = "steps",
     .help = "evaluate every so many steps"},
    {BOOL(eval, eval_on_start), .dflt = "false",
     .help = "evaluate before the first step, too; that one is never the"
             " best"},
    {INT(eval, per_device_eval_batch_size), .dflt = "8", .min = 1,
     .max = 1 << 20, .unit = "rows",
     .help = "rows (orpo: pairs) a rank takes at once in evaluation"},
    {BOOL(eval, load_best_model_at_end), .dflt = "false",
     .help = "the final model is the best checkpoint, not the last; it is"
             " never pruned"},
    {STR(eval, metric_for_best_model), .dflt = "loss",
     .help = "evaluation metric that says which is best and when to stop"
             " early, such as loss or rewards/accuracies"},
    {TRI(eval, greater_is_better), .dflt = "auto",
     .help = "direction of that metric; auto knows it by name"},
    {INT(eval, early_stopping_patience), .dflt = "0", .max = MANY,
     .unit = "evaluations", .flags = TRAJ,
     .help = "stop after so many in a row without a better metric; 0: never"},
    {NUM(eval, early_stopping_threshold), .dflt = "0", .max = INFINITY,
     .flags = TRAJ,
     .help = "a metric is better only if it is by more than this"},

    /* save */
    {CHOICE(save, save_strategy, "no", "steps", "epoch"), .dflt = "steps",
     .help = "when to write checkpoints; the final model is always written"},
    {INT(save, save_steps), .dflt = "500", .min = 1, .max = MANY,
     .unit = "steps", .help = "write one every so many steps"},
    {INT(save, save_total_limit), .dflt = "0", .max = MANY,
     .unit = "checkpoints",
     .help = "remove this run's older ones beyond so many; 0: keep all"},
    {BOOL(save, save_on_signal), .dflt = "true",
     .help = "on SIGTERM, SIGUSR1, SIGINT (Ctrl-C) and SIGHUP (the terminal is"
             " gone): drop the step between two micro-batches, or finish it,"
             " write a checkpoint, exit 75"},
    {STR(save, resume), .dflt = "auto", .flags = PATH,
     .help = "auto: go on from the newest whole checkpoint in output_dir, or"
             " start if there is none; never: start, and refuse an"
             " output_dir that holds a run; else the path of a checkpoint"},

    /* log */
    {INT(log, logging_steps), .dflt = "10", .min = 1, .max = MANY,
     .unit = "steps",
     .help = "a record in metrics.jsonl every so many steps"},
    {SET(log, report_to, "tensorboard"), .dflt = "none",
     .help = "further sinks; metrics.jsonl is written always"},

    /* mesh */
    {CHOICE(mesh, device, "auto", "cpu", "cuda"), .dflt = "auto",
     .flags = OWN,
     .help = "auto: cuda where there is a device, else cpu"},
    {BOOL(mesh, strict_device), .dflt = "false", .flags = OWN,
     .help = "on a GPU: an operation that has no kernel for its shape is an"
             " error, instead of being computed by the CPU and counted"},
    {BOOL(mesh, cuda_graph), .dflt = "false",
     .help = "on one GPU: launch a step as one CUDA graph where the batches of"
             " an earlier step had the same shapes (8 shapes are kept). The"
             " same bits; less work for the host"},
    {INT(mesh, num_threads), .dflt = "0", .max = 4096, .unit = "threads",
     .flags = OWN,
     .help = "for computing on the CPU; 0: SLURM_CPUS_PER_TASK, else"
             " OMP_NUM_THREADS, else the CPUs allowed, shared among the ranks"
             " of a node"},
    {INT(mesh, data_parallel_size), .dflt = "0", .max = 1 << 20,
     .unit = "ranks",
     .help = "0: what the other sizes leave of the ranks"},
    {INT(mesh, tensor_parallel_size), .dflt = "1", .min = 1, .max = 1 << 20,
     .unit = "ranks", .help = "ranks that share every matrix"},
    {INT(mesh, pipeline_parallel_size), .dflt = "1", .min = 1,
     .max = 1 << 20, .unit = "ranks", .help = "ranks that share the layers"},
    {LIST(mesh, pipeline_layer_split), .unit = "layers",
     .help = "layers of each pipeline stage, first to last. measured: times a"
             " micro-batch at the first start, splits by that, and keeps the"
             " split in output_dir/stages.json for later starts of the same"
             " layout. By default the split whose costliest stage is cheapest,"
             " by the sizes of the layers' and the head's matrices"},
    {INT(mesh, context_parallel_size), .dflt = "1", .min = 1,
     .max = 1 << 20, .unit = "ranks",
     .help = "ranks that share every sequence"},
    {BOOL(mesh, sequence_parallel), .dflt = "false",
     .help = "split what lies between tensor-parallel matrices by tokens"},
    {INT(mesh, zero_stage), .dflt = "1", .min = 1, .max = 2,
     .help = "what data-parallel ranks share out: 1 optimizer states and"
             " masters, 2 gradients too; those of layers are then summed once"
             " a micro-batch"},
    {BOOL(mesh, overlap_grad_reduce), .dflt = "true",
     .help = "sum gradients over data-parallel ranks while the backward pass"
             " that makes them goes on; the same bits without. With"
             " zero_stage: 2 it takes the gradients of one more layer"},
    {BOOL(mesh, overlap_param_gather), .dflt = "true",
     .help = "give the weights that a data-parallel rank has updated to the"
             " others while it updates the rest; the same bits without"},
    {INT(mesh, reduce_bucket_size), .dflt = "4194304", .min = 1, .max = MANY,
     .unit = "elements",
     .help = "gradients of layers at least that are begun to be summed at a"
             " time (zero_stage: 1), and updated weights that are begun to be"
             " given to the other ranks"},
    {NUM(mesh, ddp_timeout), .dflt = "7200", .max = 1e7, .flags = ABOVE,
     .unit = "seconds",
     .help = "longest wait for another rank before an error names it"},

    /* lora */
    {INT(lora, lora_r), .dflt = "0", .max = 65536, .flags = TRAJ,
     .help = "rank of the adapters; 0: train the model itself, or what adapter"
             " names. The model's own weights are frozen then: no gradients,"
             " no optimizer state, and checkpoints without them"},
    {NUM(lora, lora_alpha), .dflt = "16", .max = 1e6, .flags = TRAJ | ABOVE,
     .help = "adapters are scaled by lora_alpha / lora_r"},
    {NUM(lora, lora_dropout), .dflt = "0", .max = 1, .flags = TRAJ | BELOW,
     .help = "share of an adapter's input that is dropped in training; which"
             " elements is a function of seed, step and row alone"},
    {LIST(lora, lora_target_modules), .dflt = "all-linear", .flags = TRAJ,
     .help = "matrices that get adapters: names such as q_proj or ends of paths"
             " such as layers.3.self_attn.q_proj; all-linear: all but the"
             " embedding and the head"},
    {BOOL(lora, use_rslora), .dflt = "false", .flags = TRAJ,
     .help = "scale by lora_alpha / sqrt (lora_r) instead"},
    {LIST(lora, modules_to_save), .flags = TRAJ,
     .help = "modules trained and saved whole beside the adapters: norms,"
             " embed_tokens, lm_head; matched by their ends, as PEFT does"},
    {STR(lora, adapter), .flags = PATH,
     .help = "PEFT folder (adapter_config.json, adapter_model.safetensors) to"
             " train further, evaluate or score with; its config says rank,"
             " alpha, dropout and modules, so lora_* keys are not given"},

    /* asha */
    {STR(asha, asha_dir), .flags = PATH,
     .help = "folder where runs leave their metric at each rung; with it, a"
             " run that is not among the best at a rung ends there"},
    {LIST(asha, asha_rungs), .unit = "steps",
     .help = "steps at which runs are compared, each one of an evaluation"},
    {INT(asha, asha_reduction), .dflt = "3", .min = 2, .max = 1000,
     .help = "the best 1/asha_reduction of the runs that have reached a rung"
             " go on, at least one"},
    {STR(asha, asha_metric), .dflt = "loss", .orpo = "nll_loss",
     .help = "evaluation metric that they are compared by"},
};
/* clang-format on */
_Static_assert(BN_COUNT(keys) == BN_CONF_NKEYS, "set BN_CONF_NKEYS");

const struct bn_conf_group bn_conf_groups[] = {
    {"run", "The run"},
    {"model", "Model"},
    {"data", "Data"},
    {"optim", "Optimizer and schedule"},
    {"loss", "Loss"},
    {"eval", "Evaluation"},
    {"save", "Checkpoints"},
    {"log", "Metrics"},
    {"mesh", "Devices and parallelism"},
    {"lora", "LoRA"},
    {"asha", "Early stopping within a sweep"},
    {NULL, NULL},
};

const struct bn_conf_key *bn_conf_keys(size_t *n)
{
    *n = BN_COUNT(keys);
    return keys;
}

/* A sweep of thousands of points asks millions of times: nearly all keys are
 * told apart by length and first letter, without a call. */
const struct bn_conf_key *bn_conf_find(const char *name)
{
    static _Thread_local struct {
        bool made;
        unsigned char len[BN_COUNT(keys)];
    } known;
    size_t len = strlen(name);

    for (size_t i = 0; !known.made && i < BN_COUNT(keys); i++)
        known.len[i] = (unsigned char)strlen(keys[i].name);
    known.made = true;
    for (size_t i = 0; i < BN_COUNT(keys); i++)
        if (known.len[i] == len && keys[i].name[0] == name[0]
            && memcmp(keys[i].name, name, len) == 0)
            return &keys[i];
    return NULL;
}
