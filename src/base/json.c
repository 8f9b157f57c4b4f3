#include "config.h"
#include "base/json.h"
#include "base/file.h"

#include <math.h>
#include <stdlib.h>

json_t *bn_json_parse(const char *text, size_t len, const char *name,
                      struct bn_err *err)
{
    json_error_t e;
    json_t *v = json_loadb(text, len,
                           JSON_REJECT_DUPLICATES | JSON_DECODE_ANY
                               | JSON_ALLOW_NUL, &e);

    if (v == NULL)
        bn_fail(err, BN_ERR_DATA, "%s:%d:%d: invalid JSON: %s", name, e.line,
                e.column, e.text);
    return v;
}

json_t *bn_json_load(const char *path, struct bn_err *err)
{
    size_t len;
    char *text = bn_file_read(path, (size_t)1 << 30, &len, err);
    json_t *v;

    if (text == NULL)
        return NULL;
    v = bn_json_parse(text, len, path, err);
    free(text);
    return v;
}

/* The member, NULL if absent or null. */
static json_t *member(const json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);

    return json_is_null(v) ? NULL : v;
}

static int wrong(const char *where, const char *key, const char *want,
                 struct bn_err *err)
{
    return bn_fail(err, BN_ERR_DATA, "%s: '%s' must be %s", where, key, want);
}

int bn_json_int(const json_t *o, const char *where, const char *key,
                int64_t *out, struct bn_err *err)
{
    json_t *v = member(o, key);

    if (v == NULL)
        return 0;
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return 1;
    }
    double x = json_is_real(v) ? json_real_value(v) : 0.5;
    if (x != floor(x) || fabs(x) > 9e15)
        return wrong(where, key, "an integer", err);
    *out = (int64_t)x;
    return 1;
}

int bn_json_num(const json_t *o, const char *where, const char *key,
                double *out, struct bn_err *err)
{
    json_t *v = member(o, key);

    if (v == NULL)
        return 0;
    if (!json_is_number(v))
        return wrong(where, key, "a number", err);
    *out = json_number_value(v);
    return 1;
}

int bn_json_bool(const json_t *o, const char *where, const char *key,
                 bool *out, struct bn_err *err)
{
    json_t *v = member(o, key);

    if (v == NULL)
        return 0;
    if (!json_is_boolean(v))
        return wrong(where, key, "true or false", err);
    *out = json_is_true(v);
    return 1;
}

int bn_json_str(const json_t *o, const char *where, const char *key,
                const char **out, struct bn_err *err)
{
    json_t *v = member(o, key);

    if (v == NULL)
        return 0;
    if (!json_is_string(v))
        return wrong(where, key, "a string", err);
    *out = json_string_value(v);
    return 1;
}
