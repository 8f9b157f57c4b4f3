#include "config.h"

#include "sweep/template.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"
#include "sweep/child.h"

/* One word at '*s' of a directive line, unquoted; false at its end. */
static bool next_word(const char **s, struct bn_str *word)
{
    const char *p = *s;
    char q = 0;

    bn_str_clear(word);
    while (*p == ' ' || *p == '\t')
        p++;
    if (*p == '\0' || *p == '\n' || *p == '#') {
        *s = p;
        return false;
    }
    for (; *p && *p != '\n'; p++) {
        if (q == 0 && (*p == ' ' || *p == '\t'))
            break;
        if (q == 0 && (*p == '\'' || *p == '"'))
            q = *p;
        else if (q == *p)
            q = 0;
        else
            bn_str_addc(word, *p);
    }
    bn_str_adds(word, "");
    *s = p;
    return true;
}

static void push(struct bn_directives *d, char *name, char *value)
{
    bn_grow(&d->v, &d->cap, d->n + 1, sizeof(*d->v));
    d->v[d->n].name = name;
    d->v[d->n++].value = value;
}

static int read_line(struct bn_directives *d, const char *s, int line,
                     struct bn_err *err)
{
    struct bn_str word = { 0 };
    int rc = -1;

    while (next_word(&s, &word)) {
        if (bn_str_starts(word.s, "--") && word.s[2]) {
            char *eq = strchr(word.s, '=');
            push(d, bn_strndup(word.s + 2, eq ? (size_t)(eq - word.s - 2)
                                              : strlen(word.s + 2)),
                 eq ? bn_strdup(eq + 1) : NULL);
        } else if (word.s[0] == '-' && isalpha((unsigned char)word.s[1])) {
            push(d, bn_strndup(word.s + 1, 1),
                 word.s[2] ? bn_strdup(word.s + 2) : NULL);
        } else if (d->n > 0 && strlen(d->v[d->n - 1].name) == 1
                   && d->v[d->n - 1].value == NULL) {
            d->v[d->n - 1].value = bn_strdup(word.s); /* "-t 5" */
        } else {
            bn_fail(err, BN_ERR_USAGE,
                    "line %d: '%s' is not an option of sbatch", line,
                    word.s);
            goto done;
        }
    }
    rc = 0;
done:
    bn_str_release(&word);
    return rc;
}

int bn_directives_read(struct bn_directives *d, const char *script,
                       struct bn_err *err)
{
    int line = 1;

    memset(d, 0, sizeof(*d));
    if (!bn_str_starts(script, "#!"))
        return bn_fail(err, BN_ERR_USAGE,
                       "a batch script must begin with #!");
    for (const char *p = script; *p; line++) {
        size_t len = strcspn(p, "\n");
        if (*p != '#' && len > strspn(p, " \t"))
            break; /* the first command ends the directives */
        if (bn_str_starts(p, "#SBATCH")
            && read_line(d, p + 7, line, err) < 0) {
            bn_directives_release(d);
            return -1;
        }
        p += len + (p[len] == '\n');
    }
    return 0;
}

const char *bn_directives_get(const struct bn_directives *d,
                              const char *name)
{
    for (size_t i = d->n; i-- > 0;)
        if (strcmp(d->v[i].name, name) == 0)
            return d->v[i].value ? d->v[i].value : "";
    return NULL;
}

void bn_directives_release(struct bn_directives *d)
{
    for (size_t i = 0; i < d->n; i++) {
        free(d->v[i].name);
        free(d->v[i].value);
    }
    free(d->v);
    memset(d, 0, sizeof(*d));
}

/* --- bash -n ---------------------------------------------------------- */

struct parse_job {
    const char *const *paths;
    size_t n;
    int threads;
    struct bn_err *errs; /* [threads] */
    bool *failed;        /* [threads] */
};

static int parse_one(const char *path, struct bn_err *err)
{
    const char *argv[] = { "bash", "-n", path, NULL };
    struct bn_child c = { .argv = argv, .timeout = 60 };

    int rc = bn_child_run(&c, err);
    if (rc == 0 && c.status != 0)
        rc = bn_fail(err, BN_ERR_USAGE, "%s is not a valid script: %.*s",
                     path, (int)strcspn(c.err.s, "\n"), c.err.s);
    bn_child_release(&c);
    return rc;
}

static void parse_share(void *arg, int index)
{
    struct parse_job *j = arg;
    for (size_t i = (size_t)index; i < j->n; i += (size_t)j->threads) {
        if (parse_one(j->paths[i], &j->errs[index]) < 0) {
            j->failed[index] = true;
            return;
        }
    }
}

int bn_scripts_parse(const char *const *paths, size_t n, struct bn_err *err)
{
    struct parse_job j = { .paths = paths, .n = n };
    int rc = 0;

    j.threads = bn_cpu_count();
    if ((size_t)j.threads > n)
        j.threads = n > 0 ? (int)n : 1;
    j.errs = BN_NEWN(struct bn_err, (size_t)j.threads);
    j.failed = BN_NEWN(bool, (size_t)j.threads);
    bn_parallel(j.threads, parse_share, &j);
    for (int i = 0; i < j.threads && rc == 0; i++)
        if (j.failed[i])
            rc = bn_fail(err, j.errs[i].code, "%s", j.errs[i].text);
    free(j.errs);
    free(j.failed);
    return rc;
}
