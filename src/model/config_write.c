#include "config.h"
#include "model/config.h"
#include "model/config_rope.h"

#include <string.h>

static void set_int(json_t *o, const char *key, int v)
{
    json_object_set_new(o, key, json_integer(v));
}

static void set_bool(json_t *o, const char *key, bool v)
{
    json_object_set_new(o, key, json_boolean(v));
}

/* An id, null when there is none. */
static void set_id(json_t *o, const char *key, int v)
{
    json_object_set_new(o, key, v < 0 ? json_null() : json_integer(v));
}

static void set_sizes(const struct bn_model_config *c, json_t *o)
{
    set_int(o, "vocab_size", c->vocab_size);
    set_int(o, "hidden_size", c->hidden_size);
    set_int(o, "intermediate_size", c->intermediate_size);
    set_int(o, "num_hidden_layers", c->layers);
    set_int(o, "num_attention_heads", c->heads);
    set_int(o, "num_key_value_heads", c->kv_heads);
    set_int(o, "head_dim", c->head_dim);
    set_int(o, "max_position_embeddings", c->max_position);
    json_object_set_new(o, "rms_norm_eps", json_real(c->rms_eps));
    json_object_set_new(o, "initializer_range", json_real(c->init_std));
    json_object_set_new(o, "hidden_act", json_string("silu"));
    set_bool(o, "tie_word_embeddings", c->tie_embeddings);
}

static void set_tokens(const struct bn_model_config *c, json_t *o)
{
    set_id(o, "bos_token_id", c->bos);
    if (c->pad >= 0 || json_object_get(o, "pad_token_id") != NULL)
        set_id(o, "pad_token_id", c->pad);
    if (c->n_eos <= 1) {
        set_id(o, "eos_token_id", c->n_eos == 1 ? c->eos[0] : -1);
        return;
    }
    json_t *list = json_array();
    for (int i = 0; i < c->n_eos; i++)
        json_array_append_new(list, json_integer(c->eos[i]));
    json_object_set_new(o, "eos_token_id", list);
}

static void set_window(const struct bn_model_config *c, json_t *o)
{
    if (c->family == BN_LLAMA)
        return;
    if (c->family == BN_MISTRAL) {
        set_id(o, "sliding_window", c->window > 0 ? c->window : -1);
        return;
    }
    set_bool(o, "use_sliding_window", c->window > 0);
    if (c->window == 0) { /* the other keys have no effect: leave them */
        if (json_object_get(o, "sliding_window") == NULL)
            json_object_set_new(o, "sliding_window", json_null());
        return;
    }
    json_t *types = json_array();
    int first = c->layers;
    for (int i = c->layers - 1; i >= 0; i--)
        if (bn_model_window(c, i) > 0)
            first = i;
    for (int i = 0; i < c->layers; i++)
        json_array_append_new(types, json_string(bn_model_window(c, i) > 0
                                                     ? "sliding_attention"
                                                     : "full_attention"));
    set_int(o, "sliding_window", c->window);
    set_int(o, "max_window_layers", first);
    json_object_set_new(o, "layer_types", types);
}

json_t *bn_model_config_json(const struct bn_model_config *c,
                             const json_t *source, enum bn_dtype dtype)
{
    json_t *o = source != NULL ? json_deep_copy(source) : json_object();
    const char *name = dtype == BN_BF16  ? "bfloat16"
                       : dtype == BN_F16 ? "float16"
                                         : "float32";

    json_object_set_new(o, "architectures",
                        json_pack("[s]", bn_family_architecture(c->family)));
    json_object_set_new(o, "model_type",
                        json_string(bn_family_name(c->family)));
    set_sizes(c, o);
    set_tokens(c, o);
    set_window(c, o);
    if (c->family == BN_LLAMA || c->family == BN_QWEN3)
        set_bool(o, "attention_bias", c->o_bias);
    bn_rope_json(c, o);
    bool newer = json_object_get(o, "dtype") != NULL;
    json_object_set_new(o, newer ? "dtype" : "torch_dtype",
                        json_string(name));
    if (newer)
        json_object_del(o, "torch_dtype");
    return o;
}
