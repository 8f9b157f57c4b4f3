#include "config.h"

#include "sweep/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/thread.h"

enum { TAIL = 65536, RANKS_MAX = 100000 };

/* The end of a file, from the beginning of a line; NULL if it is absent. */
static char *read_tail(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    off_t at = fstat(fd, &st) == 0 && st.st_size > TAIL ? st.st_size - TAIL
                                                        : 0;
    char *buf = bn_malloc(TAIL + 1);
    ssize_t n = pread(fd, buf, TAIL, at);
    close(fd);
    buf[n > 0 ? n : 0] = '\0';
    if (at > 0) {
        char *nl = strchr(buf, '\n');
        if (nl)
            memmove(buf, nl + 1, strlen(nl + 1) + 1);
    }
    return buf;
}

/* --- Ranks ------------------------------------------------------------------ */

static void take_rank(struct bn_status *st, const json_t *o, int rank,
                      double patience, double now)
{
    const char *phase = "", *error = NULL;
    int64_t step = 0, size = 0, exit_class = 0;
    double time = 0;

    if (bn_json_str(o, "", "phase", &phase, NULL) < 0
        || bn_json_int(o, "", "step", &step, NULL) < 0
        || bn_json_int(o, "", "size", &size, NULL) < 0
        || bn_json_num(o, "", "time", &time, NULL) < 0
        || bn_json_str(o, "", "error", &error, NULL) < 0
        || bn_json_int(o, "", "class", &exit_class, NULL) < 0)
        return;
    if (time < st->look.started - 1)
        return; /* of an earlier start */
    st->ranks++;
    st->size = (int)size;
    if (st->step < 0 || step < st->step) {
        st->step = (long)step;
        st->slowest = rank;
        snprintf(st->phase, sizeof(st->phase), "%.15s", phase);
    }
    bool ends = strcmp(phase, "done") == 0 || strcmp(phase, "failed") == 0;
    if (!ends && now - time > patience) {
        st->silent++;
        if (st->silent_since == 0 || time < st->silent_since) {
            st->silent_since = time;
            st->silent_rank = rank;
        }
    }
    /* the rank whose class is the run's says why; else the first */
    if (error && (st->error[0] == '\0'
                  || (exit_class == st->look.exit_class
                      && st->error_rank < 0))) {
        snprintf(st->error, sizeof(st->error), "%s", error);
        st->error_rank = rank;
    }
}

static void read_ranks(const struct bn_sweep *s, const struct bn_point *p,
                       struct bn_status *st, double patience)
{
    double now = bn_wall_time();

    for (int rank = 0; rank < RANKS_MAX; rank++) {
        char path[4096];
        size_t len;
        struct bn_err err;
        snprintf(path, sizeof(path), "%s/%s/phase.%d", s->dir, p->name, rank);
        if (st->size > 0 ? rank >= st->size : rank > 0 && !bn_exists(path))
            break;
        char *text = bn_file_read(path, 65536, &len, &err);
        json_t *o = text ? bn_json_parse(text, len, path, &err) : NULL;
        if (o)
            take_rank(st, o, rank, patience, now);
        json_decref(o);
        free(text);
        if (rank == 0 && text == NULL)
            break;
    }
    if (st->look.state != BN_STATE_RUNNING)
        st->silent = 0;
}

/* --- Speed --------------------------------------------------------------------- */

static void read_speed(const struct bn_sweep *s, const struct bn_point *p,
                       struct bn_status *st)
{
    char *path = bn_point_file(s, p, "metrics.jsonl");
    char *tail = read_tail(path), *end;
    bool done = false;

    while (tail && !done && (end = strrchr(tail, '\n')) != NULL) {
        *end = '\0';
        char *line = strrchr(tail, '\n');
        line = line ? line + 1 : tail;
        struct bn_err err;
        json_t *o = bn_json_parse(line, strlen(line), path, &err);
        const char *kind = "";
        int64_t step = -1;
        double seconds = 0;
        if (o && bn_json_str(o, "", "kind", &kind, NULL) > 0
            && bn_json_int(o, "", "step", &step, NULL) > 0) {
            if (st->step < 0)
                st->step = (long)step;
            if (strcmp(kind, "train") == 0) {
                bn_json_num(o, "", "tokens_per_second",
                            &st->tokens_per_second, NULL);
                bn_json_num(o, "", "step_seconds", &seconds, NULL);
                if (p->max_steps > 0 && st->look.state == BN_STATE_RUNNING)
                    st->eta = seconds * (double)(p->max_steps - st->step);
                done = true;
            }
        }
        json_decref(o);
    }
    free(tail);
    free(path);
}

/* --- The log --------------------------------------------------------------------- */

/* The log of a point's last job, malloc'ed. */
static char *log_path(const struct bn_sweep *s, const struct bn_point *p,
                      const struct bn_record *r)
{
    if (s->launch == BN_LAUNCH_LOCAL || r->job == 0)
        return bn_asprintf("%s/logs/%s.out", s->dir, p->name);
    if (r->task >= 0)
        return bn_asprintf("%s/logs/%u_%d.out", s->dir, r->job, r->task);
    if (s->launch == BN_LAUNCH_JOBS)
        return bn_asprintf("%s/%s/slurm-%u.out", s->dir, p->name, r->job);
    return bn_asprintf("%s/logs/%u.out", s->dir, r->job);
}

/* The last line that speaks of an error, else the last line. */
static void read_log(const struct bn_sweep *s, const struct bn_point *p,
                     struct bn_status *st)
{
    char *path = log_path(s, p, &st->look.record);
    char *tail = read_tail(path), *rest, *line, *last = NULL;
    bool error = false;

    if (tail == NULL && st->look.record.tokenize > 0) {
        /* it never started: what it waited for says why */
        free(path);
        path = bn_asprintf("%s/logs/tokenize-%u.out", s->dir,
                           st->look.record.tokenize);
        tail = read_tail(path);
    }
    rest = tail;

    while (rest && (line = strsep(&rest, "\n")) != NULL) {
        bool is = strstr(line, "error") || strstr(line, "Error")
                  || strstr(line, "Killed") || strstr(line, "CANCELLED");
        if (*line && (is || !error)) {
            last = line;
            error = is;
        }
    }
    if (last)
        snprintf(st->error, sizeof(st->error), "%s", last);
    free(tail);
    free(path);
}

/* --- All of it ----------------------------------------------------------------------- */

struct share {
    const struct bn_sweep *s;
    const struct bn_records *r;
    const struct bn_queue *q;
    struct bn_status *v;
    double patience;
    int threads;
};

static void read_point(struct share *a, size_t i)
{
    const struct bn_point *p = &a->s->points[i];
    struct bn_status *st = &a->v[i];

    memset(st, 0, sizeof(*st));
    st->step = -1;
    st->error_rank = -1;
    bn_look(a->s, i, a->r, a->q, &st->look);
    if (st->look.record.time == 0)
        return;
    if (st->look.state != BN_STATE_DONE
        && st->look.state != BN_STATE_STOPPED)
        read_ranks(a->s, p, st, a->patience);
    read_speed(a->s, p, st);
    bool bad = st->look.state == BN_STATE_FAILED
               || st->look.state == BN_STATE_LOST;
    if (bad && st->error[0] == '\0')
        read_log(a->s, p, st);
    if (!bad && st->look.state != BN_STATE_PENDING)
        st->error[0] = '\0';
}

static void read_share(void *arg, int index)
{
    struct share *a = arg;
    for (size_t i = (size_t)index; i < a->s->n; i += (size_t)a->threads)
        read_point(a, i);
}

void bn_status_read(const struct bn_sweep *s, double patience,
                    struct bn_status *v, struct bn_str *notes)
{
    struct bn_records r = { 0 };
    struct bn_queue q = { 0 };
    struct bn_err err;
    bool asked = s->launch == BN_LAUNCH_LOCAL;

    if (bn_records_read(&r, s, &err) < 0) {
        bn_str_addf(notes, "%s: taken to hold nothing\n", err.text);
        r.v = BN_NEWN(struct bn_record, s->n + 1);
    }
    if (!asked) {
        asked = bn_queue_ask(&q, &err) == 0;
        if (!asked)
            bn_str_addf(notes, "the queue is not known: %s\n", err.text);
    }
    struct share a = { s, &r, asked ? &q : NULL, v, patience,
                       bn_cpu_count() };
    bn_parallel(a.threads, read_share, &a);
    bn_records_release(&r);
    bn_queue_release(&q);
}

/* --- Output ---------------------------------------------------------------------------- */

static void eta_text(double eta, char out[32])
{
    if (eta > 0)
        bn_progress_time(out, eta);
    else
        strcpy(out, "-");
}

static void add_row(struct bn_str *out, int width, const struct bn_point *p,
                    const struct bn_status *st)
{
    char job[32], step[48] = "-", speed[32] = "-", eta[32], state[32];

    snprintf(state, sizeof(state), "%s%s", bn_state_name(st->look.state),
             st->look.changed ? "*" : "");
    if (st->step >= 0 && p->max_steps > 0)
        snprintf(step, sizeof(step), "%ld/%lld", st->step,
                 (long long)p->max_steps);
    else if (st->step >= 0)
        snprintf(step, sizeof(step), "%ld", st->step);
    if (st->tokens_per_second > 0)
        snprintf(speed, sizeof(speed), "%.0f", st->tokens_per_second);
    eta_text(st->eta, eta);
    bn_str_addf(out, "%-*s  %-8s %-9s %10s %9s %8s %8d  %s\n", width, p->name,
                state, st->phase[0] ? st->phase : "-", step, speed, eta,
                st->look.restarts, bn_record_name(&st->look.record, job));
}

static void add_remarks(struct bn_str *out, const struct bn_point *p,
                        const struct bn_status *st, double now)
{
    char ago[32];

    if (st->silent > 0)
        bn_str_addf(out, "%s: %d of %d ranks silent, rank %d since %s\n",
                    p->name, st->silent, st->size, st->silent_rank,
                    bn_progress_time(ago, now - st->silent_since));
    if (st->look.state == BN_STATE_RUNNING && st->size > st->ranks)
        bn_str_addf(out, "%s: %d of %d ranks have not said a word\n",
                    p->name, st->size - st->ranks, st->size);
    if (st->look.state == BN_STATE_STOPPED) {
        bn_str_addf(out, "%s: ", p->name);
        bn_asha_words(&st->look.asha, out);
        bn_str_addc(out, '\n');
    }
    if (st->error[0] == '\0')
        return;
    bn_str_addf(out, "%s: ", p->name);
    if (st->look.exit_class > 0)
        bn_str_addf(out, "class %d (%s), ", st->look.exit_class,
                    bn_err_name((enum bn_err_code)st->look.exit_class));
    else if (st->look.status > 128)
        bn_str_addf(out, "ended by signal %d, ", st->look.status - 128);
    if (st->error_rank >= 0)
        bn_str_addf(out, "rank %d: ", st->error_rank);
    bn_str_addf(out, "%s\n", st->error);
}

void bn_status_table(const struct bn_sweep *s, const struct bn_status *v,
                     struct bn_str *out)
{
    size_t count[BN_NSTATE] = { 0 };
    int width = 5;
    bool changed = false;

    for (size_t i = 0; i < s->n; i++) {
        int n = (int)strlen(s->points[i].name);
        width = n > width ? n : width;
        count[v[i].look.state]++;
        changed |= v[i].look.changed;
    }
    bn_str_addf(out, "%-*s  %-8s %-9s %10s %9s %8s %8s  %s\n", width, "POINT",
                "STATE", "PHASE", "STEP", "TOKENS/S", "LEFT", "RESTARTS",
                "JOB");
    for (size_t i = 0; i < s->n; i++)
        add_row(out, width, &s->points[i], &v[i]);
    bn_str_addf(out, "%zu points:", s->n);
    for (int k = 0; k < BN_NSTATE; k++)
        if (count[k] > 0)
            bn_str_addf(out, " %zu %s", count[k],
                        bn_state_name((enum bn_state)k));
    bn_str_addc(out, '\n');
    if (changed)
        bn_str_adds(out, "* the file has changed since it was submitted\n");
    double now = bn_wall_time();
    for (size_t i = 0; i < s->n; i++)
        add_remarks(out, &s->points[i], &v[i], now);
}

static void set_num(json_t *o, const char *key, double v, bool known)
{
    if (known)
        json_object_set_new(o, key, json_real(v));
}

json_t *bn_status_json(const struct bn_sweep *s, const struct bn_status *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n; i++) {
        const struct bn_status *st = &v[i];
        char job[32];
        json_t *o = json_pack("{s:s, s:s, s:b, s:i, s:s}", "name",
                              s->points[i].name, "state",
                              bn_state_name(st->look.state), "changed",
                              st->look.changed, "restarts",
                              st->look.restarts, "job",
                              bn_record_name(&st->look.record, job));
        if (st->phase[0])
            json_object_set_new(o, "phase", json_string(st->phase));
        if (st->step >= 0)
            json_object_set_new(o, "step", json_integer(st->step));
        if (s->points[i].max_steps > 0)
            json_object_set_new(o, "max_steps",
                                json_integer(s->points[i].max_steps));
        if (st->look.ended > 0) {
            json_object_set_new(o, "status", json_integer(st->look.status));
            json_object_set_new(o, "class",
                                json_integer(st->look.exit_class));
        }
        if (st->silent > 0) {
            json_object_set_new(o, "silent_ranks", json_integer(st->silent));
            json_object_set_new(o, "silent_since",
                                json_real(st->silent_since));
        }
        if (st->look.state == BN_STATE_STOPPED) {
            json_t *by = json_pack("{s:I, s:i, s:i}", "step",
                                   (json_int_t)st->look.asha.step, "rank",
                                   st->look.asha.rank, "of",
                                   st->look.asha.of);
            json_object_set_new(o, "stopped", by);
        }
        if (st->error[0])
            json_object_set_new(o, "error", json_string(st->error));
        set_num(o, "tokens_per_second", st->tokens_per_second,
                st->tokens_per_second > 0);
        set_num(o, "seconds_left", st->eta, st->eta > 0);
        json_array_append_new(list, o);
    }
    return json_pack("{s:s, s:o}", "name", s->name, "points", list);
}
