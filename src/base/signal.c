#include "config.h"
#include "base/signal.h"
#include "base/clock.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

static volatile sig_atomic_t stop, report, interrupted;
static volatile double stop_time;

static void on_stop(int sig)
{
    if (sig == SIGINT && interrupted) {
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
    }
    interrupted |= sig == SIGINT;
    if (stop == 0) {
        stop_time = bn_now(); /* clock_gettime is async-signal-safe */
        stop = sig;
    }
}

static void on_report(int sig)
{
    (void)sig;
    report = 1;
}

void bn_signals_catch(void)
{
    struct sigaction sa, was;

    memset(&sa, 0, sizeof(sa));
    sigemptyset(&sa.sa_mask);
    sa.sa_flags = SA_RESTART;
    sa.sa_handler = on_stop;
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGUSR1, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    if (sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &sa, NULL); /* nohup(1) has it ignored */
    sa.sa_handler = on_report;
    sigaction(SIGUSR2, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int bn_stop_signal(void)
{
    return stop;
}

double bn_stop_time(void)
{
    return stop != 0 ? stop_time : 0;
}

bool bn_report_asked(void)
{
    bool was = report != 0;

    report = 0;
    return was;
}
