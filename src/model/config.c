#include "config.h"
#include "model/config.h"
#include "model/config_rope.h"
#include "base/file.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *type, *architecture;
} families[BN_NFAMILY] = {
    [BN_LLAMA] = {"llama", "LlamaForCausalLM"},
    [BN_MISTRAL] = {"mistral", "MistralForCausalLM"},
    [BN_QWEN2] = {"qwen2", "Qwen2ForCausalLM"},
    [BN_QWEN3] = {"qwen3", "Qwen3ForCausalLM"},
};

/* Keys that change what the model computes, unless they hold the value that
 * switches them off: null, false, 0, "" or empty, and for scales 1. */
static const char *const refused[] = {
    "quantization_config",
    "mlp_bias",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "n_shared_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "decoder_sparse_step",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "query_pre_attn_scalar",
    "clip_qkv",
    "alibi",
    "use_mrope",
    "use_qk_norm",
    "qk_layernorm",
    "no_rope_layers",
    "no_rope_layer_interval",
    "rope_interleaved",
    "rope_local_base_freq",
    "attention_chunk_size",
    "add_cross_attention",
    "is_encoder_decoder",
    "parallel_residual",
    "num_nextn_predict_layers",
    "vision_config",
    "audio_config",
    "text_config",
    "pruned_heads",
};
static const char *const refused_scales[] = {
    "partial_rotary_factor", "embedding_multiplier", "residual_multiplier",
    "logits_scaling",        "logit_scale",          "scale_emb",
    "scale_depth",
};
static const char *const dropouts[] = {
    "attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop",
    "classifier_dropout",
};
/* Read elsewhere in this file or known to change nothing here. */
static const char *const known[] = {
    "_attn_implementation", "_name_or_path", "architectures",
    "attention_bias", "bos_token_id", "dtype", "eos_token_id", "head_dim",
    "hidden_act", "hidden_size", "id2label", "initializer_range",
    "intermediate_size", "label2id", "layer_types",
    "max_position_embeddings", "max_window_layers", "model_type",
    "num_attention_heads", "num_hidden_layers", "num_key_value_heads",
    "original_max_position_embeddings", "output_attentions",
    "output_hidden_states", "pad_token_id", "pretraining_tp",
    "return_dict", "rms_norm_eps", "rope_parameters", "rope_scaling",
    "rope_theta", "sliding_window", "tie_word_embeddings", "torch_dtype",
    "transformers_version", "unsloth_fixed", "unsloth_version", "use_cache",
    "use_sliding_window", "vocab_size",
};

const char *bn_family_name(enum bn_family f)
{
    return families[f].type;
}

const char *bn_family_architecture(enum bn_family f)
{
    return families[f].architecture;
}

static bool in_list(const char *key, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, list[i]) == 0)
            return true;
    return false;
}

static bool is_off(const json_t *v)
{
    return v == NULL || json_is_null(v) || json_is_false(v)
           || (json_is_number(v) && json_number_value(v) == 0)
           || (json_is_string(v) && json_string_length(v) == 0)
           || (json_is_array(v) && json_array_size(v) == 0)
           || (json_is_object(v) && json_object_size(v) == 0);
}

static int check_keys(const json_t *root, const char *where,
                      struct bn_str *notes, struct bn_err *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)root, key, v)
    {
        if (in_list(key, refused, BN_COUNT(refused))) {
            if (!is_off(v))
                return bn_fail(err, BN_ERR_DATA, "%s: '%s' is set, which is "
                               "not supported", where, key);
        } else if (in_list(key, refused_scales, BN_COUNT(refused_scales))) {
            if (!json_is_null(v) && json_number_value(v) != 1)
                return bn_fail(err, BN_ERR_DATA, "%s: '%s' other than 1 is "
                               "not supported", where, key);
        } else if (in_list(key, dropouts, BN_COUNT(dropouts))) {
            if (!is_off(v) && notes != NULL)
                bn_str_addf(notes, "%s: '%s' is not applied\n", where, key);
        } else if (!in_list(key, known, BN_COUNT(known)) && notes != NULL) {
            bn_str_addf(notes, "%s: '%s' is not known and has no effect\n",
                        where, key);
        }
    }
    return 0;
}

/* "llama, mistral, ..." */
static void family_list(struct bn_str *s, bool architectures)
{
    for (int f = 0; f < BN_NFAMILY; f++)
        bn_str_addf(s, "%s%s", f > 0 ? ", " : "",
                    architectures ? families[f].architecture
                                  : families[f].type);
}

static int unknown_family(const char *where, const char *key,
                          const char *value, bool architectures,
                          struct bn_err *err)
{
    struct bn_str list = {0};

    family_list(&list, architectures);
    bn_fail(err, BN_ERR_DATA, "%s: %s '%s' is not supported (known: %s)",
            where, key, value, list.s);
    bn_str_release(&list);
    return -1;
}

static int parse_family(struct bn_model_config *c, const json_t *root,
                        const char *where, struct bn_err *err)
{
    const json_t *archs = json_object_get(root, "architectures");
    const char *type = NULL;
    const char *arch = json_string_value(json_array_get(archs, 0));
    int by_type = -1, by_arch = -1;

    if (bn_json_str(root, where, "model_type", &type, err) < 0)
        return -1;
    if (archs != NULL && !json_is_null(archs) && arch == NULL)
        return bn_fail(err, BN_ERR_DATA, "%s: 'architectures' must be a list "
                       "of names", where);
    if (json_array_size(archs) > 1)
        return bn_fail(err, BN_ERR_DATA, "%s: 'architectures' names more "
                       "than one", where);
    if (type == NULL && arch == NULL)
        return bn_fail(err, BN_ERR_DATA, "%s: neither 'model_type' nor "
                       "'architectures' is given", where);
    for (int f = 0; f < BN_NFAMILY; f++) {
        if (type != NULL && strcmp(type, families[f].type) == 0)
            by_type = f;
        if (arch != NULL && strcmp(arch, families[f].architecture) == 0)
            by_arch = f;
    }
    if (type != NULL && by_type < 0)
        return unknown_family(where, "model_type", type, false, err);
    if (arch != NULL && by_arch < 0)
        return unknown_family(where, "architecture", arch, true, err);
    if (type != NULL && arch != NULL && by_type != by_arch)
        return bn_fail(err, BN_ERR_DATA, "%s: model_type '%s' and "
                       "architecture '%s' disagree", where, type, arch);
    c->family = (enum bn_family)(type != NULL ? by_type : by_arch);
    return 0;
}

/* A required or, when '*out' is not 0 on entry, optional size in 1..max. */
static int size_key(const json_t *root, const char *where, const char *key,
                    int64_t max, int *out, struct bn_err *err)
{
    int64_t v = *out;
    int got = bn_json_int(root, where, key, &v, err);

    if (got < 0)
        return -1;
    if (got == 0 && *out == 0)
        return bn_fail(err, BN_ERR_DATA, "%s: '%s' is missing", where, key);
    if (v < 1 || v > max)
        return bn_fail(err, BN_ERR_DATA, "%s: '%s' is %lld, not in 1..%lld",
                       where, key, (long long)v, (long long)max);
    *out = (int)v;
    return 0;
}

static int parse_sizes(struct bn_model_config *c, const json_t *root,
                       const char *where, struct bn_err *err)
{
    if (size_key(root, where, "vocab_size", 1 << 26, &c->vocab_size, err) < 0
        || size_key(root, where, "hidden_size", 1 << 18, &c->hidden_size, err)
               < 0
        || size_key(root, where, "intermediate_size", 1 << 21,
                    &c->intermediate_size, err) < 0
        || size_key(root, where, "num_hidden_layers", BN_MAX_LAYERS,
                    &c->layers, err) < 0
        || size_key(root, where, "num_attention_heads", 1 << 14, &c->heads,
                    err) < 0
        || size_key(root, where, "max_position_embeddings", 1 << 30,
                    &c->max_position, err) < 0)
        return -1;
    /* Llama files older than grouped heads do not have the key. */
    c->kv_heads = c->family == BN_LLAMA ? c->heads : 0;
    if (size_key(root, where, "num_key_value_heads", c->heads, &c->kv_heads,
                 err) < 0)
        return -1;
    if (c->heads % c->kv_heads != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: %d attention heads are not a "
                       "multiple of %d key-value heads", where, c->heads,
                       c->kv_heads);
    /* Qwen3 would take 128 here, whatever hidden_size is. */
    json_t *hd = json_object_get(root, "head_dim");
    if ((hd == NULL || json_is_null(hd)) && c->family != BN_QWEN3) {
        if (c->hidden_size % c->heads != 0)
            return bn_fail(err, BN_ERR_DATA, "%s: hidden_size %d is not a "
                           "multiple of %d heads and 'head_dim' is not given",
                           where, c->hidden_size, c->heads);
        c->head_dim = c->hidden_size / c->heads;
    }
    if (size_key(root, where, "head_dim", 1 << 14, &c->head_dim, err) < 0)
        return -1;
    if (c->head_dim % 2 != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: head_dim %d is odd", where,
                       c->head_dim);
    return 0;
}

static int parse_numbers(struct bn_model_config *c, const json_t *root,
                         const char *where, struct bn_err *err)
{
    const char *act = "silu";
    bool bias = false;
    int got = bn_json_num(root, where, "rms_norm_eps", &c->rms_eps, err);

    if (got < 0)
        return -1;
    if (got == 0)
        return bn_fail(err, BN_ERR_DATA, "%s: 'rms_norm_eps' is missing",
                       where);
    if (!(c->rms_eps > 0 && c->rms_eps < 1))
        return bn_fail(err, BN_ERR_DATA, "%s: 'rms_norm_eps' is %g, not "
                       "between 0 and 1", where, c->rms_eps);
    c->init_std = 0.02;
    if (bn_json_num(root, where, "initializer_range", &c->init_std, err) < 0
        || bn_json_bool(root, where, "tie_word_embeddings",
                        &c->tie_embeddings, err) < 0
        || bn_json_bool(root, where, "attention_bias", &bias, err) < 0
        || bn_json_str(root, where, "hidden_act", &act, err) < 0)
        return -1;
    if (!(c->init_std >= 0 && c->init_std < 1e3))
        return bn_fail(err, BN_ERR_DATA, "%s: 'initializer_range' is %g",
                       where, c->init_std);
    if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: hidden_act '%s' is not "
                       "supported (known: silu)", where, act);
    if (bias && c->family == BN_MISTRAL)
        return bn_fail(err, BN_ERR_DATA, "%s: 'attention_bias' is set, which "
                       "mistral does not have", where);
    bool optional = c->family == BN_LLAMA || c->family == BN_QWEN3;
    c->o_bias = bias && optional;
    c->qkv_bias = c->o_bias || c->family == BN_QWEN2;
    c->qk_norm = c->family == BN_QWEN3;
    return 0;
}

static int parse_layer_types(struct bn_model_config *c, const json_t *types,
                             const char *where, struct bn_err *err)
{
    if (!json_is_array(types) || json_array_size(types) != (size_t)c->layers)
        return bn_fail(err, BN_ERR_DATA, "%s: 'layer_types' must be a list "
                       "of %d names", where, c->layers);
    memset(c->windowed, 0, sizeof(c->windowed));
    for (int i = 0; i < c->layers; i++) {
        const char *t = json_string_value(json_array_get(types, (size_t)i));

        if (t != NULL && strcmp(t, "full_attention") == 0)
            continue;
        if (t == NULL || strcmp(t, "sliding_attention") != 0)
            return bn_fail(err, BN_ERR_DATA, "%s: layer_types[%d] '%s' is "
                           "not supported (known: full_attention, "
                           "sliding_attention)", where, i, t ? t : "?");
        if (c->window == 0)
            return bn_fail(err, BN_ERR_DATA, "%s: layer_types[%d] is "
                           "sliding_attention but no sliding_window is in "
                           "force", where, i);
        c->windowed[i / 8] |= (unsigned char)(1 << i % 8);
    }
    return 0;
}

static int parse_window(struct bn_model_config *c, const json_t *root,
                        const char *where, struct bn_str *notes,
                        struct bn_err *err)
{
    const json_t *types = json_object_get(root, "layer_types");
    const json_t *w = json_object_get(root, "sliding_window");
    bool use = c->family == BN_MISTRAL;
    int64_t size = 0, first = 0;

    if (c->family == BN_LLAMA) {
        if (!is_off(w))
            return bn_fail(err, BN_ERR_DATA, "%s: 'sliding_window' is set, "
                           "which llama does not have", where);
    } else if (c->family == BN_MISTRAL) {
        if (w == NULL) {
            size = 4096;
            if (notes != NULL)
                bn_str_addf(notes, "%s: 'sliding_window' is not given: 4096, "
                            "as transformers does\n", where);
        }
    } else if (bn_json_bool(root, where, "use_sliding_window", &use, err) < 0) {
        return -1;
    }
    if (use && (bn_json_int(root, where, "sliding_window", &size, err) < 0
                || bn_json_int(root, where, "max_window_layers", &first, err)
                       < 0))
        return -1;
    if (size < 0 || size > 1 << 30)
        return bn_fail(err, BN_ERR_DATA, "%s: 'sliding_window' is %lld",
                       where, (long long)size);
    if (use && c->family != BN_MISTRAL && size > 0
        && (types == NULL || json_is_null(types))
        && !json_is_number(json_object_get(root, "max_window_layers")))
        return bn_fail(err, BN_ERR_DATA, "%s: 'use_sliding_window' is set "
                       "but neither 'max_window_layers' nor 'layer_types'",
                       where);
    if (c->family == BN_MISTRAL)
        first = 0;
    c->window = (int)size;
    for (int64_t i = first < 0 ? 0 : first; size > 0 && i < c->layers; i++)
        c->windowed[i / 8] |= (unsigned char)(1 << i % 8);
    if (types != NULL && !json_is_null(types)
        && parse_layer_types(c, types, where, err) < 0)
        return -1;
    int with = 0;
    for (int i = 0; i < c->layers; i++)
        with += bn_model_window(c, i) > 0;
    /* transformers does not read the list there */
    if (c->family == BN_MISTRAL && size > 0 && with < c->layers)
        return bn_fail(err, BN_ERR_DATA, "%s: 'layer_types' with full "
                       "attention is not supported in mistral", where);
    if (with == 0)
        c->window = 0;
    return 0;
}

/* A token id of the vocabulary; anything else is refused or, for padding,
 * which no computation reads, noted. */
static int token_key(const struct bn_model_config *c, const json_t *root,
                     const char *where, const char *key, int *out,
                     struct bn_str *notes, struct bn_err *err)
{
    int64_t v = -1;
    int got = bn_json_int(root, where, key, &v, err);

    *out = -1;
    if (got <= 0)
        return got;
    if (v >= 0 && v < c->vocab_size) {
        *out = (int)v;
        return 0;
    }
    if (strcmp(key, "pad_token_id") != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: '%s' is %lld, not in 0..%d",
                       where, key, (long long)v, c->vocab_size - 1);
    if (notes != NULL)
        bn_str_addf(notes, "%s: 'pad_token_id' %lld is no token and is not "
                    "used\n", where, (long long)v);
    return 0;
}

static int parse_tokens(struct bn_model_config *c, const json_t *root,
                        const char *where, struct bn_str *notes,
                        struct bn_err *err)
{
    const json_t *eos = json_object_get(root, "eos_token_id");

    if (token_key(c, root, where, "bos_token_id", &c->bos, notes, err) < 0
        || token_key(c, root, where, "pad_token_id", &c->pad, notes, err) < 0)
        return -1;
    if (!json_is_array(eos)) {
        if (token_key(c, root, where, "eos_token_id", &c->eos[0], notes, err)
            < 0)
            return -1;
        c->n_eos = c->eos[0] >= 0;
        return 0;
    }
    if (json_array_size(eos) > BN_MAX_EOS)
        return bn_fail(err, BN_ERR_DATA, "%s: 'eos_token_id' has more than "
                       "%d ids", where, BN_MAX_EOS);
    for (size_t i = 0; i < json_array_size(eos); i++) {
        const json_t *v = json_array_get(eos, i);

        if (!json_is_integer(v) || json_integer_value(v) < 0
            || json_integer_value(v) >= c->vocab_size)
            return bn_fail(err, BN_ERR_DATA, "%s: eos_token_id[%zu] is not "
                           "in 0..%d", where, i, c->vocab_size - 1);
        c->eos[i] = (int)json_integer_value(v);
    }
    c->n_eos = (int)json_array_size(eos);
    return 0;
}

static int parse_dtype(struct bn_model_config *c, const json_t *root,
                       const char *where, struct bn_str *notes,
                       struct bn_err *err)
{
    static const struct {
        const char *name;
        int dtype;
    } names[] = {{"float32", BN_F32}, {"bfloat16", BN_BF16},
                 {"float16", BN_F16}, {"float64", BN_F64}};
    const char *s = NULL;

    c->dtype = -1;
    if (bn_json_str(root, where, "torch_dtype", &s, err) < 0
        || bn_json_str(root, where, "dtype", &s, err) < 0)
        return -1;
    if (s == NULL)
        return 0;
    if (bn_str_starts(s, "torch."))
        s += 6;
    for (size_t i = 0; i < BN_COUNT(names); i++)
        if (strcmp(s, names[i].name) == 0)
            c->dtype = names[i].dtype;
    if (c->dtype < 0 && notes != NULL)
        bn_str_addf(notes, "%s: dtype '%s' is not known\n", where, s);
    return 0;
}

int bn_model_config_parse(struct bn_model_config *c, const json_t *root,
                          const char *where, struct bn_str *notes,
                          struct bn_err *err)
{
    struct bn_model_config got;

    memset(&got, 0, sizeof(got)); /* padding too: configs are compared */
    if (!json_is_object(root))
        return bn_fail(err, BN_ERR_DATA, "%s: not a JSON object", where);
    if (parse_family(&got, root, where, err) < 0
        || check_keys(root, where, notes, err) < 0
        || parse_sizes(&got, root, where, err) < 0
        || parse_numbers(&got, root, where, err) < 0
        || parse_window(&got, root, where, notes, err) < 0
        || bn_rope_parse(&got, root, where, notes, err) < 0
        || parse_tokens(&got, root, where, notes, err) < 0
        || parse_dtype(&got, root, where, notes, err) < 0)
        return -1;
    memcpy(c, &got, sizeof(got));
    return 0;
}

int bn_model_config_load(struct bn_model_config *c, const char *path,
                         struct bn_str *notes, struct bn_err *err)
{
    json_t *root = bn_json_load(path, err);
    int rc;

    if (root == NULL)
        return -1;
    rc = bn_model_config_parse(c, root, path, notes, err);
    json_decref(root);
    return rc;
}
