/* burnish clean: what jobs left behind on this machine. */
#include "config.h"
#include "cmd/cmd.h"
#include "cmd/opts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/data.h"
#include "sweep/clean.h"
#include "sweep/here.h"
#include "sweep/slurm.h"

static const char usage[] =
    "usage: burnish clean [--yes] [--grace S] [--port N] ...\n"
    "\n"
    "End processes and remove files that jobs which are over left behind on\n"
    "this machine: only this user's, this installation's, and stale.\n"
    "\n";

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

/* Places to look for session folders in, unless some were given. */
static char *default_tmp(struct bn_opt_list *tmp)
{
    char *of_slurm = slurm_tmp();

    if (getenv("TMPDIR") && strcmp(getenv("TMPDIR"), "/tmp") != 0)
        bn_opt_list_add(tmp, getenv("TMPDIR"));
    bn_opt_list_add(tmp, "/tmp");
    if (of_slurm && strcmp(of_slurm, "/tmp") != 0)
        bn_opt_list_add(tmp, of_slurm);
    return of_slurm;
}

static int clean(struct bn_clean *c, struct bn_opt_list *tmp, int64_t port)
{
    char *bin = bn_program_dir(), *of_slurm = NULL;
    char *cache = bn_cache_dir(c->cache);
    struct bn_err err;
    int rc = 0;

    if (tmp->n == 0)
        of_slurm = default_tmp(tmp);
    c->tmp = tmp->v;
    c->ntmp = tmp->n;
    if (c->bin == NULL)
        c->bin = bin;
    c->cache = cache;
    if (bn_clean_run(c, &err) < 0) {
        bn_error("no process was looked at: %s", err.text);
        rc = BN_ERR_AGAIN;
    }
    if (port > 0) {
        int use = bn_clean_port(c, (int)port, &err);
        if (use < 0) {
            bn_error("%s", err.text);
            rc = (int)err.code;
        } else {
            printf("%d\n", use);
        }
    }
    /* standard output is for the port, if one was asked for */
    fputs(c->said.s ? c->said.s : "", port > 0 ? stderr : stdout);
    if (!c->act && c->said.len > 0 && port == 0)
        puts("nothing was done: add --yes");
    if (c->left > 0)
        rc = BN_ERR_AGAIN;
    bn_str_release(&c->said);
    free(of_slurm);
    free(cache);
    free(bin);
    return rc;
}

/* What the numbers must be; -1 after saying so. */
static int check_numbers(const struct bn_clean *c, int64_t port)
{
    if (!(c->grace >= 0 && c->grace <= 3600))
        bn_cmd_usage("clean", "--grace needs a number from 0 to 3600");
    else if (port < 0 || port > 65535)
        bn_cmd_usage("clean", "--port needs a number from 0 to 65535");
    else if (!(c->min_age >= 0 && c->min_age <= 1e9))
        bn_cmd_usage("clean", "--min-age needs a number from 0 to 1e9");
    else
        return 0;
    return -1;
}

int bn_cmd_clean(int argc, char **argv)
{
    struct bn_clean c = { .grace = 10, .min_age = 60, .shm = "/dev/shm" };
    struct bn_opt_list tmp = { 0 }, words = { 0 };
    int64_t port = 0;
    bool help = false;
    const struct bn_opt opts[] = {
        { "yes", BN_OPT_FLAG, &c.act, NULL,
          "do it; without, only say what would be done" },
        { "grace", BN_OPT_NUM, &c.grace, "S",
          "seconds between TERM and KILL [10]" },
        { "port", BN_OPT_INT, &port, "N",
          "print N on standard output if it is free then, else another port "
          "that is" },
        { "min-age", BN_OPT_NUM, &c.min_age, "S",
          "leave younger segments in /dev/shm alone [60]" },
        { "shm", BN_OPT_STR, &c.shm, "DIR",
          "look for segments there [/dev/shm]" },
        { "tmp", BN_OPT_LIST, &tmp, "DIR",
          "look for session folders there, not in $TMPDIR, /tmp and Slurm's "
          "TmpFS; may be repeated" },
        { "cache", BN_OPT_STR, &c.cache, "DIR",
          "the token cache whose locks are looked at [as token_cache_dir]" },
        { "bin", BN_OPT_STR, &c.bin, "DIR",
          "programs of this installation [this one's folder]" },
        { "help", BN_OPT_FLAG, &help, NULL, "print this and exit" },
        { 0 },
    };
    struct bn_err err;
    int rc = BN_ERR_USAGE;

    if (bn_opts_parse(opts, argc, argv, &words, &err) < 0) {
        rc = bn_cmd_usage("clean", "%s", err.text);
    } else if (help) {
        fputs(usage, stdout);
        bn_opts_help(opts, stdout);
        rc = 0;
    } else if (words.n > 0) {
        rc = bn_cmd_usage("clean", "'%s' is not understood", words.v[0]);
    } else if (check_numbers(&c, port) == 0) {
        rc = clean(&c, &tmp, port);
    }
    bn_opt_list_release(&words);
    bn_opt_list_release(&tmp);
    return rc;
}
