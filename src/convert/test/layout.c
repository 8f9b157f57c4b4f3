#include "config.h"
#include "convert/layout.h"
#include "base/mem.h"
#include "base/tap.h"
#include "ckpt/hf.h"
#include "format/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *in_src(const char *dir, const char *name, const char *end)
{
    return bn_asprintf("%s/%s/%s%s", getenv("BN_SRCDIR"), dir, name, end);
}

struct model {
    struct bn_model_config c;
    struct bn_tensors ts;
};

static void model_open(struct model *m, const char *name)
{
    struct bn_err err = {0};
    char *dir = in_src("t/data/arch-variants", name, "");
    char *config = bn_path_join(dir, "config.json");

    if (bn_model_config_load(&m->c, config, NULL, &err) < 0
        || bn_safetensors_open(&m->ts, dir, &err) < 0)
        fail_msg("%s", err.text);
    free(config);
    free(dir);
}

static void layout_open(struct bn_layout *l, const char *name)
{
    struct bn_err err = {0};
    char *path = in_src("templates/layouts", name, ".yaml");

    if (bn_layout_load(l, path, &err) < 0)
        fail_msg("%s", err.text);
    free(path);
}

static void same_sets(const struct bn_tensors *a, const struct bn_tensors *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const struct bn_named *x = &a->item[i], *y = &b->item[i];

        assert_string_equal(x->name, y->name);
        assert_int_equal(x->dtype, y->dtype);
        assert_memory_equal(x->dims, y->dims, sizeof(x->dims));
        assert_memory_equal(x->data, y->data,
                            (size_t)x->count * bn_dtype_size(x->dtype));
    }
}

static void there_and_back_changes_nothing(void **state)
{
    static const char *const pairs[][2] = {
        {"te", "llama-untied"},
        {"te", "llama-untied-bf16"},
        {"te-grouped", "mistral-window"},
        {"phi3", "llama3-rope"},
        {"megatron", "llama-untied-bf16"},
        {"megatron", "qwen2-bias-tied"},
        {"megatron", "qwen3-qknorm-tied"},
        {"gguf-llama", "llama3-rope"},
        {"gguf-qwen", "qwen2-bias-tied"},
        {"gguf-qwen", "qwen3-qknorm-tied"},
        {"llama2c", "llama-untied"},
        {"meta", "mistral-window"},
        {"hf-torch", "qwen2-bias-tied"},
        {"hf-torch", "qwen3-qknorm-tied"},
    };

    (void)state;
    for (size_t i = 0; i < BN_COUNT(pairs); i++) {
        struct bn_layout l;
        struct model m;
        struct bn_tensors there, back;
        struct bn_err err = {0};

        layout_open(&l, pairs[i][0]);
        model_open(&m, pairs[i][1]);
        if (bn_layout_invert(&l, &m.c, &m.ts, &there, &err) < 0
            || bn_layout_apply(&l, &m.c, &there, "x", &back, NULL, &err) < 0
            || bn_layout_verify(&l, &m.c, &there, "x", &back, &err) < 0)
            fail_msg("%s %s: %s", pairs[i][0], pairs[i][1], err.text);
        same_sets(&m.ts, &back);
        bn_tensors_close(&back);
        bn_tensors_close(&there);
        bn_tensors_close(&m.ts);
        bn_layout_release(&l);
    }
}

/* Row y of a tensor is row x of another. */
static void same_row(const struct bn_tensors *a, const char *an, int64_t y,
                     const struct bn_tensors *b, const char *bn, int64_t x)
{
    const struct bn_named *s = bn_tensors_find(a, an);
    const struct bn_named *t = bn_tensors_find(b, bn);
    size_t n = 64 * 4;

    assert_non_null(s);
    assert_non_null(t);
    assert_memory_equal((const char *)s->data + (size_t)y * n,
                        (const char *)t->data + (size_t)x * n, n);
}

/* llama-untied: hidden 64, 8 heads and 2 KV heads of 8, intermediate 40. */
static void rows_go_where_the_forms_say(void **state)
{
    static const char q[] = "model.layers.1.self_attn.q_proj.weight";
    static const char k[] = "model.layers.1.self_attn.k_proj.weight";
    static const char v[] = "model.layers.1.self_attn.v_proj.weight";
    struct bn_layout l;
    struct model m;
    struct bn_tensors out;
    struct bn_err err = {0};

    (void)state;
    model_open(&m, "llama-untied");
    layout_open(&l, "te");
    assert_int_equal(bn_layout_invert(&l, &m.c, &m.ts, &out, &err), 0);
    const char *fused = "layers.1.attn.qkv_proj.weight";
    assert_int_equal(bn_tensors_find(&out, fused)->dims[0], 64 + 16 + 16);
    same_row(&m.ts, q, 63, &out, fused, 63);
    same_row(&m.ts, k, 0, &out, fused, 64);
    same_row(&m.ts, v, 15, &out, fused, 95);
    same_row(&m.ts, "model.layers.1.mlp.up_proj.weight", 0, &out,
             "layers.1.ffn.fc1_weight", 40);
    bn_tensors_close(&out);
    bn_layout_release(&l);
    layout_open(&l, "te-grouped");
    assert_int_equal(bn_layout_invert(&l, &m.c, &m.ts, &out, &err), 0);
    int64_t at = 0;
    for (int group = 0; group < 2; group++) {
        for (int head = 4 * group; head < 4 * group + 4; head++)
            for (int i = 0; i < 8; i++)
                same_row(&m.ts, q, 8 * head + i, &out, fused, at++);
        for (int i = 0; i < 8; i++)
            same_row(&m.ts, k, 8 * group + i, &out, fused, at++);
        for (int i = 0; i < 8; i++)
            same_row(&m.ts, v, 8 * group + i, &out, fused, at++);
    }
    bn_tensors_close(&out);
    bn_layout_release(&l);
    layout_open(&l, "gguf-llama");
    assert_int_equal(bn_layout_invert(&l, &m.c, &m.ts, &out, &err), 0);
    for (int head = 0; head < 8; head++)
        for (int half = 0; half < 2; half++)
            for (int i = 0; i < 4; i++)
                same_row(&m.ts, q, head * 8 + half * 4 + i, &out,
                         "blk.1.attn_q.weight", head * 8 + 2 * i + half);
    bn_tensors_close(&out);
    bn_layout_release(&l);
    bn_tensors_close(&m.ts);
}

/* Both read the same names; only the order of rows differs. */
static void layout_of_another_family_is_refused(void **state)
{
    struct bn_layout l;
    struct model m;
    struct bn_tensors out;
    struct bn_err err = {0};

    (void)state;
    model_open(&m, "llama-untied");
    layout_open(&l, "gguf-qwen");
    assert_int_equal(bn_layout_invert(&l, &m.c, &m.ts, &out, &err), -1);
    assert_true(bn_str_ends(err.text, "gguf-qwen.yaml: the layout is not for "
                                      "llama models"));
    assert_int_equal(bn_layout_apply(&l, &m.c, &m.ts, "x", &out, NULL, &err),
                     -1);
    assert_non_null(strstr(err.text, "not for llama models"));
    bn_tensors_close(&m.ts);
    bn_layout_release(&l);
}

/* A te checkpoint of llama-untied with one thing wrong. */
enum fault { NONE, SKIP_QKV, EXTRA, STATE, PADDED, SHORT, LONG, PREFIX, TWO_SETS };

static int apply_fault(enum fault f, struct bn_err *err)
{
    struct bn_layout l;
    struct model m;
    struct bn_tensors te, src = {0}, out;
    static float pad[128 * 64];

    layout_open(&l, "te");
    model_open(&m, "llama-untied");
    assert_int_equal(bn_layout_invert(&l, &m.c, &m.ts, &te, err), 0);
    for (size_t i = 0; i < te.n; i++) {
        struct bn_named t = te.item[i];
        bool qkv = strcmp(t.name, "layers.1.attn.qkv_proj.weight") == 0;

        if (f == SKIP_QKV && qkv)
            continue;
        if (f == PADDED && strcmp(t.name, "embedding.weight") == 0) {
            memcpy(pad, t.data, 97 * 64 * 4);
            t.dims[0] = 128;
            t.data = pad;
        }
        if (f == SHORT && qkv)
            t.dims[0]--;
        if (f == LONG && qkv) /* nobody reads that row */
            t.dims[0]++;
        if (f == PREFIX)
            t.name = bn_tensors_own_take(
                &src, bn_asprintf("module.%s", t.name));
        bn_tensors_add(&src, &t);
        if (qkv && (f == EXTRA || f == STATE || f == TWO_SETS)) {
            t.name = f == EXTRA   ? "layers.2.attn.qkv_proj.weight"
                     : f == STATE ? "layers.1.attn._extra_state"
                                  : "module.layers.1.attn.qkv_proj.weight";
            bn_tensors_add(&src, &t);
        }
    }
    assert_int_equal(bn_tensors_finish(&src, err), 0);
    struct bn_str report = {0};
    int rc = bn_layout_apply(&l, &m.c, &src, "x", &out, &report, err);
    if (rc == 0) {
        same_sets(&m.ts, &out);
        assert_int_equal(bn_layout_verify(&l, &m.c, &src, "x", &out, err),
                         0);
        bn_tensors_close(&out);
    }
    if (f == EXTRA)
        assert_string_equal(report.s,
                            "not used: layers.2.attn.qkv_proj.weight\n");
    bn_str_release(&report);
    bn_tensors_close(&src);
    bn_tensors_close(&te);
    bn_tensors_close(&m.ts);
    bn_layout_release(&l);
    return rc;
}

static void wrong_sources_are_refused(void **state)
{
    struct bn_err err = {0};

    (void)state;
    assert_int_equal(apply_fault(NONE, &err), 0);
    assert_int_equal(apply_fault(STATE, &err), 0);
    assert_int_equal(apply_fault(PADDED, &err), 0);
    assert_int_equal(apply_fault(PREFIX, &err), 0);
    assert_int_equal(apply_fault(SKIP_QKV, &err), -1);
    assert_string_equal(err.text,
                        "x does not hold the tensors of its config: 3 "
                        "missing (model.layers.1.self_attn.q_proj.weight, "
                        "...)");
    assert_int_equal(apply_fault(EXTRA, &err), -1);
    assert_non_null(strstr(err.text, "te.yaml' uses "
                                     "(layers.2.attn.qkv_proj.weight)"));
    assert_int_equal(apply_fault(TWO_SETS, &err), -1);
    assert_non_null(strstr(err.text,
                           "(module.layers.1.attn.qkv_proj.weight)"));
    assert_int_equal(apply_fault(SHORT, &err), -1);
    assert_string_equal(err.text, "x: 'layers.1.attn.qkv_proj.weight' has 95 "
                                  "rows, but the config needs 96");
    assert_int_equal(apply_fault(LONG, &err), -1);
    assert_string_equal(err.text, "x: 'layers.1.attn.qkv_proj.weight' has 97 "
                                  "rows, but the config needs 96");
}

/* The report that this project began with: 28 layers, 24 heads and 8 KV
 * heads of 128; a converter that did not know the fused key left 84 of 255
 * tensors out. */
static void the_84_skipped_tensors_are_named(void **state)
{
    struct bn_model_config c = {
        .vocab_size = 64256, .hidden_size = 3072, .intermediate_size = 8192,
        .layers = 28, .heads = 24, .kv_heads = 8, .head_dim = 128};
    struct bn_part whole = bn_part_whole(&c);
    struct bn_params ps;
    struct bn_tensors full = {0}, broken = {0};
    struct bn_err err = {0};

    (void)state;
    assert_int_equal(bn_params_init(&ps, &c, &whole, &err), 0);
    assert_int_equal(ps.n, 255);
    for (int i = 0; i < ps.n; i++) {
        const struct bn_param *p = &ps.item[i];
        struct bn_named t = {.name = p->name, .dtype = BN_BF16,
                             .ndim = p->ndim, .file = "x",
                             .dims = {p->rows, p->ndim == 2 ? p->cols : 0}};

        bn_tensors_add(&full, &t);
        if (p->kind != BN_P_Q && p->kind != BN_P_K && p->kind != BN_P_V)
            bn_tensors_add(&broken, &t);
    }
    assert_int_equal(broken.n, 171);
    assert_int_equal(bn_tensors_finish(&full, &err), 0);
    assert_int_equal(bn_tensors_finish(&broken, &err), 0);
    assert_int_equal(bn_hf_check(&full, "x", &c, NULL, &err), 0);
    assert_int_equal(bn_hf_check(&broken, "x", &c, NULL, &err), -1);
    assert_string_equal(err.text,
                        "x does not hold the tensors of its config: 84 "
                        "missing (model.layers.0.self_attn.q_proj.weight, "
                        "...)");
    bn_params_release(&ps);
    bn_tensors_close(&full);
    bn_tensors_close(&broken);
}

static void bad_layout_files_are_refused(void **state)
{
#define HEAD "reader: torch\nrules:\n"
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "is empty"},
        {"reader: [", ":2: invalid YAML: did not find expected node content"},
        {"- a\n", ":1: must be a mapping of keys"},
        {"rules: []\n", ":1: a layout needs 'reader' and 'rules'"},
        {"reader: torch\n", ":1: a layout needs 'reader' and 'rules'"},
        {"reader: torhc\n", ":1: unknown name (near a known one) 'torhc'"},
        {"reader: torch\nform: x\n", ":2: unknown key 'form'"},
        {"reader: torch\nreader: gguf\n", ":2: key is twice there: 'reader'"},
        {"reader: torch\nfamilies: [llama, gemma]\n",
         ":2: unknown name 'gemma'"},
        {HEAD "  from: a\n", ":3: must be a list"},
        {HEAD "  - from: a\n", ":3: a rule needs 'from' and 'to'"},
        {HEAD "  - from: a\n    to: b\n    form: glued\n",
         ":5: unknown name 'glued'"},
        {HEAD "  - from: a\n    to: b\n    padded: yes\n",
         ":5: unknown name 'yes'"},
        {HEAD "  - from: a\n    to: [b, c]\n",
         ":3: several targets need the form concat or grouped"},
        {HEAD "  - from: a.{L}\n    to: b\n",
         ":3: {L} must be on both sides or on none"},
        {HEAD "  - from: a\n    to: {x: y}\n",
         ":4: must be a name or a list of names"},
        {HEAD "  - from: [a]\n    to: b\n", ":3: must be text"},
        {HEAD "  - from: a\n    to: [b, [c]]\n", ":4: must be text"},
        {HEAD "  - from: a\n    to: [1, 2, 3, 4, 5, 6, 7, 8, 9]\n",
         ":4: more than 8 targets"},
        {"reader: torch\nskip: [a, {b: c}]\n", ":2: must be text"},
        {"reader: torch\nrules: []\nrules: []\n",
         ":3: key is twice there: 'rules'"},
    };
    char dir[] = "/tmp/bn-layout-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(dir));
    char *path = bn_path_join(dir, "l.yaml");
    for (size_t i = 0; i < BN_COUNT(bad); i++) {
        struct bn_layout l;
        struct bn_err err = {0};

        assert_int_equal(bn_file_write(path, bad[i].text,
                                       strlen(bad[i].text), NULL), 0);
        assert_int_equal(bn_layout_load(&l, path, &err), -1);
        assert_true(bn_str_starts(err.text, path));
        if (!bn_str_ends(err.text, bad[i].says))
            fail_msg("%s, not %s", err.text, bad[i].says);
    }
    assert_int_equal(bn_remove_tree(dir, NULL), 0);
    free(path);
}

static void configs_follow_from_metadata(void **state)
{
    struct bn_tensors ts = {0};
    struct bn_model_config c;
    struct bn_err err = {0};
    json_t *o;

    (void)state;
    ts.meta = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:[s,s,s,s], s:i}",
        "general.architecture", "qwen3", "qwen3.embedding_length", 64,
        "qwen3.block_count", 2, "qwen3.feed_forward_length", 24,
        "qwen3.attention.head_count", 6, "qwen3.attention.head_count_kv", 2,
        "qwen3.attention.key_length", 16,
        "qwen3.attention.layer_norm_rms_epsilon", 1e-6,
        "qwen3.rope.freq_base", 1e6, "tokenizer.ggml.tokens", "a", "b", "c",
        "d", "tokenizer.ggml.eos_token_id", 3);
    assert_null(bn_config_of_gguf(&ts, "x", &err));
    assert_string_equal(err.text, "x: metadata has no "
                                  "'qwen3.context_length'");
    json_object_set_new(ts.meta, "qwen3.context_length", json_integer(128));
    o = bn_config_of_gguf(&ts, "x", &err);
    assert_non_null(o);
    assert_int_equal(bn_model_config_parse(&c, o, "x", NULL, &err), 0);
    json_decref(o);
    assert_true(c.family == BN_QWEN3 && c.vocab_size == 4 && c.heads == 6
                && c.kv_heads == 2 && c.head_dim == 16 && c.layers == 2
                && c.intermediate_size == 24 && c.max_position == 128
                && c.tie_embeddings && c.rope.theta == 1e6 && c.eos[0] == 3
                && c.bos == -1);
    json_decref(ts.meta);
    ts.meta = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:b}", "dim", 8,
                        "hidden_dim", 6, "n_layers", 2, "n_heads", 4,
                        "n_kv_heads", 2, "vocab_size", 5, "max_seq_len", 3,
                        "shared_classifier", 1);
    o = bn_config_of_llama2c(&ts, "x", &err);
    assert_int_equal(bn_model_config_parse(&c, o, "x", NULL, &err), 0);
    json_decref(o);
    assert_true(c.family == BN_LLAMA && c.hidden_size == 8 && c.head_dim == 2
                && c.kv_heads == 2 && c.tie_embeddings
                && c.rope.theta == 10000 && c.rms_eps == 1e-5);
    bn_tensors_close(&ts);
}

/* A llama of heads of 64 with RoPE as the pairs say; frees them. NULL with
 * the error text in 'says' if it is refused, else the parsed config. */
static bool rope_of(json_t *pairs, const struct bn_named *freqs,
                    struct bn_model_config *c, char says[512])
{
    struct bn_tensors ts = {0};
    struct bn_err err = {0};

    ts.meta = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:i, s:f}",
        "general.architecture", "llama", "llama.embedding_length", 256,
        "llama.block_count", 2, "llama.feed_forward_length", 24,
        "llama.attention.head_count", 4, "llama.context_length", 131072,
        "llama.attention.layer_norm_rms_epsilon", 1e-6, "llama.vocab_size",
        100, "llama.rope.freq_base", 5e5);
    json_object_update(ts.meta, pairs);
    json_decref(pairs);
    if (freqs != NULL) {
        bn_tensors_add(&ts, freqs);
        assert_int_equal(bn_tensors_finish(&ts, &err), 0);
    }
    json_t *o = bn_config_of_gguf(&ts, "x", &err);
    snprintf(says, 512, "%s", err.text);
    if (o != NULL)
        assert_int_equal(bn_model_config_parse(c, o, "x", NULL, &err), 0);
    json_decref(o);
    bn_tensors_close(&ts);
    return o != NULL;
}

static void rope_scaling_follows_from_metadata(void **state)
{
    static const struct {
        const char *key, *says;
    } bad[] = {
        {"llama.rope.scaling.yarn_log_multiplier",
         "x: 'llama.rope.scaling.yarn_log_multiplier' of a GGUF file is not "
         "carried over: give a config.json"},
        {"llama.rope.dimension_count",
         "x: 'llama.rope.dimension_count' other than 64 is not supported"},
        {"llama.attention.value_length",
         "x: 'llama.attention.value_length' other than 64 is not supported"},
        {"llama.expert_count",
         "x: 'llama.expert_count' other than 0 is not supported"},
    };
    struct bn_model_config c;
    char says[512];

    (void)state;
    assert_true(rope_of(json_object(), NULL, &c, says));
    assert_true(c.rope.type == BN_ROPE_DEFAULT && c.rope.theta == 5e5);
    assert_true(rope_of(json_pack("{s:f}", "llama.rope.scale_linear", 2.0),
                        NULL, &c, says));
    assert_true(c.rope.type == BN_ROPE_LINEAR && c.rope.factor == 2);
    assert_true(rope_of(json_pack("{s:s, s:f}", "llama.rope.scaling.type",
                                  "linear", "llama.rope.scaling.factor",
                                  4.0), NULL, &c, says));
    assert_true(c.rope.type == BN_ROPE_LINEAR && c.rope.factor == 4);
    assert_true(rope_of(json_pack(
        "{s:s, s:f, s:i, s:f, s:f, s:b}", "llama.rope.scaling.type", "yarn",
        "llama.rope.scaling.factor", 4.0,
        "llama.rope.scaling.original_context_length", 32768,
        "llama.rope.scaling.yarn_beta_fast", 16.0,
        "llama.rope.scaling.attn_factor", 0.5,
        "llama.rope.scaling.finetuned", 1), NULL, &c, says));
    assert_true(c.rope.type == BN_ROPE_YARN && c.rope.factor == 4
                && c.rope.original_max_position == 32768
                && c.rope.beta_fast == 16 && c.rope.beta_slow == 1
                && fabs(c.rope.attention_factor
                        - 0.5 * (0.1 * log(4) + 1)) < 1e-12);
    assert_false(rope_of(json_pack("{s:s}", "llama.rope.scaling.type",
                                   "longrope"), NULL, &c, says));
    assert_string_equal(says, "x: RoPE scaling 'longrope' of a GGUF file is "
                              "not carried over: give a config.json");
    for (size_t i = 0; i < BN_COUNT(bad); i++) {
        assert_false(rope_of(json_pack("{s:i}", bad[i].key, 2), NULL, &c,
                             says));
        assert_string_equal(says, bad[i].says);
    }
}

/* Divisors of the frequencies of heads of 64, theta 5e5, as transformers has
 * them for factor 32: head and tail plain, the middle by its formula. */
static void scaling_of_llama3_is_found_in_its_divisors(void **state)
{
    float x[32];
    struct bn_named t = {.name = "rope_freqs.weight", .dtype = BN_F32,
                         .ndim = 1, .dims = {32}, .data = x};
    struct bn_model_config c;
    char says[512];

    (void)state;
    for (int i = 0; i < 32; i++) {
        double wave = 6.283185307179586 * pow(5e5, i / 32.0);
        double s = (8192 / wave - 1) / 3;

        x[i] = (float)(s >= 1 ? 1 : s <= 0 ? 32 : 1 / ((1 - s) / 32 + s));
    }
    assert_true(x[14] == 1 && x[18] == 32 && x[15] > 1 && x[17] < 32);
    assert_true(rope_of(json_object(), &t, &c, says));
    assert_true(c.rope.type == BN_ROPE_LLAMA3 && c.rope.factor == 32
                && c.rope.low_freq_factor == 1
                && c.rope.high_freq_factor == 4
                && c.rope.original_max_position == 8192);
    x[17] *= 1.01f;
    assert_false(rope_of(json_object(), &t, &c, says));
    assert_string_equal(says, "x: 'rope_freqs.weight' is not the scaling of "
                              "Llama 3: give a config.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back_changes_nothing),
        cmocka_unit_test(rows_go_where_the_forms_say),
        cmocka_unit_test(layout_of_another_family_is_refused),
        cmocka_unit_test(wrong_sources_are_refused),
        cmocka_unit_test(the_84_skipped_tensors_are_named),
        cmocka_unit_test(bad_layout_files_are_refused),
        cmocka_unit_test(configs_follow_from_metadata),
        cmocka_unit_test(rope_scaling_follows_from_metadata),
        cmocka_unit_test(scaling_of_llama3_is_found_in_its_divisors),
    };

    return BN_TAP_RUN(tests);
}
