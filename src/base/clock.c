#include "config.h"
#include "base/clock.h"

#include <sched.h>
#include <time.h>

static double seconds(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bn_now(void)
{
    return seconds(CLOCK_MONOTONIC);
}

double bn_wall_time(void)
{
    return seconds(CLOCK_REALTIME);
}

void bn_rest(double waited)
{
    if (waited < 0.001) {
        sched_yield();
        return;
    }
    struct timespec t = {.tv_nsec = waited < 0.1 ? 50000 : 1000000};
    nanosleep(&t, NULL);
}
