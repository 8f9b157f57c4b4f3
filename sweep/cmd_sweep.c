#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signal.h"
#include "sweep/check.h"
#include "sweep/cmd.h"
#include "sweep/report.h"
#include "sweep/status.h"
#include "sweep/submit.h"

struct args {
    const char *file;
    const char *const *names;
    size_t nnames;
    bool failed, json, watch, csv, best;
    const char *html;
    double silent;  /* seconds */
    int group, curves;
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

/* --- status ---------------------------------------------------------------- */

static void print_status(const struct bn_sweep *s, const struct args *a,
                         const struct bn_status *v)
{
    struct bn_str out = { 0 };
    if (a->json) {
        json_t *o = bn_status_json(s, v);
        json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15));
        putchar('\n');
        json_decref(o);
    } else {
        bn_status_table(s, v, &out);
        if (a->watch && isatty(1))
            fputs("\033[H\033[2J", stdout);
        fputs(out.s, stdout);
        bn_str_release(&out);
    }
    fflush(stdout);
}

static int status(const struct args *a)
{
    struct bn_sweep *s = load(a, false);
    bool busy = true;

    if (s == NULL)
        return BN_ERR_USAGE;
    struct bn_status *v = BN_NEWN(struct bn_status, s->n + 1);
    bn_signals_catch();
    while (busy && bn_stop_signal() == 0) {
        struct bn_str notes = { 0 };
        bn_status_read(s, a->silent, v, &notes);
        print_status(s, a, v);
        fputs(notes.s ? notes.s : "", stderr);
        bn_str_release(&notes);
        busy = false;
        for (size_t i = 0; a->watch && i < s->n; i++)
            busy |= v[i].look.state == BN_STATE_PENDING
                    || v[i].look.state == BN_STATE_RUNNING;
        for (int k = 0; busy && k < 50 && bn_stop_signal() == 0; k++)
            usleep(100000);
    }
    free(v);
    bn_sweep_free(s);
    return 0;
}

/* --- report ---------------------------------------------------------------- */

static int write_html(const struct bn_sweep *s, const struct args *a,
                      const struct bn_ranking *r, struct bn_err *err)
{
    struct bn_str out = { 0 }, notes = { 0 };
    char *path = a->html ? bn_strdup(a->html)
                         : bn_path_join(s->dir, "report.html");
    bn_report_html(s, r, a->curves, &out, &notes);
    int rc = bn_file_write(path, out.s, out.len, err);
    fputs(notes.s ? notes.s : "", stderr);
    if (rc == 0)
        fprintf(stderr, "curves: %s\n", path);
    bn_str_release(&out);
    bn_str_release(&notes);
    free(path);
    return rc;
}

static int report(const struct args *a)
{
    struct bn_sweep *s = load(a, false);
    struct bn_str out = { 0 }, notes = { 0 };
    struct bn_ranking r;
    struct bn_err err;

    if (s == NULL)
        return BN_ERR_USAGE;
    int rc = bn_rank(s, &r, &notes, &err);
    fputs(notes.s ? notes.s : "", stderr);
    bn_str_release(&notes);
    if (rc < 0) {
        bn_error("%s", err.text);
        bn_sweep_free(s);
        return (int)err.code;
    }
    if (a->best) {
        char *yaml = bn_report_best(s, &r, a->group - 1, &err);
        rc = yaml ? 0 : -1;
        bn_str_adds(&out, yaml ? yaml : "");
        free(yaml);
    } else if (a->csv) {
        bn_report_csv(s, &r, &out);
    } else {
        bn_report_text(s, &r, &out);
        rc = write_html(s, a, &r, &err);
    }
    fputs(out.s, stdout);
    if (rc < 0)
        bn_error("%s", err.text);
    bn_str_release(&out);
    bn_ranking_release(&r);
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
    { "status", status, "which rank of which run is in which phase, what "
      "failed and why" },
    { "report", report, "rank the points; curves in one HTML file" },
    { "cancel", cancel, "cancel the jobs of the sweep, or of some points" },
};

enum { OPT_HELP = 1, OPT_FAILED, OPT_JSON, OPT_WATCH, OPT_SILENT, OPT_CSV,
       OPT_BEST, OPT_GROUP, OPT_HTML, OPT_CURVES };
static const struct option options[] = {
    { "help", no_argument, NULL, OPT_HELP },
    { "failed", no_argument, NULL, OPT_FAILED },
    { "json", no_argument, NULL, OPT_JSON },
    { "watch", no_argument, NULL, OPT_WATCH },
    { "silent", required_argument, NULL, OPT_SILENT },
    { "csv", no_argument, NULL, OPT_CSV },
    { "best", no_argument, NULL, OPT_BEST },
    { "group", required_argument, NULL, OPT_GROUP },
    { "html", required_argument, NULL, OPT_HTML },
    { "curves", required_argument, NULL, OPT_CURVES },
    { NULL, 0, NULL, 0 },
};
static const char option_help[] =
    "  --failed      retry: all points that failed or were lost\n"
    "  --json        status: as JSON\n"
    "  --watch       status: again every 5 s until nothing runs\n"
    "  --silent S    status: ranks not heard of for S seconds [60]\n"
    "  --csv         report: the table as CSV, and nothing else\n"
    "  --best        report: the run file of the winner's full-length run\n"
    "  --group N     report --best: of this group [1]\n"
    "  --html FILE   report: where the curves go [output_dir/report.html]\n"
    "  --curves N    report: draw the best N points of a group [12]\n";

static void help(void)
{
    size_t n;
    const struct bn_sweep_key *k = bn_sweep_keys(&n);

    printf("usage: burnish sweep VERB FILE.yaml [POINT...]\n\n");
    for (size_t i = 0; i < BN_COUNT(verbs); i++)
        printf("  %-8s %s\n", verbs[i].name, verbs[i].help);
    printf("\n%s", option_help);
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

int bn_cmd_sweep(int argc, char **argv)
{
    struct args a = { .silent = 60, .group = 1, .curves = 12 };
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
        case OPT_JSON:
            a.json = true;
            break;
        case OPT_WATCH:
            a.watch = true;
            break;
        case OPT_CSV:
            a.csv = true;
            break;
        case OPT_BEST:
            a.best = true;
            break;
        case OPT_HTML:
            a.html = optarg;
            break;
        case OPT_SILENT:
            a.silent = atof(optarg);
            break;
        case OPT_GROUP:
            a.group = atoi(optarg);
            break;
        case OPT_CURVES:
            a.curves = atoi(optarg);
            break;
        default:
            return BN_ERR_USAGE;
        }
    }
    if (!(a.silent > 0) || a.group < 1 || a.curves < 1) {
        bn_error("burnish sweep: --silent, --group and --curves need a "
                 "number above 0");
        return BN_ERR_USAGE;
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
