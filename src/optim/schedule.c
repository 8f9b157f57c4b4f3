#include "config.h"
#include "optim/schedule.h"

#include <math.h>

/* The part of the peak above min_ratio that is left, 1 down to 0. */
static double left(const struct bn_schedule *s, long step)
{
    double span = (double)(s->total - s->warmup);
    double u = span > 0 ? (double)(step - s->warmup) / span : 1;

    if (u > 1)
        u = 1;
    switch (s->type) {
    case BN_SCHED_CONSTANT:
        return 1;
    case BN_SCHED_LINEAR:
        return 1 - u;
    case BN_SCHED_COSINE:
        return (1 + cos(M_PI * u)) / 2;
    case BN_SCHED_WSD:
        break;
    }
    long rest = s->total - step;
    if (rest >= s->decay)
        return 1;
    double over = rest > 0 ? 1 - (double)rest / (double)s->decay : 1;
    return s->decay_cosine ? (1 + cos(M_PI * over)) / 2 : 1 - over;
}

double bn_schedule_lr(const struct bn_schedule *s, long step)
{
    if (step < s->warmup)
        return s->lr * (double)(step + s->warmup_one) / (double)s->warmup;
    double part = left(s, step);

    return s->lr * (s->min_ratio + (1 - s->min_ratio) * part);
}
