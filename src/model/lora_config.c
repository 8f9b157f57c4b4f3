/* adapter_config.json of PEFT: strict in, complete out. */
#include "config.h"
#include "model/lora.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Read below, or known to change nothing here. Any other key must hold the
 * value that switches it off. */
static const char *const known[] = {
    "auto_mapping", "base_model_name_or_path", "bias", "inference_mode",
    "init_lora_weights", "lora_alpha", "lora_dropout", "megatron_core",
    "modules_to_save", "peft_type", "peft_version", "qalora_group_size", "r",
    "revision", "runtime_config", "target_modules", "task_type", "use_rslora",
};
/* Ways to begin that change the base's weights as well. */
static const char *const other_bases[] = {
    "pissa", "olora", "corda", "eva", "loftq", "lora_ga",
};

static bool is_off(const json_t *v)
{
    return json_is_null(v) || json_is_false(v)
           || (json_is_number(v) && json_number_value(v) == 0)
           || (json_is_string(v) && json_string_length(v) == 0)
           || (json_is_array(v) && json_array_size(v) == 0)
           || (json_is_object(v) && json_object_size(v) == 0);
}

static bool in_list(const char *key, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, list[i]) == 0)
            return true;
    return false;
}

static int check_keys(const json_t *root, const char *where,
                      struct bn_err *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)root, key, v)
    {
        if (in_list(key, known, BN_COUNT(known)) || is_off(v))
            continue;
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
        bn_fail(err, BN_ERR_DATA, "%s: %s: %.60s is not supported", where,
                key, text);
        free(text);
        return -1;
    }
    return 0;
}

static int check_words(const json_t *o, const char *where, struct bn_err *err)
{
    const char *type = NULL, *bias = "none";
    const char *init = json_string_value(
        json_object_get(o, "init_lora_weights"));

    if (bn_json_str(o, where, "peft_type", &type, err) < 0
        || bn_json_str(o, where, "bias", &bias, err) < 0)
        return -1;
    if (type == NULL || strcmp(type, "LORA") != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: peft_type: %s is not supported:"
                       " LORA is", where, type != NULL ? type : "none");
    if (strcmp(bias, "none") != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: bias: %s is not supported: none"
                       " is", where, bias);
    for (size_t i = 0; init != NULL && i < BN_COUNT(other_bases); i++)
        if (strncmp(init, other_bases[i], strlen(other_bases[i])) == 0)
            return bn_fail(err, BN_ERR_DATA, "%s: init_lora_weights: %s is "
                           "not supported: it changes the base model, too",
                           where, init);
    return 0;
}

/* An array of strings into a list; absent and null are the empty one. */
static int read_names(const json_t *o, const char *where, const char *key,
                      char ***list, size_t *n, struct bn_err *err)
{
    const json_t *v = json_object_get(o, key);
    json_t *e;
    size_t i;

    if (v == NULL || json_is_null(v))
        return 0;
    if (!json_is_array(v))
        return bn_fail(err, BN_ERR_DATA, "%s: %s must be a list of names",
                       where, key);
    json_array_foreach((json_t *)(uintptr_t)v, i, e)
    {
        if (!json_is_string(e) || json_string_length(e) == 0)
            return bn_fail(err, BN_ERR_DATA, "%s: %s: number %zu is no name",
                           where, key, i + 1);
        bn_lora_add_name(list, n, json_string_value(e));
    }
    return 0;
}

static int read_targets(const json_t *o, const char *where, struct bn_lora *l,
                        struct bn_err *err)
{
    const char *text = json_string_value(json_object_get(o, "target_modules"));

    if (text != NULL && strcmp(text, "all-linear") == 0) {
        bn_lora_all_linear(l);
        return 0;
    }
    if (text != NULL)
        return bn_fail(err, BN_ERR_DATA, "%s: target_modules: '%.80s' is a "
                       "regular expression, which is not supported: list the "
                       "names", where, text);
    return read_names(o, where, "target_modules", &l->target, &l->ntarget,
                      err);
}

static int read_numbers(const json_t *o, const char *where, struct bn_lora *l,
                        struct bn_err *err)
{
    int64_t r = 0;

    l->alpha = 8; /* PEFT's default */
    if (bn_json_int(o, where, "r", &r, err) < 0
        || bn_json_num(o, where, "lora_alpha", &l->alpha, err) < 0
        || bn_json_num(o, where, "lora_dropout", &l->dropout, err) < 0
        || bn_json_bool(o, where, "use_rslora", &l->rslora, err) < 0)
        return -1;
    if (r < 1 || r > 65536)
        return bn_fail(err, BN_ERR_DATA, "%s: r is %lld, not 1 to 65536",
                       where, (long long)r);
    if (!(l->alpha > 0 && l->alpha <= 1e6))
        return bn_fail(err, BN_ERR_DATA, "%s: lora_alpha is %g, not above 0",
                       where, l->alpha);
    if (!(l->dropout >= 0 && l->dropout < 1))
        return bn_fail(err, BN_ERR_DATA, "%s: lora_dropout is %g, not in "
                       "[0, 1)", where, l->dropout);
    l->r = (int)r;
    return 0;
}

int bn_lora_parse(struct bn_lora *l, const json_t *o, const char *where,
                  struct bn_err *err)
{
    struct bn_lora got = {0};

    if (!json_is_object(o))
        return bn_fail(err, BN_ERR_DATA, "%s: expected an object", where);
    if (read_numbers(o, where, &got, err) < 0
        || read_targets(o, where, &got, err) < 0
        || read_names(o, where, "modules_to_save", &got.save, &got.nsave, err)
               < 0) {
        bn_lora_release(&got);
        return -1;
    }
    *l = got;
    return 0;
}

int bn_lora_load(struct bn_lora *l, const char *dir, struct bn_err *err)
{
    char *path = bn_path_join(dir, "adapter_config.json");
    json_t *o = bn_json_load(path, err);
    int rc = -1;

    if (o != NULL && !json_is_object(o))
        bn_fail(err, BN_ERR_DATA, "%s: expected an object", path);
    else if (o != NULL && check_keys(o, path, err) == 0
             && check_words(o, path, err) == 0)
        rc = bn_lora_parse(l, o, path, err);
    json_decref(o);
    free(path);
    return rc;
}

static json_t *names(char *const *list, size_t n)
{
    json_t *a = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(a, json_string(list[i]));
    return a;
}

/* A whole number as one: PEFT's own type for alpha is int. */
static json_t *number(double v)
{
    return v == (double)(json_int_t)v ? json_integer((json_int_t)v)
                                      : json_real(v);
}

json_t *bn_lora_json(const struct bn_lora *l)
{
    return json_pack("{s:i, s:o, s:f, s:b, s:o, s:o}", "r", l->r,
                     "lora_alpha", number(l->alpha), "lora_dropout",
                     l->dropout, "use_rslora", (int)l->rslora,
                     "target_modules", names(l->target, l->ntarget),
                     "modules_to_save",
                     l->nsave > 0 ? names(l->save, l->nsave) : json_null());
}

json_t *bn_lora_config_json(const struct bn_lora *l, const char *base)
{
    json_t *o = bn_lora_json(l);

    json_object_set_new(o, "peft_type", json_string("LORA"));
    json_object_set_new(o, "task_type", json_string("CAUSAL_LM"));
    json_object_set_new(o, "base_model_name_or_path",
                        base != NULL ? json_string(base) : json_null());
    json_object_set_new(o, "bias", json_string("none"));
    json_object_set_new(o, "fan_in_fan_out", json_false());
    json_object_set_new(o, "inference_mode", json_true());
    json_object_set_new(o, "init_lora_weights", json_true());
    json_object_set_new(o, "use_dora", json_false());
    return o;
}
