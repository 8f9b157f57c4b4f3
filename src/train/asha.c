#include "config.h"
#include "train/asha.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

enum { VERDICTS_MAX = 16 << 20 };

/* --- The rule --------------------------------------------------------------- */

static bool better(double a, double b, bool rises)
{
    if (!isfinite(a) || !isfinite(b))
        return isfinite(a) && !isfinite(b);
    return rises ? a > b : a < b;
}

void bn_asha_rule(struct bn_asha_verdict *v, double value,
                  const double *others, size_t n, bool rises, int reduction)
{
    v->rank = 1;
    v->of = (int)n + 1;
    for (size_t i = 0; i < n; i++)
        v->rank += better(others[i], value, rises);
    int keep = v->of / reduction;
    v->stop = !isfinite(value) || v->rank > (keep > 1 ? keep : 1);
}

bool bn_asha_is_rung(const struct bn_run *run, long step)
{
    const struct bn_run_list *r = &run->asha.asha_rungs;

    for (size_t i = 0; i < r->n; i++)
        if (atol(r->v[i]) == step)
            return true;
    return false;
}

/* --- Verdicts: output_dir/asha.jsonl ---------------------------------------- */

static int parse(const char *line, size_t len, const char *path,
                 struct bn_asha_verdict *v, struct bn_err *err)
{
    int64_t step = 0, rank = 0, of = 0;
    json_t *o = bn_json_parse(line, len, path, err);
    int rc = -1;

    v->value = NAN; /* where there is none: it was not finite */
    if (o != NULL && bn_json_int(o, path, "step", &step, err) >= 0
        && bn_json_int(o, path, "rank", &rank, err) >= 0
        && bn_json_int(o, path, "of", &of, err) >= 0
        && bn_json_num(o, path, "value", &v->value, err) >= 0
        && bn_json_bool(o, path, "stop", &v->stop, err) >= 0)
        rc = 0;
    v->step = (long)step;
    v->rank = (int)rank;
    v->of = (int)of;
    json_decref(o);
    return rc;
}

/* The last verdict of 'step', or of any if it is -1. */
static int find(struct bn_asha_verdict *v, const char *path, long step,
                struct bn_err *err)
{
    size_t len;
    int found = 0;

    if (!bn_exists(path))
        return 0;
    char *text = bn_file_read(path, VERDICTS_MAX, &len, err);
    if (text == NULL)
        return -1;
    for (const char *p = text, *e; found >= 0 && (e = strchr(p, '\n')) != NULL;
         p = e + 1) {
        struct bn_asha_verdict one;

        if (parse(p, (size_t)(e - p), path, &one, err) < 0)
            found = -1;
        else if (step < 0 || one.step == step) {
            *v = one;
            found = 1;
        }
    }
    free(text);
    return found;
}

int bn_asha_last(struct bn_asha_verdict *v, const char *dir,
                 struct bn_err *err)
{
    char *path = bn_path_join(dir, "asha.jsonl");
    int rc = find(v, path, -1, err);

    free(path);
    return rc;
}

/* Half a line, which a kill or a full disk left at the end, is no verdict;
 * what is written behind it would be part of it. */
static int cut_half_line(int fd, const char *path, struct bn_err *err)
{
    size_t len;
    char *text = bn_file_read(path, VERDICTS_MAX, &len, err);
    const char *end = text != NULL ? memrchr(text, '\n', len) : NULL;
    size_t whole = end != NULL ? (size_t)(end + 1 - text) : 0;
    int rc = text != NULL ? 0 : -1;

    if (rc == 0 && whole < len && ftruncate(fd, (off_t)whole) < 0)
        rc = bn_fail(err, bn_err_from_errno(errno), "cannot cut '%s': %s",
                     path, strerror(errno));
    free(text);
    return rc;
}

static int record(const struct bn_asha_verdict *v, const char *path,
                  struct bn_err *err)
{
    struct bn_str s = {0};
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    int rc;

    if (fd < 0)
        return bn_fail(err, bn_err_from_errno(errno), "cannot open '%s': %s",
                       path, strerror(errno));
    bn_str_addf(&s, "{\"step\":%ld,", v->step);
    if (isfinite(v->value))
        bn_str_addf(&s, "\"value\":%.17g,", v->value);
    bn_str_addf(&s, "\"rank\":%d,\"of\":%d,\"stop\":%s}\n", v->rank, v->of,
                v->stop ? "true" : "false");
    rc = cut_half_line(fd, path, err);
    if (rc == 0)
        rc = bn_write_all(fd, s.s, s.len, path, err);
    if (rc == 0 && fsync(fd) < 0)
        rc = bn_fail(err, bn_err_from_errno(errno), "cannot fsync '%s': %s",
                     path, strerror(errno));
    close(fd);
    bn_str_release(&s);
    return rc;
}

/* --- Rungs: asha_dir/STEP/NAME@VALUE ---------------------------------------- */

/* The value in a file's name, if it is one of a run; '*len' is the length of
 * the run's name. */
static bool entry(const char *file, size_t *len, double *value)
{
    const char *at = strrchr(file, '@');
    char *end;

    if (at == NULL || at == file)
        return false;
    *len = (size_t)(at - file);
    *value = strtod(at + 1, &end);
    return end > at + 1 && *end == '\0';
}

static bool is_of(const char *file, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(file, name, len) == 0;
}

/* Remove the entries of 'name' in folder 'dir', but for 'keep' (or NULL). */
static int drop(const char *dir, const char *name, const char *keep,
                struct bn_err *err)
{
    DIR *d = opendir(dir);
    int rc = 0;

    for (struct dirent *e = d != NULL ? readdir(d) : NULL;
         e != NULL && rc == 0; e = readdir(d)) {
        double value;
        size_t len;

        if (!entry(e->d_name, &len, &value) || !is_of(e->d_name, len, name)
            || (keep != NULL && strcmp(e->d_name, keep) == 0))
            continue;
        if (unlinkat(dirfd(d), e->d_name, 0) < 0 && errno != ENOENT)
            rc = bn_fail(err, bn_err_from_errno(errno), "cannot remove '%s/%s'"
                         ": %s", dir, e->d_name, strerror(errno));
    }
    if (d != NULL)
        closedir(d);
    return rc;
}

static int publish(const char *dir, const char *name, double value,
                   struct bn_err *err)
{
    char *file = isfinite(value) ? bn_asprintf("%s@%.17g", name, value)
                                 : bn_asprintf("%s@nan", name);
    char *path = bn_path_join(dir, file);
    int rc = bn_mkdirs(dir, err);

    if (rc == 0)
        rc = drop(dir, name, file, err);
    if (rc == 0) {
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

        if (fd < 0)
            rc = bn_fail(err, bn_err_from_errno(errno), "cannot make '%s': %s",
                         path, strerror(errno));
        else
            close(fd);
    }
    free(path);
    free(file);
    return rc;
}

/* Values of all runs at the rung but 'name'; malloc'ed. */
static double *gather(const char *dir, const char *name, size_t *n,
                      struct bn_err *err)
{
    DIR *d = opendir(dir);
    double *v = NULL;
    size_t cap = 0;

    *n = 0;
    if (d == NULL) {
        bn_fail(err, bn_err_from_errno(errno), "cannot read '%s': %s", dir,
                strerror(errno));
        return NULL;
    }
    bn_grow(&v, &cap, 1, sizeof(*v));
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        double value;
        size_t len;

        if (!entry(e->d_name, &len, &value) || is_of(e->d_name, len, name))
            continue;
        bn_grow(&v, &cap, *n + 1, sizeof(*v));
        v[(*n)++] = value;
    }
    closedir(d);
    return v;
}

int bn_asha_judge(struct bn_asha_verdict *v, const struct bn_run *run,
                  long step, double value, struct bn_err *err)
{
    const struct bn_run_asha *a = &run->asha;
    char *path = bn_path_join(run->output_dir, "asha.jsonl");
    char *dir = bn_asprintf("%s/%ld", a->asha_dir, step);
    int rc = find(v, path, step, err);

    if (rc == 0) {
        /* others may see it before its verdict is known, never after */
        rc = publish(dir, run->run_name, value, err);
        size_t n = 0;
        double *others = rc == 0 ? gather(dir, run->run_name, &n, err) : NULL;

        rc = others != NULL ? 0 : -1;
        if (rc == 0) {
            v->step = step;
            v->value = isfinite(value) ? value : NAN;
            bn_asha_rule(v, value, others, n,
                         bn_conf_metric_rises(a->asha_metric),
                         (int)a->asha_reduction);
            rc = record(v, path, err);
        }
        free(others);
    }
    free(dir);
    free(path);
    return rc < 0 ? -1 : 0;
}

/* Apply 'f' to each folder in folder 'dir'. */
static int each_folder(const char *dir, const char *name,
                       int (*f)(const char *, const char *, struct bn_err *),
                       struct bn_err *err)
{
    DIR *d = opendir(dir);
    int rc = 0;

    for (struct dirent *e = d != NULL ? readdir(d) : NULL;
         e != NULL && rc == 0; e = readdir(d)) {
        char *sub = bn_path_join(dir, e->d_name);

        if (e->d_name[0] != '.' && bn_is_dir(sub))
            rc = f(sub, name, err);
        free(sub);
    }
    if (d != NULL)
        closedir(d);
    return rc;
}

static int drop_all(const char *dir, const char *name, struct bn_err *err)
{
    return drop(dir, name, NULL, err);
}

static int drop_rungs(const char *dir, const char *name, struct bn_err *err)
{
    return each_folder(dir, name, drop_all, err);
}

int bn_asha_forget(const char *root, const char *name, struct bn_err *err)
{
    return each_folder(root, name, drop_rungs, err);
}
