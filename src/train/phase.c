#include "config.h"
#include "train/phase.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    char *path, *class_path; /* NULL: publish nothing */
    int rank, size;
    char phase[16];
    long step;
    double last;
    bool warned;
} me;

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
    }
    free(tmp);
}

static void write_phase(const struct bn_err *err)
{
    struct bn_str s = {0};

    if (me.path == NULL)
        return;
    bn_str_addf(&s, "{\"rank\":%d,\"size\":%d,\"phase\":\"%s\",\"step\":%ld,"
                "\"time\":%.3f,\"pid\":%ld", me.rank, me.size, me.phase,
                me.step, bn_wall_time(), (long)getpid());
    if (err != NULL) {
        bn_str_addf(&s, ",\"class\":%d,\"error\":", (int)err->code);
        bn_str_add_json(&s, err->text, strlen(err->text));
    }
    bn_str_adds(&s, "}\n");
    publish(s.s);
    bn_str_release(&s);
    me.last = bn_now();
}

void bn_phase_begin(const char *dir, int rank, int size)
{
    free(me.path);
    free(me.class_path);
    memset(&me, 0, sizeof(me));
    me.rank = rank;
    me.size = size;
    if (dir == NULL)
        return;
    me.path = bn_asprintf("%s/phase.%d", dir, rank);
    me.class_path = bn_path_join(dir, "exit-class");
    if (rank == 0)
        unlink(me.class_path); /* absent is as good */
}

void bn_phase_set(const char *phase, long step)
{
    bool same = strcmp(phase, me.phase) == 0;

    snprintf(me.phase, sizeof(me.phase), "%s", phase);
    me.step = step;
    if (!same || bn_now() - me.last >= 1)
        write_phase(NULL);
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

    snprintf(me.phase, sizeof(me.phase), "failed");
    write_phase(err);
    if (me.class_path == NULL)
        return;
    fd = open(me.class_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return; /* another rank was first */
    n = snprintf(text, sizeof(text), "%d\n", (int)err->code);
    bn_write_all(fd, text, (size_t)n, me.class_path, NULL);
    close(fd);
}
