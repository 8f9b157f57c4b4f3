/* From grid, zip, list and random to named points. */
#include "config.h"

#include "sweep/sweep.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"

enum { POINTS_MAX = 100000 };

static bool check_key(const struct bn_yaml *key, struct bn_problems *p)
{
    if (!bn_sweep_owns(key->text))
        return true;
    bn_problem_add(p, key->at, "%s is set by the sweep for each point",
                   key->text);
    return false;
}

static struct bn_point *add_point(struct bn_sweep *s, size_t *cap,
                                  struct bn_place at, size_t settings)
{
    bn_grow(&s->points, cap, s->n + 1, sizeof(*s->points));
    struct bn_point *pt = &s->points[s->n++];
    memset(pt, 0, sizeof(*pt));
    pt->at = at;
    /* more for what build.c sets: output_dir, run_name and four of asha */
    pt->settings = BN_NEWN(struct bn_setting, settings + 6);
    return pt;
}

/* --- Names --------------------------------------------------------------- */

/* The part of a name that says one setting: "beta=0.1". */
static void name_setting(struct bn_str *name, const struct bn_setting *set)
{
    const char *dot = strrchr(set->key, '.');

    if (name->len)
        bn_str_addc(name, ',');
    bn_str_addf(name, "%s=", dot ? dot + 1 : set->key);
    if (set->value->kind != BN_YAML_SCALAR) {
        bn_str_addf(name, "line%d", set->value->at.line);
        return;
    }
    for (const char *c = set->value->text; *c; c++)
        bn_str_addc(name, isalnum((unsigned char)*c) || strchr(".+-_", *c)
                              ? *c : '-');
}

/* Its settings if they fit, else the number of the point. */
static void auto_name(struct bn_point *pt, const char *kind, size_t number)
{
    struct bn_str name = { 0 };

    for (size_t i = 0; i < pt->n; i++)
        name_setting(&name, &pt->settings[i]);
    if (name.len == 0 || name.len > BN_POINT_NAME_MAX) {
        bn_str_clear(&name);
        bn_str_addf(&name, "%s-%04zu", kind, number);
    }
    pt->name = bn_str_take(&name);
}

static bool name_ok(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
                         "YZ0123456789._,=+-");
    return s[n] == '\0' && n > 0 && n <= BN_POINT_NAME_MAX
           && isalnum((unsigned char)*s) && strcmp(s, "logs") != 0;
}

static int by_name(const void *a, const void *b)
{
    const struct bn_point *x = *(struct bn_point *const *)a;
    const struct bn_point *y = *(struct bn_point *const *)b;
    int c = strcmp(x->name, y->name);
    return c ? c : (x > y) - (x < y);
}

static void check_unique(struct bn_sweep *s, struct bn_problems *p)
{
    struct bn_point **v = BN_NEWN(struct bn_point *, s->n + 1);
    for (size_t i = 0; i < s->n; i++)
        v[i] = &s->points[i];
    qsort(v, s->n, sizeof(*v), by_name);
    for (size_t i = 1; i < s->n; i++)
        if (strcmp(v[i]->name, v[i - 1]->name) == 0)
            bn_problem_add(p, v[i]->at,
                           "there are two points '%s' (the other is of line "
                           "%d): leave one out, or name them in list",
                           v[i]->name, v[i - 1]->at.line);
    free(v);
}

/* --- grid and zip --------------------------------------------------------- */

/* A map of KEY: [values]. */
static bool check_axes(const struct bn_yaml *y, const char *what,
                       struct bn_problems *p)
{
    bool ok = true;
    if (y->kind != BN_YAML_MAP || y->n == 0) {
        bn_problem_add(p, y->at, "%s needs 'KEY: [values]' lines", what);
        return false;
    }
    for (size_t i = 0; i < y->n; i++) {
        ok &= check_key(y->key[i], p);
        if (y->item[i]->kind != BN_YAML_LIST || y->item[i]->n == 0) {
            bn_problem_add(p, y->item[i]->at, "%s in %s needs a list of "
                           "values", y->key[i]->text, what);
            ok = false;
        }
    }
    return ok;
}

static void expand_grid(struct bn_sweep *s, size_t *cap,
                        const struct bn_yaml *y, struct bn_problems *p)
{
    if (!check_axes(y, "grid", p))
        return;
    double total = 1;
    for (size_t i = 0; i < y->n; i++)
        total *= (double)y->item[i]->n;
    if ((double)s->n + total > POINTS_MAX) {
        bn_problem_add(p, y->at, "the grid has %.0f points; at most %d are "
                       "possible", total, POINTS_MAX);
        return;
    }
    for (size_t k = 0; k < (size_t)total; k++) {
        struct bn_point *pt = add_point(s, cap, y->at, y->n);
        size_t rest = k;
        pt->n = y->n;
        for (size_t i = y->n; i-- > 0;) { /* the last key runs fastest */
            pt->settings[i].key = y->key[i]->text;
            pt->settings[i].value = y->item[i]->item[rest % y->item[i]->n];
            rest /= y->item[i]->n;
        }
        auto_name(pt, "grid", k + 1);
    }
}

static void expand_zip(struct bn_sweep *s, size_t *cap,
                       const struct bn_yaml *y, struct bn_problems *p)
{
    if (!check_axes(y, "zip", p))
        return;
    for (size_t i = 1; i < y->n; i++) {
        if (y->item[i]->n != y->item[0]->n) {
            bn_problem_add(p, y->item[i]->at, "%s has %zu values and %s %zu: "
                           "zip needs as many of each", y->key[i]->text,
                           y->item[i]->n, y->key[0]->text, y->item[0]->n);
            return;
        }
    }
    for (size_t k = 0; k < y->item[0]->n; k++) {
        struct bn_point *pt = add_point(s, cap, y->item[0]->item[k]->at, y->n);
        pt->n = y->n;
        for (size_t i = 0; i < y->n; i++) {
            pt->settings[i].key = y->key[i]->text;
            pt->settings[i].value = y->item[i]->item[k];
        }
        auto_name(pt, "zip", k + 1);
    }
}

/* --- list ----------------------------------------------------------------- */

static void add_named(struct bn_sweep *s, size_t *cap,
                      const struct bn_yaml *y, size_t number,
                      struct bn_problems *p)
{
    const struct bn_yaml *name = bn_yaml_get(y, "name");
    struct bn_point *pt = add_point(s, cap, y->at, y->n);

    for (size_t i = 0; i < y->n; i++) {
        if (y->item[i] == name || !check_key(y->key[i], p))
            continue;
        pt->settings[pt->n].key = y->key[i]->text;
        pt->settings[pt->n++].value = y->item[i];
    }
    if (name == NULL) {
        auto_name(pt, "list", number);
        return;
    }
    bool word = name->kind == BN_YAML_SCALAR;
    if (!word || !name_ok(name->text))
        bn_problem_add(p, name->at,
                       "point name '%.120s': use letters, digits and . _ , "
                       "= + - (at most %d, and not 'logs'), since it names a "
                       "folder", word ? name->text : "", BN_POINT_NAME_MAX);
    pt->name = bn_strdup(word ? name->text : "");
}

static void expand_list(struct bn_sweep *s, size_t *cap,
                        const struct bn_yaml *y, struct bn_problems *p)
{
    if (y->kind != BN_YAML_LIST) {
        bn_problem_add(p, y->at, "list needs '- name: NAME' items");
        return;
    }
    for (size_t k = 0; k < y->n; k++) {
        if (y->item[k]->kind == BN_YAML_MAP)
            add_named(s, cap, y->item[k], k + 1, p);
        else
            bn_problem_add(p, y->item[k]->at, "a point of list needs 'name: "
                           "NAME' and keys of the run");
    }
}

/* --- random --------------------------------------------------------------- */

/* What one key of random draws from. */
struct draw {
    const char *key;
    const struct bn_yaml *choices; /* or NULL: */
    double min, max;
    bool log, whole;
    struct bn_place at;
};

static bool read_number(const struct bn_yaml *y, double *out)
{
    char *end;
    if (y == NULL || y->kind != BN_YAML_SCALAR)
        return false;
    *out = strtod(y->text, &end);
    return end != y->text && *end == '\0' && isfinite(*out);
}

static bool read_draw(struct draw *d, const struct bn_yaml *key,
                      const struct bn_yaml *y, struct bn_problems *p)
{
    memset(d, 0, sizeof(*d));
    d->key = key->text;
    d->at = y->at;
    if (!check_key(key, p))
        return false;
    d->choices = y->kind == BN_YAML_MAP ? bn_yaml_get(y, "choices") : NULL;
    if (d->choices && d->choices->kind == BN_YAML_LIST && d->choices->n > 0)
        return true;
    const struct bn_yaml *lo = bn_yaml_get(y, "min"), *hi;
    const struct bn_yaml *scale = NULL;
    bool ok = y->kind == BN_YAML_MAP && d->choices == NULL;
    if (ok) {
        hi = bn_yaml_get(y, "max");
        scale = bn_yaml_get(y, "scale");
        ok = read_number(lo, &d->min) && read_number(hi, &d->max)
             && d->min <= d->max && y->n == 2u + (scale != NULL);
        d->whole = ok && !lo->text[strspn(lo->text, "-+0123456789")]
                   && !hi->text[strspn(hi->text, "-+0123456789")];
    }
    if (ok && scale) {
        const char *t = scale->kind == BN_YAML_SCALAR ? scale->text : "";
        d->log = strcmp(t, "log") == 0;
        ok = strcmp(t, "linear") == 0 || (d->log && d->min > 0);
    }
    if (!ok)
        bn_problem_add(p, y->at,
                       "%s in random needs {min, max, scale: linear|log} "
                       "(log: min above 0) or {choices: [values]}", d->key);
    return ok;
}

static const struct bn_yaml *draw_value(struct bn_sweep *s,
                                        const struct draw *d, uint64_t seed,
                                        uint64_t stream, uint64_t index)
{
    double u = bn_rng_uniform(seed, stream, index);
    if (d->choices)
        return d->choices->item[(size_t)(u * (double)d->choices->n)];
    struct bn_yaml *y = bn_sweep_alloc(s, sizeof(*y));
    char *text = bn_sweep_alloc(s, 32);
    if (d->whole && d->log)
        snprintf(text, 32, "%.0f", floor(d->min * pow((d->max + 1) / d->min,
                                                      u)));
    else if (d->whole)
        snprintf(text, 32, "%.0f",
                 d->min + floor(u * (d->max - d->min + 1)));
    else if (d->log)
        snprintf(text, 32, "%.4g", d->min * pow(d->max / d->min, u));
    else
        snprintf(text, 32, "%.4g", d->min + u * (d->max - d->min));
    y->kind = BN_YAML_SCALAR;
    y->at = d->at;
    y->text = text;
    return y;
}

static void expand_random(struct bn_sweep *s, size_t *cap,
                          const struct bn_yaml *y, struct bn_problems *p)
{
    struct draw *d = BN_NEWN(struct draw, y->n + 1);
    double count = 0, seed = 0;
    size_t nd = 0;
    bool ok = y->kind == BN_YAML_MAP;

    for (size_t i = 0; ok && i < y->n; i++) {
        const char *key = y->key[i]->text;
        if (strcmp(key, "count") == 0)
            ok = read_number(y->item[i], &count);
        else if (strcmp(key, "seed") == 0)
            ok = read_number(y->item[i], &seed) && seed >= 0;
        else if (!read_draw(&d[nd++], y->key[i], y->item[i], p))
            goto done;
    }
    if (!ok || nd == 0 || !(count >= 1) || count != floor(count)
        || seed != floor(seed) || (double)s->n + count > POINTS_MAX) {
        bn_problem_add(p, y->at, "random needs 'count: N' (at most %d), "
                       "'seed: N' and keys to draw", POINTS_MAX);
        goto done;
    }
    for (size_t k = 0; k < (size_t)count; k++) {
        struct bn_point *pt = add_point(s, cap, y->at, nd);
        pt->n = nd;
        for (size_t i = 0; i < nd; i++) {
            pt->settings[i].key = d[i].key;
            pt->settings[i].value = draw_value(s, &d[i], (uint64_t)seed, i, k);
        }
        pt->name = bn_asprintf("random-%04zu", k + 1);
    }
done:
    free(d);
}

void bn_sweep_expand(struct bn_sweep *s, const struct bn_yaml *root,
                     struct bn_problems *p)
{
    static const struct {
        const char *key;
        void (*f)(struct bn_sweep *s, size_t *cap, const struct bn_yaml *y,
                  struct bn_problems *p);
    } kinds[] = { { "list", expand_list },
                  { "grid", expand_grid },
                  { "zip", expand_zip },
                  { "random", expand_random } };
    size_t cap = 0, before = p->n;

    for (size_t i = 0; i < BN_COUNT(kinds); i++) {
        const struct bn_yaml *y = bn_yaml_get(root, kinds[i].key);
        if (y)
            kinds[i].f(s, &cap, y, p);
    }
    if (s->n == 0 && p->n == before)
        bn_problem_add(p, root->at,
                       "no points: give grid, zip, list or random");
    check_unique(s, p);
}
