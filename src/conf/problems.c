#include "config.h"
#include "conf/problems.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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
    bn_grow(&p->v, &p->cap, p->n + 1, sizeof(*p->v));
    at.file = at.file != NULL ? bn_strdup(at.file) : NULL;
    p->v[p->n].at = at;
    p->v[p->n].text = bn_str_take(&s);
    p->n++;
}

/* Whole-file entries first, then by line and column. */
static bool comes_after(const struct bn_place *a, const struct bn_place *b)
{
    const char *fa = a->file != NULL ? a->file : "";
    const char *fb = b->file != NULL ? b->file : "";

    if (strcmp(fa, fb) != 0)
        return false; /* files keep the order in which they were read */
    if (a->line != b->line)
        return a->line > b->line;
    return a->column > b->column;
}

void bn_problems_sort(struct bn_problems *p, size_t first)
{
    for (size_t i = first; i < p->n; i++) {
        struct bn_problem x = p->v[i];
        size_t j = i;

        while (j > first && comes_after(&p->v[j - 1].at, &x.at)) {
            p->v[j] = p->v[j - 1];
            j--;
        }
        p->v[j] = x;
    }
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
