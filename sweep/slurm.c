#include "config.h"

#include "sweep/slurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "sweep/child.h"

enum { ASK_SECONDS = 60 };

static int by_task(const void *a, const void *b)
{
    const struct bn_job *x = a, *y = b;
    if (x->array != y->array)
        return x->array < y->array ? -1 : 1;
    return (x->task > y->task) - (x->task < y->task);
}

static void copy_field(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%.*s", (int)(size - 1), from ? from : "");
}

static int add_line(struct bn_queue *q, char *line, struct bn_err *err)
{
    char *field[6], *rest = line;
    struct bn_job j;

    for (int i = 0; i < 6; i++) {
        field[i] = strsep(&rest, "|");
        if (field[i] == NULL)
            return bn_fail(err, BN_ERR_DATA,
                           "squeue says something else than it was asked: "
                           "'%s'", line);
    }
    memset(&j, 0, sizeof(j));
    j.id = (uint32_t)strtoul(field[0], NULL, 10);
    j.array = (uint32_t)strtoul(field[1], NULL, 10);
    j.task = field[2][0] >= '0' && field[2][0] <= '9' ? atoi(field[2]) : -1;
    copy_field(j.state, sizeof(j.state), field[3]);
    copy_field(j.reason, sizeof(j.reason), field[4]);
    copy_field(j.nodes, sizeof(j.nodes), field[5]);
    bn_grow(&q->v, &q->cap, q->n + 1, sizeof(*q->v));
    q->v[q->n++] = j;
    return 0;
}

int bn_queue_ask(struct bn_queue *q, struct bn_err *err)
{
    char user[32];
    snprintf(user, sizeof(user), "--user=%u", (unsigned)getuid());
    const char *argv[] = { "squeue", "--noheader", "--array", "--all", user,
                           "--format=%A|%F|%K|%T|%r|%N", NULL };
    struct bn_child c = { .argv = argv, .timeout = ASK_SECONDS };

    memset(q, 0, sizeof(*q));
    q->asked = bn_wall_time();
    int rc = bn_child_must(&c, err);
    char *rest = c.out.s, *line;
    while (rc == 0 && (line = strsep(&rest, "\n")) != NULL)
        if (*line)
            rc = add_line(q, line, err);
    bn_child_release(&c);
    if (rc < 0) {
        bn_queue_release(q);
        return -1;
    }
    if (q->n > 0)
        qsort(q->v, q->n, sizeof(*q->v), by_task);
    return 0;
}

const struct bn_job *bn_queue_find(const struct bn_queue *q, uint32_t array,
                                   int32_t task)
{
    struct bn_job key = { .array = array, .task = task };
    return q->n ? bsearch(&key, q->v, q->n, sizeof(*q->v), by_task) : NULL;
}

const struct bn_job *bn_queue_id(const struct bn_queue *q, uint32_t id)
{
    for (size_t i = 0; i < q->n; i++)
        if (q->v[i].id == id)
            return &q->v[i];
    return NULL;
}

void bn_queue_release(struct bn_queue *q)
{
    free(q->v);
    memset(q, 0, sizeof(*q));
}

char *bn_slurm_config(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = text; p && *p;) {
        size_t len = strcspn(p, "\n");
        if (strncmp(p, key, n) == 0) {
            const char *v = p + n + strspn(p + n, " ");
            if (*v == '=') {
                v += 1 + strspn(v + 1, " ");
                size_t m = (size_t)(p + len - v);
                while (m > 0 && v[m - 1] == ' ')
                    m--;
                return bn_strndup(v, m);
            }
        }
        p += len + (p[len] == '\n');
    }
    return NULL;
}

char *bn_slurm_show_config(struct bn_err *err)
{
    const char *argv[] = { "scontrol", "show", "config", NULL };
    struct bn_child c = { .argv = argv, .timeout = ASK_SECONDS };
    char *text = NULL;
    if (bn_child_must(&c, err) == 0)
        text = bn_str_take(&c.out);
    bn_child_release(&c);
    return text;
}
