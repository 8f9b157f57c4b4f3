#include "config.h"
#include "cmd/doctor.h"
#include "base/mem.h"
#include "sweep/child.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_name[] = {"OK", "WARN", "FAIL"};

void bn_doctor_add(struct bn_doctor *d, enum bn_finding_level level,
                   const char *name, const char *todo, const char *fmt, ...)
{
    struct bn_str text = {0};
    va_list ap;

    va_start(ap, fmt);
    bn_str_vaddf(&text, fmt, ap);
    va_end(ap);
    bn_grow(&d->v, &d->cap, d->n + 1, sizeof(*d->v));
    d->v[d->n++] = (struct bn_finding){
        level, name, bn_str_take(&text),
        todo != NULL ? bn_strdup(todo) : NULL};
}

enum bn_finding_level bn_doctor_worst(const struct bn_doctor *d)
{
    enum bn_finding_level worst = BN_FINDING_OK;

    for (size_t i = 0; i < d->n; i++)
        if (d->v[i].level > worst)
            worst = d->v[i].level;
    return worst;
}

void bn_doctor_release(struct bn_doctor *d)
{
    for (size_t i = 0; i < d->n; i++) {
        free(d->v[i].text);
        free(d->v[i].todo);
    }
    free(d->v);
    free(d->train);
    *d = (struct bn_doctor){0};
}

void bn_doctor_examine(struct bn_doctor *d)
{
    bn_doctor_build(d);
    bn_doctor_system(d);
    bn_doctor_disk(d);
    bn_doctor_launch(d);
}

void bn_doctor_text(const struct bn_doctor *d, struct bn_str *out)
{
    size_t count[3] = {0};

    for (size_t i = 0; i < d->n; i++) {
        const struct bn_finding *f = &d->v[i];

        count[f->level]++;
        bn_str_addf(out, "%-4s  %-10s  %s\n", level_name[f->level], f->name,
                    f->text);
        if (f->todo != NULL)
            bn_str_addf(out, "%18s-> %s\n", "", f->todo);
    }
    bn_str_addf(out, "%zu ok, %zu to look at, %zu wrong\n", count[0], count[1],
                count[2]);
}

static void add_string(struct bn_str *out, const char *key, const char *s)
{
    bn_str_addf(out, ",\"%s\":", key);
    bn_str_add_json(out, s, strlen(s));
}

void bn_doctor_json(const struct bn_doctor *d, struct bn_str *out)
{
    bn_str_addf(out, "{\"worst\":\"%s\",\"checks\":[",
                level_name[bn_doctor_worst(d)]);
    for (size_t i = 0; i < d->n; i++) {
        const struct bn_finding *f = &d->v[i];

        bn_str_addf(out, "%s{\"level\":\"%s\"", i > 0 ? "," : "",
                    level_name[f->level]);
        add_string(out, "check", f->name);
        add_string(out, "text", f->text);
        if (f->todo != NULL)
            add_string(out, "todo", f->todo);
        bn_str_addc(out, '}');
    }
    bn_str_adds(out, "]}\n");
}

char *bn_doctor_ask(const struct bn_doctor *d, const char *const *argv,
                    struct bn_err *err)
{
    struct bn_child c = {.argv = argv, .timeout = d->timeout};
    char *out = NULL;

    if (bn_child_must(&c, err) == 0)
        out = bn_strdup(c.out.s);
    bn_child_release(&c);
    return out;
}
