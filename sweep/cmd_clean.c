#include "config.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "sweep/clean.h"
#include "sweep/cmd.h"
#include "sweep/slurm.h"

static const char usage[] =
    "usage: burnish clean [--yes] [--grace S] [--port N] ...\n"
    "\n"
    "End processes and remove files that jobs which are over left behind on\n"
    "this machine: only this user's, this installation's, and stale.\n"
    "\n"
    "  --yes          do it; without, only say what would be done\n"
    "  --grace S      seconds between TERM and KILL [10]\n"
    "  --port N       print N on standard output if it is free then, else\n"
    "                 another port that is\n"
    "  --min-age S    leave younger segments in /dev/shm alone [60]\n"
    "  --shm DIR      look for segments there [/dev/shm]\n"
    "  --tmp DIR      look for session folders there, not in $TMPDIR, /tmp\n"
    "                 and Slurm's TmpFS; may be given again\n"
    "  --bin DIR      programs of this installation [this one's folder]\n";

enum { OPT_YES = 1, OPT_GRACE, OPT_PORT, OPT_AGE, OPT_SHM, OPT_TMP, OPT_BIN,
       OPT_HELP };
static const struct option options[] = {
    { "yes", no_argument, NULL, OPT_YES },
    { "grace", required_argument, NULL, OPT_GRACE },
    { "port", required_argument, NULL, OPT_PORT },
    { "min-age", required_argument, NULL, OPT_AGE },
    { "shm", required_argument, NULL, OPT_SHM },
    { "tmp", required_argument, NULL, OPT_TMP },
    { "bin", required_argument, NULL, OPT_BIN },
    { "help", no_argument, NULL, OPT_HELP },
    { NULL, 0, NULL, 0 },
};

char *bn_program_dir(void)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (n < 0)
        return bn_strdup(".");
    exe[n] = '\0';
    return bn_path_dir(exe);
}

/* Slurm's TmpFS with the names of this node filled in, or NULL. */
static char *slurm_tmp(void)
{
    struct bn_err err;
    char *config = bn_slurm_show_config(&err);
    char *pattern = bn_slurm_config(config, "TmpFS");
    const char *node = getenv("SLURMD_NODENAME");
    char host[256] = "";
    struct bn_str b = { 0 };

    gethostname(host, sizeof(host) - 1);
    host[strcspn(host, ".")] = '\0';
    for (const char *p = pattern; p && *p; p++) {
        if (p[0] == '%' && (p[1] == 'n' || p[1] == 'h')) {
            bn_str_adds(&b, p[1] == 'n' && node ? node : host);
            p++;
        } else {
            bn_str_addc(&b, *p);
        }
    }
    free(config);
    free(pattern);
    return b.len ? bn_str_take(&b) : NULL;
}

static int number(const char *option, const char *text, double max,
                  double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= 0 && v <= max)) {
        bn_error("--%s needs a number from 0 to %g, not '%s'", option, max,
                 text);
        return -1;
    }
    *out = v;
    return 0;
}

int bn_cmd_clean(int argc, char **argv)
{
    struct bn_clean c = { .grace = 10, .min_age = 60, .shm = "/dev/shm" };
    const char *tmp[16];
    double port = 0;
    int opt, rc = BN_ERR_USAGE;
    struct bn_err err;
    char *bin = bn_program_dir(), *of_slurm = NULL;

    c.bin = bin;
    c.tmp = tmp;
    optind = 1;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        int bad = 0;
        switch (opt) {
        case OPT_YES: c.act = true; break;
        case OPT_GRACE: bad = number("grace", optarg, 3600, &c.grace); break;
        case OPT_PORT: bad = number("port", optarg, 65535, &port); break;
        case OPT_AGE: bad = number("min-age", optarg, 1e9, &c.min_age); break;
        case OPT_SHM: c.shm = optarg; break;
        case OPT_TMP:
            if (c.ntmp < BN_COUNT(tmp))
                tmp[c.ntmp++] = optarg;
            break;
        case OPT_BIN: c.bin = optarg; break;
        case OPT_HELP:
            fputs(usage, stdout);
            rc = 0;
            goto done;
        default: bad = -1;
        }
        if (bad < 0)
            goto done;
    }
    if (optind < argc) {
        bn_error("'%s' is not understood; see burnish clean --help",
                 argv[optind]);
        goto done;
    }
    if (c.ntmp == 0) {
        if (getenv("TMPDIR") && strcmp(getenv("TMPDIR"), "/tmp") != 0)
            tmp[c.ntmp++] = getenv("TMPDIR");
        tmp[c.ntmp++] = "/tmp";
        of_slurm = slurm_tmp();
        if (of_slurm && strcmp(of_slurm, "/tmp") != 0)
            tmp[c.ntmp++] = of_slurm;
    }
    rc = 0;
    if (bn_clean_run(&c, &err) < 0) {
        bn_error("no process was looked at: %s", err.text);
        rc = BN_ERR_AGAIN;
    }
    if (port > 0) {
        int use = bn_clean_port(&c, (int)port, &err);
        if (use < 0) {
            bn_error("%s", err.text);
            rc = (int)err.code;
        } else {
            printf("%d\n", use);
        }
    }
    /* standard output is for the port, if one was asked for */
    fputs(c.said.s ? c.said.s : "", port > 0 ? stderr : stdout);
    if (!c.act && c.said.len > 0 && port == 0)
        puts("nothing was done: add --yes");
    if (c.left > 0)
        rc = BN_ERR_AGAIN;
done:
    bn_str_release(&c.said);
    free(of_slurm);
    free(bin);
    return rc;
}
