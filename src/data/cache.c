#include "config.h"
#include "data/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signal.h"
#include "base/str.h"

enum { STALE_SECONDS = 60, BEAT_SECONDS = 5, SAY_SECONDS = 30 };

/* Who holds a lock: enough to tell whether that process still lives. */
struct owner {
    char host[128];
    char boot[64];           /* one start of the machine */
    unsigned long ns;        /* the process id namespace */
    long pid;
    unsigned long long born; /* ticks after the start of the machine */
};

static unsigned long long born_at(long pid)
{
    char path[64], text[1024];
    unsigned long long born = 0;
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    f = fopen(path, "re");
    if (f == NULL)
        return 0;
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    /* the name, field 2, may hold anything but ends with the last ')' */
    const char *p = strrchr(text, ')');
    for (int field = 2; p != NULL && field < 22; field++)
        p = strchr(p + 1, ' ');
    if (p != NULL)
        born = strtoull(p, NULL, 10);
    return born;
}

static void self(struct owner *o)
{
    struct stat st;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    memset(o, 0, sizeof(*o));
    if (gethostname(o->host, sizeof(o->host) - 1) < 0 || o->host[0] == '\0')
        strcpy(o->host, "unknown");
    if (f == NULL || fscanf(f, "%63s", o->boot) != 1)
        strcpy(o->boot, "unknown");
    if (f != NULL)
        fclose(f);
    if (stat("/proc/self/ns/pid", &st) == 0)
        o->ns = (unsigned long)st.st_ino;
    o->pid = (long)getpid();
    o->born = born_at(o->pid);
}

static bool read_owner(const char *text, struct owner *o)
{
    memset(o, 0, sizeof(*o));
    return sscanf(text, "%127s %ld %llu %63s %lu", o->host, &o->pid, &o->born,
                  o->boot, &o->ns) == 5;
}

/* True if the owner is known to be gone: only processes of this machine and
 * this namespace can be looked at. */
static bool known_dead(const struct owner *o)
{
    struct owner me;

    self(&me);
    if (strcmp(o->host, me.host) != 0)
        return false;
    if (strcmp(o->boot, me.boot) != 0)
        return true; /* the machine was started again */
    if (o->ns != me.ns)
        return false;
    return (kill((pid_t)o->pid, 0) < 0 && errno == ESRCH)
           || born_at(o->pid) != o->born;
}

/* 1: made it, 0: it exists, -1. */
static int create(const char *path, struct bn_err *err)
{
    struct owner me;
    char *text;
    int rc;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    if (fd < 0 && errno == EEXIST)
        return 0;
    if (fd < 0)
        return bn_fail(err, bn_err_from_errno(errno), "cannot create '%s': "
                       "%s", path, strerror(errno));
    self(&me);
    text = bn_asprintf("%s %ld %llu %s %lu\n", me.host, me.pid, me.born,
                       me.boot, me.ns);
    rc = bn_write_all(fd, text, strlen(text), path, err);
    close(fd);
    free(text);
    if (rc < 0)
        unlink(path);
    return rc < 0 ? -1 : 1;
}

/* Remove a lock whose owner is gone. Two that try this at once must not
 * remove the lock of a third: the file is moved aside and looked at. */
static void break_lock(const char *path, const char *content)
{
    struct owner me;
    size_t len;

    self(&me);
    char *aside = bn_asprintf("%s.stale.%s.%ld", path, me.host, me.pid);
    if (rename(path, aside) == 0) {
        char *now = bn_file_read(aside, 4096, &len, NULL);

        if (now == NULL || strcmp(now, content) != 0)
            (void)!link(aside, path); /* it was another's: put it back */
        free(now);
        unlink(aside);
    }
    free(aside);
}

/* Remove the unfinished directories of dead owners. Only the holder of the
 * lock may do so. */
static void sweep(const char *entry)
{
    char *dir = bn_path_dir(entry);
    char *prefix = bn_asprintf("%s.tmp.", bn_path_base(entry));
    DIR *d = opendir(dir);

    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL;
         e = readdir(d)) {
        if (bn_str_starts(e->d_name, prefix)) {
            char *path = bn_path_join(dir, e->d_name);

            bn_remove_tree(path, NULL);
            free(path);
        }
    }
    if (d != NULL)
        closedir(d);
    free(prefix);
    free(dir);
}

static int begin(struct bn_cache_lock *l, struct bn_err *err)
{
    struct owner me;

    self(&me);
    sweep(l->entry);
    l->beat = bn_now();
    l->tmp = bn_asprintf("%s.tmp.%s.%ld", l->entry, me.host, me.pid);
    return bn_mkdirs(l->tmp, err);
}

/* What a waiter knows of the lock it waits for. */
struct watch {
    char *content;       /* of the lock's file; NULL: not seen yet */
    struct timespec mtime;
    double since;        /* when content or mtime last changed */
    double said;
};

/* Look at the lock once. True if its owner is gone. */
static bool stale(struct watch *w, const char *path)
{
    struct stat st;
    struct owner o;
    size_t len;
    double now = bn_now();

    if (stat(path, &st) < 0)
        return false; /* given up meanwhile */
    char *text = bn_file_read(path, 4096, &len, NULL);
    if (text == NULL)
        return false;
    if (w->content == NULL || strcmp(w->content, text) != 0
        || w->mtime.tv_sec != st.st_mtim.tv_sec
        || w->mtime.tv_nsec != st.st_mtim.tv_nsec)
        w->since = now;
    w->mtime = st.st_mtim;
    free(w->content);
    w->content = text;
    if (read_owner(text, &o) && known_dead(&o))
        return true;
    return now - w->since > STALE_SECONDS;
}

static char *owner_text(const struct watch *w)
{
    struct owner o;

    if (w->content != NULL && read_owner(w->content, &o))
        return bn_asprintf("process %ld on %s", o.pid, o.host);
    return bn_strdup("another process");
}

/* Wait a little for the lock's owner: 1 to look again, -1 to give up. */
static int wait_more(struct watch *w, const char *path, double start,
                     double wait, struct bn_err *err)
{
    double now = bn_now();
    bool gone = stale(w, path);
    char *who = owner_text(w);
    int rc = 1;

    if (gone) {
        bn_info("a token cache was being made by %s, which is gone: taking "
                "over", who);
        break_lock(path, w->content);
    } else if (bn_stop_signal() != 0) {
        rc = bn_fail(err, BN_ERR_AGAIN, "stopped by signal %d while waiting "
                     "for %s to tokenize", bn_stop_signal(), who);
    } else if (now - start > wait) {
        rc = bn_fail(err, BN_ERR_AGAIN, "waited %.0f s for %s to tokenize; "
                     "its lock is '%s'", now - start, who, path);
    } else {
        if (now - w->said > SAY_SECONDS && now - start > 0.2) {
            bn_info("waiting for %s to tokenize the same data (%.0f s)", who,
                    now - start);
            w->said = now;
        }
        double nap = now - start < 2 ? 0.05 : 0.5;
        struct timespec ts = {0, (long)(nap * 1e9)};
        nanosleep(&ts, NULL);
    }
    free(who);
    return rc;
}

int bn_cache_lock(struct bn_cache_lock *l, const char *entry, double wait,
                  struct bn_err *err)
{
    struct watch w = {.said = -1e9};
    double start = bn_now();
    int rc;

    *l = (struct bn_cache_lock){.entry = bn_strdup(entry)};
    char *path = bn_asprintf("%s.lock", entry);
    for (;;) {
        rc = create(path, err);
        if (rc != 0)
            break;
        if (bn_is_dir(entry))
            goto out;
        rc = wait_more(&w, path, start, wait, err);
        if (rc < 0)
            goto out;
    }
    if (rc > 0) {
        l->path = path;
        path = NULL;
        if (bn_is_dir(entry))
            rc = 0; /* made between the last look and the lock */
        else if (begin(l, err) < 0)
            rc = -1;
    }
out:
    free(path);
    free(w.content);
    if (rc <= 0)
        bn_cache_unlock(l);
    return rc;
}

void bn_cache_beat(struct bn_cache_lock *l)
{
    double now = bn_now();

    if (l->path == NULL || now - l->beat < BEAT_SECONDS)
        return;
    l->beat = now;
    utimensat(AT_FDCWD, l->path, NULL, 0);
}

int bn_cache_commit(struct bn_cache_lock *l, struct bn_err *err)
{
    char *dir;
    int rc;

    if (bn_dir_sync(l->tmp, err) < 0)
        return -1;
    if (rename(l->tmp, l->entry) < 0 && errno != EEXIST
        && errno != ENOTEMPTY)
        return bn_fail(err, bn_err_from_errno(errno), "cannot rename '%s' to "
                       "'%s': %s", l->tmp, l->entry, strerror(errno));
    dir = bn_path_dir(l->entry);
    rc = bn_dir_sync(dir, err);
    free(dir);
    return rc;
}

void bn_cache_unlock(struct bn_cache_lock *l)
{
    if (l->tmp != NULL)
        bn_remove_tree(l->tmp, NULL);
    if (l->path != NULL)
        unlink(l->path);
    free(l->tmp);
    free(l->path);
    free(l->entry);
    *l = (struct bn_cache_lock){0};
}

/* One lock in bn_cache_clean. */
static void clean_lock(const char *path, bool act, bn_cache_clean_f f,
                       void *arg)
{
    struct owner o;
    size_t len;
    char *text = bn_file_read(path, 4096, &len, NULL);

    if (text != NULL && read_owner(text, &o) && known_dead(&o)) {
        char *entry = bn_strndup(path, strlen(path) - strlen(".lock"));
        char *tmp = bn_asprintf("%s.tmp.%s.%ld", entry, o.host, o.pid);
        char *who = bn_asprintf("process %ld on %s", o.pid, o.host);

        if (act) { /* the folder first: the lock keeps others from it */
            bn_remove_tree(tmp, NULL);
            break_lock(path, text);
        }
        f(arg, path, who);
        free(who);
        free(tmp);
        free(entry);
    }
    free(text);
}

void bn_cache_clean(const char *dir, bool act, bn_cache_clean_f f, void *arg)
{
    DIR *d = opendir(dir);

    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL;
         e = readdir(d)) {
        struct stat st;

        if (!bn_str_ends(e->d_name, ".lock")
            || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0
            || !S_ISREG(st.st_mode) || st.st_uid != getuid())
            continue;
        char *path = bn_path_join(dir, e->d_name);

        clean_lock(path, act, f, arg);
        free(path);
    }
    if (d != NULL)
        closedir(d);
}
