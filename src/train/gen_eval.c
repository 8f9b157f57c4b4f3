#include "config.h"
#include "train/gen_eval.h"
#include "base/mem.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double z95 = 1.959964;

struct answer {
    size_t at, n; /* its ids */
    bool ended;
};

struct bn_gen_eval {
    int32_t *ids;
    size_t nids, ids_cap;
    struct answer *v;
    size_t n, cap;
    size_t references, matches;
};

struct bn_gen_eval *bn_gen_eval_create(void)
{
    return BN_NEW(struct bn_gen_eval);
}

void bn_gen_eval_destroy(struct bn_gen_eval *e)
{
    if (e == NULL)
        return;
    free(e->ids);
    free(e->v);
    free(e);
}

static void trim(const char **s, size_t *n)
{
    while (*n > 0 && isspace((unsigned char)**s)) {
        (*s)++;
        (*n)--;
    }
    while (*n > 0 && isspace((unsigned char)(*s)[*n - 1]))
        (*n)--;
}

static bool match(const char *text, size_t len, const char *reference)
{
    size_t n = strlen(reference);

    trim(&text, &len);
    trim(&reference, &n);
    return n == len && memcmp(text, reference, n) == 0;
}

void bn_gen_eval_add(struct bn_gen_eval *e, const int32_t *ids, size_t n,
                     bool ended, const char *text, size_t len,
                     const char *reference)
{
    bn_grow(&e->ids, &e->ids_cap, e->nids + n, sizeof(*e->ids));
    for (size_t i = 0; i < n; i++)
        e->ids[e->nids + i] = ids[i];
    bn_grow(&e->v, &e->cap, e->n + 1, sizeof(*e->v));
    e->v[e->n++] = (struct answer){e->nids, n, ended};
    e->nids += n;
    if (reference != NULL) {
        e->references++;
        e->matches += match(text, len, reference);
    }
}

/* --- Intervals ------------------------------------------------------------------ */

struct figure {
    double value, low, high;
};

static double cut(double v)
{
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

void bn_wilson(double k, double n, double *low, double *high)
{
    double p = k / n, zz = z95 * z95, d = 1 + zz / n;
    double mid = (p + zz / (2 * n)) / d;
    double half = z95 / d * sqrt(p * (1 - p) / n + zz / (4 * n * n));

    /* Both are exact at the ends, where rounding would not be. */
    *low = k > 0 ? cut(mid - half) : 0;
    *high = k < n ? cut(mid + half) : 1;
}

static struct figure share(size_t k, size_t n)
{
    struct figure f = {.value = (double)k / (double)n};

    bn_wilson((double)k, (double)n, &f.low, &f.high);
    return f;
}

static struct figure mean(const double *x, size_t n)
{
    double sum = 0, sq = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    double m = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        sq += (x[i] - m) * (x[i] - m);
    double half = n > 1 ? z95 * sqrt(sq / (double)(n - 1) / (double)n) : 0;
    return (struct figure){m, m - half, m + half};
}

/* --- n-grams --------------------------------------------------------------------- */

struct gram {
    const int32_t *p;
    size_t answer;
};

static int by_ids(const struct gram *x, const struct gram *y, int n)
{
    for (int i = 0; i < n; i++)
        if (x->p[i] != y->p[i])
            return x->p[i] < y->p[i] ? -1 : 1;
    return (x->answer > y->answer) - (x->answer < y->answer);
}

static int by_1(const void *a, const void *b)
{
    return by_ids(a, b, 1);
}

static int by_2(const void *a, const void *b)
{
    return by_ids(a, b, 2);
}

static int by_repeat(const void *a, const void *b)
{
    return by_ids(a, b, BN_GEN_REPEAT);
}

/* Those of all answers, in order; '*count' of them. */
static struct gram *grams(const struct bn_gen_eval *e, size_t n,
                          size_t *count)
{
    struct gram *g = BN_NEWN(struct gram, e->nids + 1);

    *count = 0;
    for (size_t a = 0; a < e->n; a++)
        for (size_t i = 0; i + n <= e->v[a].n; i++)
            g[(*count)++] = (struct gram){e->ids + e->v[a].at + i, a};
    if (*count > 0)
        qsort(g, *count, sizeof(*g), n == 1 ? by_1 : n == 2 ? by_2
                                                            : by_repeat);
    return g;
}

static bool same(const struct gram *x, const struct gram *y, size_t n)
{
    return memcmp(x->p, y->p, n * sizeof(*x->p)) == 0;
}

static bool distinct(const struct bn_gen_eval *e, size_t n, struct figure *f)
{
    size_t count, kinds = 0;
    struct gram *g = grams(e, n, &count);
    /* What is gone with an answer: its n-grams, and kinds only it has. */
    size_t *own = BN_NEWN(size_t, e->n);

    for (size_t i = 0, end; i < count; i = end, kinds++) {
        for (end = i + 1; end < count && same(&g[i], &g[end], n); end++)
            ;
        if (g[i].answer == g[end - 1].answer)
            own[g[i].answer]++;
    }
    double total = 0, sq = 0, t = count > 0 ? (double)kinds / (double)count
                                            : 0;
    double *without = BN_NEWN(double, e->n);

    for (size_t a = 0; a < e->n; a++) {
        size_t mine = e->v[a].n >= n ? e->v[a].n - n + 1 : 0;
        size_t left = count - mine;

        without[a] = left > 0 ? (double)(kinds - own[a]) / (double)left : 0;
        total += without[a] / (double)e->n;
    }
    for (size_t a = 0; a < e->n; a++)
        sq += (without[a] - total) * (without[a] - total);
    double half = z95 * sqrt((double)(e->n - 1) / (double)e->n * sq);

    *f = (struct figure){t, cut(t - half), cut(t + half)};
    free(without);
    free(own);
    free(g);
    return count > 0;
}

/* Share of each answer's n-grams that it had before. */
static bool repetition(const struct bn_gen_eval *e, struct figure *f)
{
    const size_t n = BN_GEN_REPEAT;
    size_t count, long_enough = 0;
    struct gram *g = grams(e, n, &count);
    size_t *kinds = BN_NEWN(size_t, e->n);
    double *x = BN_NEWN(double, e->n);

    /* Equal ones of one answer are neighbours. */
    for (size_t i = 0; i < count; i++)
        if (i == 0 || g[i].answer != g[i - 1].answer
            || !same(&g[i], &g[i - 1], n))
            kinds[g[i].answer]++;
    for (size_t a = 0; a < e->n; a++)
        if (e->v[a].n >= n)
            x[long_enough++] = 1 - (double)kinds[a]
                                       / (double)(e->v[a].n - n + 1);
    if (long_enough > 0) {
        *f = mean(x, long_enough);
        f->low = cut(f->low);
        f->high = cut(f->high);
    }
    free(x);
    free(kinds);
    free(g);
    return long_enough > 0;
}

/* --- All of it ---------------------------------------------------------------------- */

static void put(struct bn_metric *v, size_t *n, const char *const keys[3],
                struct figure f)
{
    v[(*n)++] = (struct bn_metric){keys[0], f.value};
    v[(*n)++] = (struct bn_metric){keys[1], f.low};
    v[(*n)++] = (struct bn_metric){keys[2], f.high};
}

#define KEYS(key) \
    (const char *const[3]){key, key "_low", key "_high"}

size_t bn_gen_eval_metrics(const struct bn_gen_eval *e, struct bn_metric *v)
{
    double *length = BN_NEWN(double, e->n + 1);
    size_t ended = 0, n = 0;
    struct figure f;

    for (size_t a = 0; a < e->n; a++) {
        length[a] = (double)e->v[a].n;
        ended += e->v[a].ended;
    }
    if (e->n > 0) {
        v[n++] = (struct bn_metric){"gen_examples", (double)e->n};
        put(v, &n, KEYS("gen_length"), mean(length, e->n));
        put(v, &n, KEYS("gen_eos_rate"), share(ended, e->n));
        if (repetition(e, &f))
            put(v, &n, KEYS("gen_repetition_4"), f);
        if (distinct(e, 1, &f))
            put(v, &n, KEYS("gen_distinct_1"), f);
        if (distinct(e, 2, &f))
            put(v, &n, KEYS("gen_distinct_2"), f);
        if (e->references > 0)
            put(v, &n, KEYS("gen_exact_match"),
                share(e->matches, e->references));
    }
    free(length);
    return n;
}
