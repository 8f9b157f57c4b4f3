#include "config.h"

#include "sweep/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

enum { FILE_MAX = 1 << 30 };

char *bn_sweep_file(const struct bn_sweep *s, const char *file)
{
    return bn_asprintf("%s/.burnish/%s", s->dir, file);
}

const char *bn_state_name(enum bn_state s)
{
    static const char *const name[] = { "new",    "pending", "running",
                                        "done",   "stopped", "failed",
                                        "cancelled", "lost" };
    return name[s];
}

char *bn_record_name(const struct bn_record *r, char *out)
{
    if (r->job == 0)
        snprintf(out, 32, "-");
    else if (r->task < 0)
        snprintf(out, 32, "%u", r->job);
    else
        snprintf(out, 32, "%u_%d", r->job, r->task);
    return out;
}

/* --- jobs.jsonl ------------------------------------------------------------ */

struct named {
    const char *name;
    size_t index;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name,
                  ((const struct named *)b)->name);
}

static int read_record(struct bn_records *r, const struct named *names,
                       size_t n, const char *line, size_t len,
                       const char *where, struct bn_err *err)
{
    const char *name = "", *hash = "";
    int64_t job = 0, task = -1, tokenize = 0;
    double time = 0;
    json_t *o = bn_json_parse(line, len, where, err);

    if (o == NULL || bn_json_str(o, where, "point", &name, err) < 0
        || bn_json_str(o, where, "hash", &hash, err) < 0
        || bn_json_int(o, where, "job", &job, err) < 0
        || bn_json_int(o, where, "task", &task, err) < 0
        || bn_json_int(o, where, "tokenize", &tokenize, err) < 0
        || bn_json_num(o, where, "time", &time, err) < 0) {
        json_decref(o);
        return -1;
    }
    struct named key = { .name = name };
    const struct named *at = bsearch(&key, names, n, sizeof(*names), by_name);
    if (at) {
        struct bn_record *rec = &r->v[at->index];
        rec->job = (uint32_t)job;
        rec->task = (int32_t)task;
        rec->tokenize = (uint32_t)tokenize;
        rec->time = time;
        sscanf(hash, "%16lx%16lx", &rec->hash.hi, &rec->hash.lo);
    }
    json_decref(o);
    return 0;
}

/* Whether a submit of the sweep is under way somewhere. */
static bool is_locked(const struct bn_sweep *s)
{
    char *path = bn_sweep_file(s, "lock");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
    if (fd >= 0)
        close(fd);
    free(path);
    return locked;
}

int bn_records_read(struct bn_records *r, const struct bn_sweep *s,
                    struct bn_err *err)
{
    char *path = bn_sweep_file(s, "jobs.jsonl"), where[64];
    struct named *names = BN_NEWN(struct named, s->n + 1);
    size_t len = 0, line = 0;
    int rc = 0;

    r->v = BN_NEWN(struct bn_record, s->n + 1);
    for (size_t i = 0; i < s->n; i++) {
        names[i].name = s->points[i].name;
        names[i].index = i;
        r->v[i].task = -1;
    }
    qsort(names, s->n, sizeof(*names), by_name);
    char *text = bn_exists(path) ? bn_file_read(path, FILE_MAX, &len, err)
                                 : bn_strdup("");
    if (text == NULL)
        rc = -1;
    /* a last line without its end was being written when all ended */
    for (const char *p = text, *e; rc == 0 && (e = strchr(p, '\n')) != NULL;
         p = e + 1) {
        snprintf(where, sizeof(where), "jobs.jsonl:%zu", ++line);
        rc = read_record(r, names, s->n, p, (size_t)(e - p), where, err);
    }
    if (rc < 0)
        bn_records_release(r);
    free(text);
    free(names);
    free(path);
    r->local = rc == 0 && is_locked(s);
    return rc;
}

void bn_records_release(struct bn_records *r)
{
    free(r->v);
    r->v = NULL;
}

static int append(const char *path, const char *text, size_t len,
                  struct bn_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return bn_fail(err, bn_err_from_errno(errno), "cannot open '%s': %s",
                       path, strerror(errno));
    int rc = bn_write_all(fd, text, len, path, err);
    close(fd);
    return rc;
}

int bn_records_add(const struct bn_sweep *s, const size_t *points, size_t n,
                   uint32_t job, bool array, uint32_t tokenize,
                   struct bn_err *err)
{
    struct bn_str b = { 0 };
    char *path = bn_sweep_file(s, "jobs.jsonl");
    char hash[BN_HASH_HEX];
    double now = bn_wall_time();

    for (size_t i = 0; i < n; i++) {
        const struct bn_point *p = &s->points[points[i]];
        bn_str_addf(&b, "{\"point\":\"%s\",\"hash\":\"%s\",\"job\":%u,"
                        "\"task\":%d,\"tokenize\":%u,\"time\":%.3f}\n",
                    p->name, bn_hash_hex(p->hash, hash), job,
                    array ? (int)i : -1, tokenize, now);
    }
    int rc = append(path, b.s ? b.s : "", b.len, err);
    bn_str_release(&b);
    free(path);
    return rc;
}

int bn_history_add(const struct bn_sweep *s, const struct bn_point *p,
                   const char *line, bool make, struct bn_err *err)
{
    char *path = bn_point_file(s, p, "history");
    int rc = 0;
    if (make || access(path, F_OK) == 0)
        rc = append(path, line, strlen(line), err);
    free(path);
    return rc;
}

/* --- Looking ---------------------------------------------------------------- */

/* What the history says: the events since the last submission. Returns
 * whether it was cancelled. */
static bool read_history(const struct bn_sweep *s, const struct bn_point *p,
                         struct bn_look *look)
{
    char path[4096], line[1024], event[16], job[40], node[64];
    bool cancelled = false;

    snprintf(path, sizeof(path), "%s/%s/history", s->dir, p->name);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        double t;
        int a = -1, b = -1;
        if (sscanf(line, "%15s %lf", event, &t) != 2)
            continue;
        if (strcmp(event, "submit") == 0) {
            look->restarts = 0;
            look->started = look->ended = 0;
            look->status = look->exit_class = -1;
            look->submitted = t;
            cancelled = false;
        } else if (strcmp(event, "start") == 0) {
            look->restarts += look->started > 0;
            look->started = t;
            look->ended = 0;
            if (sscanf(line, "%*s %*s %*s %*s %63s", node) == 1)
                memcpy(look->node, node, sizeof(node));
        } else if (strcmp(event, "end") == 0
                   && sscanf(line, "%*s %*s %39s %d %d", job, &a, &b) >= 2) {
            look->ended = t;
            look->status = a;
            look->exit_class = b;
        } else if (strcmp(event, "cancel") == 0) {
            cancelled = true;
        }
    }
    if (f)
        fclose(f);
    return cancelled;
}

/* Whether asha ended a run that ended well, and by which verdict. */
static bool was_stopped(const struct bn_sweep *s, const struct bn_point *p,
                        struct bn_look *look)
{
    struct bn_err err;
    int rc = 0;

    if (s->scheduler == BN_SCHEDULER_ASHA) {
        char *dir = bn_point_dir(s, p);
        rc = bn_asha_last(&look->asha, dir, &err);
        free(dir);
    }
    return rc > 0 && look->asha.stop;
}

void bn_asha_words(const struct bn_asha_verdict *v, struct bn_str *out)
{
    bn_str_addf(out, "stopped at step %ld by asha, rank %d of %d", v->step,
                v->rank, v->of);
}

void bn_look(const struct bn_sweep *s, size_t i, const struct bn_records *r,
             const struct bn_queue *q, struct bn_look *look)
{
    const struct bn_point *p = &s->points[i];
    const struct bn_record *rec = &r->v[i];

    memset(look, 0, sizeof(*look));
    look->status = look->exit_class = -1;
    look->record = *rec;
    look->record.time = rec->time;
    if (rec->time == 0)
        return; /* new */
    look->changed = rec->hash.hi != p->hash.hi || rec->hash.lo != p->hash.lo;
    bool cancelled = read_history(s, p, look);
    const struct bn_job *job =
        q && rec->job ? bn_queue_find(q, rec->job, rec->task) : NULL;
    bool queued = rec->job == 0 ? r->local
                  : q == NULL   ? look->ended == 0
                                : job != NULL;
    bool over = look->ended >= look->started && look->ended > 0;

    if (over && look->status == 0)
        look->state = was_stopped(s, p, look) ? BN_STATE_STOPPED
                                              : BN_STATE_DONE;
    else if (cancelled && !queued)
        look->state = BN_STATE_CANCELLED;
    else if (over && look->exit_class != BN_ERR_AGAIN)
        look->state = BN_STATE_FAILED;
    else if (over)
        look->state = queued ? BN_STATE_PENDING : BN_STATE_FAILED;
    else if (job && strcmp(job->state, "PENDING") == 0)
        look->state = BN_STATE_PENDING;
    else if (queued)
        look->state = look->started > 0 ? BN_STATE_RUNNING
                                        : BN_STATE_PENDING;
    else
        look->state = BN_STATE_LOST;
}
