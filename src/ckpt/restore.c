/* A checkpoint's state into device memory, once it is known to be whole. */
#include "config.h"
#include "ckpt/load.h"

#include <errno.h>
#include <string.h>

enum { PLACED = 8 << 20 }; /* elements at a time */

int bn_ckpt_stage(struct bn_ckpt_stage *g, const struct bn_ckpt *c,
                  const struct bn_params *params, size_t begin, size_t count,
                  int checkers, int mine, float *mem, struct bn_err *err)
{
    *g = (struct bn_ckpt_stage){.of = c, .count = count};
    if (mem == NULL) {
        if (bn_arena_init(&g->own, "a checkpoint that is read",
                          3 * count * sizeof(float), err) < 0)
            return -1;
        mem = (float *)(void *)g->own.base;
    }
    for (size_t k = 0; k < 3; k++)
        g->part[k] = mem + k * count;
    if (bn_ckpt_load_runs(c, params, begin, count, g->part, 3, checkers, mine,
                          &g->runs, err) == 0)
        return 0;
    bn_ckpt_unstage(g);
    return -1;
}

/* What is in the mapping has been there, but may have had to make room. */
static int again(const struct bn_ckpt *c, const void *from, size_t n)
{
    const char *at = from;

    for (size_t i = 0; i < c->n; i++)
        if (at >= c->map[i].data && at < c->map[i].data + c->map[i].len)
            return bn_ckpt_fetch(&c->map[i], (size_t)(at - c->map[i].data), n);
    return EFAULT;
}

static int place(const struct bn_ckpt_stage *g, const struct bn_ckpt_run *part,
                 float *to, struct bn_dev *dev, struct bn_err *err)
{
    const float *from = part->from != NULL ? part->from
                                           : g->part[part->k] + part->at;
    int error = 0;

    for (size_t at = 0, n; error == 0 && at < part->n; at += n) {
        n = part->n - at < PLACED ? part->n - at : PLACED;
        if (part->from != NULL)
            error = again(g->of, from + at, n * sizeof(float));
        if (error == 0)
            dev->op.from_host(dev, to + part->at + at, BN_F32, from + at,
                              BN_F32, n);
    }
    return error == 0 ? 0
                      : bn_fail(err, bn_err_from_errno(error), "cannot read "
                                "'%s' again: %s", g->of->path,
                                strerror(error));
}

int bn_ckpt_place_stage(const struct bn_ckpt_stage *g,
                        const struct bn_ckpt_state *to, struct bn_dev *dev,
                        struct bn_err *err)
{
    float *const out[3] = {to->master, to->m, to->v};
    size_t index = 0;

    for (int k = 0; k < 3; k++) {
        struct bn_ckpt_run part = {.k = k};

        while (bn_ckpt_runs_next(&g->runs, g->count, &part, &index))
            if (place(g, &part, out[k], dev, err) < 0)
                return -1;
    }
    dev->op.sync(dev);
    return bn_dev_check(dev, err);
}

void bn_ckpt_unstage(struct bn_ckpt_stage *g)
{
    bn_ckpt_runs_release(&g->runs);
    bn_arena_release(&g->own);
    *g = (struct bn_ckpt_stage){0};
}
