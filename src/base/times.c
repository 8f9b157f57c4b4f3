#include "config.h"
#include "base/times.h"
#include "base/clock.h"

#include <string.h>

static struct {
    double spent[BN_TIMES];
    double began, since; /* bn_now: of all; of this activity */
    enum bn_time now;
} times;

const char *bn_time_name(enum bn_time what)
{
    static const char *const names[BN_TIMES] = {
        "start",     "data",   "forward", "backward", "comm",
        "optimizer", "device", "eval",    "save",     "other",
    };

    return names[what];
}

void bn_times_begin(void)
{
    memset(&times, 0, sizeof(times));
    times.began = times.since = bn_now();
}

enum bn_time bn_times_enter(enum bn_time what)
{
    enum bn_time was = times.now;
    double now = bn_now();

    times.spent[was] += now - times.since;
    times.since = now;
    times.now = what;
    return was;
}

enum bn_time bn_times_enter_comm(void)
{
    enum bn_time was = times.now;

    if (was == BN_TIME_START || was == BN_TIME_EVAL || was == BN_TIME_SAVE)
        return was;
    return bn_times_enter(BN_TIME_COMM);
}

double bn_times_get(double *seconds)
{
    bn_times_enter(times.now);
    memcpy(seconds, times.spent, sizeof(times.spent));
    return times.since - times.began;
}
