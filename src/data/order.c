#include "config.h"
#include "data/order.h"

#include "base/rng.h"

/* Streams of the seed that are not taken by anything else start here. */
enum { ORDER_STREAM = 0x6f726472 };

uint64_t bn_order(uint64_t seed, bool shuffle, uint64_t epoch, uint64_t n,
                  uint64_t i)
{
    if (!shuffle)
        return i;
    return bn_rng_permute(seed, ORDER_STREAM + epoch, n, i);
}

uint64_t bn_plan_global_batch(const struct bn_plan *p)
{
    return (uint64_t)p->batch * (uint64_t)p->accum * (uint64_t)p->dp_size;
}

uint64_t bn_plan_steps_per_epoch(const struct bn_plan *p)
{
    uint64_t g = bn_plan_global_batch(p);

    return (p->n + g - 1) / g;
}

uint64_t bn_plan_step_count(const struct bn_plan *p, uint64_t step)
{
    uint64_t g = bn_plan_global_batch(p);
    uint64_t begin = step % bn_plan_steps_per_epoch(p) * g;

    return p->n - begin < g ? p->n - begin : g;
}

int bn_plan_micros(const struct bn_plan *p, uint64_t step)
{
    uint64_t one = (uint64_t)p->batch * (uint64_t)p->dp_size;

    return (int)((bn_plan_step_count(p, step) + one - 1) / one);
}

/* The position in the step of slot 0 of this rank's micro-batch m. */
static uint64_t first(const struct bn_plan *p, int m)
{
    uint64_t row = (uint64_t)m * (uint64_t)p->dp_size + (uint64_t)p->dp_rank;

    return row * (uint64_t)p->batch;
}

int bn_plan_slots(const struct bn_plan *p, uint64_t step, int m)
{
    uint64_t have = bn_plan_step_count(p, step), at = first(p, m);

    if (at >= have)
        return 0;
    return have - at < (uint64_t)p->batch ? (int)(have - at) : p->batch;
}

uint64_t bn_plan_example(const struct bn_plan *p, uint64_t step, int m, int s)
{
    uint64_t per = bn_plan_steps_per_epoch(p);
    uint64_t at = step % per * bn_plan_global_batch(p) + first(p, m)
                  + (uint64_t)s;

    return bn_order(p->seed, p->shuffle, step / per, p->n, at);
}

uint64_t bn_plan_seen(const struct bn_plan *p, uint64_t step)
{
    uint64_t per = bn_plan_steps_per_epoch(p);

    return step / per * p->n + step % per * bn_plan_global_batch(p);
}
