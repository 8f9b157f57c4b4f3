/* libFuzzer over rows of JSON and CSV; built by 'make fuzz-rows', which needs
 * clang. Rows of JSON are also given to jansson: both must take or refuse
 * them, and read the same string. */
#include "config.h"
#include "data/row.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[BN_COL_COUNT] = {
    "text", "prompt", "completion", "chosen", "rejected", "messages",
    "conversations", "instruction", "input", "output", "system", "tools"};

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t len);

static void differ(const char *what, const char *detail)
{
    fprintf(stderr, "%s: %s\n", what, detail);
    abort();
}

/* Limits and duplicates are ours alone. */
static bool known(const char *bad)
{
    return strstr(bad, "second time") != NULL || strstr(bad, "deep") != NULL;
}

/* What JSON allows and jansson cannot hold: a number beyond a double, and
 * the character 0 in a key, whatever the flags say of strings. */
static bool beyond(const json_error_t *e)
{
    return json_error_code(e) == json_error_numeric_overflow
           || json_error_code(e) == json_error_null_byte_in_key;
}

static void check_json(const char *s, size_t n)
{
    static struct bn_str scratch;
    struct bn_row row;
    char why[200];
    json_error_t e;
    const char *bad = bn_row_json(s, n, names, &row, &scratch, why);
    json_t *o;

    /* No JSON holds the byte 0; jansson loses one that follows a word or a
     * number, so that it cannot say. */
    if (memchr(s, 0, n) != NULL) {
        if (bad == NULL)
            differ("accepted with a byte 0", "");
        return;
    }
    o = json_loadb(s, n, JSON_ALLOW_NUL, &e);
    if (o != NULL && !json_is_object(o)) {
        json_decref(o);
        o = NULL;
    }
    if (bad == NULL && o == NULL && !beyond(&e))
        differ("accepted here alone", e.text);
    if (bad != NULL && o != NULL && !known(bad))
        differ("refused here alone", bad);
    if (bad == NULL && o != NULL) {
        json_t *v = json_object_get(o, "text");
        const struct bn_field *f = &row.f[BN_COL_TEXT];

        if (json_is_string(v)
            && (f->type != BN_FIELD_STRING || f->n != json_string_length(v)
                || memcmp(f->s, json_string_value(v), f->n) != 0))
            differ("another text", json_string_value(v));
    }
    json_decref(o);
}

static void check_csv(const char *s, size_t n)
{
    static struct bn_str scratch;
    struct bn_csv_head head = {0};
    struct bn_row row;
    char why[200];
    size_t at = 0, next = 0;

    while (at < n) {
        size_t len = bn_csv_record(s + at, n - at, true, &next);

        if (len == (size_t)-1)
            break;
        if (len > next || next == 0)
            differ("a record longer than its place", "");
        if (head.col == NULL)
            bn_csv_head_parse(&head, s + at, len, names, why);
        else
            bn_row_csv(s + at, len, &head, &row, &scratch, why);
        at += next;
    }
    bn_csv_head_release(&head);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t len)
{
    struct bn_str keys = {0};
    char why[200];

    check_json((const char *)data, len);
    check_csv((const char *)data, len);
    bn_row_keys((const char *)data, len, &keys, why);
    bn_str_release(&keys);
    return 0;
}
