#include "config.h"

#include "sweep/check.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "ckpt/hf.h"
#include "model/config.h"
#include "sweep/child.h"
#include "sweep/script.h"
#include "sweep/slurm.h"
#include "text/tokenizer.h"

/* Longest file name under a point's folder, with room for temporary ones. */
enum { TAIL_MAX = 100 };

/* The run of a point, from its own text. */
static struct bn_run *point_run(const struct bn_point *pt,
                                struct bn_yaml_doc **doc)
{
    struct bn_problems none = { 0 };
    *doc = bn_yaml_parse(pt->run_yaml, strlen(pt->run_yaml), pt->name, &none);
    struct bn_run_parts parts = { .base = bn_yaml_root(*doc) };
    struct bn_run *run = bn_run_make(&parts, &none);
    bn_problems_release(&none);
    return run;
}

/* --- Models and data ---------------------------------------------------------- */

/* Parameters of the model of a run after holding its folder against its
 * config; 0 after adding a problem. */
static double check_model(const struct bn_point *pt, const struct bn_run *run,
                          struct bn_problems *p)
{
    bool random = run->model.init == BN_RUN_INIT_RANDOM;
    const char *dir = random ? run->model.config_name
                             : run->model.model_name_or_path;
    struct bn_tensors ts = { 0 };
    struct bn_model_config c;
    struct bn_params ps;
    struct bn_err err;
    double count = 0;

    char *path = bn_is_dir(dir) ? bn_path_join(dir, "config.json")
                                : bn_strdup(dir);
    int bad = bn_model_config_load(&c, path, NULL, &err);
    free(path);
    if (bad < 0) {
        bn_problem_add(p, pt->at, "%s", err.text);
        return 0;
    }
    if (!random) {
        int rc = bn_safetensors_open(&ts, dir, &err);
        if (rc == 0) {
            rc = bn_hf_check(&ts, dir, &c, NULL, &err);
            bn_tensors_close(&ts);
        }
        if (rc < 0) {
            bn_problem_add(p, pt->at, "%s", err.text);
            return 0;
        }
    }
    struct bn_part whole = bn_part_whole(&c);
    if (bn_params_init(&ps, &c, &whole, &err) < 0) {
        bn_problem_add(p, pt->at, "%s", err.text);
        return 0;
    }
    count = (double)ps.count;
    bn_params_release(&ps);
    return count;
}

static void check_tokenizer(const struct bn_point *pt,
                            const struct bn_run *run, struct bn_problems *p)
{
    struct bn_err err;
    struct bn_tokenizer *t =
        bn_tokenizer_open(run->model.tokenizer_name_or_path, &err);
    if (t == NULL)
        bn_problem_add(p, pt->at, "%s", err.text);
    bn_tokenizer_close(t);
}

static void check_files(const struct bn_point *pt,
                        const struct bn_run_list *l, const char *key,
                        struct bn_problems *p)
{
    for (size_t i = 0; i < l->n; i++) {
        glob_t g;
        int rc = glob(l->v[i], GLOB_NOCHECK, NULL, &g);
        for (size_t j = 0; rc == 0 && j < g.gl_pathc; j++)
            if (access(g.gl_pathv[j], R_OK) < 0)
                bn_problem_add(p, pt->at, "%s: cannot read '%s': %s", key,
                               g.gl_pathv[j], strerror(errno));
        globfree(&g);
    }
}

/* Each distinct model and data set once; parameters of each point's model
 * go to params[]. */
static void check_inputs(const struct bn_sweep *s, double *params,
                         struct bn_problems *p)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct bn_point *pt = &s->points[i];
        struct bn_yaml_doc *doc;
        size_t j = 0;
        if (pt->run_yaml == NULL)
            continue;
        /* almost always few distinct inputs: the first is soon found */
        while (s->points[j].inputs.hi != pt->inputs.hi
               || s->points[j].inputs.lo != pt->inputs.lo)
            j++;
        if (j < i) {
            params[i] = params[j];
            continue;
        }
        struct bn_run *run = point_run(pt, &doc);
        if (run) {
            params[i] = check_model(pt, run, p);
            check_tokenizer(pt, run, p);
            check_files(pt, &run->data.train_file, "train_file", p);
            check_files(pt, &run->data.eval_file, "eval_file", p);
            bn_run_free(run);
        }
        bn_yaml_free(doc);
    }
}

/* --- Disk and paths -------------------------------------------------------------- */

/* Masters and two moments in float32 a checkpoint, and the final weights. */
static void check_disk(const struct bn_sweep *s, const double *params,
                       struct bn_problems *p, struct bn_str *notes)
{
    struct bn_place here = { s->path, 0, 0 };
    char *dir = bn_strdup(s->dir), need[32], have[32];
    struct statvfs st;
    double bytes = 0;
    size_t unknown = 0;

    for (size_t i = 0; i < s->n; i++) {
        int64_t kept = s->points[i].checkpoints;
        unknown += kept < 0;
        bytes += params[i] * (12 * (double)(kept < 0 ? 1 : kept) + 4);
    }
    if (unknown > 0)
        bn_str_addf(notes, "%zu points keep an unknown number of checkpoints "
                           "(set save_total_limit): disk space was counted "
                           "for one\n", unknown);
    while (statvfs(dir, &st) < 0 && strcmp(dir, "/") != 0) {
        char *up = bn_path_dir(dir);
        free(dir);
        dir = up;
    }
    double room = (double)st.f_bavail * (double)st.f_frsize;
    if (bytes > room)
        bn_problem_add(p, here, "the checkpoints of all points need %s and "
                       "'%s' has room for %s: set save_total_limit or use "
                       "another output_dir", bn_str_bytes(need,
                                                          (uint64_t)bytes),
                       dir, bn_str_bytes(have, (uint64_t)room));
    free(dir);
}

static void check_paths(const struct bn_sweep *s, struct bn_problems *p)
{
    struct bn_place here = { s->path, 0, 0 };
    size_t longest = 0;

    if (s->dir[strcspn(s->dir, "\n\r\t\"'\\")] != '\0')
        bn_problem_add(p, here, "output_dir '%s' has a quote, a backslash or "
                       "a control character, which a batch script cannot "
                       "hold", s->dir);
    for (size_t i = 0; i < s->n; i++)
        if (strlen(s->points[i].name) > longest)
            longest = strlen(s->points[i].name);
    if (strlen(s->dir) + longest + TAIL_MAX >= PATH_MAX)
        bn_problem_add(p, here, "output_dir is %zu characters long: paths in "
                       "it would be longer than the system allows (%d)",
                       strlen(s->dir), PATH_MAX);
}

/* --- Slurm -------------------------------------------------------------------------- */

static void check_pmix(struct bn_problems *p, struct bn_place here)
{
    const char *argv[] = { "srun", "--mpi=list", NULL };
    struct bn_child c = { .argv = argv, .timeout = 30 };
    struct bn_err err;

    if (bn_child_run(&c, &err) < 0)
        bn_problem_add(p, here, "%s", err.text);
    else if (strstr(c.out.s, "pmix") == NULL && strstr(c.err.s, "pmix") == NULL)
        bn_problem_add(p, here, "srun has no PMIx ('srun --mpi=list'): ranks "
                       "could not find each other; Slurm needs its "
                       "mpi/pmix plugin");
    bn_child_release(&c);
}

/* Minutes of a time limit as Slurm writes it; HUGE_VAL for UNLIMITED. */
static double minutes(const char *t)
{
    double days = 0, v[3] = { 0, 0, 0 };
    const char *dash = strchr(t, '-');
    int n = 0;

    if (strcmp(t, "UNLIMITED") == 0 || strcmp(t, "NONE") == 0)
        return HUGE_VAL;
    if (dash) {
        days = strtod(t, NULL);
        t = dash + 1;
    }
    for (char *end; n < 3; t = end + 1) {
        v[n++] = strtod(t, &end);
        if (*end != ':')
            break;
    }
    if (dash)
        return days * 1440 + v[0] * 60 + v[1] + v[2] / 60;
    return n == 1 ? v[0] : n == 2 ? v[0] + v[1] / 60
                                  : v[0] * 60 + v[1] + v[2] / 60;
}

/* The value of KEY in "KEY=VALUE KEY=VALUE" text of scontrol show. */
static char *show_value(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = text; (p = strstr(p, key)) != NULL; p += n)
        if ((p == text || strchr(" \n", p[-1])) && p[n] == '=')
            return bn_strndup(p + n + 1, strcspn(p + n + 1, " \n"));
    return NULL;
}

static void check_partition(const struct bn_sweep *s, struct bn_problems *p,
                            struct bn_place here)
{
    const char *argv[] = { "scontrol", "show", "partition",
                           s->res.partition, NULL };
    struct bn_child c = { .argv = argv, .timeout = 60 };
    struct bn_err err;

    if (bn_child_must(&c, &err) < 0) {
        bn_problem_add(p, here, "partition '%s': %s", s->res.partition,
                       err.text);
        bn_child_release(&c);
        return;
    }
    char *time = show_value(c.out.s, "MaxTime");
    char *max = show_value(c.out.s, "MaxNodes");
    char *total = show_value(c.out.s, "TotalNodes");
    char *state = show_value(c.out.s, "State");
    if (time && minutes(s->res.time) > minutes(time))
        bn_problem_add(p, here, "time %s is more than partition '%s' allows "
                       "(%s)", s->res.time, s->res.partition, time);
    if (max && *max >= '0' && *max <= '9' && atoll(max) < s->res.nodes)
        bn_problem_add(p, here, "nodes %lld is more than partition '%s' "
                       "allows (%s)", (long long)s->res.nodes,
                       s->res.partition, max);
    else if (total && atoll(total) < s->res.nodes)
        bn_problem_add(p, here, "nodes %lld is more than partition '%s' has "
                       "(%s)", (long long)s->res.nodes, s->res.partition,
                       total);
    if (state && strcmp(state, "UP") != 0)
        bn_problem_add(p, here, "partition '%s' is %s", s->res.partition,
                       state);
    free(time);
    free(max);
    free(total);
    free(state);
    bn_child_release(&c);
}

static void check_size(const struct bn_sweep *s, const char *config,
                       struct bn_problems *p, struct bn_place here,
                       struct bn_str *notes)
{
    char *array = bn_slurm_config(config, "MaxArraySize");
    char *jobs = bn_slurm_config(config, "MaxJobCount");
    size_t task = array ? strtoul(array, NULL, 10) : 0;
    size_t count = jobs ? strtoul(jobs, NULL, 10) : 0;

    if (s->launch == BN_LAUNCH_ARRAY && task > 0 && s->n > task)
        bn_str_addf(notes, "%zu points go into %zu arrays: MaxArraySize is "
                           "%zu\n", s->n, (s->n + task - 1) / task, task);
    if (s->launch != BN_LAUNCH_SEQUENTIAL && count > 0 && s->n > count)
        bn_problem_add(p, here, "%zu points are more jobs than Slurm keeps "
                       "at once (MaxJobCount %zu): use launch: sequential "
                       "or a smaller sweep", s->n, count);
    free(array);
    free(jobs);
}

/* Let Slurm itself judge a script of this sweep. */
static void check_script(const struct bn_sweep *s, struct bn_problems *p,
                         struct bn_place here)
{
    char *path, *dir = bn_point_dir(s, &s->points[0]);
    char *template = NULL;
    struct bn_str text = { 0 };
    struct bn_err err;
    const char *argv[] = { "sbatch", "--test-only", NULL };
    struct bn_script job = { .name = s->name, .log = "/dev/null",
                             .dir = dir, .list = dir, .array = "0-0" };

    template = bn_script_template(s, false, &path, &err);
    if (template == NULL
        || bn_script_make(s, template, path, &job, &text, &err) < 0) {
        bn_problem_add(p, here, "%s", err.text);
    } else {
        struct bn_child c = { .argv = argv, .timeout = 60,
                              .input = text.s, .input_len = text.len };
        if (bn_child_run(&c, &err) < 0)
            bn_problem_add(p, here, "%s", err.text);
        else if (c.status != 0)
            bn_problem_add(p, here, "Slurm would refuse the job: %.*s",
                           (int)strcspn(c.err.s, "\n"), c.err.s);
        bn_child_release(&c);
    }
    bn_str_release(&text);
    free(template);
    free(path);
    free(dir);
}

static void check_slurm(const struct bn_sweep *s, struct bn_problems *p,
                        struct bn_str *notes)
{
    struct bn_place here = { s->path, 0, 0 };
    struct bn_err err;
    char *config = bn_slurm_show_config(&err);

    if (config == NULL) {
        bn_problem_add(p, here, "cannot ask Slurm: %s", err.text);
        return;
    }
    check_size(s, config, p, here, notes);
    free(config);
    check_pmix(p, here);
    if (s->res.partition && s->res.time)
        check_partition(s, p, here);
    if (p->n == 0)
        check_script(s, p, here);
}

void bn_sweep_check(const struct bn_sweep *s, struct bn_problems *p,
                    struct bn_str *notes)
{
    double *params = BN_NEWN(double, s->n + 1);

    if (s->dir)
        check_paths(s, p);
    check_inputs(s, params, p);
    if (s->dir)
        check_disk(s, params, p, notes);
    if (s->launch != BN_LAUNCH_LOCAL)
        check_slurm(s, p, notes);
    free(params);
}
