/* Adapters: what their parts are called, how ranks split them, and which
 * modules are refused.
 */
#include "config.h"
#include "base/mem.h"
#include "base/tap.h"
#include "model/lora.h"

#include <stdlib.h>

static void must(int rc, const struct bn_err *err)
{
    if (rc < 0)
        fail_msg("%s", err->text);
}

static struct bn_model_config load(const char *variant)
{
    const char *src = getenv("BN_SRCDIR");
    char *path = bn_asprintf("%s/t/data/arch-variants/%s/config.json",
                             src ? src : ".", variant);
    struct bn_model_config cfg;
    struct bn_err err;

    must(bn_model_config_load(&cfg, path, NULL, &err), &err);
    free(path);
    return cfg;
}

static void names_are_those_of_peft(void **state)
{
    struct bn_lora l = {.r = 2, .alpha = 2};
    struct bn_model_config cfg = load("llama-untied");
    struct bn_part part = bn_part_whole(&cfg);
    struct bn_params ps;
    struct bn_err err;

    (void)state;
    bn_lora_add_name(&l.target, &l.ntarget, "v_proj");
    bn_lora_add_name(&l.target, &l.ntarget, "layers.1.mlp.down_proj");
    bn_lora_add_name(&l.save, &l.nsave, "lm_head");
    must(bn_lora_check(&l, &cfg, "x", &err), &err);
    must(bn_params_init_lora(&ps, &cfg, &part, &l, &err), &err);
    static const char *const want[] = {
        "base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight",
        "base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight",
        "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight",
        "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight",
        "base_model.model.model.layers.1.mlp.down_proj.lora_B.weight",
    };
    for (size_t i = 0; i < BN_COUNT(want); i++)
        assert_string_equal(ps.item[i].name, want[i]);
    assert_string_equal(ps.item[ps.n - 1].name,
                        "base_model.model.lm_head.weight");
    assert_int_equal(ps.item[5].rows, cfg.hidden_size);
    assert_int_equal(ps.item[5].cols, 2);
    bn_params_release(&ps);
    bn_lora_release(&l);
}

/* Two ranks hold what lora.h says. */
static void ranks_split_the_factor_that_touches_the_split(void **state)
{
    struct bn_lora l = {.r = 2, .alpha = 2};
    struct bn_model_config cfg = load("llama-untied");
    struct bn_part part = bn_part_whole(&cfg);
    struct bn_params ps;
    struct bn_err err;

    (void)state;
    bn_lora_all_linear(&l);
    part.tp_size = 2;
    part.tp_rank = 1;
    must(bn_params_init_lora(&ps, &cfg, &part, &l, &err),
         &err);
    int ffn = cfg.intermediate_size, hidden = cfg.hidden_size;
    static const struct {
        enum bn_param_kind kind;
        bool split;
    } all[] = {{BN_P_UP_A, false}, {BN_P_UP_B, true}, {BN_P_DOWN_A, true},
               {BN_P_DOWN_B, false}, {BN_P_O_A, true}, {BN_P_K_B, true}};
    for (size_t i = 0; i < BN_COUNT(all); i++)
        assert_int_equal(bn_param_find(&ps, all[i].kind, 0)->copies,
                         all[i].split ? 1 : 2);
    assert_int_equal(bn_param_find(&ps, BN_P_UP_B, 0)->rows, ffn / 2);
    assert_int_equal(bn_param_find(&ps, BN_P_UP_B, 0)->row0, ffn / 2);
    assert_int_equal(bn_param_find(&ps, BN_P_DOWN_A, 0)->cols, ffn / 2);
    assert_int_equal(bn_param_find(&ps, BN_P_DOWN_B, 0)->rows, hidden);
    bn_params_release(&ps);
    bn_lora_release(&l);
}

static void refuses(const struct bn_model_config *cfg, const char *target,
                    const char *save, const char *want)
{
    struct bn_lora l = {.r = 1, .alpha = 1};
    struct bn_err err;

    bn_lora_add_name(&l.target, &l.ntarget, target);
    if (save != NULL)
        bn_lora_add_name(&l.save, &l.nsave, save);
    assert_int_equal(bn_lora_check(&l, cfg, "x", &err), -1);
    assert_string_equal(err.text, want);
    bn_lora_release(&l);
}

static void modules_that_are_not_there_are_refused(void **state)
{
    struct bn_model_config cfg = load("qwen2-bias-tied");

    (void)state;
    refuses(&cfg, "c_attn", NULL,
            "x: target_modules: the model has no module 'c_attn'");
    refuses(&cfg, "layers.9.self_attn.q_proj", NULL, "x: target_modules: the "
            "model has no module 'layers.9.self_attn.q_proj'");
    refuses(&cfg, "proj", NULL,
            "x: target_modules: the model has no module 'proj'");
    refuses(&cfg, "embed_tokens", NULL, "x: target_modules: 'embed_tokens' "
            "cannot have an adapter (q_proj, k_proj, v_proj, o_proj, "
            "gate_proj, up_proj and down_proj can)");
    refuses(&cfg, "q_proj", "o_proj", "x: modules_to_save: 'o_proj' is a matrix "
            "of a layer: give it an adapter instead (the embedding, the head "
            "and norms can be saved)");
    refuses(&cfg, "q_proj", "lm_head", "x: modules_to_save: 'lm_head' is tied "
            "to the embedding in this model and cannot be trained apart from "
            "it");
    refuses(&cfg, "q_proj", "score",
            "x: modules_to_save: the model has no module 'score'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_peft),
        cmocka_unit_test(ranks_split_the_factor_that_touches_the_split),
        cmocka_unit_test(modules_that_are_not_there_are_refused),
    };

    return BN_TAP_RUN(tests);
}
