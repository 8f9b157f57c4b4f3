/* A checkpoint's state into device memory. */
#include "config.h"
#include "ckpt/ckpt.h"
#include "base/mem.h"

#include <stdlib.h>

int bn_ckpt_read(const struct bn_ckpt *c, const struct bn_params *params,
                 size_t begin, size_t count, const struct bn_ckpt_state *to,
                 struct bn_dev *dev, struct bn_err *err)
{
    float *const out[3] = {to->master, to->m, to->v};
    float *host[3];
    int rc;

    for (int k = 0; k < 3; k++)
        host[k] = bn_realloc(NULL, count, sizeof(float));
    rc = bn_ckpt_read_host(c, params, begin, count, host, 3, err);
    for (int k = 0; rc == 0 && k < 3; k++)
        dev->op.from_host(dev, out[k], BN_F32, host[k], BN_F32, count);
    dev->op.sync(dev);
    if (rc == 0)
        rc = bn_dev_check(dev, err);
    for (int k = 0; k < 3; k++)
        free(host[k]);
    return rc;
}
