/* One value: YAML to a field and back. */
#include "config.h"
#include "conf/key.h"

#include "base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const tri_names[] = {"false", "true", "auto", NULL};
static const char *const bool_names[] = {"false", "true", NULL};

void bn_conf_takes(const struct bn_conf_key *k, struct bn_str *out)
{
    bool ranged = k->min != 0 || k->max != 0;

    switch (k->type) {
    case BN_CONF_BOOL:
        bn_str_adds(out, "true or false");
        break;
    case BN_CONF_TRI:
        bn_str_adds(out, "true, false or auto");
        break;
    case BN_CONF_INT:
    case BN_CONF_NUM:
        bn_str_adds(out, k->type == BN_CONF_INT ? "an integer" : "a number");
        if (ranged)
            bn_str_addf(out, k->flags & BN_CONF_ABOVE ? " above %.15g"
                                                      : " of at least %.15g",
                        k->min);
        if (ranged && isfinite(k->max) && k->max < BN_CONF_INT_MAX)
            bn_str_addf(out, k->flags & BN_CONF_BELOW ? ", below %.15g"
                                                      : ", at most %.15g",
                        k->max);
        break;
    case BN_CONF_CHOICE:
    case BN_CONF_SET:
        bn_str_adds(out, k->type == BN_CONF_SET ? "none or any of "
                                                : "one of ");
        for (size_t i = 0; k->choices[i] != NULL; i++)
            bn_str_addf(out, "%s%s", i > 0 ? ", " : "", k->choices[i]);
        break;
    case BN_CONF_STR:
        bn_str_adds(out, "a string");
        break;
    case BN_CONF_LIST:
        bn_str_adds(out, "a string or a list of strings");
        break;
    }
}

/* Digits with sign, point and exponent; nothing of strtod's other forms. */
static bool is_number(const char *s)
{
    if (s[strspn(s, "+-.0123456789eE")] != '\0')
        return false;
    char *end;
    strtod(s, &end);
    return end != s && *end == '\0';
}

/* Whether a scalar is a number that no range here would allow. */
static bool is_huge(const struct bn_yaml *y)
{
    return y->kind == BN_YAML_SCALAR && !y->quoted && is_number(y->text)
           && strtod(y->text, NULL) > BN_CONF_INT_MAX;
}

/* "key: expected X, got Y"; returns -1. */
static int wrong(const struct bn_conf_key *k, const struct bn_yaml *y,
                 struct bn_problems *p)
{
    struct bn_str takes = {0};
    const char *advice = y->kind == BN_YAML_SCALAR
                             ? bn_conf_foreign_value(k->name, y->text)
                             : NULL;

    bn_conf_takes(k, &takes);
    if (k->type == BN_CONF_INT && k->max >= BN_CONF_INT_MAX && is_huge(y))
        bn_str_addf(&takes, ", at most %.0f", BN_CONF_INT_MAX);
    if (y->kind == BN_YAML_MAP)
        bn_problem_add(p, y->at, "%s: expected %s, got a map", k->name,
                       takes.s);
    else if (y->kind == BN_YAML_LIST)
        bn_problem_add(p, y->at, "%s: expected %s, got a list", k->name,
                       takes.s);
    else if (y->quoted)
        bn_problem_add(p, y->at, "%s: expected %s, got the string \"%s\"",
                       k->name, takes.s, y->text);
    else
        bn_problem_add(p, y->at, "%s: expected %s, got %s%s%s", k->name,
                       takes.s, y->text, advice != NULL ? "; " : "",
                       advice != NULL ? advice : "");
    bn_str_release(&takes);
    return -1;
}

static size_t count_names(const char *const *names)
{
    size_t n = 0;

    while (names[n] != NULL)
        n++;
    return n;
}

/* The index of a scalar among 'names'; -1 after saying the nearest. */
static int pick(const struct bn_conf_key *k, const struct bn_yaml *y,
                const char *const *names, struct bn_problems *p)
{
    size_t n = count_names(names);

    if (y->kind != BN_YAML_SCALAR)
        return wrong(k, y, p);
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], y->text) == 0)
            return (int)i;
    const char *near = bn_str_nearest(y->text, names, n);
    if (near == NULL)
        return wrong(k, y, p);
    struct bn_str takes = {0};
    bn_conf_takes(k, &takes);
    bn_problem_add(p, y->at, "%s: expected %s, got %s; did you mean '%s'?",
                   k->name, takes.s, y->text, near);
    bn_str_release(&takes);
    return -1;
}

static int read_bool(const struct bn_conf_key *k, const struct bn_yaml *y,
                     bool *out, struct bn_problems *p)
{
    if (y->quoted)
        return wrong(k, y, p);
    int i = pick(k, y, bool_names, p);
    if (i < 0)
        return -1;
    *out = i != 0;
    return 0;
}

static bool in_range(const struct bn_conf_key *k, double v)
{
    if (k->min == 0 && k->max == 0)
        return true;
    if (v < k->min || (v <= k->min && k->flags & BN_CONF_ABOVE))
        return false;
    return v < k->max || (v <= k->max && !(k->flags & BN_CONF_BELOW));
}

static int read_number(const struct bn_conf_key *k, const struct bn_yaml *y,
                       double *out, struct bn_problems *p)
{
    if (y->kind != BN_YAML_SCALAR || y->quoted || !is_number(y->text))
        return wrong(k, y, p);
    double v = strtod(y->text, NULL);
    if (!isfinite(v) || !in_range(k, v))
        return wrong(k, y, p);
    *out = v;
    return 0;
}

static int read_int(const struct bn_conf_key *k, const struct bn_yaml *y,
                    int64_t *out, struct bn_problems *p)
{
    double v;

    if (read_number(k, y, &v, p) < 0)
        return -1;
    if (v != floor(v))
        return wrong(k, y, p);
    *out = (int64_t)v; /* every integer key has a range that fits */
    return 0;
}

/* A path that only a shell would read as it is meant: a folder of the name
 * '$SCRATCH' is nobody's wish. */
static int left_to_shell(const struct bn_conf_key *k, const struct bn_yaml *y,
                         struct bn_problems *p)
{
    const char *dollar = strchr(y->text, '$');

    if (strncmp(y->text, "~/", 2) == 0)
        bn_problem_add(p, y->at, "%s: '~' stands for nothing here; write the"
                                 " home directory out", k->name);
    else if (dollar != NULL && (dollar[1] == '{' || dollar[1] == '_'
                                || isalpha((unsigned char)dollar[1])))
        bn_problem_add(p, y->at, "%s: '$' stands for nothing here; write out "
                                 "what '%s' means, or have a shell do it: "
                                 "--set %s=...", k->name, y->text, k->name);
    else
        return 0;
    return -1;
}

static int read_str(const struct bn_conf_key *k, const struct bn_yaml *y,
                    char **out, struct bn_problems *p)
{
    if (y->kind != BN_YAML_SCALAR)
        return wrong(k, y, p);
    if (y->text[0] == '\0') {
        bn_problem_add(p, y->at, "%s: an empty string", k->name);
        return -1;
    }
    if (k->flags & BN_CONF_PATH && left_to_shell(k, y, p) < 0)
        return -1;
    *out = bn_strdup(y->text);
    return 0;
}

static int read_list(const struct bn_conf_key *k, const struct bn_yaml *y,
                     struct bn_run_list *out, struct bn_problems *p)
{
    struct bn_run_list l = {0};
    int rc = 0;

    if (y->kind == BN_YAML_MAP)
        return wrong(k, y, p);
    size_t n = y->kind == BN_YAML_LIST ? y->n : 1;
    l.v = BN_NEWN(char *, n + 1);
    for (size_t i = 0; i < n; i++)
        if (read_str(k, y->kind == BN_YAML_LIST ? y->item[i] : y, &l.v[l.n],
                     p) < 0)
            rc = -1;
        else
            l.n++;
    if (rc < 0)
        bn_conf_release(k, &l);
    else
        *out = l;
    return rc;
}

static int read_set(const struct bn_conf_key *k, const struct bn_yaml *y,
                    unsigned *out, struct bn_problems *p)
{
    bool list = y->kind == BN_YAML_LIST;
    size_t n = list ? y->n : 1;
    unsigned bits = 0;

    if (!list && y->kind == BN_YAML_SCALAR && strcmp(y->text, "none") == 0)
        n = 0;
    for (size_t i = 0; i < n; i++) {
        int bit = pick(k, list ? y->item[i] : y, k->choices, p);

        if (bit < 0)
            return -1;
        bits |= 1u << bit;
    }
    *out = bits;
    return 0;
}

int bn_conf_read(const struct bn_conf_key *k, const struct bn_yaml *y,
                 void *field, struct bn_problems *p)
{
    int i;

    if (bn_yaml_is_null(y)) {
        bool unset = k->dflt == NULL && k->from == NULL
                     && (k->type == BN_CONF_STR || k->type == BN_CONF_LIST);
        if (unset && y->text[0] != '\0')
            return 0;
        bn_problem_add(p, y->at, "%s has no value; leave the key out for its"
                                 " default", k->name);
        return -1;
    }
    switch (k->type) {
    case BN_CONF_BOOL:
        return read_bool(k, y, field, p);
    case BN_CONF_TRI:
    case BN_CONF_CHOICE:
        i = pick(k, y, k->type == BN_CONF_TRI ? tri_names : k->choices, p);
        if (i < 0)
            return -1;
        *(unsigned *)field = (unsigned)i;
        return 0;
    case BN_CONF_INT:
        return read_int(k, y, field, p);
    case BN_CONF_NUM:
        return read_number(k, y, field, p);
    case BN_CONF_STR:
        return read_str(k, y, field, p);
    case BN_CONF_LIST:
        return read_list(k, y, field, p);
    case BN_CONF_SET:
        return read_set(k, y, field, p);
    }
    return -1;
}

void bn_conf_read_default(const struct bn_conf_key *k, const char *text,
                          void *field)
{
    struct bn_yaml y = {.kind = BN_YAML_SCALAR, .text = text};
    struct bn_problems p = {0};

    bn_conf_read(k, &y, field, &p);
    bn_problems_release(&p);
}

void bn_conf_copy(const struct bn_conf_key *k, const void *from, void *to)
{
    const struct bn_run_list *l = from;
    struct bn_run_list *m = to;

    switch (k->type) {
    case BN_CONF_BOOL:
        *(bool *)to = *(const bool *)from;
        break;
    case BN_CONF_TRI:
    case BN_CONF_CHOICE:
    case BN_CONF_SET:
        *(unsigned *)to = *(const unsigned *)from;
        break;
    case BN_CONF_INT:
        *(int64_t *)to = *(const int64_t *)from;
        break;
    case BN_CONF_NUM:
        *(double *)to = *(const double *)from;
        break;
    case BN_CONF_STR:
        if (*(char *const *)from != NULL)
            *(char **)to = bn_strdup(*(char *const *)from);
        break;
    case BN_CONF_LIST:
        m->v = BN_NEWN(char *, l->n + 1);
        for (m->n = 0; m->n < l->n; m->n++)
            m->v[m->n] = bn_strdup(l->v[m->n]);
        break;
    }
}

/* The shortest decimal that reads back as 'v'. */
static void write_num(double v, struct bn_str *out)
{
    char buf[40];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buf, sizeof(buf), "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    bn_str_adds(out, buf);
}

/* Plain where nobody could take it for anything else, else in quotes. */
static void write_str(const char *s, struct bn_str *out)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
    static const char *const word[] = {"null", "Null", "NULL", "true",
                                       "false", "yes", "no", "on", "off"};
    bool plain = strspn(s, safe) == strlen(s) && s[0] != '-' && s[0] != '\0'
                 && !is_number(s);

    for (size_t i = 0; i < BN_COUNT(word); i++)
        plain = plain && strcmp(s, word[i]) != 0;
    if (plain)
        bn_str_adds(out, s);
    else
        bn_str_add_json(out, s, strlen(s));
}

static void write_list(const struct bn_run_list *l, struct bn_str *out)
{
    bn_str_addc(out, '[');
    for (size_t i = 0; i < l->n; i++) {
        bn_str_adds(out, i > 0 ? ", " : "");
        write_str(l->v[i], out);
    }
    bn_str_addc(out, ']');
}

static void write_set(const struct bn_conf_key *k, unsigned bits,
                      struct bn_str *out)
{
    const char *sep = "[";

    if (bits == 0) {
        bn_str_adds(out, "none");
        return;
    }
    for (unsigned i = 0; k->choices[i] != NULL; i++)
        if (bits >> i & 1) {
            bn_str_addf(out, "%s%s", sep, k->choices[i]);
            sep = ", ";
        }
    bn_str_addc(out, ']');
}

void bn_conf_write(const struct bn_conf_key *k, const void *field,
                   struct bn_str *out)
{
    const char *s;

    switch (k->type) {
    case BN_CONF_BOOL:
        bn_str_adds(out, *(const bool *)field ? "true" : "false");
        break;
    case BN_CONF_TRI:
        bn_str_adds(out, tri_names[*(const unsigned *)field]);
        break;
    case BN_CONF_CHOICE:
        bn_str_adds(out, k->choices[*(const unsigned *)field]);
        break;
    case BN_CONF_INT:
        bn_str_addf(out, "%lld", (long long)*(const int64_t *)field);
        break;
    case BN_CONF_NUM:
        write_num(*(const double *)field, out);
        break;
    case BN_CONF_STR:
        s = *(char *const *)field;
        if (s == NULL)
            bn_str_adds(out, "null");
        else
            write_str(s, out);
        break;
    case BN_CONF_LIST:
        write_list(field, out);
        break;
    case BN_CONF_SET:
        write_set(k, *(const unsigned *)field, out);
        break;
    }
}

void bn_conf_release(const struct bn_conf_key *k, void *field)
{
    struct bn_run_list *l = field;

    if (k->type == BN_CONF_STR)
        free(*(char **)field);
    if (k->type != BN_CONF_LIST)
        return;
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
}
