/* burnish-generate: answers of a model to prompts. */
#include "config.h"
#include "cmd/gen_report.h"
#include "cmd/opts.h"
#include "cmd/prompts.h"
#include "base/crash.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/signal.h"
#include "train/gen.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: burnish-generate --model DIR [OPTIONS] PROMPT...\n"
    "       burnish-generate --model DIR [OPTIONS] --input FILE.jsonl\n\n"
    "Continue prompts with a Hugging Face model folder, many at a time. A row\n"
    "of the input is an object with 'prompt' (text), 'messages' (a chat, made\n"
    "a prompt by the model's chat template) or 'ids'. For each row, in their\n"
    "order, a line of JSON comes out: row (from 1), text (what follows the\n"
    "prompt), ids (all that came), stop_reason, prompt_tokens. Reasons: eos,\n"
    "stop (a stop string), length (--max-new-tokens), context (the model's\n"
    "positions are full). One PROMPT at a terminal is answered as plain text\n"
    "while it is made.\n\n"
    "An answer depends on its prompt, the options for sampling, the seed and\n"
    "its row number, not on --batch-size. Answers end at eos_token_id of\n"
    "config.json and generation_config.json and at the tokenizer's eos_token.\n"
    "Figures of --evaluate have 95 % confidence intervals: Wilson's for shares,\n"
    "mean -+ 1.96 s/sqrt(n) for means, a jackknife over answers for distinct-n.\n"
    "A model may be divided over ranks, started by mpirun or srun --mpi=pmix:\n"
    "--tensor-parallel-size times --pipeline-parallel-size of them, on CPUs or a\n"
    "GPU each. The first one reads prompts and writes answers.\n\n";

struct args {
    struct bn_opt_list operands, stop, stop_id;
    const char *model, *adapter, *tokenizer, *input, *output, *dtype, *device;
    const char *evaluate, *reference, *record;
    int64_t max_new_tokens, top_k, seed, batch_size, threads, tp, pp;
    int64_t timeout;
    double temperature, top_p, min_p, repetition_penalty;
    bool chat, ignore_eos, help, version;
};

/* One run of the program. */
struct job {
    const struct args *a;
    struct bn_gen_conf conf;
    struct bn_ids stop_ids;
    const char **stops;
    struct bn_generator g;
    struct bn_prompts prompts;
    /* lines in the order of rows: [n], NULL until made */
    char **line;
    size_t next, finished;
    struct bn_str out; /* with --output: all lines */
    struct bn_gen_eval *eval; /* with --evaluate or --record */
    bool stream;
};

static int write_out(const char *s, size_t n, struct bn_err *err)
{
    if (fwrite(s, 1, n, stdout) != n || fflush(stdout) != 0)
        return bn_fail(err, bn_err_from_errno(errno),
                       "cannot write standard output: %s", strerror(errno));
    return 0;
}

static int on_text(void *arg, size_t row, const char *s, size_t n,
                   struct bn_err *err)
{
    (void)arg;
    (void)row;
    return write_out(s, n, err);
}

static char *line_of(const struct job *j, const struct bn_gen_answer *a)
{
    struct bn_str s = {0};

    bn_str_addf(&s, "{\"row\":%zu,\"text\":", a->row + 1);
    bn_str_add_json(&s, a->text, a->len);
    bn_str_adds(&s, ",\"ids\":[");
    for (size_t i = 0; i < a->n; i++)
        bn_str_addf(&s, "%s%d", i > 0 ? "," : "", a->ids[i]);
    bn_str_addf(&s, "],\"stop_reason\":\"%s\"", bn_gen_reason_name(a->reason));
    if (a->reason == BN_GEN_STOP) {
        bn_str_adds(&s, ",\"stop\":");
        bn_str_add_json(&s, j->stops[a->stop], strlen(j->stops[a->stop]));
    }
    bn_str_addf(&s, ",\"prompt_tokens\":%zu}\n", a->prompt_tokens);
    return bn_str_take(&s);
}

/* Rows are finished in any order and written in that of the input. */
static int on_done(void *arg, const struct bn_gen_answer *a,
                   struct bn_err *err)
{
    struct job *j = arg;
    int rc = 0;

    bn_progress_update(++j->finished, NULL);
    if (j->eval != NULL)
        bn_gen_report_add(j->eval, a, &j->prompts);
    if (j->stream)
        return write_out("\n", 1, err);
    j->line[a->row] = line_of(j, a);
    while (rc == 0 && j->next < j->prompts.n && j->line[j->next] != NULL) {
        char *s = j->line[j->next];

        if (j->a->output != NULL)
            bn_str_adds(&j->out, s);
        else
            rc = write_out(s, strlen(s), err);
        free(s);
        j->line[j->next++] = NULL;
    }
    return rc;
}

static int stop_id(struct job *j, const char *s, struct bn_err *err)
{
    char *end;
    long id;

    errno = 0;
    id = strtol(s, &end, 10);
    if (errno != 0 || end == s || *end != '\0' || id < 0
        || id >= j->g.cfg.vocab_size)
        return bn_fail(err, BN_ERR_USAGE, "--stop-id: '%s' is not an id of "
                       "the model (an integer below %d)", s,
                       j->g.cfg.vocab_size);
    bn_grow(&j->stop_ids.v, &j->stop_ids.cap, j->stop_ids.n + 1,
            sizeof(*j->stop_ids.v));
    j->stop_ids.v[j->stop_ids.n++] = (int32_t)id;
    return 0;
}

/* A special token is no part of the text: as a stop string it is its id. */
static int set_stops(struct job *j, struct bn_err *err)
{
    const struct args *a = j->a;
    const struct bn_tokenizer *t = j->g.tokenizer;
    char id[16];

    j->stops = BN_NEWN(const char *, a->stop.n + 1);
    for (size_t i = 0; i < a->stop.n; i++) {
        const char *s = a->stop.v[i];
        int32_t token = bn_tokenizer_id(t, s);

        if (s[0] == '\0')
            return bn_fail(err, BN_ERR_USAGE, "--stop: the string is empty");
        if (token < 0 || !bn_tokenizer_is_special(t, token)) {
            j->stops[j->conf.nstop++] = s;
            continue;
        }
        snprintf(id, sizeof(id), "%d", token);
        if (stop_id(j, id, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < a->stop_id.n; i++)
        if (stop_id(j, a->stop_id.v[i], err) < 0)
            return -1;
    for (size_t i = 0; i < j->g.eos.n && !a->ignore_eos; i++) {
        snprintf(id, sizeof(id), "%d", j->g.eos.v[i]);
        if (stop_id(j, id, err) < 0)
            return -1;
    }
    j->conf.stop = j->stops;
    j->conf.stop_id = j->stop_ids.v;
    j->conf.nstop_id = j->stop_ids.n;
    return 0;
}

static int in_range(const char *name, int64_t v, int64_t least,
                    struct bn_err *err)
{
    if (v >= least && v <= INT_MAX)
        return 0;
    return bn_fail(err, BN_ERR_USAGE, "--%s is %lld; it must be %lld to %d",
                   name, (long long)v, (long long)least, INT_MAX);
}

static int check_args(struct job *j, enum bn_dtype *t, struct bn_err *err)
{
    const struct args *a = j->a;

    if (a->model == NULL)
        return bn_fail(err, BN_ERR_USAGE, "--model is missing");
    if ((a->input != NULL) == (a->operands.n > 0))
        return bn_fail(err, BN_ERR_USAGE, "%s", a->input != NULL
                       ? "give prompts or --input, not both"
                       : "give a prompt, or a file of them with --input");
    for (size_t i = 0; i < a->operands.n; i++) {
        const char *ending = strrchr(a->operands.v[i], '.');

        if (ending != NULL && strcmp(ending, ".jsonl") == 0
            && access(a->operands.v[i], F_OK) == 0)
            return bn_fail(err, BN_ERR_USAGE, "'%s' would be continued as "
                           "text; write --input %s for the prompts in it",
                           a->operands.v[i], a->operands.v[i]);
    }
    if (a->chat && a->input != NULL)
        return bn_fail(err, BN_ERR_USAGE, "--chat is for prompts of the "
                       "command line; rows of a file say 'messages'");
    if (a->reference != NULL
        && (a->input == NULL || (a->evaluate == NULL && a->record == NULL)))
        return bn_fail(err, BN_ERR_USAGE, "--reference names a member of the "
                       "rows of --input, for --evaluate or --record");
    if (strcmp(a->dtype, "float32") == 0)
        *t = BN_F32;
    else if (strcmp(a->dtype, "bfloat16") == 0)
        *t = BN_BF16;
    else
        return bn_fail(err, BN_ERR_USAGE,
                       "--dtype is '%s'; say float32 or bfloat16", a->dtype);
    if (in_range("max-new-tokens", a->max_new_tokens, 1, err) < 0
        || in_range("batch-size", a->batch_size, 1, err) < 0
        || in_range("threads", a->threads, 0, err) < 0
        || in_range("top-k", a->top_k, 0, err) < 0
        || in_range("tensor-parallel-size", a->tp, 1, err) < 0
        || in_range("pipeline-parallel-size", a->pp, 1, err) < 0
        || in_range("timeout", a->timeout, 1, err) < 0)
        return -1;
    j->conf = (struct bn_gen_conf){
        .sample = {a->temperature, (int)a->top_k, a->top_p, a->min_p,
                   a->repetition_penalty},
        .seed = (uint64_t)a->seed,
        .max_new_tokens = (int)a->max_new_tokens,
        .batch_size = (int)a->batch_size,
    };
    if (bn_sample_check(&j->conf.sample, err) < 0)
        return -1;
    return 0;
}

static int read_prompts(struct job *j, struct bn_err *err)
{
    const struct args *a = j->a;

    bn_prompts_init(&j->prompts, j->g.tokenizer, j->g.cfg.vocab_size,
                    j->g.cfg.max_position - 1);
    j->prompts.reference_key = a->reference;
    if (a->input != NULL)
        return bn_prompts_read(&j->prompts, a->input, err);
    for (size_t i = 0; i < a->operands.n; i++)
        if (bn_prompts_add(&j->prompts, a->operands.v[i], a->chat, err) < 0)
            return bn_err_prefix(err, "prompt %zu", i + 1);
    return 0;
}

static bool leads(const struct job *j)
{
    return j->g.info.rank == 0;
}

/* The first rank's prompts are everyone's. */
static int share_prompts(struct job *j, struct bn_err *err)
{
    int rc = leads(j) ? read_prompts(j, err) : 0;

    if (j->g.world->size == 1)
        return rc;
    if (bn_comm_agree(j->g.world, rc < 0 ? err->code : 0, err) < 0)
        return -1;
    return bn_prompts_share(&j->prompts, j->g.world, err);
}

/* The name of a device, as in a run file. */
static int device_of(const char *name, enum bn_run_device *kind,
                     struct bn_err *err)
{
    if (strcmp(name, "auto") == 0)
        *kind = BN_RUN_DEVICE_AUTO;
    else if (strcmp(name, "cpu") == 0)
        *kind = BN_RUN_DEVICE_CPU;
    else if (strcmp(name, "cuda") == 0)
        *kind = BN_RUN_DEVICE_CUDA;
    else
        return bn_fail(err, BN_ERR_USAGE,
                       "--device is '%s'; say auto, cpu or cuda", name);
    return 0;
}

static int join(struct job *j, struct bn_err *err)
{
    const struct args *a = j->a;
    struct bn_device_want want = {.threads = (int)a->threads, .quiet = true};

    if (device_of(a->device, &want.kind, err) < 0)
        return -1;
    return bn_generator_join(&j->g, (int)a->tp, (int)a->pp,
                             (double)a->timeout, &want, err);
}

static int load(struct job *j, enum bn_dtype t, struct bn_err *err)
{
    int capacity = 1;

    for (size_t i = 0; i < j->prompts.n; i++) {
        int limit = bn_gen_limit(&j->g, &j->conf, j->prompts.v[i].n);

        capacity = limit > capacity ? limit : capacity;
    }
    return bn_generator_load(&j->g, j->a->model, j->a->adapter, t, capacity,
                             err);
}

static void report(const struct bn_gen_stats *s, size_t rows)
{
    bn_info("%zu rows, %zu prompt tokens, %zu new tokens in %.2f s: %.1f new "
            "tokens/s", rows, s->prompt_tokens, s->new_tokens, s->seconds,
            s->seconds > 0 ? (double)s->new_tokens / s->seconds : 0);
}

/* On ranks that only compute. */
static int on_done_elsewhere(void *arg, const struct bn_gen_answer *a,
                             struct bn_err *err)
{
    (void)arg;
    (void)a;
    (void)err;
    return 0;
}

static int compute(struct job *j, struct bn_err *err)
{
    const struct bn_gen_sink sink = {.arg = j, .done = on_done_elsewhere};
    struct bn_gen_stats stats;

    return bn_generate(&j->g, &j->conf, j->prompts.v, j->prompts.n, &sink,
                       &stats, err);
}

static int answer(struct job *j, struct bn_err *err)
{
    struct bn_gen_sink sink = {.arg = j, .done = on_done};
    struct bn_gen_stats stats;
    int rc;

    j->stream = j->prompts.n == 1 && j->a->operands.n == 1
                && j->a->output == NULL && isatty(STDOUT_FILENO);
    if (j->stream)
        sink.text = on_text;
    else
        bn_progress_begin("generate", 0, j->prompts.n, 30);
    j->line = BN_NEWN(char *, j->prompts.n + 1);
    rc = bn_generate(&j->g, &j->conf, j->prompts.v, j->prompts.n, &sink,
                     &stats, err);
    if (!j->stream)
        bn_progress_end();
    if (rc == 0 && j->a->output != NULL)
        rc = bn_file_write(j->a->output, j->out.s != NULL ? j->out.s : "",
                           j->out.len, err);
    if (rc == 0 && j->a->evaluate != NULL)
        rc = bn_gen_report_write(j->eval, j->a->evaluate, err);
    if (rc == 0 && j->a->record != NULL)
        rc = bn_gen_report_record(j->eval, j->a->record, err);
    if (rc == 0 && !j->stream)
        report(&stats, j->prompts.n);
    return rc;
}

static int run(const struct args *a, struct bn_err *err)
{
    struct job j = {.a = a};
    enum bn_dtype t = BN_F32;
    int rc = check_args(&j, &t, err);

    if (a->evaluate != NULL || a->record != NULL)
        j.eval = bn_gen_eval_create();

    if (rc == 0)
        rc = bn_generator_open(&j.g, a->model, a->tokenizer, err);
    if (rc == 0)
        rc = set_stops(&j, err);
    if (rc == 0)
        rc = join(&j, err);
    if (rc == 0)
        rc = share_prompts(&j, err);
    if (rc == 0)
        rc = load(&j, t, err);
    if (j.g.world != NULL && j.g.world->size > 1
        && bn_comm_agree(j.g.world, rc < 0 ? err->code : 0, err) < 0)
        rc = -1;
    if (rc == 0)
        rc = leads(&j) ? answer(&j, err) : compute(&j, err);
    if (rc < 0 && j.g.world != NULL)
        j.g.world->ops->leave(j.g.world);
    for (size_t i = 0; j.line != NULL && i < j.prompts.n; i++)
        free(j.line[i]);
    free(j.line);
    bn_gen_eval_destroy(j.eval);
    bn_str_release(&j.out);
    bn_prompts_release(&j.prompts);
    bn_generator_close(&j.g);
    bn_ids_release(&j.stop_ids);
    free(j.stops);
    return rc;
}

int main(int argc, char **argv)
{
    struct args a = {
        .device = "auto",
        .dtype = "float32",
        .max_new_tokens = 256,
        .batch_size = 8,
        .tp = 1,
        .pp = 1,
        .timeout = 600,
        .top_p = 1,
        .repetition_penalty = 1,
    };
    const struct bn_opt opts[] = {
        {"model", BN_OPT_STR, &a.model, "DIR",
         "folder with config.json and safetensors"},
        {"adapter", BN_OPT_STR, &a.adapter, "DIR",
         "PEFT folder of an adapter of that model"},
        {"tokenizer", BN_OPT_STR, &a.tokenizer, "DIR",
         "folder of the tokenizer (default: the model's)"},
        {"input", BN_OPT_STR, &a.input, "FILE",
         "prompts as JSON lines; - is standard input"},
        {"output", BN_OPT_STR, &a.output, "FILE",
         "where answers go, whole or not at all (default: standard output)"},
        {"evaluate", BN_OPT_STR, &a.evaluate, "FILE",
         "write what the answers are like as JSON: length, end of text, "
         "repetition, distinct n-grams, exact match; - is standard error"},
        {"reference", BN_OPT_STR, &a.reference, "MEMBER",
         "the member of a row that holds the answer expected"},
        {"record", BN_OPT_STR, &a.record, "RUN_DIR",
         "add the same to the metrics.jsonl of a run, as eval_gen_* keys"},
        {"chat", BN_OPT_FLAG, &a.chat, NULL,
         "a PROMPT is what a user says: use the chat template"},
        {"max-new-tokens", BN_OPT_INT, &a.max_new_tokens, "N",
         "tokens of an answer (default: 256)"},
        {"temperature", BN_OPT_NUM, &a.temperature, "T",
         "0 takes the most likely token (default: 0)"},
        {"top-k", BN_OPT_INT, &a.top_k, "N",
         "draw from the N most likely tokens (default: 0, no limit)"},
        {"top-p", BN_OPT_NUM, &a.top_p, "P",
         "... that together hold probability P (default: 1, no limit)"},
        {"min-p", BN_OPT_NUM, &a.min_p, "P",
         "... at least P times as likely as the first (default: 0)"},
        {"repetition-penalty", BN_OPT_NUM, &a.repetition_penalty, "X",
         "above 1 makes tokens seen before less likely (default: 1)"},
        {"stop", BN_OPT_LIST, &a.stop, "TEXT",
         "end an answer before this text; may be repeated"},
        {"stop-id", BN_OPT_LIST, &a.stop_id, "ID",
         "end an answer at this token; may be repeated"},
        {"ignore-eos", BN_OPT_FLAG, &a.ignore_eos, NULL,
         "do not end at the model's own end of text"},
        {"seed", BN_OPT_INT, &a.seed, "N",
         "of the random numbers (default: 0)"},
        {"batch-size", BN_OPT_INT, &a.batch_size, "N",
         "rows at a time (default: 8)"},
        {"dtype", BN_OPT_STR, &a.dtype, "float32|bfloat16",
         "what to compute in (default: float32)"},
        {"device", BN_OPT_STR, &a.device, "auto|cpu|cuda",
         "where (default: auto, a GPU if there is one)"},
        {"threads", BN_OPT_INT, &a.threads, "N",
         "default: as num_threads of a run"},
        {"tensor-parallel-size", BN_OPT_INT, &a.tp, "N",
         "ranks that share every layer (default: 1)"},
        {"pipeline-parallel-size", BN_OPT_INT, &a.pp, "N",
         "runs of layers, on a rank each (default: 1)"},
        {"timeout", BN_OPT_INT, &a.timeout, "SECONDS",
         "how long a rank waits for another (default: 600)"},
        {"help", BN_OPT_FLAG, &a.help, NULL, "print this and exit"},
        {"version", BN_OPT_FLAG, &a.version, NULL, "print it and exit"},
        {0},
    };
    struct bn_err err;
    int status = 0;

    bn_crash_catch();
    bn_signals_catch();
    if (bn_opts_parse(opts, argc, argv, &a.operands, &err) < 0) {
        bn_error("%s", err.text);
        status = err.code;
    } else if (a.help) {
        fputs(usage, stdout);
        bn_opts_help(opts, stdout);
    } else if (a.version) {
        puts(PACKAGE_STRING);
    } else if (run(&a, &err) < 0) {
        bn_error("%s", err.text);
        status = err.code;
    }
    bn_opt_list_release(&a.operands);
    bn_opt_list_release(&a.stop);
    bn_opt_list_release(&a.stop_id);
    return status;
}
