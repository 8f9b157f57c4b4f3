/* burnish mps: the MPS daemon of one job. */
#include "config.h"
#include "cmd/cmd.h"
#include "cmd/opts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "sweep/mps.h"
#include "sweep/template.h"

static const char usage[] =
    "usage: burnish mps VERB [OPTION...]\n"
    "\n"
    "The MPS daemon of one job, with a pipe and a log folder named after it.\n"
    "\n";

static const struct bn_verb verbs[] = {
    { "start", "start it, or find it up, and print the variables that its "
               "processes need:\n"
               "            mps=$(burnish mps start) || exit; eval \"$mps\"" },
    { "stop", "end it, through its own pipe" },
    { "status", "is it up, down or hung?" },
    { 0 },
};

static int start(const char *root, const char *job, double timeout)
{
    struct bn_str said = { 0 }, out = { 0 };
    struct bn_err err;
    int rc = 0;

    char *dir = bn_mps_start(root, job, timeout, &said, &err);
    if (said.len)
        bn_warn("%.*s", (int)said.len - 1, said.s);
    if (dir) {
        static const char *const var[] = { "PIPE", "LOG" };
        static const char *const sub[] = { "pipe", "log" };
        for (int i = 0; i < 2 && rc == 0; i++) {
            char *path = bn_asprintf("%s/%s", dir, sub[i]);
            bn_str_addf(&out, "export CUDA_MPS_%s_DIRECTORY=", var[i]);
            if (bn_quote_shell(&out, path, &err) < 0)
                rc = (int)err.code;
            bn_str_addc(&out, '\n');
            free(path);
        }
    } else {
        rc = (int)err.code;
    }
    if (rc == 0)
        fputs(out.s, stdout);
    else
        bn_error("%s", err.text);
    bn_str_release(&said);
    bn_str_release(&out);
    free(dir);
    return rc;
}

/* Every folder of the job: status says its state, stop ends it. */
static int each(const char *root, const char *job, double timeout, bool stop)
{
    static const char *const name[] = { "none", "up", "down", "hung" };
    int rc = 0, seen = 0;

    for (int i = 1; i <= 9; i++) {
        struct bn_err err;
        char *dir = bn_mps_dir(root, job, i);
        enum bn_mps_state state = bn_mps_ask(dir, timeout);
        if (state != BN_MPS_NONE) {
            seen++;
            if (!stop)
                printf("%s: %s\n", dir, name[state]);
            else if (bn_mps_stop(dir, timeout, &err) < 0) {
                bn_error("%s", err.text);
                rc = (int)err.code;
            }
        }
        free(dir);
    }
    if (seen == 0 && !stop)
        printf("no MPS daemon of job %s\n", job);
    return rc;
}

static int run_verb(const struct bn_opt_list *words, const char *root,
                    const char *job, double timeout)
{
    struct bn_err err;
    int verb = bn_verb_find(verbs, words, &err);

    if (verb < 0)
        return bn_cmd_usage("mps", "%s", err.text);
    if (words->n > 1)
        return bn_cmd_usage("mps", "'%s' is not understood", words->v[1]);
    if (!(timeout > 0 && timeout < 3600))
        return bn_cmd_usage("mps", "--timeout needs seconds below 3600");
    if (job == NULL || strspn(job, "0123456789_") != strlen(job)
        || *job == '\0')
        return bn_cmd_usage("mps", "no job: run inside one, or give --job "
                            "ID");
    if (verb == 0)
        return start(root, job, timeout);
    return each(root, job, timeout, verb == 1);
}

int bn_cmd_mps(int argc, char **argv)
{
    const char *job = getenv("SLURM_JOB_ID");
    const char *root = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    struct bn_opt_list words = { 0 };
    double timeout = 10;
    bool help = false;
    const struct bn_opt opts[] = {
        { "job", BN_OPT_STR, &job, "ID", "the job [$SLURM_JOB_ID]" },
        { "dir", BN_OPT_STR, &root, "DIR",
          "folder for the daemon's folder [$TMPDIR, else /tmp]" },
        { "timeout", BN_OPT_NUM, &timeout, "S",
          "a daemon that does not answer for so long hangs [10]" },
        { "help", BN_OPT_FLAG, &help, NULL, "print this and exit" },
        { 0 },
    };
    struct bn_err err;
    int rc = 0;

    if (bn_opts_parse(opts, argc, argv, &words, &err) < 0) {
        rc = bn_cmd_usage("mps", "%s", err.text);
    } else if (help) {
        fputs(usage, stdout);
        bn_verbs_help(verbs, stdout);
        bn_opts_help(opts, stdout);
    } else {
        rc = run_verb(&words, root, job, timeout);
    }
    bn_opt_list_release(&words);
    return rc;
}
