#include "config.h"
#include "train/metrics.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "train/tb.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct bn_metrics {
    int fd;
    char *path;
    struct bn_str line;
    struct bn_tb *tb; /* NULL: none, or it failed */
};

static const char *const kind_name[] = {"train", "eval", "end"};

static int fail_errno(struct bn_err *err, const char *what, const char *path)
{
    return bn_fail(err, bn_err_from_errno(errno), "cannot %s '%s': %s", what,
                   path, strerror(errno));
}

struct bn_metrics *bn_metrics_open(const char *path, const char *tb_dir,
                                   int64_t step, struct bn_err *err)
{
    struct bn_err why;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

    if (fd < 0) {
        fail_errno(err, "open", path);
        return NULL;
    }
    struct bn_metrics *m = BN_NEW(struct bn_metrics);
    m->fd = fd;
    m->path = bn_strdup(path);
    if (tb_dir != NULL) {
        m->tb = bn_tb_open(tb_dir, step, &why);
        if (m->tb == NULL)
            bn_warn("no TensorBoard events: %s", why.text);
    }
    return m;
}

/* The shortest decimal that reads back as 'v', so that equal numbers make
 * equal files. */
static void add_number(struct bn_str *s, double v)
{
    char buf[40];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buf, sizeof(buf), "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    bn_str_adds(s, buf);
}

static void add_key(struct bn_str *s, enum bn_metrics_kind kind,
                    const char *key)
{
    char *full = bn_asprintf("%s%s", kind == BN_METRICS_EVAL ? "eval_" : "",
                             key);

    bn_str_add_json(s, full, strlen(full));
    free(full);
}

void bn_metrics_add(struct bn_str *s, enum bn_metrics_kind kind,
                    const struct bn_metric *v, size_t n)
{
    const char *sep = ",\"nonfinite\":[";
    bool all = true;

    for (size_t i = 0; i < n; i++) {
        all = all && isfinite(v[i].value);
        if (!isfinite(v[i].value))
            continue;
        bn_str_addc(s, ',');
        add_key(s, kind, v[i].key);
        bn_str_addc(s, ':');
        add_number(s, v[i].value);
    }
    for (size_t i = 0; i < n && !all; i++)
        if (!isfinite(v[i].value)) {
            bn_str_adds(s, sep);
            add_key(s, kind, v[i].key);
            sep = ",";
        }
    bn_str_adds(s, all ? "" : "]");
}

/* Hugging Face's tags: train/loss, eval/loss. */
static void copy_to_tb(struct bn_metrics *m, enum bn_metrics_kind kind,
                       double time, int64_t step, const struct bn_metric *v,
                       size_t n)
{
    const char **tags = BN_NEWN(const char *, n + 1);
    double *values = BN_NEWN(double, n + 1);
    struct bn_err err;

    for (size_t i = 0; i < n; i++) {
        tags[i] = bn_asprintf("%s/%s",
                              kind == BN_METRICS_EVAL ? "eval" : "train",
                              v[i].key);
        values[i] = v[i].value;
    }
    if (bn_tb_scalars(m->tb, time, step, tags, values, n, &err) < 0) {
        bn_warn("no more TensorBoard events: %s", err.text);
        bn_tb_close(m->tb);
        m->tb = NULL;
    }
    for (size_t i = 0; i < n; i++)
        free((char *)tags[i]);
    free(tags);
    free(values);
}

int bn_metrics_write(struct bn_metrics *m, enum bn_metrics_kind kind,
                     int64_t step, double epoch, const struct bn_metric *v,
                     size_t n, struct bn_err *err)
{
    double now = bn_wall_time();
    struct bn_str *s = &m->line;
    struct stat st;

    bn_str_clear(s);
    bn_str_addf(s, "{\"step\":%lld,\"epoch\":", (long long)step);
    add_number(s, epoch);
    bn_str_addf(s, ",\"time\":%.3f,\"kind\":\"%s\"", now, kind_name[kind]);
    bn_metrics_add(s, kind, v, n);
    bn_str_adds(s, "}\n");
    if (fstat(m->fd, &st) < 0)
        return fail_errno(err, "look at", m->path);
    if (bn_write_all(m->fd, s->s, s->len, m->path, err) < 0) {
        /* A full disk may have taken half of the line. */
        if (ftruncate(m->fd, st.st_size) < 0)
            bn_warn("'%s' ends in half a line", m->path);
        return -1;
    }
    if (m->tb != NULL && kind != BN_METRICS_END)
        copy_to_tb(m, kind, now, step, v, n);
    return 0;
}

int bn_metrics_sync(struct bn_metrics *m, struct bn_err *err)
{
    return fsync(m->fd) < 0 ? fail_errno(err, "sync", m->path) : 0;
}

void bn_metrics_close(struct bn_metrics *m)
{
    int saved = errno;

    if (m == NULL)
        return;
    close(m->fd);
    bn_tb_close(m->tb);
    bn_str_release(&m->line);
    free(m->path);
    free(m);
    errno = saved;
}

/* The record in a line, or NULL with 'err' filled. */
static json_t *parse_line(const char *line, size_t len, const char *path,
                          size_t number, int64_t *step, struct bn_err *err)
{
    char *name = bn_asprintf("%s line %zu", path, number);
    json_t *o = bn_json_parse(line, len, name, err);
    int got = -1;

    if (o != NULL && json_is_object(o))
        got = bn_json_int(o, name, "step", step, err);
    if (o != NULL && got != 1) {
        if (got == 0 || !json_is_object(o))
            bn_fail(err, BN_ERR_DATA, "%s: not a metrics record", name);
        json_decref(o);
        o = NULL;
    }
    free(name);
    return o;
}

int bn_metrics_scan(const char *path, bn_metrics_f f, void *arg,
                    struct bn_err *err)
{
    struct bn_map map;
    size_t number = 0;
    int rc = 0;

    if (bn_map_open(&map, path, err) < 0)
        return -1;
    for (size_t at = 0; at < map.len && rc == 0;) {
        const char *line = map.data + at;
        const char *nl = memchr(line, '\n', map.len - at);
        size_t end = nl != NULL ? (size_t)(nl - map.data) + 1 : map.len;
        int64_t step;

        if (nl == NULL)
            break; /* half written */
        json_t *o = parse_line(line, end - at - 1, path, ++number, &step, err);
        if (o == NULL) {
            /* After a power cut the last line may be whole in length and
             * empty in content. */
            rc = end == map.len ? 0 : -1;
            break;
        }
        rc = f(arg, o, step, at, end, err);
        json_decref(o);
        at = end;
    }
    bn_map_close(&map);
    return rc < 0 ? -1 : 0;
}

struct cut {
    int64_t step, records;
    int64_t kept;
    size_t end; /* of what stays */
};

static int keep(void *arg, const json_t *o, int64_t step, size_t at,
                size_t end, struct bn_err *err)
{
    struct cut *c = arg;

    (void)o;
    (void)at;
    (void)err;
    if (step > c->step || c->kept == c->records)
        return 1;
    c->kept++;
    c->end = end;
    return 0;
}

int bn_metrics_truncate(const char *path, int64_t step, int64_t *records,
                        struct bn_err *err)
{
    struct cut c = {.step = step, .records = *records};
    int rc = -1;

    *records = 0;
    if (!bn_exists(path))
        return 0;
    if (bn_metrics_scan(path, keep, &c, err) < 0)
        return -1;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "open", path);
    if (ftruncate(fd, (off_t)c.end) < 0 || fsync(fd) < 0)
        fail_errno(err, "cut", path);
    else
        rc = 0;
    *records = c.kept;
    close(fd);
    return rc;
}
