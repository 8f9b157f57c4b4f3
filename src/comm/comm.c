#include "config.h"
#include "comm/comm.h"
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void bn_comm_destroy(struct bn_comm *c)
{
    if (c != NULL)
        c->ops->destroy(c);
}

int bn_comm_agree(struct bn_comm *c, enum bn_err_code mine,
                  struct bn_err *err)
{
    /* Class in the high half, rank in the low one: the maximum names a rank
     * of the worst class. */
    int64_t v = (int64_t)mine << 32 | (mine != 0 ? c->rank : 0);

    if (c->size > 1
        && c->ops->allreduce(c, &v, BN_I64, 1, BN_MAX, err) < 0)
        return -1;
    if (v == 0)
        return 0;
    if (mine == 0)
        bn_fail(err, (enum bn_err_code)(v >> 32), "rank %d failed (%s)",
                (int)(v & 0xffffffff), bn_err_name((enum bn_err_code)(v >> 32)));
    return -1;
}

#ifndef HAVE_MPI
struct bn_comm *bn_comm_mpi(int rank, int size, double timeout,
                            const struct bn_watch *watch,
                            struct bn_err *err)
{
    (void)rank, (void)timeout, (void)watch;
    bn_fail(err, BN_ERR_USAGE, "%d ranks on CPUs need MPI, and this build has"
            " none (configure --with-mpi)", size);
    return NULL;
}
#endif
