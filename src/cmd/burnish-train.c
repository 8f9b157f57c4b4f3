/* burnish-train: one rank of a training run. */
#include "config.h"
#include "cmd/opts.h"
#include "base/crash.h"
#include "base/log.h"
#include "train/ping.h"
#include "train/run.h"
#include "train/score.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: burnish-train [OPTIONS] RUN.yaml\n\n"
    "Train the run that RUN.yaml describes: alone, under mpirun or under\n"
    "srun --mpi=pmix. See burnish-run(5) for the keys of the file.\n\n";

static const double ping_timeout = 30; /* seconds */

struct args {
    struct bn_run_args run;
    struct bn_opt_list operands;
    bool check, eval_only, strict_device, ping, help, version;
    const char *score, *output;
};

static int start(const struct args *a, const struct bn_run *run)
{
    struct bn_err err;
    int rc;

    if (a->score != NULL)
        rc = bn_score_run(run, a->score, a->output, &err);
    else
        rc = bn_train_run(run, (a->check ? BN_TRAIN_CHECK : 0u)
                                   | (a->eval_only ? BN_TRAIN_EVAL_ONLY : 0u),
                          &err);
    if (rc == 0)
        return 0;
    bn_error("%s", err.text);
    return err.code;
}

static int load_and_start(struct args *a)
{
    unsigned flags = a->score != NULL || a->eval_only ? BN_RUN_NO_TRAIN : 0;
    int status = BN_ERR_USAGE;

    if (a->operands.n > 1) {
        bn_error("one run file is expected, not %zu", a->operands.n);
        return BN_ERR_USAGE;
    }
    if (a->operands.n == 0 && a->run.sets.n == 0 && !a->run.print_config
        && !a->run.help_keys) {
        bn_error("give a run file: burnish-train RUN.yaml (see --help)");
        return BN_ERR_USAGE;
    }
    if (a->strict_device)
        bn_opt_list_add(&a->run.sets, "strict_device=true");
    if (a->check + a->eval_only + (a->score != NULL) > 1) {
        bn_error("choose one of --check, --eval-only and --score");
        return BN_ERR_USAGE;
    }
    if (a->output != NULL && a->score == NULL) {
        bn_error("--output is where --score writes, and there is no --score");
        return BN_ERR_USAGE;
    }
    struct bn_run *run = bn_run_args_load(
        &a->run, a->operands.n > 0 ? a->operands.v[0] : NULL, flags, &status);
    if (run == NULL)
        return status;
    status = start(a, run);
    bn_run_free(run);
    return status;
}

int main(int argc, char **argv)
{
    struct args a = {0};
    const struct bn_opt opts[] = {
        BN_RUN_OPTS(&a.run),
        {"check", BN_OPT_FLAG, &a.check, NULL,
         "do everything but train: open model and data, lay out memory"},
        {"eval-only", BN_OPT_FLAG, &a.eval_only, NULL,
         "evaluate the model as it is and print the metrics as JSON"},
        {"strict-device", BN_OPT_FLAG, &a.strict_device, NULL,
         "strict_device: true"},
        {"score", BN_OPT_STR, &a.score, "FILE.jsonl",
         "print the log-probability of every token of each row"},
        {"output", BN_OPT_STR, &a.output, "FILE",
         "where --score writes (default: standard output)"},
        {"ping", BN_OPT_FLAG, &a.ping, NULL,
         "see whether the ranks find each other, print it as JSON, and exit"},
        {"help", BN_OPT_FLAG, &a.help, NULL, "print this and exit"},
        {"version", BN_OPT_FLAG, &a.version, NULL, "print it and exit"},
        {0},
    };
    struct bn_err err;
    int status = 0;

    bn_crash_catch();
    if (bn_opts_parse(opts, argc, argv, &a.operands, &err) < 0) {
        bn_error("%s", err.text);
        status = BN_ERR_USAGE;
    } else if (a.help) {
        fputs(usage, stdout);
        bn_opts_help(opts, stdout);
    } else if (a.version) {
        puts(PACKAGE_STRING);
    } else if (a.ping) {
        if (bn_ping(ping_timeout, &err) < 0) {
            bn_error("%s", err.text);
            status = err.code;
        }
    } else {
        status = load_and_start(&a);
    }
    bn_opt_list_release(&a.operands);
    bn_opt_list_release(&a.run.sets);
    if (fflush(stdout) != 0 && status == 0) {
        bn_error("cannot write to standard output: %s", strerror(errno));
        status = bn_err_from_errno(errno);
    }
    return status;
}
