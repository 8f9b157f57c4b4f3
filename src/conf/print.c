/* A run as text: what is in force, what is not default, what decides the
 * trajectory; and the table as help.
 */
#include "config.h"
#include "conf/key.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The top-level word of a dotted key ends the line above it. */
static void open_map(const char *name, char *open, size_t size,
                     struct bn_str *out)
{
    const char *dot = strchr(name, '.');
    size_t len = dot != NULL ? (size_t)(dot - name) : 0;

    if (len >= size || (strlen(open) == len && memcmp(open, name, len) == 0))
        return;
    memcpy(open, name, len);
    open[len] = '\0';
    if (len > 0)
        bn_str_addf(out, "%s:\n", open);
}

/* "key: value", nested and indented where the key is dotted. */
static void add_line(const struct bn_run *run, const struct bn_conf_key *k,
                     char *open, size_t size, struct bn_str *out)
{
    const char *dot = strchr(k->name, '.');

    open_map(k->name, open, size, out);
    if (dot != NULL)
        bn_str_addf(out, "  %s: ", dot + 1);
    else
        bn_str_addf(out, "%s: ", k->name);
    bn_conf_write(k, bn_conf_at(run, k), out);
}

static void add_origin(const struct bn_conf_key *k, struct bn_place at,
                       struct bn_str *out)
{
    if (at.file != NULL && at.line > 0)
        bn_str_addf(out, "%s:%d", at.file, at.line);
    else if (at.file != NULL)
        bn_str_adds(out, at.file);
    else if (k->from != NULL)
        bn_str_addf(out, "default: %s", k->from);
    else
        bn_str_adds(out, "default");
}

void bn_run_print(const struct bn_run *run, FILE *out)
{
    enum { COMMENT = 44 };
    struct bn_str s = {0};
    char open[64] = "";
    size_t n;
    const struct bn_conf_key *keys = bn_conf_keys(&n);

    for (size_t i = 0; i < n; i++) {
        size_t at;

        open_map(keys[i].name, open, sizeof(open), &s);
        at = s.len;
        add_line(run, &keys[i], open, sizeof(open), &s);
        size_t width = s.len - at;
        bn_str_addf(&s, "%*s# ", (int)(width < COMMENT ? COMMENT - width : 1),
                    "");
        add_origin(&keys[i], run->origin->at[i], &s);
        bn_str_addc(&s, '\n');
    }
    fwrite(s.s, 1, s.len, out);
    bn_str_release(&s);
}

/* True if the value is what the run would have without the key. */
static bool is_default(const struct bn_run *run, size_t i)
{
    return run->origin->at[i].file == NULL;
}

char *bn_run_yaml(const struct bn_run *run)
{
    struct bn_str s = {0};
    char open[64] = "";
    size_t n;
    const struct bn_conf_key *keys = bn_conf_keys(&n);

    for (size_t i = 0; i < n; i++) {
        if (is_default(run, i))
            continue;
        add_line(run, &keys[i], open, sizeof(open), &s);
        bn_str_addc(&s, '\n');
    }
    return bn_str_take(&s);
}

/* Lines of the keys that have 'with' of the flags and none of 'without'. */
static char *lines(const struct bn_run *run, unsigned with, unsigned without)
{
    struct bn_str s = {0};
    size_t n;
    const struct bn_conf_key *keys = bn_conf_keys(&n);

    for (size_t i = 0; i < n; i++) {
        if ((keys[i].flags & with) != with || (keys[i].flags & without) != 0)
            continue;
        bn_str_addf(&s, "%s: ", keys[i].name);
        bn_conf_write(&keys[i], bn_conf_at(run, &keys[i]), &s);
        bn_str_addc(&s, '\n');
    }
    return bn_str_take(&s);
}

char *bn_run_trajectory(const struct bn_run *run)
{
    return lines(run, BN_CONF_TRAJECTORY, 0);
}

char *bn_run_common(const struct bn_run *run)
{
    return lines(run, 0, BN_CONF_PATH | BN_CONF_OWN);
}

struct bn_hash bn_run_fingerprint(const struct bn_run *run)
{
    char *text = bn_run_trajectory(run);
    struct bn_hash h = bn_hash_bytes(text, strlen(text));

    free(text);
    return h;
}

/* The rest of the line of 'text' that begins with "key: ", not terminated;
 * '*len' is its length. NULL if there is none. */
static const char *line_of(const char *text, const char *key, size_t klen,
                           size_t *len)
{
    for (const char *s = text; *s != '\0';) {
        size_t n = strcspn(s, "\n");

        if (n >= klen + 2 && memcmp(s, key, klen) == 0
            && memcmp(s + klen, ": ", 2) == 0) {
            *len = n - klen - 2;
            return s + klen + 2;
        }
        s += n + (s[n] == '\n');
    }
    return NULL;
}

/* What is said of a value on either side. */
struct sides {
    const char *a, *b;
};

/* Name what each line of 'a' is in 'b'. 'missing': only absent ones. */
static void add_differences(const char *a, const char *b,
                            const struct sides *of, bool missing,
                            struct bn_str *out)
{
    for (const char *s = a; *s != '\0';) {
        size_t n = strcspn(s, "\n"), klen = strcspn(s, ":"), len = 0;
        const char *v = line_of(b, s, klen, &len);
        size_t skip = klen + 2 < n ? klen + 2 : n;

        if (v == NULL && missing)
            bn_str_addf(out, "%s%.*s is new", out->len > 0 ? "; " : "",
                        (int)klen, s);
        else if (v == NULL && !missing)
            bn_str_addf(out, "%s%.*s is gone", out->len > 0 ? "; " : "",
                        (int)klen, s);
        else if (!missing
                 && (len != n - skip || memcmp(v, s + skip, len) != 0))
            bn_str_addf(out, "%s%.*s%s %.*s%s %.*s",
                        out->len > 0 ? "; " : "", (int)klen, s, of->a,
                        (int)(n - skip), s + skip, of->b, (int)len, v);
        s += n + (s[n] == '\n');
    }
}

static int same(const char *a, const char *b, const struct sides *of,
                const char *what, struct bn_err *err)
{
    struct bn_str d = {0};

    add_differences(a, b, of, false, &d);
    add_differences(b, a, of, true, &d);
    if (d.len == 0)
        return 0;
    bn_fail(err, BN_ERR_USAGE, "%s: %s", what, d.s);
    bn_str_release(&d);
    return -1;
}

int bn_run_trajectory_same(const char *was, const char *is,
                           struct bn_err *err)
{
    static const struct sides of = {" was", " and is"};

    return same(was, is, &of, "the run has changed", err);
}

int bn_run_common_same(const char *rank0, const char *mine,
                       struct bn_err *err)
{
    static const struct sides of = {" is", " on rank 0 and here"};

    return same(rank0, mine, &of, "ranks were not started with the same run",
                err);
}

char *bn_run_value(const struct bn_run *run, const char *key)
{
    const struct bn_conf_key *k = bn_conf_find(key);
    struct bn_str s = {0};

    if (k == NULL)
        return NULL;
    bn_conf_write(k, bn_conf_at(run, k), &s);
    return bn_str_take(&s);
}

/* Print words of 'text' from column 'at' on, broken at column 79. */
static void print_wrapped(FILE *out, const char *text, int indent)
{
    int col = indent;

    fprintf(out, "%*s", indent, "");
    for (const char *s = text; *s != '\0';) {
        int n = (int)strcspn(s, " ");

        if (col > indent && col + 1 + n > 79) {
            fprintf(out, "\n%*s", indent, "");
            col = indent;
        } else if (col > indent) {
            fputc(' ', out);
            col++;
        }
        fprintf(out, "%.*s", n, s);
        col += n;
        s += n + (s[n] == ' ');
    }
    fputc('\n', out);
}

void bn_run_help(FILE *out)
{
    size_t n;
    const struct bn_conf_key *keys = bn_conf_keys(&n);

    fprintf(out, "A run file holds 'key: value' lines in YAML. Relative paths"
                 " in it are relative to\nthe current directory.\n");
    for (const struct bn_conf_group *g = bn_conf_groups; g->name; g++) {
        fprintf(out, "\n%s\n", g->title);
        for (size_t i = 0; i < n; i++) {
            const struct bn_conf_key *k = &keys[i];
            struct bn_str s = {0};

            if (strcmp(k->group, g->name) != 0)
                continue;
            bn_conf_takes(k, &s);
            fprintf(out, "  %s: %s", k->name, s.s);
            if (k->unit != NULL)
                fprintf(out, " (%s)", k->unit);
            if (k->dflt != NULL && k->orpo != NULL)
                fprintf(out, " [%s; orpo %s]", k->dflt, k->orpo);
            else if (k->dflt != NULL)
                fprintf(out, " [%s]", k->dflt);
            else if (k->from != NULL)
                fprintf(out, " [%s]", k->from);
            fputc('\n', out);
            print_wrapped(out, k->help, 6);
            bn_str_release(&s);
        }
    }
}
