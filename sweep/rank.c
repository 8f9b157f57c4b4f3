#include "config.h"

#include "sweep/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"

const char *bn_rank_reason(const struct bn_ranking *r, enum bn_column c)
{
    switch (c) {
    case BN_COL_NLL:
        return "ranks: likelihood of the chosen answers, on one scale for "
               "every beta";
    case BN_COL_ODDS:
        return "ranks: how far chosen answers are preferred, before beta "
               "multiplies it";
    case BN_COL_ACCURACY:
        return "ranks: share of pairs with the chosen answer ahead, which "
               "beta cannot change";
    case BN_COL_MARGIN:
        return "shown only: it is multiplied by beta, so a larger beta "
               "alone makes it larger";
    case BN_COL_LOSS:
        return r->orpo ? "shown only: it holds beta times the preference "
                         "term, so it cannot rank across betas"
                       : "ranks: likelihood of the answers";
    default:
        return "shown only: says how a run went, not how good it is";
    }
}

const char *bn_rank_sense(const struct bn_ranking *r, enum bn_column c)
{
    if (!r->ranks[c])
        return "not ranked";
    return r->low[c] ? "low is good" : "high is good";
}

/* --- Reading ------------------------------------------------------------------ */

struct share {
    const struct bn_sweep *s;
    const struct bn_records *records;
    const struct bn_queue *q;
    struct bn_ranked *v;
    int threads;
};

static void read_share(void *arg, int index)
{
    struct share *a = arg;
    for (size_t i = (size_t)index; i < a->s->n; i += (size_t)a->threads) {
        struct bn_look look;
        char *path = bn_point_file(a->s, &a->s->points[i], "metrics.jsonl");
        bn_look(a->s, i, a->records, a->q, &look);
        a->v[i].point = i;
        a->v[i].state = look.state;
        a->v[i].asha = look.asha;
        bn_last_read(path, &a->v[i].last);
        free(path);
    }
}

static int read_all(const struct bn_sweep *s, struct bn_ranking *r,
                    struct bn_str *notes, struct bn_err *err)
{
    struct bn_records records = { 0 };
    struct bn_queue q = { 0 };
    struct bn_err why;
    bool asked = false;

    if (bn_records_read(&records, s, err) < 0)
        return -1;
    if (s->launch != BN_LAUNCH_LOCAL) {
        asked = bn_queue_ask(&q, &why) == 0;
        if (!asked)
            bn_str_addf(notes, "the queue is not known: %s\n", why.text);
    }
    r->n = s->n;
    r->v = BN_NEWN(struct bn_ranked, s->n + 1);
    struct share a = { s, &records, asked ? &q : NULL, r->v, bn_cpu_count() };
    bn_parallel(a.threads, read_share, &a);
    bn_records_release(&records);
    bn_queue_release(&q);
    return 0;
}

/* --- Groups --------------------------------------------------------------------- */

static void make_groups(const struct bn_sweep *s, struct bn_ranking *r)
{
    size_t *first = BN_NEWN(size_t, s->n + 1);
    for (size_t i = 0; i < r->n; i++) {
        const struct bn_hash *g = &s->points[i].group;
        int k = 0;
        while (k < r->ngroups && (s->points[first[k]].group.hi != g->hi
                                  || s->points[first[k]].group.lo != g->lo))
            k++;
        if (k == r->ngroups)
            first[r->ngroups++] = i;
        r->v[i].group = k;
    }
    free(first);
}

static int choose_columns(const struct bn_sweep *s, struct bn_ranking *r,
                          struct bn_err *err)
{
    r->low[BN_COL_LOSS] = r->low[BN_COL_NLL] = r->low[BN_COL_GRAD] = true;
    for (size_t i = 0; i < r->n && !r->orpo; i++)
        r->orpo = r->v[i].last.cell[BN_COL_ODDS] != BN_CELL_ABSENT
                  || r->v[i].last.cell[BN_COL_NLL] != BN_CELL_ABSENT;
    if (s->rank_by) {
        for (int c = 0; c < BN_NCOL; c++)
            r->ranks[c] |= strcmp(bn_column_key(c), s->rank_by) == 0;
        for (int c = 0; c < BN_NCOL; c++)
            if (r->ranks[c])
                return 0;
        return bn_fail(err, BN_ERR_USAGE, "rank_by: there is no metric '%s'",
                       s->rank_by);
    }
    if (r->orpo)
        r->ranks[BN_COL_NLL] = r->ranks[BN_COL_ODDS] =
            r->ranks[BN_COL_ACCURACY] = true;
    else
        r->ranks[BN_COL_LOSS] = true;
    return 0;
}

/* --- Places ----------------------------------------------------------------------- */

/* Whether a point can be ranked; else its remark says why not. */
static bool judge(const struct bn_ranking *r, struct bn_ranked *x)
{
    const struct bn_last *l = &x->last;

    x->remark[0] = '\0';
    if (l->step < 0) {
        snprintf(x->remark, sizeof(x->remark), "no evaluation%s",
                 l->reached < 0 ? " and no metrics" : "");
        return false;
    }
    for (int c = 0; c < BN_NCOL; c++) {
        if (!r->ranks[c] || l->cell[c] == BN_CELL_FINITE)
            continue;
        snprintf(x->remark, sizeof(x->remark), "%s %s at step %ld",
                 bn_column_key(c),
                 l->cell[c] == BN_CELL_NONFINITE ? "is not finite"
                                                 : "is missing",
                 l->step);
        return false;
    }
    if (l->half)
        snprintf(x->remark, sizeof(x->remark),
                 "its last metrics line is half written and left out");
    else if (l->broken > 0)
        snprintf(x->remark, sizeof(x->remark),
                 "%zu broken metrics lines left out", l->broken);
    return true;
}

/* For sorting: the column in hand. One thread ranks. */
static const struct bn_ranking *sort_r;
static int sort_c;

static int by_column(const void *a, const void *b)
{
    const struct bn_ranked *x = *(struct bn_ranked *const *)a;
    const struct bn_ranked *y = *(struct bn_ranked *const *)b;
    double d = x->last.value[sort_c] - y->last.value[sort_c];
    if (!sort_r->low[sort_c])
        d = -d;
    return (d > 0) - (d < 0);
}

static int by_mean(const void *a, const void *b)
{
    const struct bn_ranked *x = *(struct bn_ranked *const *)a;
    const struct bn_ranked *y = *(struct bn_ranked *const *)b;
    if (x->mean != y->mean)
        return x->mean < y->mean ? -1 : 1;
    int c = by_column(a, b);
    return c ? c : (x->point > y->point) - (x->point < y->point);
}

/* Rank v[n], all of one group and one step, from place 'base' + 1 on. */
static void rank_equal(struct bn_ranking *r, struct bn_ranked **v, size_t n,
                       int base)
{
    int columns = 0, tie = -1;

    sort_r = r;
    for (int c = 0; c < BN_NCOL; c++) {
        if (!r->ranks[c])
            continue;
        columns++;
        if (tie < 0)
            tie = c;
        sort_c = c;
        qsort(v, n, sizeof(*v), by_column);
        for (size_t i = 0, end; i < n; i = end) {
            end = i + 1;
            while (end < n && by_column(&v[i], &v[end]) == 0)
                end++;
            for (size_t j = i; j < end; j++) /* equals share their mean */
                v[j]->mean += ((double)i + (double)end + 1) / 2;
        }
    }
    for (size_t i = 0; i < n; i++)
        v[i]->mean /= columns;
    sort_c = tie;
    qsort(v, n, sizeof(*v), by_mean);
    for (size_t i = 0; i < n; i++)
        v[i]->place = base + (int)i + 1;
}

static bool is_stopped(const struct bn_ranked *x)
{
    return x->state == BN_STATE_STOPPED;
}

/* Whether the numbers of two points mean the same. */
static bool compares(const struct bn_ranked *x, const struct bn_ranked *y)
{
    return x->group == y->group && x->last.step == y->last.step
           && is_stopped(x) == is_stopped(y);
}

/* What happened to it says more than how its file ends. */
static void remark_stopped(struct bn_ranked *x)
{
    struct bn_str b = { 0 };

    if (!is_stopped(x))
        return;
    bn_asha_words(&x->asha, &b);
    snprintf(x->remark, sizeof(x->remark), "%.*s",
             (int)sizeof(x->remark) - 1, b.s);
    bn_str_release(&b);
}

static int by_step(const void *a, const void *b)
{
    const struct bn_ranked *x = *(struct bn_ranked *const *)a;
    const struct bn_ranked *y = *(struct bn_ranked *const *)b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (is_stopped(x) != is_stopped(y))
        return is_stopped(x) ? 1 : -1;
    if (x->last.step != y->last.step)
        return x->last.step > y->last.step ? -1 : 1;
    return (x->point > y->point) - (x->point < y->point);
}

static int by_place(const void *a, const void *b)
{
    const struct bn_ranked *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if ((x->place == 0) != (y->place == 0))
        return x->place == 0 ? 1 : -1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (x->point > y->point) - (x->point < y->point);
}

int bn_rank(const struct bn_sweep *s, struct bn_ranking *r,
            struct bn_str *notes, struct bn_err *err)
{
    memset(r, 0, sizeof(*r));
    if (read_all(s, r, notes, err) < 0)
        return -1;
    if (choose_columns(s, r, err) < 0) {
        bn_ranking_release(r);
        return -1;
    }
    make_groups(s, r);
    struct bn_ranked **v = BN_NEWN(struct bn_ranked *, r->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (!judge(r, &r->v[i]))
            continue;
        remark_stopped(&r->v[i]);
        v[n++] = &r->v[i];
    }
    qsort(v, n, sizeof(*v), by_step);
    int base = 0;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && compares(v[i], v[end]);)
            end++;
        if (i == 0 || v[i - 1]->group != v[i]->group)
            base = 0;
        if (base > 0 && !is_stopped(v[i]))
            for (size_t j = i; j < end; j++)
                snprintf(v[j]->remark, sizeof(v[j]->remark),
                         "last evaluation at step %ld: behind those that "
                         "went further", v[j]->last.step);
        rank_equal(r, v + i, end - i, base);
        base += (int)(end - i);
    }
    free(v);
    qsort(r->v, r->n, sizeof(*r->v), by_place);
    return 0;
}

bool bn_ranking_has_gen(const struct bn_ranking *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].last.has_gen)
            return true;
    return false;
}

void bn_ranking_release(struct bn_ranking *r)
{
    free(r->v);
    memset(r, 0, sizeof(*r));
}

/* --- Words -------------------------------------------------------------------------- */

void bn_ranked_words(const struct bn_ranked *x, struct bn_str *out)
{
    const char *state = bn_state_name(x->state);

    if (x->remark[0] == '\0')
        bn_str_adds(out, state);
    else if (bn_str_starts(x->remark, state))
        bn_str_adds(out, x->remark);
    else
        bn_str_addf(out, "%s: %s", state, x->remark);
}

static void add_value(struct bn_str *b, const struct bn_yaml *y)
{
    if (y->kind == BN_YAML_SCALAR) {
        bn_str_adds(b, y->text);
        return;
    }
    bn_str_adds(b, y->kind == BN_YAML_LIST ? "[" : "{");
    for (size_t i = 0; i < y->n; i++) {
        bn_str_adds(b, i ? ", " : "");
        if (y->kind == BN_YAML_MAP)
            bn_str_addf(b, "%s: ", y->key[i]->text);
        add_value(b, y->item[i]);
    }
    bn_str_adds(b, y->kind == BN_YAML_LIST ? "]" : "}");
}

char *bn_point_settings(const struct bn_point *p)
{
    struct bn_str b = { 0 };
    for (size_t i = 0; i < p->n; i++) {
        bn_str_addf(&b, "%s%s=", i ? ", " : "", p->settings[i].key);
        add_value(&b, p->settings[i].value);
    }
    return bn_str_take(&b);
}

/* The value of a key in a run.yaml text, malloc'ed; NULL: not there. */
static char *yaml_value(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = text; p && *p;) {
        if (strncmp(p, key, n) == 0 && p[n] == ':') {
            p += n + 1 + strspn(p + n + 1, " ");
            return bn_strndup(p, strcspn(p, "\n"));
        }
        p = strchr(p, '\n');
        p = p ? p + 1 : NULL;
    }
    return NULL;
}

/* The last parts of the paths of a list as YAML writes it. */
static void add_files(struct bn_str *b, const char *list)
{
    for (const char *p = list + strspn(list, "[ "); *p && *p != ']';) {
        size_t n = strcspn(p, ",]"), base = n;
        while (base > 0 && p[base - 1] != '/')
            base--;
        bn_str_addf(b, " %.*s", (int)(n - base), p + base);
        p += n + strspn(p + n, ", ");
    }
}

char *bn_group_title(const struct bn_sweep *s, const struct bn_ranking *r,
                     int group)
{
    static const char *const keys[] = { "max_length", "max_prompt_length",
                                        "eval_split" };
    const struct bn_point *p = NULL;
    struct bn_str b = { 0 };

    for (size_t i = 0; i < r->n && p == NULL; i++)
        if (r->v[i].group == group)
            p = &s->points[r->v[i].point];
    char *files = p ? yaml_value(p->run_yaml, "train_file") : NULL;
    bn_str_adds(&b, "data");
    add_files(&b, files ? files : "");
    free(files);
    for (size_t i = 0; p && i < BN_COUNT(keys); i++) {
        char *v = yaml_value(p->run_yaml, keys[i]);
        const char *dflt = bn_conf_find(keys[i])->dflt;
        if (v || dflt)
            bn_str_addf(&b, ", %s %s", keys[i], v ? v : dflt);
        free(v);
    }
    return bn_str_take(&b);
}
