/* A checkpoint's state into device memory, once it is known to be whole. */
#include "config.h"
#include "ckpt/ckpt.h"

int bn_ckpt_stage(struct bn_ckpt_stage *g, const struct bn_ckpt *c,
                  const struct bn_params *params, size_t begin, size_t count,
                  int checkers, int mine, float *mem, struct bn_err *err)
{
    *g = (struct bn_ckpt_stage){.count = count};
    if (mem == NULL) {
        if (bn_arena_init(&g->own, "a checkpoint that is read",
                          3 * count * sizeof(float), err) < 0)
            return -1;
        mem = (float *)(void *)g->own.base;
    }
    for (size_t k = 0; k < 3; k++)
        g->part[k] = mem + k * count;
    if (bn_ckpt_load_host(c, params, begin, count, g->part, 3, checkers, mine,
                          err) == 0)
        return 0;
    bn_ckpt_unstage(g);
    return -1;
}

int bn_ckpt_place_stage(const struct bn_ckpt_stage *g,
                        const struct bn_ckpt_state *to, struct bn_dev *dev,
                        struct bn_err *err)
{
    float *const out[3] = {to->master, to->m, to->v};

    for (int k = 0; k < 3; k++)
        dev->op.from_host(dev, out[k], BN_F32, g->part[k], BN_F32, g->count);
    dev->op.sync(dev);
    return bn_dev_check(dev, err);
}

void bn_ckpt_unstage(struct bn_ckpt_stage *g)
{
    bn_arena_release(&g->own);
    *g = (struct bn_ckpt_stage){0};
}
