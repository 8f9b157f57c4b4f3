/* Values worked out by hand from the definitions in the header. */
#include "config.h"
#include "optim/schedule.h"
#include "base/tap.h"

#include <math.h>

static void same(double got, double want)
{
    if (fabs(got - want) > 1e-15)
        fail_msg("%.17g, expected %.17g", got, want);
}

static void warmup_has_two_beginnings(void **state)
{
    struct bn_schedule s = {.type = BN_SCHED_LINEAR, .lr = 1, .warmup = 4, .total = 12};

    (void)state;
    same(bn_schedule_lr(&s, 0), 0);
    same(bn_schedule_lr(&s, 2), 0.5);
    s.warmup_one = true;
    same(bn_schedule_lr(&s, 0), 0.25);
    same(bn_schedule_lr(&s, 3), 1);
    same(bn_schedule_lr(&s, 4), 1);
}

static void decays_end_where_they_should(void **state)
{
    struct bn_schedule s = {.type = BN_SCHED_LINEAR, .lr = 2, .min_ratio = 0.1,
                            .warmup = 4, .decay = 4, .total = 12};

    (void)state;
    same(bn_schedule_lr(&s, 8), 2 * (0.1 + 0.9 * 0.5));
    same(bn_schedule_lr(&s, 12), 0.2);
    same(bn_schedule_lr(&s, 99), 0.2);
    s.type = BN_SCHED_COSINE;
    same(bn_schedule_lr(&s, 6), 2 * (0.1 + 0.9 * (1 + M_SQRT1_2) / 2));
    same(bn_schedule_lr(&s, 12), 0.2);
    s.type = BN_SCHED_CONSTANT;
    same(bn_schedule_lr(&s, 11), 2);
    s.type = BN_SCHED_WSD;
    same(bn_schedule_lr(&s, 8), 2);
    same(bn_schedule_lr(&s, 10), 2 * (0.1 + 0.9 * 0.5));
    same(bn_schedule_lr(&s, 12), 0.2);
    s.decay_cosine = true;
    same(bn_schedule_lr(&s, 9), 2 * (0.1 + 0.9 * (1 + M_SQRT1_2) / 2));
}

static void no_warmup_and_no_steps(void **state)
{
    struct bn_schedule s = {.type = BN_SCHED_COSINE, .lr = 1};

    (void)state;
    same(bn_schedule_lr(&s, 0), 0);
    s.total = 10;
    same(bn_schedule_lr(&s, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warmup_has_two_beginnings),
        cmocka_unit_test(decays_end_where_they_should),
        cmocka_unit_test(no_warmup_and_no_steps),
    };

    return BN_TAP_RUN(tests);
}
