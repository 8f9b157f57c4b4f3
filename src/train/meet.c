#include "config.h"
#include "train/meet.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "comm/nccl.h"

/* What rank 0 tells all when they meet. */
struct hello {
    char device[16]; /* on which it computes */
    struct bn_nccl_id id;
};

static int greet(const struct bn_meeting *m, struct hello *h,
                 struct bn_err *err)
{
    bool gpu = strcmp(m->dev->name, "cuda") == 0;

    *h = (struct hello){0};
    snprintf(h->device, sizeof(h->device), "%s", m->dev->name);
    if (gpu && m->info->size > 1 && m->info->rank == 0
        && bn_nccl_id(&h->id, err) < 0)
        return -1;
    if (bn_boot_bcast(m->boot, h, sizeof(*h), err) < 0)
        return -1;
    if (strcmp(h->device, m->dev->name) != 0)
        return bn_fail(err, BN_ERR_USAGE, "rank 0 computes on %s and this "
                       "one on %s: give device: cuda or device: cpu",
                       h->device, m->dev->name);
    return 0;
}

struct bn_comm *bn_meet(const struct bn_meeting *m, struct bn_err *err)
{
    const struct bn_nccl_options o = {.rank = m->info->rank,
                                      .size = m->info->size,
                                      .timeout = m->timeout,
                                      .watch = m->watch,
                                      .boot = m->boot,
                                      .dying = m->dying};
    struct hello h;

    if (greet(m, &h, err) < 0)
        return NULL;
    if (m->info->size == 1)
        return bn_comm_self();
    if (strcmp(m->dev->name, "cuda") == 0)
        return bn_comm_nccl(&h.id, &o, m->dev, err);
    return bn_comm_mpi(m->info->rank, m->info->size, m->timeout, m->watch,
                       err);
}
