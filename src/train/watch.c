/* The phase files of the other ranks, read by those that wait for them. */
#include "config.h"
#include "train/phase.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A rank that nobody asked about for this long starts anew. */
static const double pause_max = 5;

struct life {
    struct timespec mtime; /* of its file, as it was seen last */
    double since, asked;   /* bn_now: when it changed; when we last asked */
};

static struct {
    char *dir;
    struct bn_boot_info info;
    double silence;
    struct life *life; /* [size] */
    pthread_mutex_t lock; /* of life: collectives have a thread that asks */
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The file of a rank of this start, or NULL. */
static json_t *load(int rank, struct timespec *mtime)
{
    char *path = bn_asprintf("%s/phase.%d", watch.dir, rank);
    struct stat st;
    struct bn_err err;
    /* Opening it first makes a network file system fetch its time. */
    json_t *o = bn_json_load(path, &err);
    const char *launch = json_string_value(json_object_get(o, "launch"));

    if (stat(path, &st) < 0 || launch == NULL
        || strcmp(launch, watch.info.launch) != 0) {
        json_decref(o);
        o = NULL;
    } else if (mtime != NULL) {
        *mtime = st.st_mtim;
    }
    free(path);
    return o;
}

static void where_is(const json_t *o, char *out)
{
    const char *phase = json_string_value(json_object_get(o, "phase"));
    long step = (long)json_integer_value(json_object_get(o, "step"));

    if (phase == NULL)
        out[0] = '\0';
    else if (step > 0)
        snprintf(out, BN_WATCH_WHERE, "%.40s %ld", phase, step);
    else
        snprintf(out, BN_WATCH_WHERE, "%.40s", phase);
}

static void where(void *arg, int rank, char *out)
{
    json_t *o = load(rank, NULL);

    (void)arg;
    where_is(o, out);
    json_decref(o);
}

/* True once the file has not changed for too long. */
static bool silent(struct life *l, const struct timespec *mtime)
{
    double now = bn_now();

    pthread_mutex_lock(&watch.lock);
    if (now - l->asked > pause_max || mtime->tv_sec != l->mtime.tv_sec
        || mtime->tv_nsec != l->mtime.tv_nsec) {
        l->since = now;
        l->mtime = *mtime;
    }
    l->asked = now;
    bool gone = now - l->since >= watch.silence;
    pthread_mutex_unlock(&watch.lock);
    return gone;
}

static int failed(void *arg, int rank, struct bn_err *err)
{
    struct timespec mtime;
    json_t *o = load(rank, &mtime);
    char at[BN_WATCH_WHERE];
    int rc = 0;

    (void)arg;
    if (o == NULL)
        return 0; /* not started yet, or a file being replaced */
    where_is(o, at);
    if (strcmp(at, "failed") == 0 || strncmp(at, "failed ", 7) == 0) {
        const char *why = json_string_value(json_object_get(o, "error"));
        json_int_t code = json_integer_value(json_object_get(o, "class"));

        rc = bn_fail(err, (enum bn_err_code)code, "rank %d failed: %s", rank,
                     why != NULL ? why : "?");
    } else if (silent(&watch.life[rank], &mtime)) {
        rc = bn_fail(err, BN_ERR_AGAIN, "rank %d has shown no life for %.0f s"
                     " (it was in phase %s): its node may be down", rank,
                     watch.silence, at);
    }
    json_decref(o);
    return rc;
}

void bn_phase_watch(struct bn_watch *w, const char *dir,
                    const struct bn_boot_info *info, double silence)
{
    *w = (struct bn_watch){0};
    if (dir == NULL)
        return;
    free(watch.dir);
    free(watch.life);
    watch.dir = bn_strdup(dir);
    watch.info = *info;
    watch.silence = silence;
    watch.life = BN_NEWN(struct life, (size_t)info->size);
    w->where = where;
    w->failed = failed;
}
