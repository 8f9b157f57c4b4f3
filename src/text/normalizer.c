#include "config.h"
#include "text/normalizer.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/bpe.h"
#include "text/simd.h"
#include "text/uclass.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static int parse(struct bn_normalizer *z, const json_t *spec,
                 const char *where, int depth, struct bn_err *err);

static int parse_sequence(struct bn_normalizer *z, const json_t *spec,
                          const char *where, int depth, struct bn_err *err)
{
    json_t *list = json_object_get(spec, "normalizers");

    if (!json_is_array(list))
        return bn_fail(err, BN_ERR_DATA, "%s: normalizer Sequence needs an "
                       "array 'normalizers'", where);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (parse(z, json_array_get(list, i), where, depth + 1, err) < 0)
            return -1;
    return 0;
}

static int parse_content(struct bn_norm_step *st, const json_t *spec,
                         const char *where, const char *key,
                         struct bn_err *err)
{
    json_t *v = json_object_get(spec, key);

    if (!json_is_string(v))
        return bn_fail(err, BN_ERR_DATA, "%s: normalizer needs a string '%s'",
                       where, key);
    st->content_len = json_string_length(v);
    st->content = bn_strndup(json_string_value(v), st->content_len);
    return 0;
}

static int parse_step(struct bn_norm_step *st, const json_t *spec,
                      const char *type, const char *where, struct bn_err *err)
{
    static const struct {
        const char *name;
        enum bn_norm_kind kind;
    } kinds[] = {
        {"NFC", BN_NORM_NFC},         {"NFD", BN_NORM_NFD},
        {"NFKC", BN_NORM_NFKC},       {"NFKD", BN_NORM_NFKD},
        {"Replace", BN_NORM_REPLACE}, {"Prepend", BN_NORM_PREPEND},
        {"Strip", BN_NORM_STRIP},     {"Lowercase", BN_NORM_LOWER},
        {"ByteLevel", BN_NORM_BYTES},
    };
    size_t i = 0;

    while (i < BN_COUNT(kinds) && strcmp(kinds[i].name, type) != 0)
        i++;
    if (i == BN_COUNT(kinds))
        return bn_fail(err, BN_ERR_DATA, "%s: normalizer '%.40s' is not "
                       "supported", where, type);
    st->kind = kinds[i].kind;
    st->left = st->right = true;
    switch (st->kind) {
    case BN_NORM_REPLACE:
        if (bn_pattern_parse(&st->pattern, json_object_get(spec, "pattern"),
                             where, err) < 0)
            return -1;
        return parse_content(st, spec, where, "content", err);
    case BN_NORM_PREPEND:
        return parse_content(st, spec, where, "prepend", err);
    case BN_NORM_STRIP:
        if (bn_json_bool(spec, where, "strip_left", &st->left, err) < 0
            || bn_json_bool(spec, where, "strip_right", &st->right, err) < 0)
            return -1;
        return 0;
    default:
        return 0;
    }
}

static int parse(struct bn_normalizer *z, const json_t *spec,
                 const char *where, int depth, struct bn_err *err)
{
    const char *type = json_string_value(json_object_get(spec, "type"));

    if (spec == NULL || json_is_null(spec))
        return 0;
    if (type == NULL || depth > 16)
        return bn_fail(err, BN_ERR_DATA, "%s: normalizer %s", where,
                       type == NULL ? "has no 'type'" : "is nested too deep");
    if (strcmp(type, "Sequence") == 0)
        return parse_sequence(z, spec, where, depth, err);
    bn_grow(&z->step, &z->cap, z->n + 1, sizeof(*z->step));
    z->step[z->n] = (struct bn_norm_step){0};
    return parse_step(&z->step[z->n++], spec, type, where, err);
}

int bn_normalizer_init(struct bn_normalizer *z, const json_t *spec,
                       const char *where, struct bn_err *err)
{
    *z = (struct bn_normalizer){0};
    if (parse(z, spec, where, 0, err) < 0) {
        bn_normalizer_release(z);
        return -1;
    }
    return 0;
}

void bn_normalizer_release(struct bn_normalizer *z)
{
    for (size_t i = 0; i < z->n; i++) {
        bn_pattern_release(&z->step[i].pattern);
        free(z->step[i].content);
    }
    free(z->step);
    *z = (struct bn_normalizer){0};
}

int bn_replace(const struct bn_pattern *p, struct bn_matcher *m,
               const char *content, size_t ncontent, const char *s, size_t n,
               struct bn_str *out, struct bn_err *err)
{
    struct bn_match it = {0};
    size_t at = 0;
    int rc;

    for (;;) {
        rc = bn_pattern_next(p, m, s, n, &it, err);
        if (rc <= 0)
            break;
        bn_str_add(out, s + at, it.b - at);
        bn_str_add(out, content, ncontent);
        at = it.e;
    }
    bn_str_add(out, s + at, n - at);
    return rc;
}

/* Canonical or compatible composition or decomposition. */
static int compose(enum bn_norm_kind kind, const char *s, size_t n,
                   struct bn_str *out, struct bn_err *err)
{
    int opt = UTF8PROC_STABLE;

    opt |= kind == BN_NORM_NFC || kind == BN_NORM_NFKC ? UTF8PROC_COMPOSE
                                                       : UTF8PROC_DECOMPOSE;
    if (kind == BN_NORM_NFKC || kind == BN_NORM_NFKD)
        opt |= UTF8PROC_COMPAT;
    utf8proc_uint8_t *to = NULL;
    utf8proc_ssize_t len =
        utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &to,
                     (utf8proc_option_t)opt);
    if (len < 0)
        return bn_fail(err, BN_ERR_DATA, "cannot normalize the text: %s",
                       utf8proc_errmsg(len));
    bn_str_add(out, to, (size_t)len);
    free(to);
    return 0;
}

static void lower(const char *s, size_t n, struct bn_str *out)
{
    for (size_t i = 0; i < n;) {
        char c[4];
        uint32_t cp = 0;
        int len = bn_utf8_get(s + i, n - i, &cp);

        i += len > 0 ? (size_t)len : 1;
        if (cp == 0x130) { /* the one character whose lower case is two */
            bn_str_adds(out, "i\xcc\x87");
            continue;
        }
        cp = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
        bn_str_add(out, c, (size_t)bn_utf8_put(c, cp));
    }
}

static void strip(const struct bn_norm_step *st, const char **s, size_t *n,
                  size_t *cut)
{
    const struct bn_uclass_table *t = bn_uclass_table();
    int len;

    while (st->left && *n > 0 && bn_uclass_at(t, *s, &len) == BN_U_SPACE) {
        *s += len;
        *n -= (size_t)len;
        *cut += (size_t)len;
    }
    while (st->right && *n > 0) {
        size_t at = *n - 1;

        while (((unsigned char)(*s)[at] & 0xc0) == 0x80)
            at--;
        if (bn_uclass_at(t, *s + at, &len) != BN_U_SPACE)
            break;
        *n = at;
    }
}

/* True if the step leaves s[0..n) as it is. */
static bool keeps(const struct bn_norm_step *st, const char *s, size_t n)
{
    switch (st->kind) {
    case BN_NORM_NFC:
        return bn_nfc_plain(s, n);
    case BN_NORM_PREPEND:
        return n == 0;
    case BN_NORM_REPLACE:
        return st->pattern.re == NULL
               && (st->pattern.len == 0
                   || memmem(s, n, st->pattern.text, st->pattern.len) == NULL);
    default:
        return false;
    }
}

static int apply(const struct bn_norm_step *st, struct bn_matcher *m,
                 const char *s, size_t n, struct bn_str *out,
                 struct bn_err *err)
{
    switch (st->kind) {
    case BN_NORM_REPLACE:
        return bn_replace(&st->pattern, m, st->content, st->content_len, s, n,
                          out, err);
    case BN_NORM_PREPEND:
        bn_str_add(out, st->content, st->content_len);
        bn_str_add(out, s, n);
        return 0;
    case BN_NORM_LOWER:
        lower(s, n, out);
        return 0;
    case BN_NORM_BYTES:
        bn_byte_names(out, s, n);
        return 0;
    default:
        return compose(st->kind, s, n, out, err);
    }
}

int bn_normalize(const struct bn_normalizer *z, struct bn_matcher *m,
                 const char *s, size_t n, struct bn_str buf[2],
                 const char **out, size_t *nout, size_t *cut,
                 struct bn_err *err)
{
    int to = 0;

    *cut = 0;
    for (size_t i = 0; i < z->n; i++) {
        const struct bn_norm_step *st = &z->step[i];

        if (st->kind == BN_NORM_STRIP) {
            strip(st, &s, &n, cut);
            continue;
        }
        if (keeps(st, s, n))
            continue;
        bn_str_clear(&buf[to]);
        if (apply(st, m, s, n, &buf[to], err) < 0)
            return -1;
        s = buf[to].len > 0 ? buf[to].s : "";
        n = buf[to].len;
        to = !to;
    }
    *out = s;
    *nout = n;
    return 0;
}

bool bn_nfc_plain(const char *s, size_t n)
{
    const struct bn_uclass_table *t = bn_uclass_table();

    for (size_t i = bn_bytes_plain(s, n); i < n;) {
        uint32_t cp = 0;
        int len = bn_utf8_get(s + i, n - i, &cp);

        if (len == 0 || !bn_nfc_inert(t, cp))
            return false;
        i += (size_t)len;
        i += bn_bytes_plain(s + i, n - i);
    }
    return true;
}
