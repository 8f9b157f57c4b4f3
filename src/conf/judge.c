/* Which rules between keys a run breaks. */
#include "config.h"
#include "conf/key.h"

#include "base/mem.h"

bool bn_conf_rule(size_t i, const char **name, const char **text)
{
    if (i >= bn_nrules)
        return false;
    *name = bn_rules[i].name;
    *text = bn_rules[i].text;
    return true;
}

/* Keys that only the other task looks at. */
static void check_tasks(const struct bn_run *run, struct bn_problems *p)
{
    unsigned other = run->task == BN_RUN_TASK_SFT ? BN_CONF_ORPO
                                                  : BN_CONF_SFT;
    size_t n;
    const struct bn_conf_key *keys = bn_conf_keys(&n);

    for (size_t i = 0; i < n; i++)
        if (keys[i].flags & other && run->origin->at[i].file != NULL)
            bn_problem_add(p, run->origin->at[i],
                           "%s is for task %s only, and the task is %s",
                           keys[i].name,
                           other == BN_CONF_ORPO ? "orpo" : "sft",
                           other == BN_CONF_ORPO ? "sft" : "orpo");
}

/* True if every value that the rule looks at could be read; '*at' is where
 * the first of them was written, else where the run's keys begin. */
static bool readable(const struct bn_run *run, const struct bn_rule *r,
                     struct bn_place *at)
{
    size_t n;
    const struct bn_conf_key *keys = bn_conf_keys(&n);
    const struct bn_run_origin *o = run->origin;

    *at = o->top;
    for (size_t i = BN_COUNT(r->key); i > 0; i--) {
        if (r->key[i - 1] == NULL)
            continue;
        size_t k = (size_t)(bn_conf_find(r->key[i - 1]) - keys);
        if (o->bad[k])
            return false;
        if (o->at[k].file != NULL)
            *at = o->at[k];
    }
    return true;
}

void bn_run_rules(const struct bn_run *run, struct bn_problems *p)
{
    size_t n;
    const struct bn_conf_key *task = bn_conf_find("task");
    struct bn_str why = {0};

    if (bn_run_written(run, "task")
        && !run->origin->bad[task - bn_conf_keys(&n)])
        check_tasks(run, p);
    for (size_t i = 0; i < bn_nrules; i++) {
        struct bn_place at;

        bn_str_clear(&why);
        if (readable(run, &bn_rules[i], &at) && bn_rules[i].broken(run, &why))
            bn_problem_add(p, at, "%s", why.s);
    }
    bn_str_release(&why);
}
