#include "config.h"
#include "train/ping.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "boot/boot.h"
#include "comm/comm.h"
#include "ops/cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST = 64, ROUNDS = 10 };

struct ping {
    struct bn_boot_info info;
    struct bn_comm *world;
    char (*host)[HOST]; /* [size] */
    double barrier;     /* seconds, the mean */
    double skew, skew_error;
    int skew_rank;
};

static int meet(struct ping *p, struct bn_err *err)
{
    struct bn_comm *w = p->world;
    char mine[HOST] = "";

    gethostname(mine, sizeof(mine) - 1);
    if (w->ops->allgather(w, p->host, mine, BN_U8, HOST, err) < 0)
        return -1;
    double t0 = bn_now();

    for (int i = 0; i < ROUNDS; i++)
        if (w->ops->barrier(w, err) < 0)
            return -1;
    p->barrier = (bn_now() - t0) / ROUNDS;
    return 0;
}

/* Rank 0 asks each rank what time it is; of some answers the one that came
 * fastest tells best. */
static int ask(struct ping *p, int r, struct bn_err *err)
{
    struct bn_comm *w = p->world;
    double best = INFINITY, offset = 0;

    for (int i = 0; i < ROUNDS; i++) {
        double t0 = bn_wall_time(), theirs;

        if (w->ops->send(w, &t0, sizeof(t0), r, err) < 0
            || w->ops->recv(w, &theirs, sizeof(theirs), r, err) < 0)
            return -1;
        double t1 = bn_wall_time();

        if (t1 - t0 < best) {
            best = t1 - t0;
            offset = theirs - (t0 + t1) / 2;
        }
    }
    if (fabs(offset) > fabs(p->skew)) {
        p->skew = offset;
        p->skew_error = best / 2;
        p->skew_rank = r;
    }
    return 0;
}

static int answer(struct ping *p, struct bn_err *err)
{
    struct bn_comm *w = p->world;
    double t;

    for (int i = 0; i < ROUNDS; i++) {
        if (w->ops->recv(w, &t, sizeof(t), 0, err) < 0)
            return -1;
        t = bn_wall_time();
        if (w->ops->send(w, &t, sizeof(t), 0, err) < 0)
            return -1;
    }
    return 0;
}

static int clocks(struct ping *p, struct bn_err *err)
{
    if (p->world->rank != 0)
        return answer(p, err);
    for (int r = 1; r < p->world->size; r++)
        if (ask(p, r, err) < 0)
            return -1;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return memcmp(a, b, HOST);
}

static void print(struct ping *p, double boot)
{
    int n = p->info.size, nodes = 1, gpus;
    char *skewed = bn_strdup(p->host[p->skew_rank]);
    struct bn_err why = {0};
    struct bn_str s = {0};

    qsort(p->host, (size_t)n, HOST, by_name);
    for (int i = 1; i < n; i++)
        nodes += memcmp(p->host[i], p->host[i - 1], HOST) != 0;
    if (bn_cuda_count(&gpus, &why) == 0)
        snprintf(why.text, sizeof(why.text), "%d visible", gpus);
    bn_str_addf(&s, "{\"ranks\":%d,\"nodes\":%d,\"boot_seconds\":%.6f,"
                "\"barrier_seconds\":%.9f,\"skew_seconds\":%.9f,"
                "\"skew_error\":%.9f,\"skew_host\":", n, nodes, boot,
                p->barrier, p->skew, p->skew_error);
    bn_str_add_json(&s, skewed, strlen(skewed));
    bn_str_addf(&s, ",\"gpus\":%d,\"gpu\":", gpus);
    bn_str_add_json(&s, why.text, strlen(why.text));
    bn_str_adds(&s, "}\n");
    fputs(s.s, stdout);
    bn_str_release(&s);
    free(skewed);
}

int bn_ping(double timeout, struct bn_err *err)
{
    struct ping p = {0};
    double t0 = bn_now();
    struct bn_boot *boot = bn_boot_create(&p.info, timeout, err);
    int rc;

    if (boot == NULL)
        return -1;
    bn_log_set_rank(p.info.rank, p.info.size);
    rc = bn_boot_fence(boot, err);
    if (rc == 0) {
        p.world = p.info.size == 1
                      ? bn_comm_self()
                      : bn_comm_mpi(p.info.rank, p.info.size, timeout, NULL,
                                    err);
        rc = p.world != NULL ? 0 : -1;
    }
    p.host = bn_calloc((size_t)p.info.size, HOST);
    double took = bn_now() - t0;

    if (rc == 0)
        rc = meet(&p, err);
    if (rc == 0)
        rc = clocks(&p, err);
    if (rc == 0 && p.info.rank == 0)
        print(&p, took);
    if (rc < 0 && p.world != NULL)
        p.world->ops->leave(p.world);
    free(p.host);
    bn_comm_destroy(p.world);
    bn_boot_destroy(boot);
    return rc;
}
