/* This machine: CPUs, memory, limits, core files, the disk of a run. */
#include "config.h"
#include "cmd/doctor.h"
#include "base/clock.h"
#include "base/core.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

static void cpus(struct bn_doctor *d)
{
    int mine = bn_cpu_count();
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    struct utsname u;

    uname(&u);
    bn_doctor_add(d, BN_FINDING_OK, "cpus", NULL, "%d of %ld on %s (%s %s "
                  "%s), by cgroup, affinity and Slurm", mine, all, u.nodename,
                  u.sysname, u.release, u.machine);
    if (mine == 1 && all > 1)
        bn_doctor_add(d, BN_FINDING_WARN, "cpus",
                      "ask Slurm for more: --cpus-per-task",
                      "one CPU of %ld: tokenization and CPU runs will be slow",
                      all);
}

/* MemAvailable of /proc/meminfo; 0 if unknown. */
static size_t available(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    size_t kb = 0, v;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "MemAvailable: %zu kB", &v) == 1)
            kb = v;
    if (f != NULL)
        fclose(f);
    return kb << 10;
}

static void memory(struct bn_doctor *d)
{
    size_t limit = bn_memory_limit(), left = available();
    size_t all = (size_t)sysconf(_SC_PHYS_PAGES)
                 * (size_t)sysconf(_SC_PAGE_SIZE);
    bool low = left > 0 && left < (size_t)1 << 30;
    char a[32], b[32], c[32];

    bn_doctor_add(d, low ? BN_FINDING_WARN : BN_FINDING_OK, "memory",
                  low ? "end what else runs here, or ask for a node of your "
                        "own (--exclusive, --mem=0)"
                      : NULL,
                  "%s by cgroup, %s in the machine, %s free",
                  bn_str_bytes(a, limit), bn_str_bytes(b, all),
                  bn_str_bytes(c, left));
}

static void shm(struct bn_doctor *d)
{
    struct statvfs v;
    char a[32], b[32];

    if (statvfs("/dev/shm", &v) < 0 || access("/dev/shm", W_OK) != 0) {
        bn_doctor_add(d, BN_FINDING_FAIL, "/dev/shm",
                      "mount a tmpfs there: ranks of one node talk through it",
                      "cannot be used: %s", strerror(errno));
        return;
    }
    size_t size = (size_t)v.f_blocks * v.f_frsize;
    size_t left = (size_t)v.f_bavail * v.f_frsize;
    bool low = left < (size_t)256 << 20;

    bn_doctor_add(d, low ? BN_FINDING_WARN : BN_FINDING_OK, "/dev/shm",
                  low ? "containers: --shm-size=1g or more; else remove what "
                        "dead jobs left ('burnish clean')"
                      : NULL,
                  "%s of %s free", bn_str_bytes(a, left),
                  bn_str_bytes(b, size));
}

static char *limit_text(rlim_t v, bool bytes, char *out)
{
    if (v == RLIM_INFINITY)
        strcpy(out, "unlimited");
    else if (bytes)
        bn_str_bytes(out, v);
    else
        snprintf(out, 32, "%llu", (unsigned long long)v);
    return out;
}

/* A limit that is too low for 'why' below 'least'. */
static void limit(struct bn_doctor *d, int what, const char *name, bool bytes,
                  rlim_t least, const char *todo)
{
    struct rlimit r;
    char a[32], b[32];

    if (getrlimit((__rlimit_resource_t)what, &r) < 0)
        return;
    bool low = r.rlim_cur < least;

    bn_doctor_add(d, low ? BN_FINDING_WARN : BN_FINDING_OK, "ulimit",
                  low ? todo : NULL, "%s %s (at most %s)", name,
                  limit_text(r.rlim_cur, bytes, a),
                  limit_text(r.rlim_max, bytes, b));
}

static void limits(struct bn_doctor *d)
{
    bool fabric = access("/sys/class/infiniband", F_OK) == 0;

    limit(d, RLIMIT_NOFILE, "open files", false, 1024,
          "'ulimit -n 4096' before the run: every rank keeps connections to "
          "all others");
    limit(d, RLIMIT_MEMLOCK, "locked memory", true,
          fabric ? RLIM_INFINITY : 0,
          "InfiniBand needs it unlimited: PropagateResourceLimitsExcept="
          "MEMLOCK in slurm.conf and LimitMEMLOCK=infinity of slurmd");
    limit(d, RLIMIT_NPROC, "processes", false, 512,
          "'ulimit -u 4096' before the run: threads count");
    limit(d, RLIMIT_STACK, "stack", true, 1 << 20,
          "'ulimit -s 8192' before the run");
}

static void core(struct bn_doctor *d)
{
    char text[1024];
    struct bn_safe b = {.s = text, .cap = sizeof(text) - 1};
    bool will = bn_core_explain(&b, SIGSEGV);

    text[b.n] = '\0';
    bn_doctor_add(d, will ? BN_FINDING_OK : BN_FINDING_WARN, "core",
                  will ? NULL : "without a core a crash still prints where it "
                                "was; with one 'burnish doctor --core FILE' "
                                "says more",
                  "%s%s", will ? "a crash leaves " : "",
                  text + strlen("core: "));
}

void bn_doctor_system(struct bn_doctor *d)
{
    cpus(d);
    memory(d);
    shm(d);
    limits(d);
    core(d);
}

/* --- The disk of a run ----------------------------------------------------------- */

enum { BLOCK = 1 << 20, BLOCKS = 64, SYNCS = 8 };

/* Seconds to write BLOCKS and to have them on disk; and of one small write
 * with fsync, the mean of SYNCS. -1 with errno. */
static int speed(int fd, double *bulk, double *sync)
{
    char *buf = bn_malloc(BLOCK);
    double t0 = bn_now();
    int rc = 0;

    for (size_t i = 0; i < BLOCK; i++) /* no file system stores this short */
        buf[i] = (char)(i * 2654435761u >> 13);
    for (int i = 0; i < BLOCKS && rc == 0; i++)
        rc = write(fd, buf, BLOCK) == BLOCK ? 0 : -1;
    if (rc == 0)
        rc = fsync(fd);
    *bulk = bn_now() - t0;
    t0 = bn_now();
    for (int i = 0; i < SYNCS && rc == 0; i++)
        rc = pwrite(fd, buf, 4096, (off_t)i * 4096) == 4096 ? fsync(fd) : -1;
    *sync = (bn_now() - t0) / SYNCS;
    free(buf);
    return rc;
}

static void measure(struct bn_doctor *d)
{
    char *path = bn_asprintf("%s/.burnish-doctor.XXXXXX", d->dir);
    int fd = mkstemp(path);
    double bulk, sync;

    if (fd < 0) {
        bn_doctor_add(d, BN_FINDING_FAIL, "disk",
                      "give a folder that you may write to", "cannot write "
                      "in '%s': %s", d->dir, strerror(errno));
    } else {
        unlink(path); /* gone whatever happens */
        if (speed(fd, &bulk, &sync) < 0) {
            bn_doctor_add(d, BN_FINDING_FAIL, "disk",
                          "make room, or ask who keeps this disk", "writing "
                          "64 MiB in '%s' failed: %s", d->dir,
                          strerror(errno));
        } else {
            double rate = BLOCKS / (bulk > 0 ? bulk : 1e-9);
            bool slow = rate < 50 || sync > 0.1;

            bn_doctor_add(d, slow ? BN_FINDING_WARN : BN_FINDING_OK, "disk",
                          slow ? "checkpoints will take long: put output_dir "
                                 "on a faster disk, or save less often"
                               : NULL,
                          "%.0f MiB/s with fsync, a small fsync %.1f ms, in "
                          "'%s'", rate, sync * 1e3, d->dir);
        }
        close(fd);
    }
    free(path);
}

void bn_doctor_disk(struct bn_doctor *d)
{
    struct statvfs v;
    char a[32], b[32];

    if (statvfs(d->dir, &v) < 0) {
        bn_doctor_add(d, BN_FINDING_FAIL, "disk", "give a folder that exists",
                      "cannot look at '%s': %s", d->dir, strerror(errno));
        return;
    }
    size_t left = (size_t)v.f_bavail * v.f_frsize;
    bool low = left < (size_t)2 << 30;

    bn_doctor_add(d, low ? BN_FINDING_WARN : BN_FINDING_OK, "disk",
                  low ? "'burnish plan' says how large the state is that a "
                        "checkpoint holds"
                      : NULL,
                  "%s of %s free in '%s'", bn_str_bytes(a, left),
                  bn_str_bytes(b, (size_t)v.f_blocks * v.f_frsize), d->dir);
    measure(d);
}
