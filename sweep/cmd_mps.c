#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "sweep/cmd.h"
#include "sweep/mps.h"
#include "sweep/template.h"

static const char usage[] =
    "usage: burnish mps start|stop|status [--job ID] [--dir DIR]\n"
    "                   [--timeout S]\n"
    "\n"
    "The MPS daemon of one job, with a pipe and a log folder named after it.\n"
    "start prints the variables that its processes need, for eval:\n"
    "    mps=$(burnish mps start) || exit; eval \"$mps\"\n"
    "\n"
    "  --job ID       the job [$SLURM_JOB_ID]\n"
    "  --dir DIR      folder for the daemon's folder [$TMPDIR, else /tmp]\n"
    "  --timeout S    a daemon that does not answer for so long hangs [10]\n";

enum { OPT_JOB = 1, OPT_DIR, OPT_TIMEOUT, OPT_HELP };
static const struct option options[] = {
    { "job", required_argument, NULL, OPT_JOB },
    { "dir", required_argument, NULL, OPT_DIR },
    { "timeout", required_argument, NULL, OPT_TIMEOUT },
    { "help", no_argument, NULL, OPT_HELP },
    { NULL, 0, NULL, 0 },
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

int bn_cmd_mps(int argc, char **argv)
{
    const char *job = getenv("SLURM_JOB_ID");
    const char *root = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    double timeout = 10;
    int opt;
    char *end;

    optind = 1;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case OPT_JOB: job = optarg; break;
        case OPT_DIR: root = optarg; break;
        case OPT_TIMEOUT:
            timeout = strtod(optarg, &end);
            if (end == optarg || *end || !(timeout > 0 && timeout < 3600)) {
                bn_error("--timeout needs seconds, not '%s'", optarg);
                return BN_ERR_USAGE;
            }
            break;
        case OPT_HELP: fputs(usage, stdout); return 0;
        default: return BN_ERR_USAGE;
        }
    }
    if (optind + 1 != argc) {
        bn_error("start, stop or status? see burnish mps --help");
        return BN_ERR_USAGE;
    }
    if (job == NULL || strspn(job, "0123456789_") != strlen(job)
        || *job == '\0') {
        bn_error("no job: run inside one, or give --job ID");
        return BN_ERR_USAGE;
    }
    const char *verb = argv[optind];
    if (strcmp(verb, "start") == 0)
        return start(root, job, timeout);
    if (strcmp(verb, "stop") == 0 || strcmp(verb, "status") == 0)
        return each(root, job, timeout, verb[2] == 'o');
    bn_error("'%s' is none of start, stop, status", verb);
    return BN_ERR_USAGE;
}
