/* Reading the "decoder" of a tokenizer.json. */
#include "config.h"
#include "text/decoder.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static int text_of(const json_t *spec, const char *where, const char *key,
                   const char *fallback, char **out, size_t *len,
                   struct bn_err *err)
{
    const char *s = fallback;

    if (bn_json_str(spec, where, key, &s, err) < 0)
        return -1;
    if (s == NULL)
        return bn_fail(err, BN_ERR_DATA, "%s: decoder needs a string '%s'",
                       where, key);
    *out = bn_strdup(s);
    *len = strlen(s);
    return 0;
}

static int parse_metaspace(struct bn_decode_step *st, const json_t *spec,
                           const char *where, struct bn_err *err)
{
    const char *scheme = NULL;
    bool prefix = true;

    if (text_of(spec, where, "replacement", "\xe2\x96\x81", &st->pattern.text,
                &st->pattern.len, err) < 0
        || bn_json_str(spec, where, "prepend_scheme", &scheme, err) < 0
        || bn_json_bool(spec, where, "add_prefix_space", &prefix, err) < 0)
        return -1;
    if (st->pattern.len == 0)
        return bn_fail(err, BN_ERR_DATA, "%s: decoder Metaspace: "
                       "'replacement' is empty", where);
    st->start = scheme != NULL ? strcmp(scheme, "never") != 0 : prefix;
    return 0;
}

static int parse_strip(struct bn_decode_step *st, const json_t *spec,
                       const char *where, struct bn_err *err)
{
    if (text_of(spec, where, "content", NULL, &st->content, &st->content_len,
                err) < 0
        || bn_json_int(spec, where, "start", &st->start, err) < 0
        || bn_json_int(spec, where, "stop", &st->stop, err) < 0)
        return -1;
    if (st->content_len == 0 || st->start < 0 || st->stop < 0)
        return bn_fail(err, BN_ERR_DATA, "%s: decoder Strip needs a "
                       "character and counts that are not negative", where);
    return 0;
}

static int parse_step(struct bn_decode_step *st, const json_t *spec,
                      const char *type, const char *where, struct bn_err *err)
{
    static const struct {
        const char *name;
        enum bn_decode_kind kind;
    } kinds[] = {
        {"ByteLevel", BN_DECODE_BYTES},     {"Replace", BN_DECODE_REPLACE},
        {"ByteFallback", BN_DECODE_FALLBACK}, {"Fuse", BN_DECODE_FUSE},
        {"Strip", BN_DECODE_STRIP},         {"Metaspace", BN_DECODE_METASPACE},
        {"BPEDecoder", BN_DECODE_SUFFIX},
    };
    size_t i = 0;

    while (i < BN_COUNT(kinds) && strcmp(kinds[i].name, type) != 0)
        i++;
    if (i == BN_COUNT(kinds))
        return bn_fail(err, BN_ERR_DATA, "%s: decoder '%.40s' is not "
                       "supported", where, type);
    st->kind = kinds[i].kind;
    switch (st->kind) {
    case BN_DECODE_REPLACE:
        if (bn_pattern_parse(&st->pattern, json_object_get(spec, "pattern"),
                             where, err) < 0)
            return -1;
        return text_of(spec, where, "content", NULL, &st->content,
                       &st->content_len, err);
    case BN_DECODE_STRIP:
        return parse_strip(st, spec, where, err);
    case BN_DECODE_METASPACE:
        return parse_metaspace(st, spec, where, err);
    case BN_DECODE_SUFFIX:
        return text_of(spec, where, "suffix", "</w>", &st->content,
                       &st->content_len, err);
    default:
        return 0;
    }
}

static int parse(struct bn_decoder *d, const json_t *spec, const char *where,
                 int depth, struct bn_err *err)
{
    const char *type = json_string_value(json_object_get(spec, "type"));
    json_t *list;

    if (spec == NULL || json_is_null(spec))
        return 0;
    if (type == NULL || depth > 16)
        return bn_fail(err, BN_ERR_DATA, "%s: decoder %s", where,
                       type == NULL ? "has no 'type'" : "is nested too deep");
    if (strcmp(type, "Sequence") != 0) {
        bn_grow(&d->step, &d->cap, d->n + 1, sizeof(*d->step));
        d->step[d->n] = (struct bn_decode_step){0};
        return parse_step(&d->step[d->n++], spec, type, where, err);
    }
    list = json_object_get(spec, "decoders");
    if (!json_is_array(list))
        return bn_fail(err, BN_ERR_DATA, "%s: decoder Sequence needs an "
                       "array 'decoders'", where);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (parse(d, json_array_get(list, i), where, depth + 1, err) < 0)
            return -1;
    return 0;
}

int bn_decoder_init(struct bn_decoder *d, const json_t *spec,
                    const char *where, struct bn_err *err)
{
    *d = (struct bn_decoder){0};
    if (parse(d, spec, where, 0, err) < 0) {
        bn_decoder_release(d);
        return -1;
    }
    return 0;
}

void bn_decoder_release(struct bn_decoder *d)
{
    for (size_t i = 0; i < d->n; i++) {
        bn_pattern_release(&d->step[i].pattern);
        free(d->step[i].content);
    }
    free(d->step);
    *d = (struct bn_decoder){0};
}
