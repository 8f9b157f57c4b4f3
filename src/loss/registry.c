#include "config.h"
#include "loss/loss.h"
#include "base/mem.h"

#include <string.h>

static const struct bn_loss *const all[] = {&bn_loss_sft, &bn_loss_orpo};

const struct bn_loss *bn_loss_find(const char *name)
{
    for (size_t i = 0; i < BN_COUNT(all); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
