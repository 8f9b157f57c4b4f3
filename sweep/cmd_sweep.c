#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "sweep/check.h"
#include "sweep/cmd.h"
#include "sweep/submit.h"

struct args {
    const char *file;
    const char *const *names;
    size_t nnames;
    bool failed;
};

/* Load and check; NULL after printing all that is wrong. */
static struct bn_sweep *load(const struct args *a, bool check)
{
    struct bn_problems p = { 0 };
    struct bn_str notes = { 0 };
    struct bn_sweep *s = bn_sweep_load(a->file, &p);

    if (s && check)
        bn_sweep_check(s, &p, &notes);
    for (size_t i = 0; s && i < a->nnames; i++) {
        struct bn_place none = { 0 };
        if (bn_sweep_find(s, a->names[i]) == NULL)
            bn_problem_add(&p, none, "no point '%s' in '%s'", a->names[i],
                           a->file);
    }
    fputs(notes.s ? notes.s : "", stderr);
    bn_problems_print(&p, stderr);
    if (p.n > 0) {
        bn_error("%zu problem%s: nothing is submitted", p.n + p.dropped,
                 p.n + p.dropped == 1 ? "" : "s");
        bn_sweep_free(s);
        s = NULL;
    }
    bn_str_release(&notes);
    bn_problems_release(&p);
    return s;
}

static int check(const struct args *a)
{
    struct bn_sweep *s = load(a, true);
    if (s == NULL)
        return BN_ERR_USAGE;
    printf("%s: %zu points, all well\n", s->name, s->n);
    bn_sweep_free(s);
    return 0;
}

static int submit_points(const struct args *a, bool failed_only)
{
    struct bn_sweep *s = load(a, true);
    struct bn_submit sub = { .failed_only = failed_only,
                             .names = a->nnames ? a->names : NULL,
                             .nnames = a->nnames };
    struct bn_err err;

    if (s == NULL)
        return BN_ERR_USAGE;
    int rc = bn_submit_run(s, &sub, &err);
    printf("%s: %zu points %s, %zu in the queue already, %zu %s\n",
           s->name, sub.submitted,
           s->launch == BN_LAUNCH_LOCAL ? "run" : "submitted", sub.busy,
           sub.done, failed_only ? "not failed" : "done already");
    if (rc < 0)
        bn_error("%s", err.text);
    else if (sub.failed > 0)
        bn_error("%zu points failed", sub.failed);
    bn_sweep_free(s);
    return rc < 0 ? (int)err.code : sub.failed > 0 ? BN_ERR_DATA : 0;
}

static int submit(const struct args *a)
{
    return submit_points(a, false);
}

static int retry(const struct args *a)
{
    if (!a->failed && a->nnames == 0) {
        bn_error("burnish sweep retry: which points? name them, or give "
                 "--failed");
        return BN_ERR_USAGE;
    }
    return submit_points(a, true);
}

static int cancel(const struct args *a)
{
    struct bn_sweep *s = load(a, false);
    struct bn_err err;
    size_t n;

    if (s == NULL)
        return BN_ERR_USAGE;
    int rc = bn_submit_cancel(s, a->nnames ? a->names : NULL, a->nnames, &n,
                              &err);
    if (rc < 0)
        bn_error("%s", err.text);
    else
        printf("%s: %zu jobs cancelled\n", s->name, n);
    bn_sweep_free(s);
    return rc < 0 ? (int)err.code : 0;
}

static const struct verb {
    const char *name;
    int (*run)(const struct args *a);
    const char *help;
} verbs[] = {
    { "check", check, "find all that is wrong with all points" },
    { "submit", submit, "check, then submit what is new, failed or changed" },
    { "retry", retry, "submit failed points again (--failed, or their names)" },
    { "cancel", cancel, "cancel the jobs of the sweep, or of some points" },
};

static void help(void)
{
    size_t n;
    const struct bn_sweep_key *k = bn_sweep_keys(&n);

    printf("usage: burnish sweep VERB FILE.yaml [POINT...]\n\n");
    for (size_t i = 0; i < BN_COUNT(verbs); i++)
        printf("  %-8s %s\n", verbs[i].name, verbs[i].help);
    printf("\nKeys of the file (keys of a run go under base and into the "
           "points):\n");
    for (size_t i = 0; i < n; i++) {
        printf("  %-16s %s", k[i].name, k[i].help);
        for (size_t j = 0; k[i].choices && k[i].choices[j]; j++)
            printf("%s%s", j ? " | " : " (", k[i].choices[j]);
        printf("%s", k[i].choices ? ")" : "");
        if (k[i].dflt)
            printf(" [%s]", k[i].dflt);
        putchar('\n');
    }
}

enum { OPT_HELP = 1, OPT_FAILED };
static const struct option options[] = {
    { "help", no_argument, NULL, OPT_HELP },
    { "failed", no_argument, NULL, OPT_FAILED },
    { NULL, 0, NULL, 0 },
};

int bn_cmd_sweep(int argc, char **argv)
{
    struct args a = { 0 };
    int opt;

    optind = 1;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case OPT_HELP:
            help();
            return 0;
        case OPT_FAILED:
            a.failed = true;
            break;
        default:
            return BN_ERR_USAGE;
        }
    }
    if (argc - optind < 2) {
        bn_error("burnish sweep: needs a verb and a file (see 'burnish sweep "
                 "--help')");
        return BN_ERR_USAGE;
    }
    a.file = argv[optind + 1];
    a.names = (const char *const *)argv + optind + 2;
    a.nnames = (size_t)(argc - optind - 2);
    for (size_t i = 0; i < BN_COUNT(verbs); i++)
        if (strcmp(argv[optind], verbs[i].name) == 0)
            return verbs[i].run(&a);
    bn_error("burnish sweep: no verb '%s' (see 'burnish sweep --help')",
             argv[optind]);
    return BN_ERR_USAGE;
}
