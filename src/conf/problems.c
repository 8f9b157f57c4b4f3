#include "config.h"
#include "conf/problems.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_there(const struct bn_problems *p, struct bn_place at,
                     const char *text)
{
    for (size_t i = p->n; i-- > 0;) {
        const struct bn_problem *v = &p->v[i];

        if (v->at.line == at.line && v->at.column == at.column
            && strcmp(v->text, text) == 0
            && strcmp(v->at.file != NULL ? v->at.file : "",
                      at.file != NULL ? at.file : "") == 0)
            return true;
    }
    return false;
}

void bn_problem_add(struct bn_problems *p, struct bn_place at,
                    const char *fmt, ...)
{
    struct bn_str s = {0};
    va_list ap;

    if (p->n == BN_PROBLEMS_MAX) {
        p->dropped++;
        return;
    }
    va_start(ap, fmt);
    bn_str_vaddf(&s, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.s[i] < 0x20 || s.s[i] == 0x7f)
            s.s[i] = '?';
    if (is_there(p, at, s.s)) {
        bn_str_release(&s);
        return;
    }
    bn_grow(&p->v, &p->cap, p->n + 1, sizeof(*p->v));
    at.file = at.file != NULL ? bn_strdup(at.file) : NULL;
    p->v[p->n].at = at;
    p->v[p->n].text = bn_str_take(&s);
    p->n++;
}

/* Files in the order in which they first appear, arguments last. */
static size_t file_rank(const struct bn_problems *p, size_t first,
                        const char *file)
{
    size_t i = first;

    if (file == NULL)
        return 0;
    while (p->v[i].at.file == NULL || strcmp(p->v[i].at.file, file) != 0)
        i++;
    return 1 + i + (strncmp(file, "--", 2) == 0 ? p->n : 0);
}

struct ranked {
    struct bn_problem problem;
    size_t file, index;
};

static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    const struct bn_place *p = &x->problem.at, *q = &y->problem.at;

    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (p->line != q->line)
        return p->line < q->line ? -1 : 1;
    if (p->column != q->column)
        return p->column < q->column ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

void bn_problems_sort(struct bn_problems *p, size_t first)
{
    size_t n = p->n - first;
    struct ranked *r = BN_NEWN(struct ranked, n + 1);

    for (size_t i = 0; i < n; i++)
        r[i] = (struct ranked){p->v[first + i],
                               file_rank(p, first, p->v[first + i].at.file),
                               i};
    qsort(r, n, sizeof(*r), compare);
    for (size_t i = 0; i < n; i++)
        p->v[first + i] = r[i].problem;
    free(r);
}

void bn_problems_print(const struct bn_problems *p, FILE *out)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct bn_problem *x = &p->v[i];

        if (x->at.file != NULL && x->at.line > 0)
            fprintf(out, "%s:%d:%d: ", x->at.file, x->at.line, x->at.column);
        else if (x->at.file != NULL)
            fprintf(out, "%s: ", x->at.file);
        fprintf(out, "%s\n", x->text);
    }
    if (p->dropped > 0)
        fprintf(out, "and %zu more problems\n", p->dropped);
}

void bn_problems_release(struct bn_problems *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free((char *)p->v[i].at.file);
        free(p->v[i].text);
    }
    free(p->v);
    *p = (struct bn_problems){0};
}
