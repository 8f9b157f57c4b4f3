/* A build without NCCL: several ranks cannot use GPUs. */
#include "config.h"
#include "comm/nccl.h"

int bn_nccl_id(struct bn_nccl_id *id, struct bn_err *err)
{
    (void)id;
    return bn_fail(err, BN_ERR_USAGE,
                   "several ranks on GPUs need NCCL, and "
                   "this build has none: start one rank, or give device: cpu");
}

struct bn_comm *bn_comm_nccl(const struct bn_nccl_id *id,
                             const struct bn_nccl_options *o,
                             struct bn_dev *dev, struct bn_err *err)
{
    struct bn_nccl_id none;

    (void)id, (void)o, (void)dev;
    bn_nccl_id(&none, err);
    return NULL;
}
