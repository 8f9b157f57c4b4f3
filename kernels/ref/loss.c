#include "config.h"
#include "kernels/loss.h"

static void add(struct bn_loss_acc *acc, const struct bn_loss_share *s)
{
    for (int k = 0; k < BN_LOSS_MAX_KEYS; k++)
        acc->metrics[k] += s->key[k];
    acc->clamped += s->clamped;
}

static void keep(struct bn_loss_acc *acc, const struct bn_loss_share *s,
                 int batch, int seq, int ntok)
{
    if (acc->fault != BN_LOSS_FINE)
        return;
    acc->fault = s->fault;
    acc->value = s->value;
    acc->batch = batch;
    acc->seq = seq + s->at;
    acc->ntok = ntok;
    acc->taint = NAN;
}

void bn_loss_ref(enum bn_loss_kind kind, const struct bn_loss_params *p,
                 const struct bn_loss_seqs *s,
                 const struct bn_loss_denom *denom, double *dlogp,
                 struct bn_loss_acc *acc, int batch, int first)
{
    int group = bn_loss_group(kind);

    for (int i = 0; i + group <= s->n; i += group) {
        struct bn_loss_example e = {{0}, {0}, {0}, {0}};
        struct bn_loss_share share;

        for (int k = 0; k < group; k++) {
            e.logp[k] = s->logp[i + k];
            e.smooth[k] = s->smooth[i + k];
            e.hits[k] = s->hits[i + k];
            e.ntok[k] = s->ntok[i + k];
        }
        bn_loss_share_of(kind, p, &e, denom, &share);
        for (int k = 0; k < group && dlogp != NULL && kind != BN_LOSS_NONE; k++)
            dlogp[i + k] = share.fault != BN_LOSS_FINE ? NAN : share.dlogp[k];
        if (acc != NULL && share.fault == BN_LOSS_FINE)
            add(acc, &share);
        else if (acc != NULL)
            keep(acc, &share, batch, first + i, e.ntok[share.at]);
    }
}
