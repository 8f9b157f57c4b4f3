#include "config.h"

#include "sweep/clean.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "data/cache.h"
#include "sweep/mps.h"
#include "sweep/proc.h"
#include "sweep/slurm.h"

static const char *const programs[] = { "burnish", "burnish-train",
                                        "burnish-generate" };

static bool same_env(const struct bn_proc *p, const char *name)
{
    const char *theirs = bn_proc_env(p, name), *ours = getenv(name);
    return theirs == NULL || ours == NULL || strcmp(theirs, ours) == 0;
}

static bool is_ours(const struct bn_clean *c, const struct bn_proc *p)
{
    size_t n = strlen(c->bin);
    if (strncmp(p->exe, c->bin, n) != 0 || p->exe[n] != '/')
        return false;
    for (size_t i = 0; i < BN_COUNT(programs); i++)
        if (strcmp(p->exe + n + 1, programs[i]) == 0)
            return true;
    return false;
}

static long restarts(const char *text)
{
    return text ? strtol(text, NULL, 10) : 0;
}

/* Why the process is stale, or NULL. */
static const char *stale(const struct bn_proc *p, const struct bn_queue *q)
{
    const char *job = bn_proc_env(p, "SLURM_JOB_ID");
    const char *own = getenv("SLURM_JOB_ID");

    if (job == NULL || !same_env(p, "SLURM_CONF")
        || !same_env(p, "SLURM_CLUSTER_NAME"))
        return NULL;
    char *end;
    unsigned long id = strtoul(job, &end, 10);
    if (end == job || *end != '\0' || id == 0)
        return NULL;
    if (own && strcmp(own, job) == 0)
        return restarts(bn_proc_env(p, "SLURM_RESTART_COUNT"))
                       < restarts(getenv("SLURM_RESTART_COUNT"))
                   ? "of an earlier start of this job"
                   : NULL;
    const struct bn_job *j = bn_queue_id(q, (uint32_t)id);
    if (j == NULL)
        return p->born < q->asked ? "which is over" : NULL;
    /* btime counts whole seconds: leave a margin */
    if (strcmp(j->state, "PENDING") == 0 && p->born < q->asked - 2)
        return "which was requeued and waits";
    return NULL;
}

struct victim {
    const struct bn_proc *p;
    const char *why;
    int handle;
};

static void describe(struct bn_clean *c, const struct victim *v,
                     const char *done)
{
    bn_str_addf(&c->said, "%s process %d: %s of job %s, %s\n", done,
                (int)v->p->pid, bn_path_base(v->p->exe),
                bn_proc_env(v->p, "SLURM_JOB_ID"), v->why);
}

/* TERM to all at once, one grace for all, KILL to those that stay. */
static void end_all(struct bn_clean *c, struct victim *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        v[i].handle = bn_proc_open(v[i].p);
        if (v[i].handle >= 0)
            bn_proc_signal(v[i].handle, SIGTERM);
    }
    double end = bn_now() + c->grace;
    for (size_t i = 0; i < n; i++) {
        double left = end - bn_now();
        if (v[i].handle < 0)
            continue; /* it ended before we came */
        if (bn_proc_wait(v[i].handle, left > 0 ? left : 0)) {
            describe(c, &v[i], "ended");
            c->ended++;
        } else if (bn_proc_signal(v[i].handle, SIGKILL) == 0
                   && bn_proc_wait(v[i].handle, 5)) {
            describe(c, &v[i], "killed, since it ignored TERM,");
            c->ended++;
        } else {
            describe(c, &v[i], "could not end");
            c->left++;
        }
        close(v[i].handle);
    }
}

static void clean_processes(struct bn_clean *c, const struct bn_queue *q)
{
    size_t n, nv = 0;
    struct bn_proc *p = bn_proc_list(getuid(), &n);
    struct victim *v = BN_NEWN(struct victim, n + 1);

    for (size_t i = 0; i < n; i++) {
        if (p[i].pid == getpid() || p[i].state == 'Z'
            || !is_ours(c, &p[i]))
            continue;
        v[nv].p = &p[i];
        v[nv].why = stale(&p[i], q);
        if (v[nv].why != NULL)
            nv++;
    }
    if (c->act) {
        end_all(c, v, nv);
    } else {
        for (size_t i = 0; i < nv; i++)
            describe(c, &v[i], "would end");
    }
    free(v);
    bn_proc_list_free(p, n);
}

/* --- Files ------------------------------------------------------------ */

static void drop(struct bn_clean *c, const char *path, const char *what)
{
    struct bn_err err;
    if (!c->act) {
        bn_str_addf(&c->said, "would remove %s: %s\n", path, what);
    } else if (bn_remove_tree(path, &err) < 0) {
        bn_str_addf(&c->said, "could not remove %s: %s\n", path, err.text);
        c->left++;
    } else {
        bn_str_addf(&c->said, "removed %s: %s\n", path, what);
        c->removed++;
    }
}

static bool over(const struct bn_queue *q, unsigned long job)
{
    return q && job > 0 && bn_queue_id(q, (uint32_t)job) == NULL;
}

/* Our own files of a folder, one by one. */
static void each_own(struct bn_clean *c, const char *dir,
                     const struct bn_queue *q,
                     void (*f)(struct bn_clean *c, const char *path,
                               const struct stat *st,
                               const struct bn_queue *q))
{
    struct dirent *e;
    DIR *d = opendir(dir);

    while (d && (e = readdir(d)) != NULL) {
        struct stat st;
        if (e->d_name[0] == '.'
            || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0
            || st.st_uid != getuid())
            continue;
        char *path = bn_path_join(dir, e->d_name);
        f(c, path, &st, q);
        free(path);
    }
    if (d)
        closedir(d);
}

static void clean_segment(struct bn_clean *c, const char *path,
                          const struct stat *st, const struct bn_queue *q)
{
    static const char *const prefix[] = { "nccl-", "vader_segment.",
                                          "sm_segment.", "osc_rdma.",
                                          "osc_sm." };
    bool ours = false;

    (void)q;
    for (size_t i = 0; i < BN_COUNT(prefix); i++)
        ours |= bn_str_starts(bn_path_base(path), prefix[i]);
    if (!ours || !S_ISREG(st->st_mode)
        || bn_wall_time() - (double)st->st_mtime < c->min_age)
        return;
    char *real = realpath(path, NULL); /* as /proc names it */
    if (real && !bn_file_in_use(real))
        drop(c, path, "shared memory that no process holds");
    free(real);
}

/* ompi.HOST.UID/pid.N: the folder of the mpirun with that pid. */
static void clean_ompi(struct bn_clean *c, const char *path,
                       const struct stat *st, const struct bn_queue *q)
{
    const char *base = bn_path_base(path);
    struct bn_proc p;

    (void)q;
    if (!bn_str_starts(base, "pid.") || !S_ISDIR(st->st_mode))
        return;
    bool gone = bn_proc_read(&p, (pid_t)atoi(base + 4)) < 0;
    if (!gone) {
        /* a pid that came into use after the folder is somebody else's */
        gone = p.born > (double)st->st_ctime + 2;
        bn_proc_release(&p);
    }
    if (gone)
        drop(c, path, "Open MPI session whose mpirun is gone");
}

static void clean_mps(struct bn_clean *c, const char *path)
{
    struct bn_err err;
    if (!c->act) {
        bn_str_addf(&c->said, "would stop the MPS daemon of %s: its job is "
                              "over\n", path);
    } else if (bn_mps_stop(path, c->grace, &err) < 0) {
        bn_str_addf(&c->said, "%s\n", err.text);
        c->left++;
    } else {
        bn_str_addf(&c->said, "removed %s: MPS folder of a job that is "
                              "over\n", path);
        c->removed++;
    }
}

static void clean_session(struct bn_clean *c, const char *path,
                          const struct stat *st, const struct bn_queue *q)
{
    const char *base = bn_path_base(path);
    unsigned uid;
    unsigned long job;
    char *ompi = NULL, host[256] = "";

    if (!S_ISDIR(st->st_mode))
        return;
    if (sscanf(base, "spmix_appdir_%u_%lu.", &uid, &job) == 2
        && uid == getuid() && over(q, job))
        drop(c, path, "PMIx folder of a job that is over");
    else if (sscanf(base, "burnish-mps-%u-%lu", &uid, &job) == 2
             && uid == getuid() && over(q, job))
        clean_mps(c, path);
    gethostname(host, sizeof(host) - 1);
    host[strcspn(host, ".")] = '\0';
    ompi = bn_asprintf("ompi.%s.%u", host, (unsigned)getuid());
    if (strcmp(base, ompi) == 0)
        each_own(c, path, q, clean_ompi);
    free(ompi);
}

static void said_lock(void *arg, const char *lock, const char *owner)
{
    struct bn_clean *c = arg;

    bn_str_addf(&c->said, "%s %s: lock of %s, which is gone\n",
                c->act ? "removed" : "would remove", lock, owner);
    c->removed += c->act;
}

int bn_clean_run(struct bn_clean *c, struct bn_err *err)
{
    struct bn_queue q;
    int rc = bn_queue_ask(&q, err);

    if (rc == 0)
        clean_processes(c, &q);
    each_own(c, c->shm, NULL, clean_segment);
    char *sets = bn_path_join(c->cache, "tokens");
    bn_cache_clean(sets, c->act, said_lock, c);
    free(sets);
    for (size_t i = 0; i < c->ntmp; i++)
        each_own(c, c->tmp[i], rc == 0 ? &q : NULL, clean_session);
    if (rc == 0)
        bn_queue_release(&q);
    return rc;
}

int bn_clean_port(struct bn_clean *c, int port, struct bn_err *err)
{
    pid_t pid;
    uid_t uid;

    if (port < 1 || port > 65535)
        return bn_fail(err, BN_ERR_USAGE, "%d is no port", port);
    if (bn_port_holder(port, &pid, &uid) == 0)
        return port;
    struct bn_proc p;
    int other = bn_port_free(port + 1);
    if (other == 0)
        return bn_fail(err, BN_ERR_AGAIN, "no free port above %d", port);
    if (pid > 0 && bn_proc_read(&p, pid) == 0) {
        bn_str_addf(&c->said, "port %d is held by process %d (%s, uid %u), "
                              "which is left alone: use %d\n", port,
                    (int)pid, bn_path_base(p.exe), (unsigned)uid, other);
        bn_proc_release(&p);
    } else {
        bn_str_addf(&c->said, "port %d is held by a process of uid %u, which "
                              "is left alone: use %d\n", port, (unsigned)uid,
                    other);
    }
    return other;
}
