/* From layers of YAML to a run: collect who sets what, read, fill in
 * defaults, derive, check the rules.
 */
#include "config.h"
#include "conf/key.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* What was written for each key, later layers over earlier ones. */
struct collected {
    const struct bn_yaml *value[BN_CONF_NKEYS];
    struct bn_place at[BN_CONF_NKEYS]; /* of the key, or of the --set */
    struct bn_problems *p;
};

static void unknown(struct collected *c, const char *name,
                    struct bn_place at)
{
    const char *advice = bn_conf_foreign(name);
    const char *names[BN_CONF_NKEYS];
    size_t n;
    const struct bn_conf_key *keys = bn_conf_keys(&n);

    for (size_t i = 0; i < n; i++)
        names[i] = keys[i].name;
    const char *near = bn_str_nearest(name, names, n);
    if (advice != NULL)
        bn_problem_add(c->p, at, "unknown key '%s'; %s", name, advice);
    else if (near != NULL)
        bn_problem_add(c->p, at, "unknown key '%s'; did you mean '%s'?",
                       name, near);
    else
        bn_problem_add(c->p, at, "unknown key '%s'", name);
}

static bool is_prefix(const char *name)
{
    size_t n, len = strlen(name);
    const struct bn_conf_key *keys = bn_conf_keys(&n);

    for (size_t i = 0; i < n; i++)
        if (strncmp(keys[i].name, name, len) == 0 && keys[i].name[len] == '.')
            return true;
    return false;
}

static void collect_map(struct collected *c, const struct bn_yaml *map,
                        const char *prefix);

static void collect(struct collected *c, const char *name,
                    const struct bn_yaml *value, struct bn_place at)
{
    size_t n;
    const struct bn_conf_key *k = bn_conf_find(name);

    if (k != NULL) {
        size_t i = (size_t)(k - bn_conf_keys(&n));
        c->value[i] = value;
        c->at[i] = at;
    } else if (!is_prefix(name)) {
        unknown(c, name, at);
    } else if (value->kind != BN_YAML_MAP) {
        bn_problem_add(c->p, value->at, "%s: expected a map", name);
    } else {
        collect_map(c, value, name);
    }
}

static void collect_map(struct collected *c, const struct bn_yaml *map,
                        const char *prefix)
{
    struct bn_str name = {0};

    for (size_t i = 0; i < map->n; i++) {
        bn_str_clear(&name);
        if (prefix != NULL)
            bn_str_addf(&name, "%s.", prefix);
        bn_str_adds(&name, map->key[i]->text);
        collect(c, name.s, map->item[i], map->key[i]->at);
    }
    bn_str_release(&name);
}

/* A string needs no quotes on a command line, so that a glob or a colon is
 * nothing special; it may have them, and a list has brackets. */
static struct bn_yaml_doc *parse_value(const char *name, const char *text,
                                       const char *label,
                                       struct bn_problems *p)
{
    const struct bn_conf_key *k = bn_conf_find(name);
    bool string = k != NULL
                  && (k->type == BN_CONF_STR || k->type == BN_CONF_LIST);

    if (string && strchr("[\"'", text[0]) == NULL)
        return bn_yaml_scalar(text, label);
    return bn_yaml_parse_arg(text, label, p);
}

/* "key=value" of a command line; the value is kept in '*doc'. */
static void collect_set(struct collected *c, const char *set,
                        struct bn_yaml_doc **doc)
{
    const char *eq = strchr(set, '=');
    char *label = bn_asprintf("--set %s", set);

    if (eq == NULL || eq == set || eq[1] == '\0') {
        bn_problem_add(c->p, (struct bn_place){label, 0, 0},
                       "expected key=value");
        free(label);
        return;
    }
    char *name = bn_strndup(set, (size_t)(eq - set));
    *doc = parse_value(name, eq + 1, label, c->p);
    if (*doc != NULL)
        collect(c, name, bn_yaml_root(*doc), bn_yaml_root(*doc)->at);
    free(name);
    free(label);
}

/* Keep a copy of the place; names of files are shared. */
static struct bn_place keep_place(struct bn_run_origin *o,
                                  struct bn_place at)
{
    size_t i = 0;

    if (strncmp(at.file, "--set ", 6) == 0)
        at = (struct bn_place){"--set", 0, 0};
    while (i < o->nfiles && strcmp(o->file[i], at.file) != 0)
        i++;
    if (i == o->nfiles) {
        bn_grow(&o->file, &o->file_cap, i + 1, sizeof(*o->file));
        o->file[i] = bn_strdup(at.file);
        o->nfiles++;
    }
    at.file = o->file[i];
    return at;
}

static void read_all(struct bn_run *run, const struct collected *c)
{
    size_t n;
    const struct bn_conf_key *keys = bn_conf_keys(&n);
    struct bn_run_origin *o = run->origin;

    for (size_t i = 0; i < n; i++) {
        if (c->value[i] == NULL)
            continue;
        o->at[i] = keep_place(o, c->at[i]);
        o->bad[i] = bn_conf_read(&keys[i], c->value[i],
                                 bn_conf_at(run, &keys[i]), c->p) < 0;
    }
}

/* 'from' names a key that has no 'from' itself; a test looks. */
static void fill_defaults(struct bn_run *run)
{
    size_t n;
    const struct bn_conf_key *keys = bn_conf_keys(&n);
    struct bn_run_origin *o = run->origin;

    /* 'task' is the first key and decides some defaults. */
    for (size_t i = 0; i < n; i++) {
        const struct bn_conf_key *k = &keys[i];
        bool orpo = run->task == BN_RUN_TASK_ORPO && k->orpo != NULL;
        bool unset = o->at[i].file == NULL || o->bad[i];

        if (unset && k->dflt != NULL)
            bn_conf_read_default(k, orpo ? k->orpo : k->dflt,
                                 bn_conf_at(run, k));
    }
    for (size_t i = 0; i < n; i++) {
        const struct bn_conf_key *k = &keys[i];
        bool unset = o->at[i].file == NULL || o->bad[i];

        if (!unset || k->from == NULL)
            continue;
        const struct bn_conf_key *from = bn_conf_find(k->from);
        bn_conf_copy(k, bn_conf_at(run, from), bn_conf_at(run, k));
        o->bad[i] = o->bad[i] || o->bad[from - keys];
    }
}

/* The last part of a path, malloc'ed: "b" of "a/b/", NULL of "/". */
static char *last_part(const char *path)
{
    size_t end = strlen(path), begin;

    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--)
        ;
    return begin < end ? bn_strndup(path + begin, end - begin) : NULL;
}

/* Defaults that are functions of other values. */
static void derive(struct bn_run *run)
{
    struct bn_run_eval *e = &run->eval;

    if (run->run_name == NULL && run->output_dir != NULL)
        run->run_name = last_part(run->output_dir);
    if (run->run_name == NULL)
        run->run_name = bn_strdup("run");
    if (run->data.max_prompt_length == 0)
        run->data.max_prompt_length = run->data.max_length / 2;
    if (bn_str_starts(e->metric_for_best_model, "eval_"))
        memmove(e->metric_for_best_model, e->metric_for_best_model + 5,
                strlen(e->metric_for_best_model + 5) + 1);
    if (bn_str_starts(run->asha.asha_metric, "eval_"))
        memmove(run->asha.asha_metric, run->asha.asha_metric + 5,
                strlen(run->asha.asha_metric + 5) + 1);
    if (e->greater_is_better == BN_RUN_AUTO)
        e->greater_is_better = bn_conf_metric_rises(e->metric_for_best_model)
                                   ? BN_RUN_YES
                                   : BN_RUN_NO;
}

struct bn_run *bn_run_make(const struct bn_run_parts *parts,
                           struct bn_problems *p)
{
    if (parts->base != NULL && parts->base->kind != BN_YAML_MAP) {
        bn_problem_add(p, parts->base->at, "expected 'key: value' lines");
        return NULL;
    }
    struct bn_yaml_doc **doc = BN_NEWN(struct bn_yaml_doc *,
                                       parts->nsets + 1);
    struct collected *c = BN_NEW(struct collected);
    struct bn_run *run = BN_NEW(struct bn_run);
    size_t before = p->n + p->dropped, first = p->n;

    c->p = p;
    run->origin = BN_NEW(struct bn_run_origin);
    run->origin->flags = parts->flags;
    if (parts->base != NULL) {
        collect_map(c, parts->base, NULL);
        run->origin->top = keep_place(run->origin, parts->base->at);
    }
    for (size_t i = 0; i < parts->nsettings; i++)
        collect(c, parts->settings[i].key, parts->settings[i].value,
                parts->settings[i].value->at);
    for (size_t i = 0; i < parts->nsets; i++)
        collect_set(c, parts->sets[i], &doc[i]);
    read_all(run, c);
    fill_defaults(run);
    derive(run);
    bn_run_rules(run, p);
    for (size_t i = 0; i < parts->nsets; i++)
        bn_yaml_free(doc[i]);
    free(doc);
    free(c);
    bn_problems_sort(p, first);
    if (p->n + p->dropped == before)
        return run;
    bn_run_free(run);
    return NULL;
}

struct bn_run *bn_run_load(const char *path, const char *const *sets,
                           size_t nsets, unsigned flags,
                           struct bn_problems *p)
{
    struct bn_run_parts parts = {
        .sets = sets, .nsets = nsets, .flags = flags};
    struct bn_yaml_doc *doc = NULL;
    size_t before = p->n + p->dropped, first = p->n;

    if (path != NULL) {
        doc = bn_yaml_load(path, p);
        if (doc == NULL)
            return NULL;
        parts.base = bn_yaml_root(doc);
    }
    struct bn_run *run = bn_run_make(&parts, p);
    bn_yaml_free(doc);
    bn_problems_sort(p, first);
    if (p->n + p->dropped == before)
        return run;
    bn_run_free(run);
    return NULL;
}

void bn_run_free(struct bn_run *run)
{
    size_t n;
    const struct bn_conf_key *keys = bn_conf_keys(&n);

    if (run == NULL)
        return;
    for (size_t i = 0; i < n; i++)
        bn_conf_release(&keys[i], bn_conf_at(run, &keys[i]));
    for (size_t i = 0; i < run->origin->nfiles; i++)
        free(run->origin->file[i]);
    free(run->origin->file);
    free(run->origin);
    free(run);
}

struct bn_place bn_run_place(const struct bn_run *run, const char *key)
{
    size_t n;
    const struct bn_conf_key *k = bn_conf_find(key);

    if (k == NULL)
        return (struct bn_place){0};
    return run->origin->at[k - bn_conf_keys(&n)];
}

bool bn_run_written(const struct bn_run *run, const char *name)
{
    return bn_run_place(run, name).file != NULL;
}
