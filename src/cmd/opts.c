#include "config.h"
#include "cmd/opts.h"

#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void bn_opt_list_add(struct bn_opt_list *l, const char *s)
{
    bn_grow(&l->v, &l->cap, l->n + 1, sizeof(*l->v));
    l->v[l->n++] = s;
}

void bn_opt_list_release(struct bn_opt_list *l)
{
    free(l->v);
    *l = (struct bn_opt_list){0};
}

static int unknown(const struct bn_opt *opts, const char *arg, size_t len,
                   struct bn_err *err)
{
    char *name = bn_strndup(arg, len);
    const char **names;
    size_t n = 0;

    while (opts[n].name != NULL)
        n++;
    names = BN_NEWN(const char *, n + 1);
    for (size_t i = 0; i < n; i++)
        names[i] = opts[i].name;
    const char *near = bn_str_nearest(name, names, n);
    if (near != NULL)
        bn_fail(err, BN_ERR_USAGE, "unknown option '--%s'; did you mean"
                                   " '--%s'?", name, near);
    else
        bn_fail(err, BN_ERR_USAGE, "unknown option '--%s'", name);
    free(names);
    free(name);
    return -1;
}

/* 'choices' is "A|B|C". */
static int check_choice(const struct bn_opt *o, const char *value,
                        struct bn_err *err)
{
    char *words = bn_strdup(o->arg), *save = NULL;
    const char *names[32], *near;
    size_t n = 0;
    bool found = false;

    for (char *w = strtok_r(words, "|", &save); w != NULL && n < 32;
         w = strtok_r(NULL, "|", &save)) {
        found |= strcmp(w, value) == 0;
        names[n++] = w;
    }
    near = bn_str_nearest(value, names, n);
    if (!found && near != NULL)
        bn_fail(err, BN_ERR_USAGE, "--%s: '%s' is none of %s; did you mean"
                                   " '%s'?", o->name, value, o->arg, near);
    else if (!found)
        bn_fail(err, BN_ERR_USAGE, "--%s: '%s' is none of %s", o->name,
                value, o->arg);
    free(words);
    return found ? 0 : -1;
}

static int store(const struct bn_opt *o, const char *value,
                 struct bn_err *err)
{
    char *end;

    if (o->arg != NULL && strchr(o->arg, '|') != NULL
        && check_choice(o, value, err) < 0)
        return -1;
    switch (o->type) {
    case BN_OPT_FLAG:
        *(bool *)o->out = true;
        break;
    case BN_OPT_STR:
        *(const char **)o->out = value;
        break;
    case BN_OPT_INT:
        errno = 0;
        *(int64_t *)o->out = strtoll(value, &end, 10);
        if (errno != 0 || end == value || *end != '\0')
            return bn_fail(err, BN_ERR_USAGE,
                           "--%s: expected an integer, got '%s'", o->name,
                           value);
        break;
    case BN_OPT_NUM:
        errno = 0;
        *(double *)o->out = strtod(value, &end);
        if (errno != 0 || end == value || *end != '\0'
            || !isfinite(*(double *)o->out))
            return bn_fail(err, BN_ERR_USAGE,
                           "--%s: expected a number, got '%s'", o->name,
                           value);
        break;
    case BN_OPT_LIST:
        bn_opt_list_add(o->out, value);
        break;
    }
    return 0;
}

/* 'arg' is what follows "--"; '*next' may be taken as its value. */
static int parse_one(const struct bn_opt *opts, const char *arg, char **next,
                     int *taken, struct bn_err *err)
{
    size_t len = strcspn(arg, "=");
    const char *value = arg[len] == '=' ? arg + len + 1 : NULL;
    const struct bn_opt *o = opts;

    while (o->name != NULL
           && (strlen(o->name) != len || memcmp(o->name, arg, len) != 0))
        o++;
    if (o->name == NULL)
        return unknown(opts, arg, len, err);
    if (o->type == BN_OPT_FLAG && value != NULL)
        return bn_fail(err, BN_ERR_USAGE, "--%s takes no value", o->name);
    if (o->type != BN_OPT_FLAG && value == NULL) {
        if (*next == NULL)
            return bn_fail(err, BN_ERR_USAGE, "--%s needs a value: %s",
                           o->name, o->arg);
        value = *next;
        *taken = 1;
    }
    return store(o, value, err);
}

int bn_opts_parse(const struct bn_opt *opts, int argc, char **argv,
                  struct bn_opt_list *operands, struct bn_err *err)
{
    bool only_operands = false;

    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        int taken = 0;

        if (only_operands || arg[0] != '-' || arg[1] == '\0') {
            bn_opt_list_add(operands, arg);
        } else if (strcmp(arg, "--") == 0) {
            only_operands = true;
        } else if (arg[1] != '-') {
            return bn_fail(err, BN_ERR_USAGE,
                           "unknown option '%s'; options have two dashes",
                           arg);
        } else if (parse_one(opts, arg + 2, &argv[i + 1], &taken, err) < 0) {
            return -1;
        }
        i += taken;
    }
    return 0;
}

void bn_opts_help(const struct bn_opt *opts, FILE *out)
{
    enum { COLUMN = 24 };

    for (const struct bn_opt *o = opts; o->name != NULL; o++) {
        int n = fprintf(out, "  --%s%s%s", o->name, o->arg != NULL ? " " : "",
                        o->arg != NULL ? o->arg : "");

        if (n > COLUMN - 2)
            fprintf(out, "\n%*s%s\n", COLUMN, "", o->help);
        else
            fprintf(out, "%*s%s\n", COLUMN - n, "", o->help);
    }
}

void bn_verbs_help(const struct bn_verb *verbs, FILE *out)
{
    for (const struct bn_verb *v = verbs; v->name != NULL; v++)
        fprintf(out, "  %-8s  %s\n", v->name, v->help);
    fputc('\n', out);
}

int bn_verb_find(const struct bn_verb *verbs,
                 const struct bn_opt_list *operands, struct bn_err *err)
{
    const char *names[32], *near;
    struct bn_str all = {0};
    size_t n = 0;

    for (; verbs[n].name != NULL && n < BN_COUNT(names); n++) {
        names[n] = verbs[n].name;
        if (operands->n > 0 && strcmp(operands->v[0], verbs[n].name) == 0) {
            bn_str_release(&all);
            return (int)n;
        }
        bn_str_addf(&all, "%s%s", n > 0 ? ", " : "", verbs[n].name);
    }
    near = operands->n > 0 ? bn_str_nearest(operands->v[0], names, n) : NULL;
    if (near != NULL)
        bn_fail(err, BN_ERR_USAGE, "'%s' is none of %s; did you mean '%s'?",
                operands->v[0], all.s, near);
    else if (operands->n > 0)
        bn_fail(err, BN_ERR_USAGE, "'%s' is none of %s", operands->v[0],
                all.s);
    else
        bn_fail(err, BN_ERR_USAGE, "which of %s?", all.s);
    bn_str_release(&all);
    return -1;
}

struct bn_run *bn_run_args_load(const struct bn_run_args *args,
                                const char *path, unsigned flags,
                                int *status)
{
    struct bn_problems p = {0};

    *status = 0;
    if (args->help_keys) {
        bn_run_help(stdout);
        return NULL;
    }
    struct bn_run *run =
        bn_run_load(path, args->sets.v, args->sets.n, flags, &p);
    bn_problems_print(&p, stderr);
    bn_problems_release(&p);
    if (run == NULL) {
        *status = BN_ERR_USAGE;
    } else if (args->print_config) {
        bn_run_print(run, stdout);
        bn_run_free(run);
        run = NULL;
    }
    return run;
}
