/* Which world this process belongs to: what PMIx says, held against what the
 * launcher left in the environment.
 */
#include "config.h"
#include "boot/boot.h"
#include "base/mem.h"
#include "boot/pmix.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bn_boot {
    struct bn_pmix *pmix; /* NULL: a world of one */
    struct bn_pmix_wait wait;
};

enum { MAX_BCAST = 1024 };

/* A variable that a launcher sets to a count or a rank. */
struct claim {
    const char *name; /* NULL: no launcher says anything */
    long value;
};

static struct claim claim(const char *const *names)
{
    for (; *names != NULL; names++) {
        const char *text = getenv(*names);
        char *end;

        if (text == NULL || *text == '\0')
            continue;
        long v = strtol(text, &end, 10);
        if (*end == '\0' && v >= 0)
            return (struct claim){*names, v};
    }
    return (struct claim){0};
}

/* mpirun's own variables come first: under Slurm it runs in an allocation
 * whose numbers are not those of its ranks. */
static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE",
                                    "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
                                    NULL};
static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "SLURM_PROCID",
                                    NULL};

static const char how[] = "start it with 'srun --mpi=pmix' ('srun --mpi=list'"
                          " must show pmix) or 'mpirun -n N'";

static int check_alone(struct bn_err *err)
{
    struct claim size = claim(sizes);

    if (size.name == NULL || size.value <= 1)
        return 0;
    return bn_fail(err, BN_ERR_USAGE, "%s is %ld but no PMIx server was given"
                   " to this process, so every task would train alone: %s",
                   size.name, size.value, how);
}

static int check_world(const struct bn_boot_info *info, struct bn_err *err)
{
    struct claim size = claim(sizes), rank = claim(ranks);

    if (size.name != NULL && size.value != info->size)
        return bn_fail(err, BN_ERR_USAGE, "%s is %ld but PMIx says %d ranks:"
                       " %s", size.name, size.value, info->size, how);
    /* Where the size is mpirun's the rank must be too. */
    if (size.name == sizes[0] && rank.name != ranks[0])
        return 0;
    if (rank.name != NULL && rank.value != info->rank)
        return bn_fail(err, BN_ERR_USAGE, "%s is %ld but PMIx says rank %d:"
                       " %s", rank.name, rank.value, info->rank, how);
    return 0;
}

static bool launched(void)
{
    return getenv("PMIX_NAMESPACE") != NULL && getenv("PMIX_RANK") != NULL;
}

/* PMIx names a job step, which a requeued job takes again. */
static void name_launch(char *out, size_t size, bool pmix)
{
    const char *name = getenv("PMIX_NAMESPACE");
    const char *restart = getenv("SLURM_RESTART_COUNT");

    if (pmix)
        snprintf(out, size, "%s/%s", name, restart != NULL ? restart : "0");
    else
        snprintf(out, size, "alone/%ld", (long)getpid());
}

struct bn_boot *bn_boot_create(struct bn_boot_info *info, double timeout,
                               struct bn_err *err)
{
    struct bn_boot *b = BN_NEW(struct bn_boot);
    struct bn_boot_info got = {.size = 1, .local_size = 1};
    int rc;

    b->wait.timeout = timeout;
    if (launched()) {
        b->pmix = bn_pmix_open(&got, err);
        rc = b->pmix != NULL ? check_world(&got, err) : -1;
    } else {
        rc = check_alone(err);
    }
    if (rc < 0) {
        bn_boot_destroy(b);
        return NULL;
    }
    name_launch(got.launch, sizeof(got.launch), b->pmix != NULL);
    *info = got;
    return b;
}

void bn_boot_watch(struct bn_boot *b, const struct bn_watch *watch)
{
    b->wait.watch = *watch;
}

void bn_boot_destroy(struct bn_boot *b)
{
    int saved = errno;

    if (b == NULL)
        return;
    bn_pmix_close(b->pmix);
    free(b);
    errno = saved;
}

int bn_boot_bcast(struct bn_boot *b, void *buf, size_t len,
                  struct bn_err *err)
{
    if (len > MAX_BCAST)
        return bn_fail(err, BN_ERR_BUG, "boot broadcast of %zu bytes", len);
    if (b->pmix == NULL)
        return 0;
    return bn_pmix_bcast(b->pmix, buf, len, &b->wait, err);
}

int bn_boot_fence(struct bn_boot *b, struct bn_err *err)
{
    if (b->pmix == NULL)
        return 0;
    return bn_pmix_fence(b->pmix, &b->wait, err);
}

int bn_boot_announce(struct bn_boot *b, const char *key, struct bn_err *err)
{
    return b->pmix != NULL ? bn_pmix_announce(b->pmix, key, err) : 0;
}

void bn_boot_absent(struct bn_boot *b, const char *key, const int *rank,
                    int n, bool *absent)
{
    if (b->pmix != NULL)
        bn_pmix_absent(b->pmix, key, rank, n, absent);
    else
        memset(absent, 0, (size_t)n * sizeof(*absent));
}

#ifndef HAVE_PMIX
struct bn_pmix *bn_pmix_open(struct bn_boot_info *info, struct bn_err *err)
{
    (void)info;
    bn_fail(err, BN_ERR_USAGE, "a launcher started this process through PMIx,"
            " but this build has no PMIx (configure --with-pmix)");
    return NULL;
}

void bn_pmix_close(struct bn_pmix *p)
{
    (void)p;
}

int bn_pmix_bcast(struct bn_pmix *p, void *buf, size_t len,
                  const struct bn_pmix_wait *wait, struct bn_err *err)
{
    (void)p, (void)buf, (void)len, (void)wait;
    return bn_fail(err, BN_ERR_BUG, "no PMIx");
}

int bn_pmix_fence(struct bn_pmix *p, const struct bn_pmix_wait *wait,
                  struct bn_err *err)
{
    (void)p, (void)wait;
    return bn_fail(err, BN_ERR_BUG, "no PMIx");
}

int bn_pmix_announce(struct bn_pmix *p, const char *key, struct bn_err *err)
{
    (void)p, (void)key;
    return bn_fail(err, BN_ERR_BUG, "no PMIx");
}

void bn_pmix_absent(struct bn_pmix *p, const char *key, const int *rank,
                    int n, bool *absent)
{
    (void)p, (void)key, (void)rank;
    memset(absent, 0, (size_t)n * sizeof(*absent));
}
#endif
