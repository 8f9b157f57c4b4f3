#include "config.h"
#include "model/config_rope.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

static const char *const types[BN_NROPE] = {
    [BN_ROPE_DEFAULT] = "default", [BN_ROPE_LINEAR] = "linear",
    [BN_ROPE_DYNAMIC] = "dynamic", [BN_ROPE_YARN] = "yarn",
    [BN_ROPE_LLAMA3] = "llama3",
};

/* Which keys a type reads. */
enum { YARN = 1 << BN_ROPE_YARN, LLAMA3 = 1 << BN_ROPE_LLAMA3,
       SCALED = ~(1 << BN_ROPE_DEFAULT), ANY = ~0 };
static const struct {
    const char *key;
    int types;
} keys[] = {
    {"type", ANY},
    {"rope_type", ANY},
    {"rope_theta", ANY},
    {"partial_rotary_factor", ANY},
    {"factor", SCALED},
    {"original_max_position_embeddings", ANY}, /* checked where it matters */
    {"low_freq_factor", LLAMA3},
    {"high_freq_factor", LLAMA3},
    {"attention_factor", YARN},
    {"beta_fast", YARN},
    {"beta_slow", YARN},
    {"mscale", YARN},
    {"mscale_all_dim", YARN},
    {"truncate", YARN},
    {"finetuned", YARN}, /* written by YaRN's authors; read by nobody */
};

const char *bn_rope_name(enum bn_rope_type t)
{
    return types[t];
}

static bool given(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return v != NULL && !json_is_null(v);
}

static int parse_type(struct bn_rope *r, const json_t *o, const char *where,
                      struct bn_err *err)
{
    const char *old = NULL, *name = NULL;

    if (bn_json_str(o, where, "type", &old, err) < 0
        || bn_json_str(o, where, "rope_type", &name, err) < 0)
        return -1;
    if (name != NULL && old != NULL && strcmp(name, old) != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: 'type' and 'rope_type' "
                       "disagree", where);
    name = name != NULL ? name : old != NULL ? old : "default";
    for (int t = 0; t < BN_NROPE; t++) {
        if (strcmp(name, types[t]) == 0) {
            r->type = (enum bn_rope_type)t;
            return 0;
        }
    }
    return bn_fail(err, BN_ERR_DATA, "%s: rope type '%s' is not supported "
                   "(known: default, linear, dynamic, yarn, llama3)", where,
                   name);
}

static int check_members(const struct bn_rope *r, const json_t *o,
                         const char *where, struct bn_err *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)o, key, v)
    {
        size_t i = 0;

        if (json_is_object(v))
            return bn_fail(err, BN_ERR_DATA, "%s: RoPE parameters of their "
                           "own for '%s' are not supported", where, key);
        while (i < BN_COUNT(keys) && strcmp(keys[i].key, key) != 0)
            i++;
        if (!json_is_null(v)
            && (i == BN_COUNT(keys) || !(keys[i].types >> r->type & 1)))
            return bn_fail(err, BN_ERR_DATA, "%s: '%s' is not known for rope "
                           "type '%s'", where, key, types[r->type]);
    }
    double part = 1;
    if (bn_json_num(o, where, "partial_rotary_factor", &part, err) < 0)
        return -1;
    if (part != 1)
        return bn_fail(err, BN_ERR_DATA, "%s: 'partial_rotary_factor' other "
                       "than 1 is not supported", where);
    return 0;
}

/* A number above 'above' that must be there. */
static int need(const json_t *o, const char *where, const char *key,
                double above, double *out, struct bn_err *err)
{
    int got = bn_json_num(o, where, key, out, err);

    if (got < 0)
        return -1;
    if (got == 0)
        return bn_fail(err, BN_ERR_DATA, "%s: '%s' is missing", where, key);
    if (!(*out > above && *out < 1e12))
        return bn_fail(err, BN_ERR_DATA, "%s: '%s' is %g", where, key, *out);
    return 0;
}

static int parse_original(struct bn_model_config *c, const json_t *root,
                          const json_t *o, const char *where,
                          struct bn_err *err)
{
    static const char key[] = "original_max_position_embeddings";
    int64_t outer = 0, v = 0;
    int got_outer = bn_json_int(root, where, key, &outer, err);
    int got = got_outer < 0 ? -1 : bn_json_int(o, where, key, &v, err);

    if (got < 0)
        return -1;
    if (got == 1 && got_outer == 1 && v != outer)
        return bn_fail(err, BN_ERR_DATA, "%s: '%s' is %lld in one place and "
                       "%lld in another", where, key, (long long)v,
                       (long long)outer);
    v = got == 1 ? v : got_outer == 1 ? outer : c->max_position;
    if (v < 1 || v > 1 << 30)
        return bn_fail(err, BN_ERR_DATA, "%s: '%s' is %lld", where, key,
                       (long long)v);
    c->rope.original_max_position = (int)v;
    return 0;
}

static int parse_llama3(struct bn_rope *r, const json_t *o, const char *where,
                        struct bn_err *err)
{
    if (need(o, where, "low_freq_factor", 0, &r->low_freq_factor, err) < 0
        || need(o, where, "high_freq_factor", 0, &r->high_freq_factor, err)
               < 0)
        return -1;
    if (r->high_freq_factor <= r->low_freq_factor)
        return bn_fail(err, BN_ERR_DATA, "%s: 'high_freq_factor' is not "
                       "above 'low_freq_factor'", where);
    return 0;
}

static int parse_yarn(struct bn_model_config *c, const json_t *o,
                      const char *where, struct bn_str *notes,
                      struct bn_err *err)
{
    static const struct {
        const char *key;
        size_t at;
    } nums[] = {
        {"attention_factor", offsetof(struct bn_rope, attention_factor)},
        {"mscale", offsetof(struct bn_rope, mscale)},
        {"mscale_all_dim", offsetof(struct bn_rope, mscale_all_dim)},
        {"beta_fast", offsetof(struct bn_rope, beta_fast)},
        {"beta_slow", offsetof(struct bn_rope, beta_slow)},
    };
    struct bn_rope *r = &c->rope;

    for (size_t i = 0; i < BN_COUNT(nums); i++) {
        double *out = (double *)(void *)((char *)r + nums[i].at);

        if (bn_json_num(o, where, nums[i].key, out, err) < 0)
            return -1;
        if (!(*out >= 0 && *out < 1e6))
            return bn_fail(err, BN_ERR_DATA, "%s: '%s' is %g", where,
                           nums[i].key, *out);
    }
    /* 0 counts as absent, as in transformers */
    if (r->beta_fast == 0)
        r->beta_fast = 32;
    if (r->beta_slow == 0)
        r->beta_slow = 1;
    r->truncate = true;
    if (bn_json_bool(o, where, "truncate", &r->truncate, err) < 0)
        return -1;
    double ratio = (double)c->max_position / r->original_max_position;
    if (fabs(ratio - r->factor) > 1e-6 * ratio
        && given(o, "original_max_position_embeddings") && notes != NULL)
        bn_str_addf(notes, "%s: yarn factor %g is used; transformers 4.46 to "
                    "4.56 used max_position_embeddings over "
                    "original_max_position_embeddings, %g\n", where,
                    r->factor, ratio);
    return 0;
}

static int parse_theta(struct bn_model_config *c, const json_t *root,
                       const json_t *o, const char *where,
                       struct bn_str *notes, struct bn_err *err)
{
    double outer = 0, inner = 0;
    int got = bn_json_num(root, where, "rope_theta", &outer, err);
    int got_inner = bn_json_num(o, where, "rope_theta", &inner, err);

    if (got < 0 || got_inner < 0)
        return -1;
    if (got == 1 && got_inner == 1 && outer != inner)
        return bn_fail(err, BN_ERR_DATA, "%s: 'rope_theta' is %g in one "
                       "place and %g in another", where, outer, inner);
    c->rope.theta = got_inner == 1 ? inner : outer;
    if (got == 0 && got_inner == 0) {
        /* Files of the first two Llama generations do not have the key. */
        if (c->family != BN_LLAMA)
            return bn_fail(err, BN_ERR_DATA, "%s: 'rope_theta' is missing",
                           where);
        c->rope.theta = 10000;
        if (notes != NULL)
            bn_str_addf(notes, "%s: 'rope_theta' is not given: 10000\n",
                        where);
    }
    if (!(c->rope.theta > 1 && c->rope.theta < 1e15))
        return bn_fail(err, BN_ERR_DATA, "%s: 'rope_theta' is %g", where,
                       c->rope.theta);
    return 0;
}

int bn_rope_parse(struct bn_model_config *c, const json_t *root,
                  const char *where, struct bn_str *notes,
                  struct bn_err *err)
{
    static const char *const spellings[] = {"rope_scaling",
                                            "rope_parameters"};
    struct bn_rope *r = &c->rope;
    const json_t *o = NULL;

    for (size_t i = 0; i < BN_COUNT(spellings); i++) {
        if (!given(root, spellings[i]))
            continue;
        if (o != NULL)
            return bn_fail(err, BN_ERR_DATA, "%s: both 'rope_scaling' and "
                           "'rope_parameters' are given", where);
        o = json_object_get(root, spellings[i]);
        if (!json_is_object(o))
            return bn_fail(err, BN_ERR_DATA, "%s: '%s' must be an object",
                           where, spellings[i]);
    }
    if (parse_type(r, o, where, err) < 0
        || check_members(r, o, where, err) < 0
        || parse_theta(c, root, o, where, notes, err) < 0)
        return -1;
    if (r->type == BN_ROPE_DEFAULT)
        return 0;
    if (need(o, where, "factor", 0, &r->factor, err) < 0)
        return -1;
    if (r->factor < 1)
        return bn_fail(err, BN_ERR_DATA, "%s: RoPE 'factor' is %g, below 1",
                       where, r->factor);
    if (r->type == BN_ROPE_DYNAMIC && c->head_dim == 2)
        return bn_fail(err, BN_ERR_DATA, "%s: dynamic RoPE needs a head_dim "
                       "above 2", where);
    if ((r->type == BN_ROPE_YARN || r->type == BN_ROPE_LLAMA3)
        && parse_original(c, root, o, where, err) < 0)
        return -1;
    if (r->type == BN_ROPE_LLAMA3)
        return parse_llama3(r, o, where, err);
    if (r->type == BN_ROPE_YARN)
        return parse_yarn(c, o, where, notes, err);
    return 0;
}

static void set_num(json_t *o, const char *key, double v)
{
    json_object_set_new(o, key, json_real(v));
}

/* Members of a scaled type. */
static void scaling_json(const struct bn_rope *r, json_t *o)
{
    set_num(o, "factor", r->factor);
    if (r->type == BN_ROPE_LLAMA3 || r->type == BN_ROPE_YARN)
        json_object_set_new(o, "original_max_position_embeddings",
                            json_integer(r->original_max_position));
    if (r->type == BN_ROPE_LLAMA3) {
        set_num(o, "low_freq_factor", r->low_freq_factor);
        set_num(o, "high_freq_factor", r->high_freq_factor);
    }
    if (r->type != BN_ROPE_YARN)
        return;
    set_num(o, "beta_fast", r->beta_fast);
    set_num(o, "beta_slow", r->beta_slow);
    if (r->attention_factor > 0)
        set_num(o, "attention_factor", r->attention_factor);
    if (r->mscale > 0)
        set_num(o, "mscale", r->mscale);
    if (r->mscale_all_dim > 0)
        set_num(o, "mscale_all_dim", r->mscale_all_dim);
    if (!r->truncate)
        json_object_set_new(o, "truncate", json_false());
}

void bn_rope_json(const struct bn_model_config *c, json_t *root)
{
    const struct bn_rope *r = &c->rope;
    json_t *o = json_object();

    json_object_set_new(o, "rope_type", json_string(types[r->type]));
    if (r->type != BN_ROPE_DEFAULT)
        scaling_json(r, o);
    if (given(root, "rope_parameters")) {
        set_num(o, "rope_theta", r->theta);
        json_object_set_new(root, "rope_parameters", o);
        return;
    }
    set_num(root, "rope_theta", r->theta);
    if (r->type == BN_ROPE_DEFAULT) {
        json_decref(o);
        o = json_null();
    }
    json_object_set_new(root, "rope_scaling", o);
}
