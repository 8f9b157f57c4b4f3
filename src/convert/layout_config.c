#include "config.h"
#include "convert/layout.h"
#include "base/mem.h"

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
