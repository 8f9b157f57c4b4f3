/* What the tests of chat templates share. */
#ifndef BN_TEXT_TEST_CHAT_H
#define BN_TEXT_TEST_CHAT_H

#include "base/tap.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/chat.h"

static inline char *data_path(const char *name)
{
    const char *src = getenv("BN_SRCDIR");

    return bn_asprintf("%s/t/data/chat/%s", src != NULL ? src : ".", name);
}

static inline json_t *load(const char *name)
{
    struct bn_err err = {0};
    char *path = data_path(name);
    json_t *j = bn_json_load(path, &err);

    if (j == NULL)
        fail_msg("%s", err.text);
    free(path);
    return j;
}

static inline const char *str(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* A rendering as a string, or NULL with the error. */
static inline char *render(const char *source, const char *name,
                    const struct bn_chat_args *args, struct bn_span **spans,
                    size_t *nspans, size_t *len, struct bn_err *err)
{
    struct bn_chat *c = bn_chat_create(source, name, err);
    struct bn_str out = {0};
    int rc;

    if (c == NULL)
        return NULL;
    rc = bn_chat_render(c, args, &out, spans, nspans, err);
    bn_chat_destroy(c);
    *len = out.len;
    if (rc == 0)
        return bn_str_take(&out);
    assert_int_equal(out.len, 0);
    bn_str_release(&out);
    return NULL;
}

#endif
