#include "config.h"
#include "base/thread.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The path of a cgroup v2 control file of this process; false if none. */
static bool cgroup_path(const char *file, char *out, size_t size)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[1024];
    bool found = false;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, "0::", 3) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, size, "/sys/fs/cgroup%s/%s", line + 3, file);
        found = true;
    }
    if (f != NULL)
        fclose(f);
    return found;
}

static int cgroup_cpus(void)
{
    char path[1200];
    double quota, period;
    int n = 0;
    FILE *f;

    if (!cgroup_path("cpu.max", path, sizeof(path)))
        return 0;
    f = fopen(path, "re");
    if (f == NULL)
        return 0;
    if (fscanf(f, "%lf %lf", &quota, &period) == 2 && period > 0)
        n = (int)(quota / period + 0.5);
    fclose(f);
    return n;
}

int bn_cpu_count(void)
{
    const char *env = getenv("SLURM_CPUS_PER_TASK");
    int n = env != NULL ? atoi(env) : 0;
    cpu_set_t set;

    if (n > 0)
        return n;
    n = 1;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        n = CPU_COUNT(&set);
    int quota = cgroup_cpus();
    if (quota > 0 && quota < n)
        n = quota;
    return n > 0 ? n : 1;
}

int bn_compute_threads(int asked, int local_ranks)
{
    const char *omp = getenv("OMP_NUM_THREADS");
    int cpus = bn_cpu_count();

    if (asked > 0)
        return asked;
    if (getenv("SLURM_CPUS_PER_TASK") != NULL)
        return cpus;
    if (omp != NULL && atoi(omp) > 0)
        return atoi(omp);
    if (local_ranks > 1 && cpus >= sysconf(_SC_NPROCESSORS_ONLN))
        return cpus > local_ranks ? cpus / local_ranks : 1;
    return cpus;
}

size_t bn_memory_limit(void)
{
    size_t all = (size_t)sysconf(_SC_PHYS_PAGES)
                 * (size_t)sysconf(_SC_PAGE_SIZE);
    char path[1200];
    size_t limit;
    FILE *f;

    if (!cgroup_path("memory.max", path, sizeof(path)))
        return all;
    f = fopen(path, "re");
    if (f == NULL)
        return all;
    if (fscanf(f, "%zu", &limit) == 1 && limit < all)
        all = limit;
    fclose(f);
    return all;
}

struct job {
    void (*f)(void *, int);
    void *arg;
    int index;
};

static void *run(void *p)
{
    struct job *j = p;

    j->f(j->arg, j->index);
    return NULL;
}

void bn_parallel(int n, void (*f)(void *arg, int index), void *arg)
{
    pthread_t *id = BN_NEWN(pthread_t, (size_t)n);
    struct job *job = BN_NEWN(struct job, (size_t)n);
    int started = 1;

    for (int i = 0; i < n; i++)
        job[i] = (struct job){f, arg, i};
    while (started < n
           && pthread_create(&id[started], NULL, run, &job[started]) == 0)
        started++;
    f(arg, 0);
    /* A thread that could not be had does its share here. */
    for (int i = started; i < n; i++)
        f(arg, i);
    for (int i = 1; i < started; i++)
        pthread_join(id[i], NULL);
    free(job);
    free(id);
}
