#include "config.h"
#include "text/pattern.h"
#include "base/mem.h"
#include "base/str.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

struct bn_matcher {
    pcre2_match_data *data;
    pcre2_match_context *ctx;
    pcre2_jit_stack *stack;
};

struct bn_matcher *bn_matcher_create(void)
{
    struct bn_matcher *m = BN_NEW(struct bn_matcher);

    m->data = pcre2_match_data_create(1, NULL);
    m->ctx = pcre2_match_context_create(NULL);
    m->stack = pcre2_jit_stack_create(32 << 10, 8 << 20, NULL);
    if (m->ctx != NULL && m->stack != NULL)
        pcre2_jit_stack_assign(m->ctx, NULL, m->stack);
    return m;
}

void bn_matcher_destroy(struct bn_matcher *m)
{
    if (m == NULL)
        return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->ctx);
    pcre2_jit_stack_free(m->stack);
    free(m);
}

/* Oniguruma's classes where PCRE2's differ, as the inside of a [...]. */
static const char space_class[] =
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"
    "\\x{202f}\\x{205f}\\x{3000}";
static const char word_class[] = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
static const char hex_class[] = "0-9a-fA-F";

/* Translate the escape \c; 'inside' a class. -1 if it has no translation. */
static int translate_escape(struct bn_str *out, char c, bool inside)
{
    const char *set = strchr("sS", c) != NULL   ? space_class
                      : strchr("wW", c) != NULL ? word_class
                      : strchr("hH", c) != NULL ? hex_class
                                                : NULL;
    bool negated = c == 'S' || c == 'W' || c == 'H';

    if (set == NULL) {
        bn_str_addf(out, "\\%c", c);
        return strchr("GKXRNOyYbBMC", c) != NULL ? -1 : 0;
    }
    if (inside && negated)
        return -1;
    if (inside)
        bn_str_adds(out, set);
    else
        bn_str_addf(out, "[%s%s]", negated ? "^" : "", set);
    return 0;
}

/* A flag group that switches Ruby's (?m), which PCRE2 calls (?s). */
static bool has_m_flag(const char *s)
{
    if (s[0] != '(' || s[1] != '?')
        return false;
    for (s += 2; *s >= 'a' && *s <= 'z'; s++)
        if (*s == 'm')
            return true;
    return false;
}

/* Copy 's' to 'out' in PCRE2's dialect. -1 where that is not possible, '*at'
 * then says where: nested sets, intersections, \b (which depends on \w), a
 * negated class inside a class. */
static int translate(const char *s, struct bn_str *out, size_t *at)
{
    bool inside = false;

    for (size_t i = 0; s[i] != '\0'; i++) {
        *at = i;
        if (s[i] == '\\') {
            if (s[i + 1] == '\0'
                || translate_escape(out, s[i + 1], inside) < 0)
                return -1;
            i++;
            continue;
        }
        if (s[i] == '[') {
            if (inside || s[i + 1] == ']' || strncmp(s + i, "[^]", 3) == 0)
                return -1;
            inside = true;
            bn_str_addc(out, '[');
            if (s[i + 1] == '^')
                bn_str_addc(out, s[++i]);
            continue;
        }
        if (s[i] == ']')
            inside = false;
        if ((inside && s[i] == '&' && s[i + 1] == '&')
            || (!inside && has_m_flag(s + i)))
            return -1;
        bn_str_addc(out, s[i]);
    }
    return 0;
}

int bn_pattern_regex(struct bn_pattern *p, const char *source,
                     const char *where, struct bn_err *err)
{
    struct bn_str re = {0};
    size_t at = 0;
    int code;
    PCRE2_SIZE off;
    PCRE2_UCHAR msg[120];
    int rc = -1;

    if (translate(source, &re, &at) < 0) {
        bn_fail(err, BN_ERR_DATA, "%s: the regular expression uses what is "
                "not supported at \"%.20s\"", where, source + at);
        goto out;
    }
    pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
    if (cc != NULL)
        pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
    pcre2_code *code8 =
        pcre2_compile((PCRE2_SPTR)(re.s != NULL ? re.s : ""), re.len,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE
                          | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE,
                      &code, &off, cc);
    pcre2_compile_context_free(cc);
    if (code8 == NULL) {
        pcre2_get_error_message(code, msg, sizeof(msg));
        bn_fail(err, BN_ERR_DATA, "%s: bad regular expression: %s", where,
                (const char *)msg);
        goto out;
    }
    /* Without JIT the interpreter does it. */
    (void)pcre2_jit_compile(code8, PCRE2_JIT_COMPLETE);
    p->re = code8;
    p->text = bn_strdup(source);
    p->len = strlen(source);
    rc = 0;
out:
    bn_str_release(&re);
    return rc;
}

void bn_pattern_literal(struct bn_pattern *p, const char *s, size_t n)
{
    *p = (struct bn_pattern){.text = bn_strndup(s, n), .len = n};
}

int bn_pattern_parse(struct bn_pattern *p, const json_t *spec,
                     const char *where, struct bn_err *err)
{
    json_t *v = json_object_get(spec, "String");

    *p = (struct bn_pattern){0};
    if (json_is_string(v)) {
        bn_pattern_literal(p, json_string_value(v), json_string_length(v));
        return 0;
    }
    v = json_object_get(spec, "Regex");
    if (!json_is_string(v))
        return bn_fail(err, BN_ERR_DATA, "%s: 'pattern' must be "
                       "{\"String\": ...} or {\"Regex\": ...}", where);
    return bn_pattern_regex(p, json_string_value(v), where, err);
}

void bn_pattern_release(struct bn_pattern *p)
{
    pcre2_code_free(p->re);
    free(p->text);
    *p = (struct bn_pattern){0};
}

static int find(const struct bn_pattern *p, struct bn_matcher *m,
                const char *s, size_t n, size_t from, struct bn_match *it,
                struct bn_err *err)
{
    if (p->re == NULL) {
        const char *hit =
            p->len == 0 ? NULL : memmem(s + from, n - from, p->text, p->len);

        if (hit == NULL)
            return 0;
        it->b = (size_t)(hit - s);
        it->e = it->b + p->len;
        return 1;
    }
    int rc = pcre2_match(p->re, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK,
                         m->data, m->ctx);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc < 0) {
        PCRE2_UCHAR msg[120];

        pcre2_get_error_message(rc, msg, sizeof(msg));
        return bn_fail(err, BN_ERR_DATA, "the regular expression \"%.60s\" "
                       "fails on this text: %s", p->text, (const char *)msg);
    }
    PCRE2_SIZE *ov = pcre2_get_ovector_pointer(m->data);
    it->b = ov[0];
    it->e = ov[1];
    return 1;
}

/* One character on from 'at'. */
static size_t step(const char *s, size_t n, size_t at)
{
    at++;
    while (at < n && ((unsigned char)s[at] & 0xc0) == 0x80)
        at++;
    return at;
}

int bn_pattern_next(const struct bn_pattern *p, struct bn_matcher *m,
                    const char *s, size_t n, struct bn_match *it,
                    struct bn_err *err)
{
    while (it->next <= n) {
        size_t last = it->e;
        int rc = find(p, m, s, n, it->next, it, err);

        if (rc <= 0)
            return rc;
        if (it->e > it->b) {
            it->next = it->e;
            it->begun = true;
            return 1;
        }
        /* An empty match right behind the last one does not count. */
        bool again = it->begun && it->b == last;
        it->next = step(s, n, it->e);
        if (again)
            continue;
        it->begun = true;
        return 1;
    }
    return 0;
}
