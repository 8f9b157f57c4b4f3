#include "config.h"
#include "convert/layout.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A GGUF file while its config is made. */
struct in {
    const struct bn_tensors *ts;
    const char *arch, *where;
    json_t *o; /* the config */
    struct bn_err *err;
};

/* What becomes of "llama.block_count" and so on. */
enum use {
    COPY, /* under a Hugging Face key */
    MUST, /* the same, and it has to be there */
    ROPE, /* scaling: read by scaling() */
    NONE, /* says nothing about the arithmetic, or is checked below */
};
static const struct {
    const char *name; /* after the architecture */
    const char *key;  /* Hugging Face's */
    enum use use;
} keys[] = {
    {"embedding_length", "hidden_size", MUST},
    {"block_count", "num_hidden_layers", MUST},
    {"feed_forward_length", "intermediate_size", MUST},
    {"attention.head_count", "num_attention_heads", MUST},
    {"attention.head_count_kv", "num_key_value_heads", COPY},
    {"attention.key_length", "head_dim", COPY},
    {"context_length", "max_position_embeddings", MUST},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", MUST},
    {"rope.freq_base", "rope_theta", COPY},
    {"vocab_size", "vocab_size", COPY},
    {"rope.scaling.type", NULL, ROPE},
    {"rope.scaling.factor", NULL, ROPE},
    {"rope.scaling.original_context_length", NULL, ROPE},
    {"rope.scaling.attn_factor", NULL, ROPE},
    {"rope.scaling.yarn_ext_factor", NULL, ROPE},
    {"rope.scaling.yarn_attn_factor", NULL, ROPE},
    {"rope.scaling.yarn_beta_fast", NULL, ROPE},
    {"rope.scaling.yarn_beta_slow", NULL, ROPE},
    {"rope.scale_linear", NULL, ROPE},
    {"rope.scaling.finetuned", NULL, NONE},
    {"rope.dimension_count", NULL, NONE},
    {"attention.value_length", NULL, NONE},
    {"expert_count", NULL, NONE},
    {"expert_used_count", NULL, NONE},
    {"tensor_data_layout", NULL, NONE},
};

static json_t *get(const struct in *in, const char *name)
{
    char *full = bn_asprintf("%s.%s", in->arch, name);
    json_t *v = json_object_get(in->ts->meta, full);

    free(full);
    return v;
}

/* Every key of the architecture is one of the table: another may ask for
 * arithmetic that a config.json of these families cannot say. */
static int check_keys(const struct in *in)
{
    size_t n = strlen(in->arch);
    const char *key;
    json_t *v;

    json_object_foreach (in->ts->meta, key, v) {
        size_t i = 0;

        if (strncmp(key, in->arch, n) != 0 || key[n] != '.')
            continue;
        while (i < BN_COUNT(keys) && strcmp(keys[i].name, key + n + 1) != 0)
            i++;
        if (i == BN_COUNT(keys))
            return bn_fail(in->err, BN_ERR_DATA, "%s: '%s' of a GGUF file is "
                           "not carried over: give a config.json",
                           in->where, key);
    }
    return 0;
}

static int copy_keys(const struct in *in)
{
    for (size_t i = 0; i < BN_COUNT(keys); i++) {
        json_t *v = get(in, keys[i].name);

        if (v != NULL && keys[i].key != NULL)
            json_object_set(in->o, keys[i].key, v);
        else if (v == NULL && keys[i].use == MUST)
            return bn_fail(in->err, BN_ERR_DATA, "%s: metadata has no "
                           "'%s.%s'", in->where, in->arch, keys[i].name);
    }
    return 0;
}

/* A key that must be 'want' where it is given. */
static int must_be(const struct in *in, const char *name, double want)
{
    json_t *v = get(in, name);

    if (v == NULL || (json_is_number(v) && json_number_value(v) == want))
        return 0;
    return bn_fail(in->err, BN_ERR_DATA, "%s: '%s.%s' other than %g is not "
                   "supported", in->where, in->arch, name, want);
}

static int check_heads(const struct in *in)
{
    json_t *dim = json_object_get(in->o, "head_dim");
    double heads = json_number_value(json_object_get(in->o,
                                                     "num_attention_heads"));
    double hidden = json_number_value(json_object_get(in->o, "hidden_size"));
    double d = dim != NULL ? json_number_value(dim) : hidden / heads;

    return must_be(in, "rope.dimension_count", d) < 0
                   || must_be(in, "attention.value_length", d) < 0
                   || must_be(in, "expert_count", 0) < 0
               ? -1
               : 0;
}

/* A positive number, or 'none' where the file has none; negative: failed. */
static double number(const struct in *in, const char *name, double none)
{
    json_t *v = get(in, name);
    double x = v != NULL ? json_number_value(v) : none;

    if (x >= 0 && isfinite(x))
        return x;
    bn_fail(in->err, BN_ERR_DATA, "%s: '%s.%s' is no number above 0",
            in->where, in->arch, name);
    return -1;
}

/* llama.cpp multiplies what YaRN derives from the factor by attn_factor;
 * Hugging Face's attention_factor is the product. */
static int yarn(const struct in *in, json_t *s, double factor)
{
    double a = number(in, "rope.scaling.yarn_attn_factor",
                      number(in, "rope.scaling.attn_factor", 1));
    double fast = number(in, "rope.scaling.yarn_beta_fast", 0);
    double slow = number(in, "rope.scaling.yarn_beta_slow", 0);

    if (a < 0 || fast < 0 || slow < 0
        || must_be(in, "rope.scaling.yarn_ext_factor", 1) < 0)
        return -1;
    if (a != 1)
        json_object_set_new(s, "attention_factor",
                            json_real(a * (0.1 * log(factor) + 1)));
    if (fast > 0)
        json_object_set_new(s, "beta_fast", json_real(fast));
    if (slow > 0)
        json_object_set_new(s, "beta_slow", json_real(slow));
    return 0;
}

static int scaling(const struct in *in)
{
    const char *type = json_string_value(get(in, "rope.scaling.type"));
    double factor = number(in, "rope.scaling.factor",
                           number(in, "rope.scale_linear", 1));
    json_t *original = get(in, "rope.scaling.original_context_length");

    if (factor < 0)
        return -1;
    if (type == NULL)
        type = factor != 1 ? "linear" : "none";
    if (strcmp(type, "none") == 0 || strcmp(type, "default") == 0)
        return 0;
    bool is_yarn = strcmp(type, "yarn") == 0;
    if (!is_yarn && strcmp(type, "linear") != 0)
        return bn_fail(in->err, BN_ERR_DATA, "%s: RoPE scaling '%s' of a "
                       "GGUF file is not carried over: give a config.json",
                       in->where, type);
    if (factor == 0)
        return bn_fail(in->err, BN_ERR_DATA, "%s: RoPE scaling '%s' by 0",
                       in->where, type);
    json_t *s = json_pack("{s:s, s:f}", "rope_type", type, "factor", factor);
    json_object_set_new(in->o, "rope_scaling", s);
    if (is_yarn && original != NULL)
        json_object_set(s, "original_max_position_embeddings", original);
    return is_yarn ? yarn(in, s, factor) : 0;
}

enum { LOW = 1, HIGH = 4, ORIGINAL = 8192 }; /* of every Llama 3.1 to 3.3 */

/* What llama.cpp's converter makes of Llama 3's scaling by 'factor':
 * divisors of the frequencies. Formula: Hugging Face's
 * modeling_rope_utils.py, _compute_llama3_parameters. */
static double llama3_divisor(double theta, double factor, double part)
{
    double wave = 2 * acos(-1) * pow(theta, part);

    if (wave < (double)ORIGINAL / HIGH)
        return 1;
    if (wave > (double)ORIGINAL / LOW)
        return factor;
    double smooth = (ORIGINAL / wave - LOW) / (HIGH - LOW);
    return 1 / ((1 - smooth) / factor + smooth);
}

static int llama3(const struct in *in, const struct bn_named *t)
{
    const float *x = t->data;
    double theta = json_number_value(json_object_get(in->o, "rope_theta"));
    double factor = 1;

    if (t->dtype != BN_F32 || t->ndim != 1 || theta <= 0
        || json_object_get(in->o, "rope_scaling") != NULL)
        goto other;
    for (int64_t i = 0; i < t->count; i++)
        factor = (double)x[i] > factor ? (double)x[i] : factor;
    for (int64_t i = 0; i < t->count; i++) {
        double want = llama3_divisor(theta, factor,
                                     (double)i / (double)t->count);

        if (!(fabs((double)x[i] - want) <= 1e-4 * want))
            goto other;
    }
    if (factor != 1)
        json_object_set_new(in->o, "rope_scaling", json_pack(
            "{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor",
            factor, "low_freq_factor", (double)LOW, "high_freq_factor",
            (double)HIGH, "original_max_position_embeddings", ORIGINAL));
    return 0;
other:
    return bn_fail(in->err, BN_ERR_DATA, "%s: 'rope_freqs.weight' is not the "
                   "scaling of Llama 3: give a config.json", in->where);
}

/* Ids that end a text: of the base model and, where it is another, of a
 * turn. */
static void tokens(const struct in *in)
{
    static const char *const ids[][2] = {
        {"bos_token_id", "tokenizer.ggml.bos_token_id"},
        {"eos_token_id", "tokenizer.ggml.eos_token_id"},
        {"pad_token_id", "tokenizer.ggml.padding_token_id"},
    };
    json_t *meta = in->ts->meta;
    json_t *list = json_object_get(meta, "tokenizer.ggml.tokens");
    json_t *turn = json_object_get(meta, "tokenizer.ggml.eot_token_id");

    for (size_t i = 0; i < BN_COUNT(ids); i++) {
        json_t *v = json_object_get(meta, ids[i][1]);

        if (v != NULL)
            json_object_set(in->o, ids[i][0], v);
    }
    json_t *eos = json_object_get(in->o, "eos_token_id");
    if (turn != NULL && eos != NULL && !json_equal(turn, eos))
        json_object_set_new(in->o, "eos_token_id",
                            json_pack("[O, O]", eos, turn));
    if (json_is_array(list))
        json_object_set_new(in->o, "vocab_size",
                            json_integer((json_int_t)json_array_size(list)));
}

json_t *bn_config_of_gguf(const struct bn_tensors *ts, const char *where,
                          struct bn_err *err)
{
    struct in in = {.ts = ts, .where = where, .err = err};
    const struct bn_named *freqs = bn_tensors_find(ts, "rope_freqs.weight");

    in.arch = json_string_value(json_object_get(ts->meta,
                                                "general.architecture"));
    if (in.arch == NULL) {
        bn_fail(err, BN_ERR_DATA, "%s: metadata has no "
                "'general.architecture'", where);
        return NULL;
    }
    in.o = json_pack("{s:s}", "model_type", in.arch);
    if (check_keys(&in) < 0 || copy_keys(&in) < 0 || check_heads(&in) < 0
        || scaling(&in) < 0 || (freqs != NULL && llama3(&in, freqs) < 0)) {
        json_decref(in.o);
        return NULL;
    }
    tokens(&in);
    json_object_set_new(in.o, "tie_word_embeddings",
                        json_boolean(bn_tensors_find(ts, "output.weight")
                                     == NULL));
    return in.o;
}
