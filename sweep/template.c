#include "config.h"

#include "sweep/template.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const char safe[] = "abcdefghijklmnopqrstuvwxyz"
                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_%+=:,./-";

static int refuse_controls(const char *value, struct bn_err *err)
{
    for (const unsigned char *c = (const unsigned char *)value; *c; c++)
        if (*c < ' ' || *c == 127)
            return bn_fail(err, BN_ERR_USAGE,
                           "'%s' has a line break or control character, "
                           "which cannot go into a batch script", value);
    return 0;
}

int bn_quote_shell(struct bn_str *out, const char *value, struct bn_err *err)
{
    if (refuse_controls(value, err) < 0)
        return -1;
    if (*value != '\0' && value[strspn(value, safe)] == '\0') {
        bn_str_adds(out, value);
        return 0;
    }
    bn_str_addc(out, '\'');
    for (; *value; value++) {
        if (*value == '\'')
            bn_str_adds(out, "'\\''");
        else
            bn_str_addc(out, *value);
    }
    bn_str_addc(out, '\'');
    return 0;
}

int bn_quote_sbatch(struct bn_str *out, const char *value,
                    struct bn_err *err)
{
    if (refuse_controls(value, err) < 0)
        return -1;
    if (strpbrk(value, "'\\"))
        return bn_fail(err, BN_ERR_USAGE,
                       "\"%s\" has ' or \\, which an #SBATCH line cannot "
                       "hold; choose another name", value);
    if (*value != '\0' && value[strspn(value, safe)] == '\0')
        bn_str_adds(out, value);
    else
        bn_str_addf(out, "'%s'", value);
    return 0;
}

/* --- Expansion -------------------------------------------------------- */

struct expansion {
    const char *name;
    const struct bn_hole *holes;
    size_t n;
    bool *declared, *used; /* [n] */
    int line;
};

/* The length of a hole "@KEY@" at 's', or 0. */
static size_t hole_length(const char *s)
{
    if (s[0] != '@' || !isupper((unsigned char)s[1]))
        return 0;
    size_t n = strspn(s + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return s[n + 1] == '@' ? n + 2 : 0;
}

static int find_hole(const struct expansion *x, const char *key, size_t len,
                     size_t *at, struct bn_err *err)
{
    for (size_t i = 0; i < x->n; i++) {
        if (strlen(x->holes[i].key) == len
            && memcmp(x->holes[i].key, key, len) == 0) {
            *at = i;
            return 0;
        }
    }
    struct bn_str known = { 0 };
    for (size_t i = 0; i < x->n; i++)
        bn_str_addf(&known, " %s", x->holes[i].key);
    bn_fail(err, BN_ERR_USAGE, "%s:%d: nothing fills @%.*s@; keys are:%s",
            x->name, x->line, (int)len, key, known.s ? known.s : " none");
    bn_str_release(&known);
    return -1;
}

static int declare(struct expansion *x, const char *s, size_t len,
                   struct bn_err *err)
{
    for (size_t i = 0; i < len;) {
        size_t n = 0, at;
        while (i + n < len && !isspace((unsigned char)s[i + n]))
            n++;
        if (n > 0) {
            if (find_hole(x, s + i, n, &at, err) < 0)
                return -1;
            x->declared[at] = true;
        }
        i += n + 1;
    }
    return 0;
}

/* Whether a quote is open after s[0..n). */
static char open_quote(const char *s, size_t n)
{
    char q = 0;
    for (size_t i = 0; i < n; i++) {
        if (q == 0 && s[i] == '\\')
            i++;
        else if (q == 0 && (s[i] == '\'' || s[i] == '"'))
            q = s[i];
        else if (q == s[i])
            q = 0;
    }
    return q;
}

static int fill(struct expansion *x, const char *line, size_t len,
                size_t col, size_t hole, bool sbatch, struct bn_str *out,
                struct bn_err *err)
{
    size_t at;
    if (find_hole(x, line + col + 1, hole - 2, &at, err) < 0)
        return -1;
    const struct bn_hole *h = &x->holes[at];
    x->used[at] = true;
    if (!x->declared[at])
        return bn_fail(err, BN_ERR_USAGE,
                       "%s:%d: @%s@ is not in the '# keys:' line above",
                       x->name, x->line, h->key);
    if (h->kind == BN_HOLE_BLOCK) {
        if (col != 0 || hole != len)
            return bn_fail(err, BN_ERR_USAGE,
                           "%s:%d: @%s@ stands for whole lines and must be "
                           "alone on its line", x->name, x->line, h->key);
        bn_str_adds(out, h->value);
        return 0;
    }
    if (open_quote(line, col))
        return bn_fail(err, BN_ERR_USAGE,
                       "%s:%d: @%s@ stands inside quotes; its value brings "
                       "its own", x->name, x->line, h->key);
    if ((sbatch ? bn_quote_sbatch : bn_quote_shell)(out, h->value, err) < 0)
        return bn_err_prefix(err, "%s:%d: @%s@", x->name, x->line, h->key);
    return 0;
}

static int expand_line(struct expansion *x, const char *line, size_t len,
                       struct bn_str *out, struct bn_err *err)
{
    bool sbatch = len > 7 && memcmp(line, "#SBATCH", 7) == 0;
    bool block = false;

    if (len > 7 && memcmp(line, "# keys:", 7) == 0)
        return declare(x, line + 7, len - 7, err);
    for (size_t i = 0; i < len;) {
        size_t hole = hole_length(line + i);
        if (hole == 0 || i + hole > len) {
            bn_str_addc(out, line[i++]);
            continue;
        }
        if (line[0] == '#' && !sbatch)
            return bn_fail(err, BN_ERR_USAGE,
                           "%s:%d: a hole in a comment fills nothing",
                           x->name, x->line);
        if (fill(x, line, len, i, hole, sbatch, out, err) < 0)
            return -1;
        block = i == 0 && hole == len
                && (out->len == 0 || out->s[out->len - 1] == '\n');
        i += hole;
    }
    if (!block)
        bn_str_addc(out, '\n');
    return 0;
}

int bn_template_expand(const char *text, const char *name,
                       const struct bn_hole *holes, size_t n,
                       struct bn_str *out, struct bn_err *err)
{
    struct expansion x = { .name = name, .holes = holes, .n = n };
    size_t before = out->len;
    int rc = -1;

    x.declared = BN_NEWN(bool, n + 1);
    x.used = BN_NEWN(bool, n + 1);
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        x.line++;
        if (expand_line(&x, p, len, out, err) < 0)
            goto done;
        p += len + (p[len] == '\n');
    }
    for (size_t i = 0; i < n; i++) {
        if (x.declared[i] && !x.used[i]) {
            bn_fail(err, BN_ERR_USAGE,
                    "%s: %s is in the '# keys:' line but @%s@ is nowhere",
                    name, holes[i].key, holes[i].key);
            goto done;
        }
    }
    rc = 0;
done:
    if (rc < 0 && out->s) {
        out->len = before;
        out->s[before] = '\0';
    }
    free(x.declared);
    free(x.used);
    return rc;
}
