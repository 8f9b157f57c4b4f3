/* From named points to whole runs, on all CPUs. */
#include "config.h"

#include "sweep/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"

struct build {
    struct bn_sweep *s;
    int threads;
    const char **data_keys, **memory_keys;
    struct bn_problems *problems; /* [n], one list a point */
};

/* A hash of the values of some keys. */
static struct bn_hash hash_of(const struct bn_run *run,
                              const char *const *key, size_t n)
{
    struct bn_hasher *h = bn_hasher_begin();
    for (size_t i = 0; i < n; i++) {
        char *v = bn_run_value(run, key[i]);
        bn_hasher_adds(h, v ? v : "");
        free(v);
    }
    return bn_hasher_end(h);
}

/* Points may be compared if what they are measured on is the same. */
static const char *const group_keys[] = {
    "task", "train_file", "eval_file", "eval_split", "data_format",
    "chat_template", "max_length", "max_prompt_length", "truncation_mode",
    "tokenizer_name_or_path", "completion_only_loss", "assistant_only_loss",
    "last_turn_only", "add_bos", "add_eos", "data_seed", "nll_span",
};
static const char *const input_keys[] = {
    "model_name_or_path", "tokenizer_name_or_path", "config_name", "init",
};
/* Whole groups of the key table, so that a new key counts until it is known
 * not to; and keys of them that change no byte. */
static const char *const data_groups[] = { "data", NULL };
static const char *const memory_groups[] = { "data", "model", "mesh", "lora",
                                             NULL };
static const char *const data_more[] = {
    "task", "tokenizer_name_or_path", NULL,
};
static const char *const memory_more[] = {
    "task", "per_device_train_batch_size", "gradient_accumulation_steps",
    "per_device_eval_batch_size", "eval_strategy", NULL,
};
static const char *const no_matter[] = {
    "shuffle", "dataset_num_proc", "ddp_timeout", "strict_device",
    "init_std", "lora_alpha", "lora_dropout", "use_rslora", "data_seed",
    NULL,
};

static bool among(const char *const *v, const char *word)
{
    for (size_t i = 0; v[i]; i++)
        if (strcmp(v[i], word) == 0)
            return true;
    return false;
}

static bool counts(const struct bn_conf_key *k, const char *const *groups,
                   const char *const *more)
{
    return among(more, k->name)
           || (among(groups, k->group) && !among(no_matter, k->name));
}

/* The keys of some groups and some more, and those that their defaults are
 * taken from; malloc'ed and NULL-terminated. */
static const char **keys_of(const char *const *groups,
                            const char *const *more)
{
    size_t all, n = 0;
    const struct bn_conf_key *k = bn_conf_keys(&all);
    const char **v = BN_NEWN(const char *, 2 * all + 1);

    for (size_t i = 0; i < all; i++) {
        if (!counts(&k[i], groups, more))
            continue;
        v[n++] = k[i].name;
        if (k[i].from)
            v[n++] = k[i].from;
    }
    return v;
}

/* Whether a setting touches one of 'keys': "columns" holds "columns.text". */
static bool touches(const char *const *keys, const char *setting)
{
    size_t n = strlen(setting);
    for (size_t i = 0; keys[i]; i++)
        if (strncmp(keys[i], setting, n) == 0
            && (keys[i][n] == '\0' || keys[i][n] == '.'))
            return true;
    return false;
}

static void hash_value(struct bn_hasher *h, const struct bn_yaml *y)
{
    static const char *const kind[] = { "scalar", "list", "map" };

    bn_hasher_adds(h, kind[y->kind]);
    if (y->kind == BN_YAML_SCALAR)
        bn_hasher_adds(h, y->text);
    for (size_t i = 0; y->kind != BN_YAML_SCALAR && i < y->n; i++) {
        if (y->kind == BN_YAML_MAP)
            bn_hasher_adds(h, y->key[i]->text);
        hash_value(h, y->item[i]);
    }
    bn_hasher_adds(h, "end");
}

/* All points have one base, so those that set the same of 'keys' have all
 * of them alike: far cheaper than to write out every value. */
static struct bn_hash hash_set(const struct bn_point *pt, size_t n,
                               const char *const *keys)
{
    struct bn_hasher *h = bn_hasher_begin();
    for (size_t i = 0; i < n; i++) {
        const char *key = pt->settings[i].key;
        if (!touches(keys, key))
            continue;
        bn_hasher_adds(h, key);
        hash_value(h, pt->settings[i].value);
    }
    return bn_hasher_end(h);
}

static int64_t checkpoints_of(const struct bn_run *run)
{
    if (run->save.save_strategy == BN_RUN_STRATEGY_NO)
        return 0;
    if (run->save.save_total_limit > 0)
        return run->save.save_total_limit;
    if (run->save.save_strategy != BN_RUN_STRATEGY_STEPS
        || run->optim.max_steps <= 0 || run->save.save_steps <= 0)
        return -1;
    return (run->optim.max_steps + run->save.save_steps - 1)
           / run->save.save_steps;
}

static struct bn_yaml word(struct bn_place at, const char *text)
{
    return (struct bn_yaml){ .kind = BN_YAML_SCALAR, .at = at, .text = text,
                             .quoted = true };
}

/* The run with the first 'n' settings. */
static struct bn_run *make(const struct bn_sweep *s, const struct bn_point *pt,
                           size_t n, struct bn_problems *p)
{
    struct bn_run_parts parts = { .base = bn_sweep_base(s),
                                  .settings = pt->settings, .nsettings = n };
    return bn_run_make(&parts, p);
}

/* What every point's run has of the sweep; settings point into it. */
struct own {
    char *dir;
    struct bn_yaml out, name;
};

/* Set it behind the point's own settings; returns how many there are. */
static size_t set_own(const struct bn_sweep *s, const struct bn_point *pt,
                      struct own *o)
{
    o->dir = bn_point_dir(s, pt);
    o->out = word(pt->at, o->dir);
    o->name = word(pt->at, pt->name);
    pt->settings[pt->n] = (struct bn_setting){ "output_dir", &o->out };
    pt->settings[pt->n + 1] = (struct bn_setting){ "run_name", &o->name };
    return pt->n + 2;
}

struct bn_run *bn_point_run(const struct bn_sweep *s,
                            const struct bn_point *pt, struct bn_problems *p)
{
    struct own o;
    size_t n = set_own(s, pt, &o);
    struct bn_run *run = make(s, pt, n, p);

    free(o.dir);
    return run;
}

static struct bn_hash group_of(const struct bn_run *run)
{
    return hash_of(run, group_keys, BN_COUNT(group_keys));
}

/* The same with what asha needs: points are compared within their group, so
 * that one has to be known first. */
static struct bn_run *make_asha(const struct bn_sweep *s,
                                const struct bn_point *pt,
                                struct bn_problems *p)
{
    struct bn_problems none = { 0 };
    struct bn_setting *set = pt->settings;
    struct bn_run *plain = bn_point_run(s, pt, &none);
    struct bn_hash group = plain ? group_of(plain) : (struct bn_hash){ 0 };
    char hex[BN_HASH_HEX], number[24], *root = bn_sweep_asha_dir(s), *dir;
    struct own o;
    size_t n = set_own(s, pt, &o);

    bn_run_free(plain);
    bn_problems_release(&none);
    dir = bn_path_join(root, bn_hash_hex(group, hex));
    snprintf(number, sizeof(number), "%lld", (long long)s->asha_reduction);
    struct bn_yaml where = word(pt->at, dir), by = word(pt->at, number);
    struct bn_yaml metric = word(pt->at, s->rank_by);
    const struct bn_yaml *rungs = bn_sweep_node(s, "asha_rungs");
    by.quoted = false;
    set[n++] = (struct bn_setting){ "asha_dir", &where };
    set[n++] = (struct bn_setting){ "asha_rungs", rungs };
    set[n++] = (struct bn_setting){ "asha_reduction", &by };
    if (s->rank_by)
        set[n++] = (struct bn_setting){ "asha_metric", &metric };
    struct bn_run *run = make(s, pt, n, p);
    free(root);
    free(dir);
    free(o.dir);
    return run;
}

static void build_point(struct build *b, size_t i)
{
    const struct bn_sweep *s = b->s;
    struct bn_point *pt = &b->s->points[i];
    bool asha = s->scheduler == BN_SCHEDULER_ASHA && s->asha_rungs.n > 0;
    struct bn_run *run = asha ? make_asha(s, pt, &b->problems[i])
                              : bn_point_run(s, pt, &b->problems[i]);

    if (run == NULL)
        return;
    pt->run_yaml = bn_run_yaml(run);
    pt->hash = bn_hash_bytes(pt->run_yaml, strlen(pt->run_yaml));
    pt->group = group_of(run);
    pt->inputs = hash_of(run, input_keys, BN_COUNT(input_keys));
    pt->data = hash_set(pt, pt->n, b->data_keys);
    pt->memory = hash_set(pt, pt->n, b->memory_keys);
    pt->checkpoints = checkpoints_of(run);
    pt->max_steps = run->optim.max_steps;
    bn_run_free(run);
}

static void build_share(void *arg, int index)
{
    struct build *b = arg;
    for (size_t i = (size_t)index; i < b->s->n; i += (size_t)b->threads)
        build_point(b, i);
}

/* --- One list of problems out of many ------------------------------------ */

struct item {
    const struct bn_problem *what;
    size_t point;
};

static int by_problem(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    const struct bn_place *p = &x->what->at, *q = &y->what->at;
    int c = strcmp(p->file ? p->file : "", q->file ? q->file : "");
    if (c == 0)
        c = (p->line > q->line) - (p->line < q->line);
    if (c == 0)
        c = (p->column > q->column) - (p->column < q->column);
    if (c == 0)
        c = strcmp(x->what->text, y->what->text);
    return c ? c : (x->point > y->point) - (x->point < y->point);
}

static bool same_problem(const struct item *a, const struct item *b)
{
    struct item x = *a, y = *b;
    x.point = y.point = 0;
    return by_problem(&x, &y) == 0;
}

/* Say each problem once, with the points that have it unless all do. */
static void merge(struct build *b, struct bn_problems *p)
{
    struct item *v = NULL;
    size_t n = 0, cap = 0;

    for (size_t i = 0; i < b->s->n; i++) {
        for (size_t j = 0; j < b->problems[i].n; j++) {
            bn_grow(&v, &cap, n + 1, sizeof(*v));
            v[n].what = &b->problems[i].v[j];
            v[n++].point = i;
        }
    }
    if (n > 0)
        qsort(v, n, sizeof(*v), by_problem);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_problem(&v[i], &v[end]);)
            end++;
        const char *name = b->s->points[v[i].point].name;
        if (end - i == b->s->n && b->s->n > 1)
            bn_problem_add(p, v[i].what->at, "%s", v[i].what->text);
        else if (end - i == 1)
            bn_problem_add(p, v[i].what->at, "%s (point %s)",
                           v[i].what->text, name);
        else
            bn_problem_add(p, v[i].what->at, "%s (point %s and %zu more)",
                           v[i].what->text, name, end - i - 1);
    }
    free(v);
}

void bn_sweep_build(struct bn_sweep *s, struct bn_problems *p)
{
    struct build b = { .s = s, .threads = bn_cpu_count() };

    if ((size_t)b.threads > s->n)
        b.threads = s->n > 0 ? (int)s->n : 1;
    b.data_keys = keys_of(data_groups, data_more);
    b.memory_keys = keys_of(memory_groups, memory_more);
    b.problems = BN_NEWN(struct bn_problems, s->n + 1);
    bn_parallel(b.threads, build_share, &b);
    merge(&b, p);
    for (size_t i = 0; i < s->n; i++)
        bn_problems_release(&b.problems[i]);
    free(b.problems);
    free(b.data_keys);
    free(b.memory_keys);
}
