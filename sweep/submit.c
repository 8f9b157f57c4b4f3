#include "config.h"

#include "sweep/submit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "sweep/child.h"
#include "sweep/hand.h"
#include "sweep/here.h"
#include "sweep/script.h"
#include "sweep/template.h"

/* The work of one submit. */
struct work {
    const struct bn_sweep *s;
    struct bn_records records;
    struct bn_queue queue;
    size_t *points; /* to submit, by index */
    bool *changed;  /* [n] */
    size_t n;
    char *batch;    /* folder of this submission's lists and scripts */
    char *template, *template_path;
    uint32_t tokenize; /* job that the runs wait for; 0: none */
};

/* --- What to submit ---------------------------------------------------------- */

static bool wanted(const struct bn_submit *sub, const struct bn_point *p)
{
    bool any = sub->names == NULL;
    for (size_t i = 0; i < sub->nnames && !any; i++)
        any = strcmp(sub->names[i], p->name) == 0;
    return any;
}

static int decide(struct work *w, struct bn_submit *sub, struct bn_err *err)
{
    w->records.local = false; /* the lock is ours */
    w->points = BN_NEWN(size_t, w->s->n + 1);
    w->changed = BN_NEWN(bool, w->s->n + 1);
    for (size_t i = 0; i < w->s->n; i++) {
        struct bn_look look;
        char job[32];
        if (!wanted(sub, &w->s->points[i]))
            continue;
        bn_look(w->s, i, &w->records, &w->queue, &look);
        bool busy = look.state == BN_STATE_PENDING
                    || look.state == BN_STATE_RUNNING;
        bool bad = look.state == BN_STATE_FAILED
                   || look.state == BN_STATE_LOST
                   || look.state == BN_STATE_CANCELLED;
        if (busy && look.changed)
            return bn_fail(err, BN_ERR_USAGE,
                           "point %s has changed while its job %s is in the "
                           "queue: cancel it first", w->s->points[i].name,
                           bn_record_name(&look.record, job));
        if (busy) {
            sub->busy++;
        } else if (sub->failed_only ? !bad || look.changed
                                    : !bad && look.record.time > 0
                                          && !look.changed) {
            sub->done++;
        } else {
            w->changed[w->n] = look.changed;
            w->points[w->n++] = i;
        }
    }
    return 0;
}

/* --- Folders and files ------------------------------------------------------- */

/* Written in one go; the whole tree is synced once, later. */
static int write_file(const char *path, const char *text, size_t len,
                      struct bn_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return bn_fail(err, bn_err_from_errno(errno), "cannot write '%s': %s",
                       path, strerror(errno));
    int rc = bn_write_all(fd, text, len, path, err);
    close(fd);
    return rc;
}

static int archive(struct work *w, const struct bn_point *p,
                   struct bn_err *err)
{
    char *dir = bn_point_dir(w->s, p);
    char *old = bn_sweep_file(w->s, "old");
    char *to = bn_asprintf("%s/%s-%.0f", old, p->name, bn_wall_time());
    char *asha = bn_sweep_asha_dir(w->s);
    int rc = bn_mkdirs(old, err);

    if (rc == 0)
        rc = bn_asha_forget(asha, p->name, err);
    if (rc == 0 && rename(dir, to) < 0 && errno != ENOENT)
        rc = bn_fail(err, bn_err_from_errno(errno),
                     "cannot move '%s' away: %s", dir, strerror(errno));
    free(dir);
    free(old);
    free(to);
    free(asha);
    return rc;
}

static int lay_out_point(struct work *w, size_t k, struct bn_err *err)
{
    const struct bn_point *p = &w->s->points[w->points[k]];
    int rc = w->changed[k] ? archive(w, p, err) : 0;
    char *dir = bn_point_dir(w->s, p);
    char *run = bn_point_file(w->s, p, "run.yaml");

    if (rc == 0 && mkdir(dir, 0777) < 0 && errno != EEXIST)
        rc = bn_fail(err, bn_err_from_errno(errno), "cannot make '%s': %s",
                     dir, strerror(errno));
    if (rc == 0)
        rc = write_file(run, p->run_yaml, strlen(p->run_yaml), err);
    free(dir);
    free(run);
    return rc;
}

struct layout {
    struct work *w;
    int threads;
    struct bn_err *err; /* [threads] */
    bool *failed;       /* [threads] */
};

static void lay_out_share(void *arg, int index)
{
    struct layout *l = arg;
    for (size_t k = (size_t)index; k < l->w->n; k += (size_t)l->threads) {
        if (lay_out_point(l->w, k, &l->err[index]) < 0) {
            l->failed[index] = true;
            return;
        }
    }
}

static int lay_out_points(struct work *w, struct bn_err *err)
{
    struct layout l = { .w = w, .threads = bn_cpu_count() };
    double begin = bn_now();
    int rc = 0;

    l.err = BN_NEWN(struct bn_err, (size_t)l.threads);
    l.failed = BN_NEWN(bool, (size_t)l.threads);
    bn_parallel(l.threads, lay_out_share, &l);
    for (int i = 0; i < l.threads && rc == 0; i++)
        if (l.failed[i])
            rc = bn_fail(err, l.err[i].code, "%s", l.err[i].text);
    free(l.err);
    free(l.failed);
    bn_debug("wrote %zu points in %.4f s", w->n, bn_now() - begin);
    return rc;
}

static int lay_out(struct work *w, struct bn_err *err)
{
    char *logs = bn_path_join(w->s->dir, "logs");
    char *dir = bn_template_dir();
    char *lib = bn_path_join(dir, "job.sh");
    char *copy = bn_sweep_file(w->s, "job.sh");
    int rc = bn_mkdirs(logs, err);

    if (rc == 0 && w->s->launch != BN_LAUNCH_LOCAL)
        rc = bn_file_copy(lib, copy, err);
    for (int i = 1; rc == 0 && w->batch == NULL; i++) {
        char name[32];
        snprintf(name, sizeof(name), "batch-%d", i);
        w->batch = bn_sweep_file(w->s, name);
        if (mkdir(w->batch, 0777) < 0) {
            if (errno != EEXIST)
                rc = bn_fail(err, bn_err_from_errno(errno),
                             "cannot make '%s': %s", w->batch,
                             strerror(errno));
            free(w->batch);
            w->batch = NULL;
        }
    }
    if (rc == 0)
        rc = lay_out_points(w, err);
    free(logs);
    free(dir);
    free(lib);
    free(copy);
    return rc;
}

/* --- Scripts ------------------------------------------------------------------ */

static int write_script(struct work *w, const struct bn_script *job,
                        const char *path, struct bn_err *err)
{
    struct bn_str text = { 0 };
    int rc = bn_script_make(w->s, w->template, w->template_path, job, &text,
                            err);
    if (rc == 0)
        rc = write_file(path, text.s, text.len, err);
    bn_str_release(&text);
    return rc;
}

static int write_list(struct work *w, const char *path,
                      const struct bn_hand *h, struct bn_err *err)
{
    struct bn_str b = { 0 };
    for (size_t k = 0; k < h->n; k++) {
        char *dir = bn_point_dir(w->s, &w->s->points[h->points[k]]);
        bn_str_addf(&b, "%s\n", dir);
        free(dir);
    }
    int rc = write_file(path, b.s, b.len, err);
    bn_str_release(&b);
    return rc;
}

/* The script of one job, array or allocation number 'number'. */
static int make_script(struct work *w, struct bn_hand *x, size_t number,
                       struct bn_err *err)
{
    const struct bn_sweep *s = w->s;
    const struct bn_point *p = &s->points[x->points[0]];
    bool single = s->launch == BN_LAUNCH_JOBS;
    struct bn_str log = { 0 };
    char array[64], *dir = NULL, *list = NULL, *name;
    int rc = 0;

    bn_pattern_add(&log, s->dir);
    if (single) {
        dir = bn_point_dir(s, p);
        x->script = bn_path_join(dir, "job.sbatch");
        name = bn_asprintf("%s.%s", s->name, p->name);
        bn_str_addf(&log, "/%s/slurm-%%j.out", p->name);
    } else {
        list = bn_asprintf("%s/list-%zu", w->batch, number);
        x->script = bn_asprintf("%s/job-%zu.sbatch", w->batch, number);
        name = bn_strdup(s->name);
        bn_str_adds(&log, s->launch == BN_LAUNCH_ARRAY ? "/logs/%A_%a.out"
                                                       : "/logs/%j.out");
        rc = write_list(w, list, x, err);
    }
    if (s->limit > 0)
        snprintf(array, sizeof(array), "0-%zu%%%lld", x->n - 1,
                 (long long)s->limit);
    else
        snprintf(array, sizeof(array), "0-%zu", x->n - 1);
    struct bn_script job = { .name = name, .log = log.s, .dir = dir,
                             .list = list, .array = single ? NULL : array };
    if (rc == 0)
        rc = write_script(w, &job, x->script, err);
    bn_str_release(&log);
    free(name);
    free(dir);
    free(list);
    return rc;
}

/* Tasks that one array may have. */
static int array_max(size_t *max, struct bn_err *err)
{
    char *config = bn_slurm_show_config(err);
    if (config == NULL)
        return -1;
    char *v = bn_slurm_config(config, "MaxArraySize");
    *max = v ? strtoul(v, NULL, 10) : 0;
    free(v);
    free(config);
    if (*max == 0)
        return bn_fail(err, BN_ERR_DATA,
                       "scontrol show config says no MaxArraySize");
    return 0;
}

static int make_scripts(struct work *w, struct bn_hand **scripts, size_t *n,
                        struct bn_err *err)
{
    size_t share = w->n; /* points of one script */

    if (w->s->launch == BN_LAUNCH_JOBS)
        share = 1;
    else if (w->s->launch == BN_LAUNCH_ARRAY && array_max(&share, err) < 0)
        return -1;
    *n = (w->n + share - 1) / share;
    *scripts = BN_NEWN(struct bn_hand, *n + 1);
    for (size_t i = 0; i < *n; i++) {
        (*scripts)[i].points = w->points + i * share;
        (*scripts)[i].n = i + 1 < *n ? share : w->n - i * share;
        if (make_script(w, &(*scripts)[i], i + 1, err) < 0)
            return -1;
    }
    const char **paths = BN_NEWN(const char *, *n + 1);
    for (size_t i = 0; i < *n; i++)
        paths[i] = (*scripts)[i].script;
    int rc = bn_scripts_parse(paths, *n, err);
    free(paths);
    return rc;
}

/* --- Tokenizing ---------------------------------------------------------------- */

/* The first point of each set of data and lengths among those to submit. */
static size_t distinct(struct work *w, size_t *first)
{
    size_t n = 0;
    for (size_t k = 0; k < w->n; k++) {
        const struct bn_hash *g = &w->s->points[w->points[k]].group;
        size_t i = 0;
        while (i < n) {
            const struct bn_hash *o = &w->s->points[first[i]].group;
            if (o->hi == g->hi && o->lo == g->lo)
                break;
            i++;
        }
        if (i == n)
            first[n++] = w->points[k];
    }
    return n;
}

static int tokenize_now(struct work *w, const char *run, struct bn_err *err)
{
    char *bin = bn_program_dir(), *prog = bn_path_join(bin, "burnish");
    const char *argv[] = { prog, "tokenize", run, NULL };
    struct bn_child c = { .argv = argv };

    (void)w;
    int rc = bn_child_must(&c, err);
    if (rc < 0)
        bn_err_prefix(err, "tokenizing for '%s'", run);
    bn_child_release(&c);
    free(bin);
    free(prog);
    return rc;
}

static int tokenize_job(struct work *w, const char *list, struct bn_err *err)
{
    char *path = bn_path_join(w->batch, "tokenize.sbatch"), *tpath = NULL;
    char *template = bn_script_template(w->s, true, &tpath, err);
    char *name = bn_asprintf("%s.tokenize", w->s->name);
    struct bn_str log = { 0 }, text = { 0 };
    int rc = -1;

    bn_pattern_add(&log, w->s->dir);
    bn_str_adds(&log, "/logs/tokenize-%j.out");
    struct bn_script job = { .name = name, .log = log.s, .list = list,
                             .tokenize = true };
    const char *one = path;
    struct bn_submission sub = { .script = path };
    if (template
        && bn_script_make(w->s, template, tpath, &job, &text, err) == 0
        && write_file(path, text.s, text.len, err) == 0
        && bn_scripts_parse(&one, 1, err) == 0)
        rc = bn_slurm_submit(&sub, &w->tokenize, err);
    bn_str_release(&log);
    bn_str_release(&text);
    free(template);
    free(tpath);
    free(name);
    free(path);
    return rc;
}

static int tokenize(struct work *w, struct bn_err *err)
{
    if (w->s->tokenize == BN_TOKENIZE_NO)
        return 0;
    size_t *first = BN_NEWN(size_t, w->n + 1), n = distinct(w, first);
    bool now = w->s->tokenize == BN_TOKENIZE_NOW
               || w->s->launch == BN_LAUNCH_LOCAL;
    char *path = bn_path_join(w->batch, "tokenize");
    struct bn_str list = { 0 };
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        char *run = bn_point_file(w->s, &w->s->points[first[i]], "run.yaml");
        if (now)
            rc = tokenize_now(w, run, err);
        bn_str_addf(&list, "%s\n", run);
        free(run);
    }
    if (!now && rc == 0)
        rc = write_file(path, list.s, list.len, err);
    if (!now && rc == 0)
        rc = tokenize_job(w, path, err);
    bn_str_release(&list);
    free(first);
    free(path);
    return rc;
}

/* --- Submitting ------------------------------------------------------------------ */

static int submit_all(struct work *w, struct bn_submit *sub,
                      struct bn_err *err)
{
    struct bn_hand *x = NULL;
    size_t n = 0;
    bool chain = w->s->launch == BN_LAUNCH_ARRAY && w->s->limit > 0;

    w->template = bn_script_template(w->s, false, &w->template_path, err);
    int rc = w->template ? make_scripts(w, &x, &n, err) : -1;
    if (rc == 0)
        rc = tokenize(w, err);
    if (rc == 0)
        rc = bn_hand_over(w->s, x, n, w->tokenize, chain, &sub->submitted,
                          err);
    for (size_t i = 0; i < n; i++)
        free(x[i].script);
    free(x);
    return rc;
}

static int lock_sweep(const struct bn_sweep *s, struct bn_err *err)
{
    char *dir = bn_path_join(s->dir, ".burnish");
    char *path = bn_sweep_file(s, "lock");
    int fd = -1;

    if (bn_mkdirs(dir, err) == 0) {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) {
            bn_fail(err, bn_err_from_errno(errno), "cannot open '%s': %s",
                    path, strerror(errno));
        } else if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            bn_fail(err, BN_ERR_AGAIN, "another submit of this sweep is "
                    "under way ('%s' is locked)", path);
            close(fd);
            fd = -1;
        }
    }
    free(dir);
    free(path);
    return fd;
}

/* One sync of the file system in place of thousands of fsync. */
static void sync_sweep(const struct bn_sweep *s)
{
    int fd = open(s->dir, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        syncfs(fd);
        close(fd);
    }
}

int bn_submit_run(const struct bn_sweep *s, struct bn_submit *sub,
                  struct bn_err *err)
{
    struct work w = { .s = s };
    bool local = s->launch == BN_LAUNCH_LOCAL;
    int lock = lock_sweep(s, err), rc = -1;

    if (lock < 0)
        return -1;
    if (bn_records_read(&w.records, s, err) < 0
        || (!local && bn_queue_ask(&w.queue, err) < 0)
        || decide(&w, sub, err) < 0)
        goto done;
    rc = 0;
    if (w.n == 0)
        goto done;
    rc = lay_out(&w, err);
    if (rc == 0 && local) {
        rc = tokenize(&w, err);
        if (rc == 0)
            rc = bn_local_run(s, w.points, w.n, sub, err);
    } else if (rc == 0) {
        rc = submit_all(&w, sub, err);
        sync_sweep(s);
    }
done:
    bn_records_release(&w.records);
    bn_queue_release(&w.queue);
    free(w.points);
    free(w.changed);
    free(w.batch);
    free(w.template);
    free(w.template_path);
    close(lock);
    return rc;
}

int bn_submit_cancel(const struct bn_sweep *s, const char *const *names,
                     size_t nnames, size_t *n, struct bn_err *err)
{
    struct bn_submit only = { .names = names, .nnames = nnames };
    const char **argv = BN_NEWN(const char *, s->n + 2);
    struct bn_records r = { 0 };
    struct bn_queue q = { 0 };
    char job[32], line[48];
    int rc = -1;

    *n = 0;
    argv[0] = "scancel";
    if (bn_records_read(&r, s, err) < 0 || bn_queue_ask(&q, err) < 0)
        goto done;
    for (size_t i = 0; i < s->n; i++) {
        const struct bn_record *rec = &r.v[i];
        if (!wanted(&only, &s->points[i]) || rec->job == 0
            || bn_queue_find(&q, rec->job, rec->task) == NULL)
            continue;
        bn_record_name(rec, job);
        if (*n == 0 || strcmp(argv[*n], job) != 0)
            argv[++*n] = bn_strdup(job);
        snprintf(line, sizeof(line), "cancel %.0f\n", bn_wall_time());
        if (bn_history_add(s, &s->points[i], line, true, err) < 0)
            goto done;
    }
    struct bn_child c = { .argv = argv, .timeout = 60 };
    argv[*n + 1] = NULL;
    rc = *n > 0 ? bn_child_must(&c, err) : 0;
    bn_child_release(&c);
done:
    for (size_t i = 1; i <= *n; i++)
        free((char *)argv[i]);
    free(argv);
    bn_records_release(&r);
    bn_queue_release(&q);
    return rc;
}
