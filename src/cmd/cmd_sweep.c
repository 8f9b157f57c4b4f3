/* burnish sweep: the verbs over sweep/. */
#include "config.h"
#include "cmd/cmd.h"
#include "cmd/opts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signal.h"
#include "sweep/check.h"
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
    int64_t group, curves;
    bool help;
    struct bn_opt_list words;
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

/* Whether a point is in another state than in 'was', which is brought up. */
static bool has_moved(enum bn_state *was, const struct bn_status *v, size_t n)
{
    bool moved = false;

    for (size_t i = 0; i < n; i++) {
        moved |= was[i] != v[i].look.state;
        was[i] = v[i].look.state;
    }
    return moved;
}

static int status(const struct args *a)
{
    struct bn_sweep *s = load(a, false);
    bool busy = true, first = true;

    if (s == NULL)
        return BN_ERR_USAGE;
    struct bn_status *v = BN_NEWN(struct bn_status, s->n + 1);
    enum bn_state *was = BN_NEWN(enum bn_state, s->n + 1);
    bn_signals_catch();
    while (busy && bn_stop_signal() == 0) {
        struct bn_str notes = { 0 };
        bn_status_read(s, a->silent, v, &notes);
        /* a log gets a table a change, not one each 5 s */
        if (has_moved(was, v, s->n) || first || isatty(1))
            print_status(s, a, v);
        first = false;
        fputs(notes.s ? notes.s : "", stderr);
        bn_str_release(&notes);
        busy = false;
        for (size_t i = 0; a->watch && i < s->n; i++)
            busy |= v[i].look.state == BN_STATE_PENDING
                    || v[i].look.state == BN_STATE_RUNNING;
        for (int k = 0; busy && k < 50 && bn_stop_signal() == 0; k++)
            usleep(100000);
    }
    free(was);
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
    bn_report_html(s, r, (int)a->curves, &out, &notes);
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
        char *yaml = bn_report_best(s, &r, (int)a->group - 1, &err);
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

static const char usage[] =
    "usage: burnish sweep VERB FILE.yaml [POINT...]\n"
    "\n"
    "Many runs from one file: a base run and the points that differ from it.\n"
    "\n";

static const struct bn_verb verbs[] = {
    { "check", "find all that is wrong with all points" },
    { "submit", "check, then submit what is new, failed or changed" },
    { "retry", "submit failed points again (--failed, or their names)" },
    { "status", "which rank of which run is in which phase, what failed and "
                "why" },
    { "report", "rank the points; curves in one HTML file" },
    { "cancel", "cancel the jobs of the sweep, or of some points" },
    { 0 },
};
/* In the order of the verbs. */
static int (*const run[])(const struct args *a) = {
    check, submit, retry, status, report, cancel,
};

static void print_keys(void)
{
    size_t n;
    const struct bn_sweep_key *k = bn_sweep_keys(&n);

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

static int run_verb(struct args *a)
{
    struct bn_err err;
    int verb = bn_verb_find(verbs, &a->words, &err);

    if (verb < 0)
        return bn_cmd_usage("sweep", "%s", err.text);
    if (!(a->silent > 0) || a->group < 1 || a->group > INT_MAX
        || a->curves < 1 || a->curves > INT_MAX)
        return bn_cmd_usage("sweep", "--silent, --group and --curves need a "
                            "number above 0");
    if (a->words.n < 2)
        return bn_cmd_usage("sweep", "%s needs a file", verbs[verb].name);
    a->file = a->words.v[1];
    a->names = a->words.v + 2;
    a->nnames = a->words.n - 2;
    return run[verb](a);
}

int bn_cmd_sweep(int argc, char **argv)
{
    struct args a = { .silent = 60, .group = 1, .curves = 12 };
    const struct bn_opt opts[] = {
        { "failed", BN_OPT_FLAG, &a.failed, NULL,
          "retry: all points that failed or were lost" },
        { "json", BN_OPT_FLAG, &a.json, NULL, "status: as JSON" },
        { "watch", BN_OPT_FLAG, &a.watch, NULL,
          "status: again every 5 s until nothing runs; where it goes to no "
          "terminal, when a state has changed" },
        { "silent", BN_OPT_NUM, &a.silent, "S",
          "status: ranks not heard of for S seconds [60]" },
        { "csv", BN_OPT_FLAG, &a.csv, NULL,
          "report: the table as CSV, and nothing else" },
        { "best", BN_OPT_FLAG, &a.best, NULL,
          "report: the run file of the winner's full-length run" },
        { "group", BN_OPT_INT, &a.group, "N",
          "report --best: of this group [1]" },
        { "html", BN_OPT_STR, &a.html, "FILE",
          "report: where the curves go [output_dir/report.html]" },
        { "curves", BN_OPT_INT, &a.curves, "N",
          "report: draw the best N points of a group [12]" },
        { "help", BN_OPT_FLAG, &a.help, NULL, "print this and exit" },
        { 0 },
    };
    struct bn_err err;
    int status = 0;

    if (bn_opts_parse(opts, argc, argv, &a.words, &err) < 0) {
        status = bn_cmd_usage("sweep", "%s", err.text);
    } else if (a.help) {
        fputs(usage, stdout);
        bn_verbs_help(verbs, stdout);
        bn_opts_help(opts, stdout);
        print_keys();
    } else {
        status = run_verb(&a);
    }
    bn_opt_list_release(&a.words);
    return status;
}
