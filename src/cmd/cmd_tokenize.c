/* burnish tokenize: what a run would train on, made and shown. */
#include "config.h"
#include "cmd/cmd.h"
#include "cmd/opts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/signal.h"
#include "data/data.h"
#include "train/data_opts.h"

static const char usage[] =
    "usage: burnish tokenize [OPTION...] RUN.yaml\n"
    "\n"
    "Finds or makes the token cache of the run's training and evaluation\n"
    "data, and prints the shape of the rows, a few examples with what is\n"
    "learnt of them marked, counts, rows dropped by reason, and the cache's\n"
    "path. A training run does the same before anything else.\n"
    "\n";

static int show(const struct bn_tokens *ts, const char *name, int64_t n,
                const struct bn_tokenizer *t, struct bn_err *err)
{
    bool colour = isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL;
    uint64_t count = bn_tokens_count(ts);
    struct bn_str out = {0};
    int rc = 0;

    bn_str_addf(&out, "%s: %" PRIu64 " examples\n", name, count);
    bn_tokens_report(ts, &out);
    for (uint64_t i = 0; rc == 0 && i < count && i < (uint64_t)n; i++) {
        bn_str_addc(&out, '\n');
        rc = bn_tokens_show(ts, i, t, colour, &out, err);
    }
    if (rc == 0)
        fwrite(out.s, 1, out.len, stdout);
    bn_str_release(&out);
    return rc;
}

static int tokenize(const struct bn_run *run, int64_t n, struct bn_err *err)
{
    struct bn_tokens *train = NULL, *eval = NULL;
    struct bn_tokenizer *t;
    struct bn_data_opts o;
    char *template = NULL;
    int rc = -1;

    t = bn_tokenizer_open(run->model.tokenizer_name_or_path, err);
    if (t == NULL)
        return -1;
    if (bn_session_data_opts(&o, run, &template, err) < 0
        || bn_tokens_make(&train, &eval, &o, t, err) < 0)
        goto out;
    rc = train != NULL ? show(train, "train", n, t, err) : 0;
    if (rc == 0 && eval != NULL && o.eval_split > 0) {
        printf("\neval: %" PRIu64 " examples, held out of the same files\n",
               bn_tokens_count(eval));
    } else if (rc == 0 && eval != NULL) {
        printf("\n");
        rc = show(eval, "eval", n, t, err);
    }
out:
    bn_tokens_close(train);
    bn_tokens_close(eval);
    free(template);
    bn_tokenizer_close(t);
    return rc;
}

int bn_cmd_tokenize(int argc, char **argv)
{
    struct bn_run_args args = {0};
    struct bn_opt_list files = {0};
    struct bn_err err;
    int64_t n = 1;
    bool help = false;
    int status = 0;
    const struct bn_opt opts[] = {
        {"show", BN_OPT_INT, &n, "N",
         "print the first N examples, their targets green or in [[ ]]; 1"},
        BN_RUN_OPTS(&args),
        {"help", BN_OPT_FLAG, &help, NULL, "print this and exit"},
        {NULL, BN_OPT_FLAG, NULL, NULL, NULL},
    };

    if (bn_opts_parse(opts, argc, argv, &files, &err) < 0) {
        status = bn_cmd_usage("tokenize", "%s", err.text);
    } else if (help) {
        fputs(usage, stdout);
        bn_opts_help(opts, stdout);
    } else if (files.n != 1 && !args.help_keys) {
        status = bn_cmd_usage("tokenize", "one run file is wanted, %zu were "
                              "given", files.n);
    } else if (n < 0) {
        status = bn_cmd_usage("tokenize", "--show must not be negative");
    } else {
        struct bn_run *run = bn_run_args_load(
            &args, files.n > 0 ? files.v[0] : NULL, BN_RUN_NO_TRAIN, &status);

        bn_signals_catch();
        if (run != NULL && run->data.train_file.n + run->data.eval_file.n == 0)
            status = bn_cmd_usage("tokenize", "'%s' names no train_file",
                                  files.v[0]);
        else if (run != NULL && tokenize(run, n, &err) < 0)
            status = bn_cmd_fail("tokenize", &err);
        bn_run_free(run);
    }
    bn_opt_list_release(&files);
    bn_opt_list_release(&args.sets);
    return status;
}
