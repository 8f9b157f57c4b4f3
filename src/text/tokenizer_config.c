/* What tokenizer_config.json and its neighbours add: special tokens by name
 * and the chat template.
 */
#include "config.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

/* The text of a special token: a string, or an object with 'content'. */
static const char *token_text(const json_t *v)
{
    return json_string_value(json_is_object(v)
                                 ? json_object_get(v, "content") : v);
}

static void take_names(struct bn_tokenizer *t, const json_t *config)
{
    const char *key;
    json_t *v;

    json_object_foreach ((json_t *)(uintptr_t)config, key, v) {
        const char *text = token_text(v);

        if (bn_str_ends(key, "_token") && text != NULL
            && json_object_get(t->names, key) == NULL)
            json_object_set_new(t->names, key, json_string(text));
    }
}

/* One template, or a list of {name, template}, of which "default" counts. */
static int take_template(struct bn_tokenizer *t, const json_t *config,
                         const char *path, struct bn_err *err)
{
    json_t *v = json_object_get(config, "chat_template"), *one;
    const char *s = NULL;
    size_t i;

    if (v == NULL || json_is_null(v))
        return 0;
    if (json_is_string(v))
        s = json_string_value(v);
    json_array_foreach (v, i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        const char *text =
            json_string_value(json_object_get(one, "template"));

        if (name == NULL || text == NULL)
            return bn_fail(err, BN_ERR_DATA, "%s: chat_template[%zu] needs "
                           "'name' and 'template'", path, i);
        if (json_array_size(v) == 1 || strcmp(name, "default") == 0)
            s = text;
    }
    if (s == NULL)
        return bn_fail(err, BN_ERR_DATA, "%s: chat_template must be a string "
                       "or a list with one named 'default'", path);
    t->template = bn_strdup(s);
    t->template_name = bn_asprintf("%s: chat_template", path);
    return 0;
}

/* Read an optional file of the folder. 0 and NULL if it is not there. */
static int load_optional(const char *dir, const char *name, json_t **out,
                         char **path, struct bn_err *err)
{
    *path = bn_path_join(dir, name);
    *out = NULL;
    if (!bn_is_listed(*path))
        return 0;
    *out = bn_json_load(*path, err);
    if (*out != NULL && json_is_object(*out))
        return 0;
    if (*out != NULL)
        bn_fail(err, BN_ERR_DATA, "%s: must be an object", *path);
    return -1;
}

/* chat_template.jinja, which comes before the one in the configuration. */
static int load_jinja(struct bn_tokenizer *t, const char *dir,
                      struct bn_err *err)
{
    char *path = bn_path_join(dir, "chat_template.jinja");
    size_t len;
    int rc = 0;

    if (bn_is_listed(path)) {
        t->template = bn_file_read(path, 16 << 20, &len, err);
        rc = t->template != NULL ? 0 : -1;
        if (rc == 0)
            t->template_name = bn_strdup(path);
        if (rc == 0 && strlen(t->template) != len)
            rc = bn_fail(err, BN_ERR_DATA, "%s: has a NUL byte", path);
    }
    free(path);
    return rc;
}

static int32_t named(const struct bn_tokenizer *t, const char *name)
{
    const char *text = bn_tokenizer_special(t, name);

    return text != NULL ? bn_tokenizer_id(t, text) : -1;
}

int bn_tokenizer_config(struct bn_tokenizer *t, const char *dir,
                        struct bn_err *err)
{
    json_t *config = NULL, *map = NULL;
    char *config_path = NULL, *map_path = NULL;
    int rc = -1;

    t->names = json_object();
    if (dir != NULL) {
        if (load_jinja(t, dir, err) < 0
            || load_optional(dir, "tokenizer_config.json", &config,
                             &config_path, err) < 0
            || load_optional(dir, "special_tokens_map.json", &map, &map_path,
                             err) < 0)
            goto out;
        take_names(t, config);
        take_names(t, map);
        if (t->template == NULL
            && take_template(t, config, config_path, err) < 0)
            goto out;
    }
    t->bos = named(t, "bos_token");
    t->eos = named(t, "eos_token");
    t->pad = named(t, "pad_token");
    rc = 0;
out:
    json_decref(config);
    json_decref(map);
    free(config_path);
    free(map_path);
    return rc;
}
