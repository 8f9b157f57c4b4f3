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
static struct {
    bool active, tty, shown;
    char label[64];
    uint64_t total, done;
    double start, last, interval;
    char detail[160];
} bar;

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

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 20)
        return w.ws_col;
    return 80;
}

static void put(const char *s, size_t n)
{
    if (write(STDERR_FILENO, s, n) < 0)
        bar.shown = false; /* nowhere to show it */
}

/* "label  42% 420/1000 [####    ] 0:12<0:17 detail" */
static void compose(struct bn_str *s, double now)
{
    char a[32], b[32];
    double took = now - bar.start;

    bn_str_addf(s, "%s ", bar.label);
    if (bar.total > 0) {
        double part = (double)bar.done / (double)bar.total;

        bn_str_addf(s, "%3.0f%% %llu/%llu ", 100 * part,
                    (unsigned long long)bar.done,
                    (unsigned long long)bar.total);
        if (bar.tty) {
            enum { WIDE = 20 };
            int full = (int)(part * WIDE + 0.5);

            bn_str_addc(s, '[');
            for (int i = 0; i < WIDE; i++)
                bn_str_addc(s, i < full ? '#' : ' ');
            bn_str_adds(s, "] ");
        }
        bn_progress_time(a, took);
        if (bar.done > 0)
            bn_progress_time(b, took / part - took);
        else
            strcpy(b, "?");
        bn_str_addf(s, "%s<%s ", a, b);
    } else {
        bn_str_addf(s, "%llu %s ", (unsigned long long)bar.done,
                    bn_progress_time(a, took));
    }
    bn_str_adds(s, bar.detail);
}

static void draw(double now)
{
    struct bn_str s = {0};

    if (bar.tty)
        bn_str_adds(&s, "\r\033[K");
    size_t mark = s.len;
    compose(&s, now);
    if (bar.tty && s.len - mark > (size_t)columns() - 1)
        s.len = mark + (size_t)columns() - 1;
    if (!bar.tty)
        bn_str_addc(&s, '\n');
    put(s.s, s.len);
    bar.shown = bar.tty;
    bar.last = now;
    bn_str_release(&s);
}

void bn_progress_begin(const char *label, uint64_t total, double interval)
{
    const char *term = getenv("TERM");

    pthread_mutex_lock(&lock);
    memset(&bar, 0, sizeof(bar));
    bar.active = true;
    bar.tty = isatty(STDERR_FILENO)
              && (term == NULL || strcmp(term, "dumb") != 0);
    snprintf(bar.label, sizeof(bar.label), "%s", label);
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
    memset(&bar, 0, sizeof(bar));
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
