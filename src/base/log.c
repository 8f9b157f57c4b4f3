#include "config.h"
#include "base/log.h"
#include "base/progress.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {"error", "warn", "info", "debug"};
static int level_now = -1;
static int my_rank, my_size = 1;

enum bn_log_level bn_log_level(void)
{
    if (level_now < 0) {
        const char *env = getenv("BURNISH_LOG");

        level_now = BN_LOG_INFO;
        for (int i = 0; env != NULL && i < 4; i++)
            if (strcmp(env, names[i]) == 0)
                level_now = i;
    }
    return (enum bn_log_level)level_now;
}

void bn_log_set_level(enum bn_log_level level)
{
    level_now = (int)level;
}

void bn_log_set_rank(int rank, int size)
{
    my_rank = rank;
    my_size = size;
}

void bn_log(enum bn_log_level level, const char *fmt, ...)
{
    int saved = errno;
    char line[2048];
    size_t n = 0;
    va_list ap;

    if (level > bn_log_level())
        return;
    if (my_size > 1)
        n += (size_t)snprintf(line, sizeof(line), "rank %d/%d: ", my_rank,
                              my_size);
    if (level != BN_LOG_INFO)
        n += (size_t)snprintf(line + n, sizeof(line) - n, "%s: ",
                              names[level]);
    va_start(ap, fmt);
    n += (size_t)vsnprintf(line + n, sizeof(line) - n, fmt, ap);
    va_end(ap);
    if (n > sizeof(line) - 2)
        n = sizeof(line) - 2;
    line[n++] = '\n';
    bn_progress_hide();
    /* Nothing can be done about a failed write to standard error. */
    if (write(STDERR_FILENO, line, n) < 0)
        n = 0;
    errno = saved;
}

void bn_log_lines(enum bn_log_level level, const char *text)
{
    while (*text != '\0') {
        int n = (int)strcspn(text, "\n");

        bn_log(level, "%.*s", n, text);
        text += n + (text[n] == '\n');
    }
}
