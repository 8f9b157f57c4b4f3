/* What a Hugging Face config.json says about a Llama-family model, with
 * nothing left to guess. Families and what sets them apart:
 *
 *   llama    optional biases (attention_bias) on q, k, v and o
 *   mistral  sliding window on every layer
 *   qwen2    biases on q, k, v; sliding window only with use_sliding_window,
 *            on layers max_window_layers and up (or as layer_types says)
 *   qwen3    as qwen2 without its biases (attention_bias adds all four), and
 *            an RMS norm of every query and key head before RoPE
 *
 * Keys and defaults follow transformers. Whatever would change the
 * arithmetic and is not done here is refused by name.
 */
#ifndef BN_MODEL_CONFIG_H
#define BN_MODEL_CONFIG_H

#include <stdbool.h>

#include "base/dtype.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

enum bn_family { BN_LLAMA, BN_MISTRAL, BN_QWEN2, BN_QWEN3, BN_NFAMILY };

enum bn_rope_type {
    BN_ROPE_DEFAULT,
    BN_ROPE_LINEAR,
    BN_ROPE_DYNAMIC,
    BN_ROPE_YARN,
    BN_ROPE_LLAMA3,
    BN_NROPE
};

enum { BN_MAX_LAYERS = 1024, BN_MAX_EOS = 16 };

struct bn_rope {
    enum bn_rope_type type;
    double theta;
    double factor;                            /* all but default */
    int original_max_position;                /* yarn, llama3 */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    double attention_factor; /* yarn; 0: derived from factor and mscales */
    double mscale, mscale_all_dim; /* yarn; 0: not given */
    bool truncate;                 /* yarn */
};

/* A plain value: copy it freely, nothing to release. */
struct bn_model_config {
    enum bn_family family;
    int vocab_size;
    int hidden_size;
    int intermediate_size;
    int layers;   /* 1..BN_MAX_LAYERS */
    int heads;    /* query heads; a multiple of kv_heads */
    int kv_heads;
    int head_dim; /* even; heads * head_dim need not be hidden_size */
    int max_position;
    double rms_eps;
    double init_std;
    bool tie_embeddings; /* the head is the embedding matrix */
    bool qkv_bias;
    bool o_bias;
    bool qk_norm;
    int window; /* keys that a query sees on windowed layers, itself
                 * included; 0: no layer has a window */
    unsigned char windowed[BN_MAX_LAYERS / 8]; /* bit i%8 of byte i/8 */
    struct bn_rope rope;
    int bos, pad; /* -1: none */
    int eos[BN_MAX_EOS];
    int n_eos;
    int dtype; /* enum bn_dtype of the file's torch_dtype; -1: not given */
};

/* Fill '*c' from a parsed config.json named 'where' in messages. 'notes'
 * (NULL is allowed) gets a line for each thing a person may want to know:
 * defaults that were filled in, keys without effect here. On failure '*c'
 * is untouched.
 */
int bn_model_config_parse(struct bn_model_config *c, const json_t *root,
                          const char *where, struct bn_str *notes,
                          struct bn_err *err);
/* The same from a file. */
int bn_model_config_load(struct bn_model_config *c, const char *path,
                         struct bn_str *notes, struct bn_err *err);

/* A config.json of 'c' whose weights are stored as 'dtype' (F32, BF16 or
 * F16): the members of 'source' (NULL: none) with every key that 'c' decides
 * replaced, in the spelling (rope_scaling or rope_parameters, torch_dtype or
 * dtype) that the source uses. The caller owns the result. */
json_t *bn_model_config_json(const struct bn_model_config *c,
                             const json_t *source, enum bn_dtype dtype);

/* "llama"; the model_type. */
const char *bn_family_name(enum bn_family f);
/* "LlamaForCausalLM" */
const char *bn_family_architecture(enum bn_family f);
/* "default", "linear", ... */
const char *bn_rope_name(enum bn_rope_type t);

/* Keys that a query of this layer sees, itself included; 0: all before it. */
static inline int bn_model_window(const struct bn_model_config *c, int layer)
{
    return c->windowed[layer / 8] >> (layer % 8) & 1 ? c->window : 0;
}

#endif
