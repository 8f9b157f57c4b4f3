#include "config.h"
#include "convert/layout.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* "llama.block_count" of the metadata, copied under a Hugging Face key;
 * 'must': it has to be there. */
static int copy(json_t *o, const char *key, const json_t *meta,
                const char *arch, const char *name, bool must,
                const char *where, struct bn_err *err)
{
    char *full = bn_asprintf("%s.%s", arch, name);
    json_t *v = json_object_get(meta, full);
    int rc = 0;

    if (v != NULL)
        json_object_set(o, key, v);
    else if (must)
        rc = bn_fail(err, BN_ERR_DATA, "%s: metadata has no '%s'", where,
                     full);
    free(full);
    return rc;
}

static const struct {
    const char *key, *name;
    bool must;
} gguf_keys[] = {
    {"hidden_size", "embedding_length", true},
    {"num_hidden_layers", "block_count", true},
    {"intermediate_size", "feed_forward_length", true},
    {"num_attention_heads", "attention.head_count", true},
    {"num_key_value_heads", "attention.head_count_kv", false},
    {"head_dim", "attention.key_length", false},
    {"max_position_embeddings", "context_length", true},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", true},
    {"rope_theta", "rope.freq_base", false},
    {"vocab_size", "vocab_size", false},
};

/* Rotations that the file asks for and this reader does not carry over. */
static int check_gguf_rope(const struct bn_tensors *ts, const char *arch,
                           const char *where, struct bn_err *err)
{
    char *key = bn_asprintf("%s.rope.scaling.type", arch);
    const char *type = json_string_value(json_object_get(ts->meta, key));
    int rc = 0;

    if (type != NULL && strcmp(type, "none") != 0)
        rc = bn_fail(err, BN_ERR_DATA, "%s: RoPE scaling '%s' of a GGUF file "
                     "is not carried over: give a config.json", where, type);
    else if (bn_tensors_find(ts, "rope_freqs.weight") != NULL)
        rc = bn_fail(err, BN_ERR_DATA, "%s: 'rope_freqs.weight' of a GGUF "
                     "file is not carried over: give a config.json", where);
    free(key);
    return rc;
}

json_t *bn_config_of_gguf(const struct bn_tensors *ts, const char *where,
                          struct bn_err *err)
{
    static const char *const tokens[][2] = {
        {"bos_token_id", "ggml.bos_token_id"},
        {"eos_token_id", "ggml.eos_token_id"},
        {"pad_token_id", "ggml.padding_token_id"},
    };
    const char *arch = json_string_value(
        json_object_get(ts->meta, "general.architecture"));
    json_t *o = json_object();

    if (arch == NULL) {
        bn_fail(err, BN_ERR_DATA, "%s: metadata has no "
                "'general.architecture'", where);
        goto error;
    }
    json_object_set_new(o, "model_type", json_string(arch));
    for (size_t i = 0; i < BN_COUNT(gguf_keys); i++)
        if (copy(o, gguf_keys[i].key, ts->meta, arch, gguf_keys[i].name,
                 gguf_keys[i].must, where, err) < 0)
            goto error;
    for (size_t i = 0; i < BN_COUNT(tokens); i++)
        copy(o, tokens[i][0], ts->meta, "tokenizer", tokens[i][1], false,
             where, err);
    json_t *list = json_object_get(ts->meta, "tokenizer.ggml.tokens");
    if (json_is_array(list))
        json_object_set_new(o, "vocab_size",
                            json_integer((json_int_t)json_array_size(list)));
    if (check_gguf_rope(ts, arch, where, err) < 0)
        goto error;
    json_object_set_new(o, "tie_word_embeddings",
                        json_boolean(bn_tensors_find(ts, "output.weight")
                                     == NULL));
    return o;
error:
    json_decref(o);
    return NULL;
}

json_t *bn_config_of_llama2c(const struct bn_tensors *ts, const char *where,
                             struct bn_err *err)
{
    static const char *const keys[][2] = {
        {"hidden_size", "dim"},
        {"intermediate_size", "hidden_dim"},
        {"num_hidden_layers", "n_layers"},
        {"num_attention_heads", "n_heads"},
        {"num_key_value_heads", "n_kv_heads"},
        {"vocab_size", "vocab_size"},
        {"max_position_embeddings", "max_seq_len"},
    };
    json_t *o = json_object();

    for (size_t i = 0; i < BN_COUNT(keys); i++) {
        json_t *v = json_object_get(ts->meta, keys[i][1]);

        if (v == NULL) {
            bn_fail(err, BN_ERR_DATA, "%s: no llama2.c header", where);
            json_decref(o);
            return NULL;
        }
        json_object_set(o, keys[i][0], v);
    }
    json_object_set_new(o, "model_type", json_string("llama"));
    json_object_set_new(o, "rms_norm_eps", json_real(1e-5));
    json_object_set_new(o, "rope_theta", json_real(10000));
    json_object_set_new(o, "bos_token_id", json_integer(1));
    json_object_set_new(o, "eos_token_id", json_integer(2));
    json_object_set(o, "tie_word_embeddings",
                    json_object_get(ts->meta, "shared_classifier"));
    return o;
}
