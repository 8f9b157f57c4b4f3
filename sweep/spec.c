/* The keys of a sweep file, all but its points. */
#include "config.h"

#include "sweep/sweep.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "sweep/check_impl.h"

struct bn_sweep_keep {
    struct bn_yaml_doc *doc, *base_doc;
    const struct bn_yaml *base, *full;
    void **block;
    size_t n, cap;
};

#define AT(field) offsetof(struct bn_sweep, field)
#define CHOICES(...) (const char *const[]){ __VA_ARGS__, NULL }
#define MANY 1e9

/* clang-format off */
static const struct bn_sweep_key keys[] = {
    { "name", BN_SWEEP_STR, AT(name), .help =
      "of the sweep and its jobs; by default the file's, without .yaml" },
    { "output_dir", BN_SWEEP_STR, AT(dir), .help =
      "folder of the sweep; each point has a folder in it; required" },
    { "base", BN_SWEEP_NODE, .help =
      "what all points share: keys of a run, or the path of a run file" },
    { "grid", BN_SWEEP_NODE, .help =
      "KEY: [values]; a point for each combination" },
    { "zip", BN_SWEEP_NODE, .help =
      "KEY: [values], all of one length; a point for each position" },
    { "list", BN_SWEEP_NODE, .help =
      "points one by one: a list of 'name: NAME' and keys of the run" },
    { "random", BN_SWEEP_NODE, .help =
      "count, seed, and KEY: {min, max, scale: linear|log} or"
      " {choices: [values]}" },
    { "full", BN_SWEEP_NODE, .help =
      "keys of the run that report --best prints, over the winner's; by"
      " default max_steps: -1, so that num_train_epochs counts" },
    { "launch", BN_SWEEP_CHOICE, AT(launch), "jobs",
      .choices = CHOICES("jobs", "array", "sequential", "local"), .help =
      "a job a point, one array, one allocation for all in turn, or here"
      " without Slurm" },
    { "limit", BN_SWEEP_INT, AT(limit), "0", 0, MANY, .help =
      "tasks of the array that may run at once; 0: all" },
    { "template", BN_SWEEP_STR, AT(template), .help =
      "a name (single, multi, array, sequential, cpu, mps) or the path of"
      " an .sbatch.in; by default as launch, nodes and GPUs ask" },
    { "nodes", BN_SWEEP_INT, AT(res.nodes), "1", 1, 100000, .help =
      "nodes of one run" },
    { "gpus_per_node", BN_SWEEP_INT, AT(res.gpus_per_node), "0", 0, 1024,
      .help = "GPUs of each node; 0: the run uses CPUs" },
    { "gpu_memory", BN_SWEEP_STR, AT(gpu_memory), .help =
      "memory of one GPU, such as 80G, to hold the plan against; by default"
      " known from the name of its type" },
    { "tasks_per_node", BN_SWEEP_INT, AT(res.tasks_per_node), "0", 0, 4096,
      .help = "ranks on each node; 0: one a GPU, or 1" },
    { "cpus_per_task", BN_SWEEP_INT, AT(res.cpus_per_task), "1", 1, 4096,
      .help = "CPUs of each rank" },
    { "time", BN_SWEEP_TIME, AT(res.time), .help =
      "time limit of a job: MINUTES, HH:MM:SS or D-HH:MM:SS; required but"
      " in launch local" },
    { "mem", BN_SWEEP_STR, AT(res.mem), .help =
      "memory of each node, such as 200G" },
    { "partition", BN_SWEEP_STR, AT(res.partition), .help = "of Slurm" },
    { "account", BN_SWEEP_STR, AT(res.account), .help = "of Slurm" },
    { "qos", BN_SWEEP_STR, AT(res.qos), .help = "of Slurm" },
    { "constraint", BN_SWEEP_STR, AT(res.constraint), .help =
      "features that a node must have" },
    { "reservation", BN_SWEEP_STR, AT(res.reservation), .help = "of Slurm" },
    { "exclusive", BN_SWEEP_BOOL, AT(res.exclusive), "false", .help =
      "whole nodes, shared with no other job" },
    { "sbatch", BN_SWEEP_LIST, AT(sbatch), .help =
      "further options of sbatch, such as --comment=x" },
    { "environment", BN_SWEEP_ENV, AT(environment), .help =
      "NAME: value; set in the job" },
    { "modules", BN_SWEEP_LIST, AT(modules), .help =
      "environment modules to load" },
    { "container", BN_SWEEP_LIST, AT(container), .help =
      "words to put before burnish-train, such as [apptainer, exec, x.sif]" },
    { "core", BN_SWEEP_STR, AT(core), "0", .help =
      "size of core files (ulimit -c): 0, blocks, or unlimited" },
    { "max_requeues", BN_SWEEP_INT, AT(max_requeues), "20", 0, 10000, .help =
      "how often a job may be requeued after preemption, a time limit or"
      " a node failure" },
    { "tokenize", BN_SWEEP_CHOICE, AT(tokenize), "job",
      .choices = CHOICES("job", "now", "no"), .help =
      "tokenize in a job of its own that the runs wait for, at submission,"
      " or in each run" },
    { "tokenize_cpus", BN_SWEEP_INT, AT(tokenize_cpus), "8", 1, 4096, .help =
      "CPUs of the tokenizing job" },
    { "tokenize_time", BN_SWEEP_TIME, AT(tokenize_time), "02:00:00", .help =
      "time limit of the tokenizing job" },
    { "scheduler", BN_SWEEP_CHOICE, AT(scheduler), "none",
      .choices = CHOICES("none", "asha"), .help =
      "asha: stop points early by successive halving" },
    { "asha_rungs", BN_SWEEP_LIST, AT(asha_rungs), .help =
      "steps at which asha compares points by rank_by, each one of an"
      " evaluation, such as [100, 200, 400]" },
    { "asha_reduction", BN_SWEEP_INT, AT(asha_reduction), "3", 2, 1000,
      .help = "the best 1/N of the points that have reached a rung go on, at"
      " least one" },
    { "rank_by", BN_SWEEP_STR, AT(rank_by), .help =
      "metric that ranks first; by default nll_loss (orpo) or loss (sft)" },
};
/* clang-format on */

const struct bn_sweep_key *bn_sweep_keys(size_t *n)
{
    *n = BN_COUNT(keys);
    return keys;
}

void *bn_sweep_alloc(struct bn_sweep *s, size_t n)
{
    struct bn_sweep_keep *k = s->keep;
    bn_grow(&k->block, &k->cap, k->n + 1, sizeof(*k->block));
    return k->block[k->n++] = bn_calloc(1, n);
}

const struct bn_yaml *bn_sweep_base(const struct bn_sweep *s)
{
    return s->keep->base;
}

const struct bn_yaml *bn_sweep_full(const struct bn_sweep *s)
{
    return s->keep->full;
}

const struct bn_yaml *bn_sweep_node(const struct bn_sweep *s, const char *key)
{
    return bn_yaml_get(bn_yaml_root(s->keep->doc), key);
}

char *bn_sweep_asha_dir(const struct bn_sweep *s)
{
    return bn_asprintf("%s/.burnish/asha", s->dir);
}

/* Where a run lies and what it is called: a whole run file says it, and so may
 * one that is the base of a sweep, which goes before it. */
static bool is_folder_key(const char *key)
{
    return strcmp(key, "output_dir") == 0 || strcmp(key, "run_name") == 0;
}

bool bn_sweep_owns(const char *key)
{
    return is_folder_key(key) || bn_str_starts(key, "asha_");
}

/* --- Values ------------------------------------------------------------ */

static void *field(struct bn_sweep *s, const struct bn_sweep_key *k)
{
    return (char *)s + k->offset;
}

/* Minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S. */
static bool is_time(const char *s)
{
    int colons = 0, dashes = 0;
    if (!isdigit((unsigned char)*s))
        return false;
    for (; *s; s++) {
        if (*s == '-' && ++dashes == 1 && colons == 0
            && isdigit((unsigned char)s[1]))
            continue;
        if (*s == ':' && ++colons <= 2 && isdigit((unsigned char)s[1]))
            continue;
        if (!isdigit((unsigned char)*s))
            return false;
    }
    return true;
}

static void set_string(char **to, const char *text)
{
    free(*to);
    *to = bn_strdup(text);
}

static void list_add(struct bn_run_list *l, char *take)
{
    l->v = bn_realloc(l->v, l->n + 1, sizeof(*l->v));
    l->v[l->n++] = take;
}

static void read_env(struct bn_run_list *l, const struct bn_yaml *y,
                     struct bn_problems *p)
{
    if (y->kind != BN_YAML_MAP) {
        bn_problem_add(p, y->at, "environment needs 'NAME: value' lines");
        return;
    }
    for (size_t i = 0; i < y->n; i++) {
        const char *name = y->key[i]->text;
        size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"
                                  "OPQRSTUVWXYZ0123456789_");
        if (name[len] || isdigit((unsigned char)*name) || *name == '\0')
            bn_problem_add(p, y->key[i]->at,
                           "'%s' is no name of an environment variable",
                           name);
        else if (y->item[i]->kind != BN_YAML_SCALAR)
            bn_problem_add(p, y->item[i]->at, "%s needs one value", name);
        else
            list_add(l, bn_asprintf("%s=%s", name, y->item[i]->text));
    }
}

static void read_list(struct bn_run_list *l, const struct bn_sweep_key *k,
                      const struct bn_yaml *y, struct bn_problems *p)
{
    if (y->kind == BN_YAML_SCALAR) {
        list_add(l, bn_strdup(y->text));
        return;
    }
    for (size_t i = 0; i < y->n; i++) {
        if (y->kind != BN_YAML_LIST || y->item[i]->kind != BN_YAML_SCALAR) {
            bn_problem_add(p, y->at, "%s needs a list of words", k->name);
            return;
        }
        list_add(l, bn_strdup(y->item[i]->text));
    }
}

static void read_choice(unsigned *to, const struct bn_sweep_key *k,
                        const struct bn_yaml *y, struct bn_problems *p)
{
    struct bn_str all = { 0 };
    size_t n = 0;
    for (; k->choices[n]; n++) {
        if (strcmp(k->choices[n], y->text) == 0) {
            *to = (unsigned)n;
            bn_str_release(&all);
            return;
        }
        bn_str_addf(&all, "%s%s", n ? ", " : "", k->choices[n]);
    }
    const char *near = bn_str_nearest(y->text, k->choices, n);
    if (near)
        bn_problem_add(p, y->at, "%s cannot be '%s'; did you mean '%s'?",
                       k->name, y->text, near);
    else
        bn_problem_add(p, y->at, "%s cannot be '%s'; choose one of %s",
                       k->name, y->text, all.s);
    bn_str_release(&all);
}

static void read_int(int64_t *to, const struct bn_sweep_key *k,
                     const struct bn_yaml *y, struct bn_problems *p)
{
    char *end;
    errno = 0;
    long long v = strtoll(y->text, &end, 10);
    if (end == y->text || *end || errno)
        bn_problem_add(p, y->at, "%s needs a whole number, not '%s'",
                       k->name, y->text);
    else if ((double)v < k->min || (double)v > k->max)
        bn_problem_add(p, y->at, "%s must be from %.0f to %.0f, not %lld",
                       k->name, k->min, k->max, v);
    else
        *to = v;
}

static void read_value(struct bn_sweep *s, const struct bn_sweep_key *k,
                       const struct bn_yaml *y, struct bn_problems *p)
{
    if (k->type == BN_SWEEP_NODE || bn_yaml_is_null(y))
        return;
    if (k->type == BN_SWEEP_ENV) {
        read_env(field(s, k), y, p);
        return;
    }
    if (k->type == BN_SWEEP_LIST) {
        read_list(field(s, k), k, y, p);
        return;
    }
    if (y->kind != BN_YAML_SCALAR) {
        bn_problem_add(p, y->at, "%s needs one value", k->name);
        return;
    }
    switch (k->type) {
    case BN_SWEEP_INT:
        read_int(field(s, k), k, y, p);
        break;
    case BN_SWEEP_CHOICE:
        read_choice(field(s, k), k, y, p);
        break;
    case BN_SWEEP_BOOL:
        if (strcmp(y->text, "true") != 0 && strcmp(y->text, "false") != 0)
            bn_problem_add(p, y->at, "%s must be true or false, not '%s'",
                           k->name, y->text);
        *(bool *)field(s, k) = strcmp(y->text, "true") == 0;
        break;
    case BN_SWEEP_TIME:
        if (!is_time(y->text)) {
            bn_problem_add(p, y->at, "%s is '%s', which is no time limit: "
                           "write MINUTES, HH:MM:SS or D-HH:MM:SS", k->name,
                           y->text);
            break;
        }
        /* fall through */
    default:
        if (*y->text == '\0' || y->text[strcspn(y->text, "\n\r\t")])
            bn_problem_add(p, y->at, "%s is empty or has a line break",
                           k->name);
        else
            set_string(field(s, k), y->text);
    }
}

static void unknown_key(const struct bn_yaml *key, struct bn_problems *p)
{
    const char *names[BN_COUNT(keys)];
    for (size_t i = 0; i < BN_COUNT(keys); i++)
        names[i] = keys[i].name;
    const char *near = bn_str_nearest(key->text, names, BN_COUNT(keys));
    if (near)
        bn_problem_add(p, key->at, "no key '%s' in a sweep; did you mean "
                       "'%s'?", key->text, near);
    else if (bn_conf_find(key->text))
        bn_problem_add(p, key->at, "'%s' is a key of a run: it belongs "
                       "under base", key->text);
    else
        bn_problem_add(p, key->at, "no key '%s' in a sweep", key->text);
}

static void read_keys(struct bn_sweep *s, const struct bn_yaml *root,
                      struct bn_problems *p)
{
    for (size_t i = 0; i < BN_COUNT(keys); i++) {
        struct bn_yaml y = { .kind = BN_YAML_SCALAR, .text = keys[i].dflt };
        if (keys[i].dflt)
            read_value(s, &keys[i], &y, p);
    }
    for (size_t i = 0; i < root->n; i++) {
        const struct bn_sweep_key *k = NULL;
        for (size_t j = 0; j < BN_COUNT(keys) && k == NULL; j++)
            if (strcmp(keys[j].name, root->key[i]->text) == 0)
                k = &keys[j];
        if (k)
            read_value(s, k, root->item[i], p);
        else
            unknown_key(root->key[i], p);
    }
}

/* --- The whole ---------------------------------------------------------- */

static void read_base(struct bn_sweep *s, const struct bn_yaml *root,
                      struct bn_problems *p)
{
    const struct bn_yaml *base = bn_yaml_get(root, "base");

    if (base == NULL) {
        bn_problem_add(p, root->at, "base is missing: what all runs share");
        return;
    }
    if (base->kind == BN_YAML_SCALAR) {
        char *dir = bn_path_dir(s->path);
        char *path = *base->text == '/' ? bn_strdup(base->text)
                                        : bn_path_join(dir, base->text);
        s->keep->base_doc = bn_yaml_load(path, p);
        if (s->keep->base_doc)
            s->keep->base = bn_yaml_root(s->keep->base_doc);
        free(dir);
        free(path);
    } else {
        s->keep->base = base;
    }
    base = s->keep->base;
    if (base && base->kind != BN_YAML_MAP) {
        bn_problem_add(p, base->at, "base needs 'key: value' lines");
        s->keep->base = NULL;
        return;
    }
    for (size_t i = 0; base && i < base->n; i++)
        if (bn_sweep_owns(base->key[i]->text)
            && !(s->keep->base_doc && is_folder_key(base->key[i]->text)))
            bn_problem_add(p, base->key[i]->at,
                           "%s is set by the sweep for each point: leave it "
                           "out of base", base->key[i]->text);
}

static bool name_ok(const char *s, size_t max)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
                         "YZ0123456789._,=+-");
    return s[n] == '\0' && n > 0 && n <= max
           && isalnum((unsigned char)*s);
}

static struct bn_place place_of(const struct bn_yaml *root, const char *key)
{
    const struct bn_yaml *y = bn_yaml_get(root, key);
    return y ? y->at : root->at;
}

/* What the rungs have to be is known to the rules of a run. */
static void check_asha(struct bn_sweep *s, const struct bn_yaml *root,
                       struct bn_problems *p)
{
    static const char *const only[] = { "asha_rungs", "asha_reduction" };
    bool on = s->scheduler == BN_SCHEDULER_ASHA;

    if (on && s->asha_rungs.n == 0)
        bn_problem_add(p, place_of(root, "scheduler"),
                       "scheduler asha needs asha_rungs: steps at which the "
                       "points are compared");
    for (size_t i = 0; i < BN_COUNT(only) && !on; i++)
        if (bn_yaml_get(root, only[i]))
            bn_problem_add(p, place_of(root, only[i]),
                           "%s has no effect without scheduler: asha",
                           only[i]);
}

static void check_keys(struct bn_sweep *s, const struct bn_yaml *root,
                       struct bn_problems *p)
{
    bool local = s->launch == BN_LAUNCH_LOCAL;

    if (!name_ok(s->name, BN_POINT_NAME_MAX))
        bn_problem_add(p, place_of(root, "name"),
                       "name '%s': use letters, digits and . _ , = + - (at "
                       "most %d)", s->name, BN_POINT_NAME_MAX);
    if (s->dir == NULL)
        bn_problem_add(p, root->at, "output_dir is missing");
    if (s->res.time == NULL && !local)
        bn_problem_add(p, root->at,
                       "time is missing: the time limit of a job");
    if (local && s->res.nodes > 1)
        bn_problem_add(p, place_of(root, "nodes"),
                       "launch local runs on this one node");
    if (s->limit > 0 && s->launch != BN_LAUNCH_ARRAY)
        bn_problem_add(p, place_of(root, "limit"),
                       "limit has no effect unless launch is array");
    check_asha(s, root, p);
    for (size_t i = 0; i < s->sbatch.n; i++)
        if (!bn_str_starts(s->sbatch.v[i], "--"))
            bn_problem_add(p, place_of(root, "sbatch"),
                           "'%s' is no option of sbatch: write "
                           "--name=value", s->sbatch.v[i]);
    if (s->gpu_memory && !(bn_slurm_bytes(s->gpu_memory) > 0))
        bn_problem_add(p, place_of(root, "gpu_memory"),
                       "gpu_memory '%s' is no size: write 80G or 81920M",
                       s->gpu_memory);
    if (s->res.mem && bn_slurm_bytes(s->res.mem) < 0)
        bn_problem_add(p, place_of(root, "mem"),
                       "mem '%s' is no size: write 200G or 204800M",
                       s->res.mem);
    if (strcmp(s->core, "unlimited") != 0
        && s->core[strspn(s->core, "0123456789")])
        bn_problem_add(p, place_of(root, "core"),
                       "core must be 0, a number of blocks or unlimited");
    if (s->res.tasks_per_node == 0)
        s->res.tasks_per_node =
            s->res.gpus_per_node > 0 ? s->res.gpus_per_node : 1;
}

static void name_from_file(struct bn_sweep *s)
{
    const char *base = bn_path_base(s->path);
    size_t n = strlen(base);
    if (bn_str_ends(base, ".yaml"))
        n -= 5;
    else if (bn_str_ends(base, ".yml"))
        n -= 4;
    s->name = bn_strndup(base, n);
}

static void make_absolute(char **path)
{
    char *cwd;
    if (*path == NULL || **path == '/')
        return;
    cwd = getcwd(NULL, 0);
    char *abs = bn_path_join(cwd ? cwd : "", *path);
    free(cwd);
    free(*path);
    *path = abs;
}

struct bn_sweep *bn_sweep_load(const char *path, struct bn_problems *p)
{
    size_t first = p->n;
    struct bn_sweep *s = BN_NEW(struct bn_sweep);

    s->keep = BN_NEW(struct bn_sweep_keep);
    s->path = bn_strdup(path);
    s->keep->doc = bn_yaml_load(path, p);
    if (s->keep->doc == NULL)
        goto fail;
    const struct bn_yaml *root = bn_yaml_root(s->keep->doc);
    if (root->kind != BN_YAML_MAP) {
        bn_problem_add(p, root->at, "expected 'key: value' lines");
        goto fail;
    }
    read_keys(s, root, p);
    if (s->name == NULL)
        name_from_file(s);
    make_absolute(&s->dir);
    check_keys(s, root, p);
    read_base(s, root, p);
    s->keep->full = bn_yaml_get(root, "full");
    if (s->keep->full && s->keep->full->kind != BN_YAML_MAP) {
        bn_problem_add(p, s->keep->full->at, "full needs 'key: value' lines");
        s->keep->full = NULL;
    }
    bn_sweep_expand(s, root, p);
    if (s->dir && s->keep->base)
        bn_sweep_build(s, p);
    bn_problems_sort(p, first);
    return s;
fail:
    bn_sweep_free(s);
    return NULL;
}

static void release_list(struct bn_run_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
}

void bn_sweep_free(struct bn_sweep *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n; i++) {
        free(s->points[i].name);
        free(s->points[i].settings);
        free(s->points[i].run_yaml);
    }
    free(s->points);
    for (size_t i = 0; i < BN_COUNT(keys); i++) {
        if (keys[i].type == BN_SWEEP_STR || keys[i].type == BN_SWEEP_TIME)
            free(*(char **)field(s, &keys[i]));
        else if (keys[i].type == BN_SWEEP_LIST
                 || keys[i].type == BN_SWEEP_ENV)
            release_list(field(s, &keys[i]));
    }
    for (size_t i = 0; i < s->keep->n; i++)
        free(s->keep->block[i]);
    free(s->keep->block);
    bn_yaml_free(s->keep->doc);
    bn_yaml_free(s->keep->base_doc);
    free(s->keep);
    free(s->path);
    free(s);
}

char *bn_point_dir(const struct bn_sweep *s, const struct bn_point *p)
{
    return bn_path_join(s->dir, p->name);
}

char *bn_point_file(const struct bn_sweep *s, const struct bn_point *p,
                    const char *file)
{
    return bn_asprintf("%s/%s/%s", s->dir, p->name, file);
}

struct bn_point *bn_sweep_find(const struct bn_sweep *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->points[i].name, name) == 0)
            return &s->points[i];
    return NULL;
}
