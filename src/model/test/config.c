#include "config.h"
#include "model/config.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/tap.h"

#include <stdlib.h>
#include <string.h>

static char *variant(const char *name)
{
    return bn_asprintf("%s/t/data/arch-variants/%s", getenv("BN_SRCDIR"),
                       name);
}

static void load(struct bn_model_config *c, const char *name)
{
    struct bn_err err = {0};
    char *path = variant(name);

    if (bn_model_config_load(c, path, NULL, &err) < 0)
        fail_msg("%s", err.text);
    free(path);
}

static void variants_are_read(void **state)
{
    struct bn_model_config c, d;

    (void)state;
    load(&c, "llama-untied/config.json");
    assert_int_equal(c.family, BN_LLAMA);
    assert_int_equal(c.vocab_size, 97);
    assert_int_equal(c.hidden_size, 64);
    assert_int_equal(c.intermediate_size, 40);
    assert_int_equal(c.layers, 2);
    assert_int_equal(c.heads, 8);
    assert_int_equal(c.kv_heads, 2);
    assert_int_equal(c.head_dim, 8);
    assert_true(!c.tie_embeddings && !c.qkv_bias && !c.o_bias && !c.qk_norm);
    assert_true(c.rms_eps == 1e-5 && c.rope.theta == 10000);
    assert_int_equal(c.n_eos, 1);
    assert_int_equal(c.eos[0], 2);
    assert_int_equal(c.pad, -1);
    assert_int_equal(c.dtype, BN_F32);
    load(&c, "llama-untied-bf16/config.json");
    assert_int_equal(c.dtype, BN_BF16);
    load(&c, "mistral-window/config.json");
    assert_int_equal(bn_model_window(&c, 0), 8);
    assert_int_equal(bn_model_window(&c, 1), 8);
    load(&c, "qwen2-bias-tied/config.json");
    assert_true(c.qkv_bias && !c.o_bias && c.tie_embeddings);
    assert_int_equal(bn_model_window(&c, 0), 0);
    assert_int_equal(c.window, 0);
    assert_true(c.rope.theta == 1e6);
    load(&c, "qwen3-qknorm-tied/config.json");
    assert_true(c.qk_norm && !c.qkv_bias);
    assert_int_equal(c.head_dim, 16);
    load(&c, "llama3-rope/config.json");
    load(&d, "llama3-rope/config-rope-parameters.json");
    assert_memory_equal(&c, &d, sizeof(c));
    assert_int_equal(c.rope.type, BN_ROPE_LLAMA3);
    assert_true(c.rope.factor == 8 && c.rope.low_freq_factor == 1
                && c.rope.high_freq_factor == 4
                && c.rope.original_max_position == 64);
}

/* llama-untied or another variant with members replaced; "null" removes. */
static int parse_with(struct bn_model_config *c, const char *base,
                      const char *members, struct bn_str *notes,
                      struct bn_err *err)
{
    char *path = variant(base);
    json_t *o = bn_json_load(path, NULL);
    json_t *more = bn_json_parse(members, strlen(members), "members", NULL);
    const char *key;
    json_t *v;

    assert_non_null(o);
    assert_non_null(more);
    json_object_foreach(more, key, v)
    {
        if (json_is_string(v) && strcmp(json_string_value(v), "-") == 0)
            json_object_del(o, key);
        else
            json_object_set(o, key, v);
    }
    int rc = bn_model_config_parse(c, o, "x", notes, err);
    json_decref(o);
    json_decref(more);
    free(path);
    return rc;
}

#define LLAMA "llama-untied/config.json"
#define MISTRAL "mistral-window/config.json"
#define QWEN2 "qwen2-bias-tied/config.json"
#define QWEN3 "qwen3-qknorm-tied/config.json"

static const struct {
    const char *base, *members, *says;
} bad[] = {
    {LLAMA, "{\"model_type\":\"gemma\"}",
     "x: model_type 'gemma' is not supported (known: llama, mistral, qwen2, "
     "qwen3)"},
    {LLAMA, "{\"architectures\":[\"LlamaForSequenceClassification\"]}",
     "x: architecture 'LlamaForSequenceClassification' is not supported "
     "(known: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "
     "Qwen3ForCausalLM)"},
    {LLAMA, "{\"model_type\":\"qwen2\"}",
     "x: model_type 'qwen2' and architecture 'LlamaForCausalLM' disagree"},
    {LLAMA, "{\"model_type\":\"-\",\"architectures\":\"-\"}",
     "x: neither 'model_type' nor 'architectures' is given"},
    {LLAMA, "{\"architectures\":\"LlamaForCausalLM\"}",
     "x: 'architectures' must be a list of names"},
    {LLAMA, "{\"hidden_act\":\"gelu\"}",
     "x: hidden_act 'gelu' is not supported (known: silu)"},
    {LLAMA, "{\"mlp_bias\":true}",
     "x: 'mlp_bias' is set, which is not supported"},
    {LLAMA, "{\"quantization_config\":{\"bits\":4}}",
     "x: 'quantization_config' is set, which is not supported"},
    {LLAMA, "{\"num_local_experts\":8}",
     "x: 'num_local_experts' is set, which is not supported"},
    {LLAMA, "{\"partial_rotary_factor\":0.5}",
     "x: 'partial_rotary_factor' other than 1 is not supported"},
    {LLAMA, "{\"vocab_size\":\"-\"}", "x: 'vocab_size' is missing"},
    {LLAMA, "{\"rms_norm_eps\":\"-\"}", "x: 'rms_norm_eps' is missing"},
    {LLAMA, "{\"hidden_size\":\"64\"}", "x: 'hidden_size' must be an "
                                        "integer"},
    {LLAMA, "{\"hidden_size\":-64}",
     "x: 'hidden_size' is -64, not in 1..262144"},
    {LLAMA, "{\"num_hidden_layers\":1e9}",
     "x: 'num_hidden_layers' is 1000000000, not in 1..1024"},
    {LLAMA, "{\"hidden_size\":66}",
     "x: hidden_size 66 is not a multiple of 8 heads and 'head_dim' is not "
     "given"},
    {LLAMA, "{\"num_key_value_heads\":3}",
     "x: 8 attention heads are not a multiple of 3 key-value heads"},
    {LLAMA, "{\"head_dim\":7}", "x: head_dim 7 is odd"},
    {LLAMA, "{\"sliding_window\":8}",
     "x: 'sliding_window' is set, which llama does not have"},
    {LLAMA, "{\"eos_token_id\":97}", "x: 'eos_token_id' is 97, not in 0..96"},
    {LLAMA, "{\"eos_token_id\":[1,97]}",
     "x: eos_token_id[1] is not in 0..96"},
    {LLAMA, "{\"tie_word_embeddings\":1}",
     "x: 'tie_word_embeddings' must be true or false"},
    {MISTRAL, "{\"attention_bias\":true}",
     "x: 'attention_bias' is set, which mistral does not have"},
    {MISTRAL, "{\"num_key_value_heads\":\"-\"}",
     "x: 'num_key_value_heads' is missing"},
    {MISTRAL, "{\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
     "x: 'layer_types' with full attention is not supported in mistral"},
    {QWEN2, "{\"rope_theta\":\"-\"}", "x: 'rope_theta' is missing"},
    {QWEN2, "{\"use_sliding_window\":true,\"max_window_layers\":\"-\"}",
     "x: 'use_sliding_window' is set but neither 'max_window_layers' nor "
     "'layer_types'"},
    {QWEN2, "{\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
     "x: layer_types[1] is sliding_attention but no sliding_window is in "
     "force"},
    {QWEN2, "{\"layer_types\":[\"full_attention\",\"chunked\"]}",
     "x: layer_types[1] 'chunked' is not supported (known: full_attention, "
     "sliding_attention)"},
    {QWEN2, "{\"layer_types\":[\"full_attention\"]}",
     "x: 'layer_types' must be a list of 2 names"},
    {QWEN3, "{\"head_dim\":\"-\"}", "x: 'head_dim' is missing"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"longrope\",\"factor\":2}}",
     "x: rope type 'longrope' is not supported (known: default, linear, "
     "dynamic, yarn, llama3)"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"linear\"}}",
     "x: 'factor' is missing"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}}",
     "x: RoPE 'factor' is 0.5, below 1"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,"
            "\"beta_fast\":3}}",
     "x: 'beta_fast' is not known for rope type 'linear'"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"linear\",\"rope_type\":\"yarn\"}}",
     "x: 'type' and 'rope_type' disagree"},
    {LLAMA, "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
            "\"low_freq_factor\":1}}",
     "x: 'high_freq_factor' is missing"},
    {LLAMA, "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
            "\"low_freq_factor\":4,\"high_freq_factor\":1}}",
     "x: 'high_freq_factor' is not above 'low_freq_factor'"},
    {LLAMA, "{\"rope_parameters\":{\"rope_theta\":5e5}}",
     "x: 'rope_theta' is 10000 in one place and 500000 in another"},
    {LLAMA, "{\"rope_parameters\":{\"full_attention\":{}}}",
     "x: RoPE parameters of their own for 'full_attention' are not "
     "supported"},
    {LLAMA, "{\"rope_parameters\":{\"rope_type\":\"default\"},"
            "\"rope_scaling\":{\"type\":\"default\"}}",
     "x: both 'rope_scaling' and 'rope_parameters' are given"},
    {LLAMA, "{\"rope_scaling\":3}", "x: 'rope_scaling' must be an object"},
    {LLAMA, "{\"rope_theta\":0}", "x: 'rope_theta' is 0"},
    {LLAMA, "{\"original_max_position_embeddings\":4,\"rope_scaling\":"
            "{\"type\":\"yarn\",\"factor\":2,"
            "\"original_max_position_embeddings\":8}}",
     "x: 'original_max_position_embeddings' is 8 in one place and 4 in "
     "another"},
};

static void what_is_not_supported_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < BN_COUNT(bad); i++) {
        struct bn_model_config c = {.vocab_size = -7};
        struct bn_err err = {0};

        assert_int_equal(parse_with(&c, bad[i].base, bad[i].members, NULL,
                                    &err), -1);
        assert_string_equal(err.text, bad[i].says);
        assert_int_equal(err.code, BN_ERR_DATA);
        assert_int_equal(c.vocab_size, -7);
    }
}

static void defaults_are_noted(void **state)
{
    struct bn_model_config c;
    struct bn_str notes = {0};
    struct bn_err err = {0};

    (void)state;
    assert_int_equal(parse_with(&c, LLAMA,
                                "{\"rope_theta\":\"-\",\"nonsense\":1,"
                                "\"attention_dropout\":0.1,"
                                "\"num_key_value_heads\":\"-\","
                                "\"pad_token_id\":-1}", &notes, &err), 0);
    assert_string_equal(notes.s,
                        "x: 'attention_dropout' is not applied\n"
                        "x: 'nonsense' is not known and has no effect\n"
                        "x: 'rope_theta' is not given: 10000\n"
                        "x: 'pad_token_id' -1 is no token and is not used\n");
    assert_int_equal(c.kv_heads, 8);
    assert_true(c.rope.theta == 10000);
    bn_str_clear(&notes);
    assert_int_equal(parse_with(&c, MISTRAL, "{\"sliding_window\":\"-\"}",
                                &notes, &err), 0);
    assert_int_equal(bn_model_window(&c, 1), 4096);
    assert_int_equal(parse_with(&c, MISTRAL, "{\"sliding_window\":null}",
                                &notes, &err), 0);
    assert_int_equal(bn_model_window(&c, 1), 0);
    bn_str_release(&notes);
}

static void windows_follow_the_layers(void **state)
{
    struct bn_model_config c;
    struct bn_err err = {0};

    (void)state;
    assert_int_equal(parse_with(&c, QWEN2, "{\"use_sliding_window\":true,"
                                "\"max_window_layers\":1}", NULL, &err), 0);
    assert_int_equal(bn_model_window(&c, 0), 0);
    assert_int_equal(bn_model_window(&c, 1), 8);
    assert_int_equal(parse_with(&c, QWEN3, "{\"use_sliding_window\":true,"
                                "\"sliding_window\":5,\"layer_types\":"
                                "[\"sliding_attention\","
                                "\"full_attention\"]}", NULL, &err), 0);
    assert_int_equal(bn_model_window(&c, 0), 5);
    assert_int_equal(bn_model_window(&c, 1), 0);
    /* every layer below max_window_layers: no window at all */
    assert_int_equal(parse_with(&c, QWEN2, "{\"use_sliding_window\":true}",
                                NULL, &err), 0);
    assert_int_equal(c.window, 0);
    assert_int_equal(parse_with(&c, QWEN3, "{\"attention_bias\":true}", NULL,
                                &err), 0);
    assert_true(c.o_bias && c.qkv_bias);
    assert_int_equal(parse_with(&c, LLAMA, "{\"attention_bias\":true,"
                                "\"eos_token_id\":[3,5]}", NULL, &err), 0);
    assert_true(c.o_bias && c.qkv_bias && c.n_eos == 2 && c.eos[1] == 5);
}

/* Written with and without a source, a config reads back the same. */
static void same_after_writing(const char *base, const char *members)
{
    struct bn_model_config c, d;
    struct bn_err err = {0};
    char *path = variant(base);
    json_t *source = bn_json_load(path, NULL);

    assert_int_equal(parse_with(&c, base, members, NULL, &err), 0);
    c.dtype = BN_BF16;
    for (int with = 0; with < 2; with++) {
        json_t *o = bn_model_config_json(&c, with ? source : NULL, BN_BF16);

        if (bn_model_config_parse(&d, o, "written", NULL, &err) < 0)
            fail_msg("%s %s: %s", base, members, err.text);
        assert_memory_equal(&c, &d, sizeof(c));
        json_decref(o);
    }
    json_decref(source);
    free(path);
}

static void what_is_written_is_read(void **state)
{
    static const char *const rope[] = {
        "{}",
        "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}}",
        "{\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":4}}",
        "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
        "\"original_max_position_embeddings\":128,\"truncate\":false,"
        "\"mscale\":0.7,\"mscale_all_dim\":0.5,\"beta_fast\":24}}",
        "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
        "\"attention_factor\":1.5}}",
        "{\"eos_token_id\":[2,3],\"pad_token_id\":4,"
        "\"attention_bias\":false}",
    };
    struct bn_model_config c;

    (void)state;
    for (size_t i = 0; i < BN_COUNT(rope); i++) {
        same_after_writing(LLAMA, rope[i]);
        same_after_writing(MISTRAL, rope[i]);
        same_after_writing(QWEN2, rope[i]);
        same_after_writing(QWEN3, rope[i]);
    }
    same_after_writing("llama3-rope/config.json", "{}");
    same_after_writing("llama3-rope/config-rope-parameters.json", "{}");
    same_after_writing(QWEN2, "{\"use_sliding_window\":true,"
                              "\"max_window_layers\":1}");
    same_after_writing(QWEN3, "{\"use_sliding_window\":true,"
                              "\"sliding_window\":5,\"layer_types\":"
                              "[\"sliding_attention\",\"full_attention\"]}");
    /* unknown keys and the spelling stay */
    load(&c, "llama3-rope/config-rope-parameters.json");
    json_t *src = json_pack("{s:i,s:{s:s},s:s}", "mine", 3,
                            "rope_parameters", "rope_type", "default",
                            "dtype", "float32");
    json_t *o = bn_model_config_json(&c, src, BN_BF16);
    assert_int_equal(json_integer_value(json_object_get(o, "mine")), 3);
    assert_null(json_object_get(o, "rope_scaling"));
    assert_null(json_object_get(o, "torch_dtype"));
    assert_string_equal(json_string_value(json_object_get(o, "dtype")),
                        "bfloat16");
    json_decref(o);
    json_decref(src);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_are_read),
        cmocka_unit_test(what_is_not_supported_is_refused_by_name),
        cmocka_unit_test(defaults_are_noted),
        cmocka_unit_test(windows_follow_the_layers),
        cmocka_unit_test(what_is_written_is_read),
    };

    return BN_TAP_RUN(tests);
}
