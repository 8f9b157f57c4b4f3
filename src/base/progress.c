#include "config.h"
#include "base/progress.h"
#include "base/clock.h"
#include "base/str.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bar {
    bool active, tty, shown;
    char label[64];
    uint64_t total, done;
    uint64_t first; /* what was done when it began */
    double start, last, interval;
    char detail[160];
} bar, outer; /* the one that is shown, and the one that it interrupts */

char *bn_progress_time(char *out, double seconds)
{
    long s = seconds < 0 ? 0 : seconds > 1e8 ? 100000000 : (long)seconds;

    if (s >= 3600)
        snprintf(out, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, 32, "%ld:%02ld", s / 60, s % 60);
    return out;
}

static int columns(void)
{
    struct winsize w;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        return w.ws_col;
    return 80;
}

static void put(const char *s, size_t n)
{
    if (write(STDERR_FILENO, s, n) < 0)
        bar.shown = false; /* nowhere to show it */
}

/* How long the rest takes at the speed since the beginning. */
static const char *left(char *out, double took)
{
    if (bar.done >= bar.total)
        return bn_progress_time(out, 0);
    if (bar.done <= bar.first)
        return "?";
    return bn_progress_time(out, took * (double)(bar.total - bar.done)
                                     / (double)(bar.done - bar.first));
}

/* "label  42% 420/1000 [####    ] 0:12<0:17 detail" */
static void compose(struct bn_str *s, double now, bool picture)
{
    char a[32], b[32];
    double took = now - bar.start;

    bn_str_addf(s, "%s ", bar.label);
    bn_progress_time(a, took);
    if (bar.total > 0) {
        double part = (double)bar.done / (double)bar.total;

        bn_str_addf(s, "%3.0f%% %llu/%llu ", 100 * part,
                    (unsigned long long)bar.done,
                    (unsigned long long)bar.total);
        if (picture) {
            enum { WIDE = 20 };
            int full = (int)(part * WIDE + 0.5);

            bn_str_addc(s, '[');
            for (int i = 0; i < WIDE; i++)
                bn_str_addc(s, i < full ? '#' : ' ');
            bn_str_adds(s, "] ");
        }
        bn_str_addf(s, "%s<%s ", a, left(b, took));
    } else {
        bn_str_addf(s, "%llu %s ", (unsigned long long)bar.done, a);
    }
    bn_str_adds(s, bar.detail);
}

static void draw(double now)
{
    struct bn_str s = {0};

    if (bar.tty)
        bn_str_adds(&s, "\r\033[K");
    size_t mark = s.len, end = mark + (size_t)columns() - 1;
    compose(&s, now, bar.tty);
    if (bar.tty && s.len > end) { /* numbers say more than the picture */
        s.len = mark;
        compose(&s, now, false);
        s.len = s.len < end ? s.len : end;
    }
    if (!bar.tty)
        bn_str_addc(&s, '\n');
    put(s.s, s.len);
    bar.shown = bar.tty;
    bar.last = now;
    bn_str_release(&s);
}

void bn_progress_begin(const char *label, uint64_t done, uint64_t total,
                       double interval)
{
    const char *term = getenv("TERM");

    pthread_mutex_lock(&lock);
    outer = bar;
    memset(&bar, 0, sizeof(bar));
    bar.active = true;
    bar.shown = outer.shown;
    bar.tty = isatty(STDERR_FILENO)
              && (term == NULL || strcmp(term, "dumb") != 0);
    snprintf(bar.label, sizeof(bar.label), "%s", label);
    bar.first = bar.done = done;
    bar.total = total;
    bar.interval = interval;
    bar.start = bn_now();
    bar.last = bar.start - (bar.tty || interval == 0 ? 1e9 : 0);
    pthread_mutex_unlock(&lock);
}

void bn_progress_update(uint64_t done, const char *detail)
{
    double now = bn_now();

    pthread_mutex_lock(&lock);
    if (bar.active) {
        bar.done = done;
        snprintf(bar.detail, sizeof(bar.detail), "%s",
                 detail != NULL ? detail : "");
        if (now - bar.last >= (bar.tty ? 0.1 : bar.interval))
            draw(now);
    }
    pthread_mutex_unlock(&lock);
}

void bn_progress_end(void)
{
    pthread_mutex_lock(&lock);
    if (bar.active) {
        draw(bn_now());
        if (bar.tty)
            put("\n", 1);
    }
    bar = outer;
    bar.shown = false;
    memset(&outer, 0, sizeof(outer));
    pthread_mutex_unlock(&lock);
}

void bn_progress_hide(void)
{
    pthread_mutex_lock(&lock);
    if (bar.shown)
        put("\r\033[K", 4);
    bar.shown = false;
    pthread_mutex_unlock(&lock);
}
