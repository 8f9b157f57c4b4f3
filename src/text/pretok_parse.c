/* Reading the "pre_tokenizer" of a tokenizer.json. */
#include "config.h"
#include "text/pretok.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static struct bn_pretok_step *add(struct bn_pretok *p,
                                  enum bn_pretok_kind kind)
{
    bn_grow(&p->step, &p->cap, p->n + 1, sizeof(*p->step));
    p->step[p->n] = (struct bn_pretok_step){.kind = kind,
                                            .behavior = BN_SPLIT_ISOLATED};
    return &p->step[p->n++];
}

static int parse_behavior(const json_t *spec, const char *where,
                          enum bn_behavior *out, struct bn_err *err)
{
    static const char *const names[] = {"Removed", "Isolated",
                                        "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *s = NULL;

    if (bn_json_str(spec, where, "behavior", &s, err) < 0)
        return -1;
    for (size_t i = 0; s != NULL && i < BN_COUNT(names); i++)
        if (strcasecmp(names[i], s) == 0) {
            *out = (enum bn_behavior)i;
            return 0;
        }
    if (s == NULL)
        return 0;
    return bn_fail(err, BN_ERR_DATA, "%s: pre_tokenizer: split behavior "
                   "'%.40s' is not known", where, s);
}

static int parse_split(struct bn_pretok *p, const json_t *spec,
                       const char *where, struct bn_err *err)
{
    struct bn_pretok_step *st = add(p, BN_PRETOK_SPLIT);

    if (bn_pattern_parse(&st->pattern, json_object_get(spec, "pattern"),
                         where, err) < 0
        || parse_behavior(spec, where, &st->behavior, err) < 0
        || bn_json_bool(spec, where, "invert", &st->invert, err) < 0)
        return -1;
    /* These match everywhere, so gaps are empty and 'invert', 'Removed' and
     * the like would be of no use: only the usual cut is taken over. */
    if (st->pattern.re != NULL && st->behavior == BN_SPLIT_ISOLATED)
        st->scan = bn_scan_known(st->pattern.text);
    return 0;
}

static int add_regex(struct bn_pretok *p, const char *regex,
                     enum bn_behavior behavior, bool invert,
                     const char *where, struct bn_err *err)
{
    struct bn_pretok_step *st = add(p, BN_PRETOK_SPLIT);

    st->behavior = behavior;
    st->invert = invert;
    return bn_pattern_regex(&st->pattern, regex, where, err);
}

static int parse_bytes(struct bn_pretok *p, const json_t *spec,
                       const char *where, struct bn_err *err)
{
    bool prefix = true, regex = true;

    if (bn_json_bool(spec, where, "add_prefix_space", &prefix, err) < 0
        || bn_json_bool(spec, where, "use_regex", &regex, err) < 0)
        return -1;
    if (prefix)
        add(p, BN_PRETOK_PREFIX);
    if (regex)
        add(p, BN_PRETOK_SPLIT)->scan = BN_SCAN_GPT2;
    add(p, BN_PRETOK_BYTES);
    return 0;
}

static int parse_metaspace(struct bn_pretok *p, const json_t *spec,
                           const char *where, struct bn_err *err)
{
    static const char *const names[] = {"never", "first", "always"};
    struct bn_pretok_step *st = add(p, BN_PRETOK_METASPACE);
    const char *mark = "\xe2\x96\x81", *scheme = NULL;
    bool prefix = true;

    st->split = true;
    if (bn_json_str(spec, where, "replacement", &mark, err) < 0
        || bn_json_str(spec, where, "prepend_scheme", &scheme, err) < 0
        || bn_json_bool(spec, where, "add_prefix_space", &prefix, err) < 0
        || bn_json_bool(spec, where, "split", &st->split, err) < 0)
        return -1;
    if (*mark == '\0')
        return bn_fail(err, BN_ERR_DATA, "%s: pre_tokenizer Metaspace: "
                       "'replacement' is empty", where);
    bn_pattern_literal(&st->pattern, mark, strlen(mark));
    if (scheme == NULL)
        scheme = prefix ? "always" : "never";
    if (!prefix && strcmp(scheme, "never") != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: pre_tokenizer Metaspace: "
                       "add_prefix_space is false but prepend_scheme is "
                       "'%.40s'", where, scheme);
    for (size_t i = 0; i < BN_COUNT(names); i++)
        if (strcmp(names[i], scheme) == 0) {
            st->prepend = (enum bn_prepend)i;
            return 0;
        }
    return bn_fail(err, BN_ERR_DATA, "%s: pre_tokenizer Metaspace: "
                   "prepend_scheme '%.40s' is not known", where, scheme);
}

static int parse_other(struct bn_pretok *p, const json_t *spec,
                       const char *type, const char *where,
                       struct bn_err *err)
{
    enum bn_behavior behavior = BN_SPLIT_ISOLATED;
    bool each = false;

    if (strcmp(type, "Digits") == 0) {
        if (bn_json_bool(spec, where, "individual_digits", &each, err) < 0)
            return -1;
        return add_regex(p, "\\p{N}",
                         each ? BN_SPLIT_ISOLATED : BN_SPLIT_CONTIGUOUS,
                         false, where, err);
    }
    if (strcmp(type, "Punctuation") == 0) {
        if (parse_behavior(spec, where, &behavior, err) < 0)
            return -1;
        return add_regex(p, "[\\p{P}$+<=>^`|~]", behavior, false, where, err);
    }
    if (strcmp(type, "WhitespaceSplit") == 0)
        return add_regex(p, "\\s", BN_SPLIT_REMOVED, false, where, err);
    if (strcmp(type, "CharDelimiterSplit") == 0) {
        struct bn_pretok_step *st = add(p, BN_PRETOK_SPLIT);
        const char *s = NULL;

        if (bn_json_str(spec, where, "delimiter", &s, err) < 0)
            return -1;
        st->behavior = BN_SPLIT_REMOVED;
        bn_pattern_literal(&st->pattern, s != NULL ? s : "",
                           s != NULL ? strlen(s) : 0);
        return 0;
    }
    return bn_fail(err, BN_ERR_DATA, "%s: pre_tokenizer '%.40s' is not "
                   "supported", where, type);
}

static int parse(struct bn_pretok *p, const json_t *spec, const char *where,
                 int depth, struct bn_err *err)
{
    const char *type = json_string_value(json_object_get(spec, "type"));
    json_t *list;

    if (spec == NULL || json_is_null(spec))
        return 0;
    if (type == NULL || depth > 16)
        return bn_fail(err, BN_ERR_DATA, "%s: pre_tokenizer %s", where,
                       type == NULL ? "has no 'type'" : "is nested too deep");
    if (strcmp(type, "Split") == 0)
        return parse_split(p, spec, where, err);
    if (strcmp(type, "ByteLevel") == 0)
        return parse_bytes(p, spec, where, err);
    if (strcmp(type, "Metaspace") == 0)
        return parse_metaspace(p, spec, where, err);
    if (strcmp(type, "Sequence") != 0)
        return parse_other(p, spec, type, where, err);
    list = json_object_get(spec, "pretokenizers");
    if (!json_is_array(list))
        return bn_fail(err, BN_ERR_DATA, "%s: pre_tokenizer Sequence needs "
                       "an array 'pretokenizers'", where);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (parse(p, json_array_get(list, i), where, depth + 1, err) < 0)
            return -1;
    return 0;
}

int bn_pretok_init(struct bn_pretok *p, const json_t *spec, const char *where,
                   struct bn_err *err)
{
    *p = (struct bn_pretok){0};
    if (parse(p, spec, where, 0, err) < 0) {
        bn_pretok_release(p);
        return -1;
    }
    return 0;
}

void bn_pretok_release(struct bn_pretok *p)
{
    for (size_t i = 0; i < p->n; i++)
        bn_pattern_release(&p->step[i].pattern);
    free(p->step);
    *p = (struct bn_pretok){0};
}
