#include "config.h"
#include "train/phase.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double beat_every = 10; /* seconds */
static const double old_class = 5;   /* of age: from an earlier start */

static struct {
    char *path, *class_path; /* NULL: publish nothing */
    struct bn_boot_info info;
    char phase[16];
    long step;
    double last;
    bool warned, failed;
    /* the thread that shows life */
    bool beats;
    pthread_t beat;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool stop;
} me = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

/* Renamed into place, but without fsync: losing it costs nothing. */
static void publish(const char *text)
{
    char *tmp = bn_asprintf("%s.tmp", me.path);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    struct bn_err err = {0};
    int rc = -1;

    if (fd >= 0) {
        rc = bn_write_all(fd, text, strlen(text), tmp, &err);
        close(fd);
    }
    if (rc < 0 || rename(tmp, me.path) < 0) {
        if (!me.warned)
            bn_warn("cannot publish the phase in '%s': %s", me.path,
                    strerror(errno));
        me.warned = true;
        unlink(tmp);
    }
    free(tmp);
}

static void write_phase(const struct bn_err *err)
{
    struct bn_str s = {0};

    if (me.path == NULL)
        return;
    bn_str_addf(&s, "{\"rank\":%d,\"size\":%d,\"phase\":\"%s\",\"step\":%ld,"
                "\"time\":%.3f,\"pid\":%ld,\"launch\":", me.info.rank,
                me.info.size, me.phase, me.step, bn_wall_time(),
                (long)getpid());
    bn_str_add_json(&s, me.info.launch, strlen(me.info.launch));
    if (err != NULL) {
        bn_str_addf(&s, ",\"class\":%d,\"error\":", (int)err->code);
        bn_str_add_json(&s, err->text, strlen(err->text));
    }
    bn_str_adds(&s, "}\n");
    publish(s.s);
    bn_str_release(&s);
    me.last = bn_now();
}

/* A full disk must not look like death: the file's time is all that moves. */
static void *beat(void *arg)
{
    const char *path = arg;
    struct timespec until;

    pthread_mutex_lock(&me.lock);
    while (!me.stop) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += (time_t)beat_every;
        pthread_cond_timedwait(&me.cond, &me.lock, &until);
        if (!me.stop)
            utimensat(AT_FDCWD, path, NULL, 0);
    }
    pthread_mutex_unlock(&me.lock);
    return NULL;
}

/* Signals are for the thread that works. */
static void start_beat(void)
{
    sigset_t all, old;

    me.stop = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    me.beats = pthread_create(&me.beat, NULL, beat, me.path) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void bn_phase_end(void)
{
    if (!me.beats)
        return;
    pthread_mutex_lock(&me.lock);
    me.stop = true;
    pthread_cond_signal(&me.cond);
    pthread_mutex_unlock(&me.lock);
    pthread_join(me.beat, NULL);
    me.beats = false;
}

/* Another rank may have failed already: a fresh file is its. */
static void remove_old_class(void)
{
    struct stat st;

    if (me.info.size == 1
        || (stat(me.class_path, &st) == 0
            && (double)st.st_mtime < bn_wall_time() - old_class))
        unlink(me.class_path); /* absent is as good */
}

void bn_phase_begin(const char *dir, const struct bn_boot_info *info)
{
    bn_phase_end();
    free(me.path);
    free(me.class_path);
    me.path = me.class_path = NULL;
    me.info = *info;
    me.phase[0] = '\0';
    me.warned = me.failed = false;
    bn_crash_rank(info->rank, info->size);
    bn_crash_dir(dir);
    if (dir == NULL)
        return;
    me.path = bn_asprintf("%s/phase.%d", dir, info->rank);
    me.class_path = bn_path_join(dir, "exit-class");
    if (info->rank == 0)
        remove_old_class();
    if (info->size > 1)
        start_beat();
}

void bn_phase_set(const char *phase, long step)
{
    bool same = strcmp(phase, me.phase) == 0;

    snprintf(me.phase, sizeof(me.phase), "%s", phase);
    me.step = step;
    bn_crash_phase(phase, step);
    if (!same || bn_now() - me.last >= 1)
        write_phase(NULL);
    if (strcmp(phase, "done") == 0 && me.info.rank == 0
        && me.class_path != NULL)
        unlink(me.class_path); /* what an earlier start left, after all */
}

const char *bn_phase_name(long *step)
{
    if (step != NULL)
        *step = me.step;
    return me.phase;
}

void bn_phase_fail(const struct bn_err *err)
{
    char text[16];
    int fd, n;

    if (me.failed)
        return;
    me.failed = true;
    snprintf(me.phase, sizeof(me.phase), "failed");
    write_phase(err);
    if (me.class_path == NULL)
        return;
    fd = open(me.class_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return; /* another rank was first */
    n = snprintf(text, sizeof(text), "%d\n", (int)err->code);
    if (bn_write_all(fd, text, (size_t)n, me.class_path, NULL) < 0)
        unlink(me.class_path); /* an empty one would say nothing */
    close(fd);
}
