/* What the cluster has and allows. */
#include "config.h"

#include "sweep/check_impl.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sweep/child.h"
#include "sweep/script.h"
#include "sweep/slurm.h"

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

/* srun listens on 3 ports, and 2 more for every 48 nodes (slurm.conf(5),
 * SrunPortRange); without a range the system gives any. */
static void check_srun_ports(const struct bn_sweep *s, const char *config,
                             struct bn_problems *p, struct bn_place here)
{
    char *range = bn_slurm_config(config, "SrunPortRange");
    unsigned first, last;

    if (range && sscanf(range, "%u-%u", &first, &last) == 2 && last > 0) {
        long long need = 3 + 2 * ((s->res.nodes + 47) / 48);
        if (last < first || last - first + 1 < need)
            bn_problem_add(p, here, "srun of a run needs %lld ports and Slurm "
                           "gives it those of SrunPortRange %s: the "
                           "administrator has to widen it", need, range);
    }
    free(range);
}

/* slurmstepd's PMIx plugin listens at a path in the spool folder; one that is
 * too long fails when ranks on two nodes first talk. */
static void check_pmix_socket(const char *config, struct bn_problems *p,
                              struct bn_place here)
{
    static const char tail[] = "/stepd.slurm.pmix.4294967295.0";
    char *spool = bn_slurm_config(config, "SlurmdSpoolDir");

    if (spool && strlen(spool) + sizeof(tail) - 1 > BN_SOCKET_MAX)
        bn_problem_add(p, here, "SlurmdSpoolDir '%s' is %zu characters long: "
                       "the socket of Slurm's PMIx would have a longer path "
                       "than the system allows (%d)", spool, strlen(spool),
                       BN_SOCKET_MAX);
    free(spool);
}

/* What sbatch --test-only wrote, in the words of who has to act on it. */
static void add_refusal(struct bn_problems *p, struct bn_place here,
                        const char *text)
{
    if (strstr(text, strerror(EAGAIN)))
        bn_problem_add(p, here, "Slurm takes no more jobs for now (it keeps "
                       "MaxJobCount of them): try again when some are gone");
    else
        bn_problem_add(p, here, "Slurm would refuse the job: %.*s",
                       (int)strcspn(text, "\n"), text);
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
            add_refusal(p, here, c.err.s);
        bn_child_release(&c);
    }
    bn_str_release(&text);
    free(template);
    free(path);
    free(dir);
}

void bn_check_slurm(struct bn_check *c)
{
    const struct bn_sweep *s = c->s;
    struct bn_problems *p = c->p;
    struct bn_place here = { s->path, 0, 0 };
    struct bn_err err;
    char *config = bn_slurm_show_config(&err);

    if (config == NULL) {
        bn_problem_add(p, here, "cannot ask Slurm: %s", err.text);
        return;
    }
    check_size(s, config, p, here, c->notes);
    check_srun_ports(s, config, p, here);
    check_pmix_socket(config, p, here);
    free(config);
    check_pmix(p, here);
    if (s->res.partition && s->res.time)
        check_partition(s, p, here);
    if (p->n == 0)
        check_script(s, p, here);
}
