/* Run files: the table of keys, defaults, layers, what comes back as text. */
#include "config.h"
#include "conf/test/make.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

static void table_is_sound(void **state)
{
    size_t n;
    const struct bn_conf_key *k = bn_conf_keys(&n);
    union {
        int64_t i;
        double d;
        char *s;
        struct bn_run_list l;
    } field;

    (void)state;
    assert_string_equal(k[0].name, "task"); /* decides other defaults */
    for (size_t i = 0; i < n; i++) {
        const char *text[] = {k[i].dflt, k[i].orpo};
        size_t group = 0;

        assert_ptr_equal(bn_conf_find(k[i].name), &k[i]); /* once */
        assert_non_null(k[i].help);
        assert_true(bn_conf_foreign(k[i].name) == NULL);
        assert_true(k[i].dflt == NULL || k[i].from == NULL);
        assert_true(k[i].type != BN_CONF_INT
                    || (k[i].max > k[i].min && k[i].max <= BN_CONF_INT_MAX
                        && k[i].min >= -BN_CONF_INT_MAX));
        while (strcmp(bn_conf_groups[group].name, k[i].group) != 0)
            group++; /* runs off the end if there is none */
        for (int t = 0; t < 2; t++) {
            struct bn_problems p = {0};
            struct bn_yaml y = {.kind = BN_YAML_SCALAR, .text = text[t]};

            memset(&field, 0, sizeof(field));
            if (text[t] == NULL)
                continue;
            assert_int_equal(bn_conf_read(&k[i], &y, &field, &p), 0);
            bn_conf_release(&k[i], &field);
        }
        if (k[i].from != NULL) {
            const struct bn_conf_key *from = bn_conf_find(k[i].from);
            assert_int_equal(from->type, k[i].type);
            assert_null(from->from);
        }
    }
}

/* Enumerators and names must be in one order. */
static void choices_match_enums(void **state)
{
    static const struct {
        const char *set;
        size_t offset;
        unsigned value;
    } cases[] = {
#define CASE(set, field, value) {set, offsetof(struct bn_run, field), value}
        CASE("task: sft", task, BN_RUN_TASK_SFT),
        CASE("init: random", model.init, BN_RUN_INIT_RANDOM),
        CASE("dtype: bfloat16", model.dtype, BN_RUN_COMPUTE_BFLOAT16),
        CASE("activation_recompute: full", model.activation_recompute,
             BN_RUN_RECOMPUTE_FULL),
        CASE("data_format: text", data.data_format, BN_RUN_DATA_TEXT),
        CASE("data_format: alpaca", data.data_format, BN_RUN_DATA_ALPACA),
        CASE("data_format: sharegpt", data.data_format,
             BN_RUN_DATA_SHAREGPT),
        CASE("truncation_mode: keep_start", data.truncation_mode,
             BN_RUN_KEEP_START),
        CASE("completion_only_loss: true", data.completion_only_loss,
             BN_RUN_YES),
        CASE("add_bos: false", data.add_bos, BN_RUN_NO),
        CASE("add_bos: auto", data.add_bos, BN_RUN_AUTO),
        CASE("weight_decay_groups: all", optim.weight_decay_groups,
             BN_RUN_DECAY_ALL),
        CASE("lr_scheduler_type: cosine", optim.lr_scheduler_type,
             BN_RUN_LR_COSINE),
        CASE("lr_scheduler_type: constant", optim.lr_scheduler_type,
             BN_RUN_LR_CONSTANT),
        CASE("lr_scheduler_type: constant_with_warmup",
             optim.lr_scheduler_type, BN_RUN_LR_CONSTANT_WITH_WARMUP),
        CASE("lr_scheduler_type: warmup_stable_decay",
             optim.lr_scheduler_type, BN_RUN_LR_WARMUP_STABLE_DECAY),
        CASE("lr_decay_type: linear", optim.lr_decay_type,
             BN_RUN_LR_DECAY_LINEAR),
        CASE("warmup_first: one", optim.warmup_first, BN_RUN_WARMUP_ONE),
        CASE("nll_span: answer", loss.nll_span, BN_RUN_NLL_ANSWER),
        CASE("loss_reduction: trl", loss.loss_reduction, BN_RUN_REDUCE_TRL),
        CASE("eval_strategy: epoch", eval.eval_strategy,
             BN_RUN_STRATEGY_EPOCH),
        CASE("save_strategy: no", save.save_strategy, BN_RUN_STRATEGY_NO),
        CASE("report_to: [tensorboard]", log.report_to,
             BN_RUN_REPORT_TENSORBOARD),
        CASE("report_to: tensorboard", log.report_to,
             BN_RUN_REPORT_TENSORBOARD),
        CASE("report_to: none", log.report_to, 0),
        CASE("device: cuda", mesh.device, BN_RUN_DEVICE_CUDA),
    };

    (void)state;
    for (size_t i = 0; i < BN_COUNT(cases); i++) {
        struct bn_problems p = {0};
        struct bn_yaml_doc *doc = bn_yaml_parse(
            cases[i].set, strlen(cases[i].set), "s", &p);
        const struct bn_yaml *map = bn_yaml_root(doc);
        const struct bn_conf_key *k = bn_conf_find(map->key[0]->text);
        unsigned got = 99;

        assert_non_null(k);
        assert_int_equal(k->offset, cases[i].offset);
        assert_int_equal(bn_conf_read(k, map->item[0], &got, &p), 0);
        assert_int_equal(got, cases[i].value);
        bn_yaml_free(doc);
    }
}

static void defaults_derive(void **state)
{
    struct bn_run *r = make_ok(small);

    (void)state;
    assert_int_equal(r->task, BN_RUN_TASK_ORPO);
    assert_string_equal(r->run_name, "x");
    assert_string_equal(r->model.tokenizer_name_or_path, "m");
    assert_true(r->optim.learning_rate == 1e-6);
    assert_int_equal(r->data.data_seed, 42);
    assert_int_equal(r->data.max_prompt_length, 512);
    assert_int_equal(r->eval.eval_steps, 10);
    assert_int_equal(r->eval.greater_is_better, BN_RUN_NO);
    assert_int_equal(r->data.train_file.n, 1);
    assert_string_equal(r->data.columns.prompt, "prompt");
    assert_null(r->data.chat_template);
    assert_int_equal(r->lora.lora_target_modules.n, 1);
    bn_run_free(r);
    r = make_ok("task: orpo\nmodel_name_or_path: m\ntrain_file: [a, b]\n"
                "output_dir: o\nseed: 7\nmax_length: 64\n"
                "metric_for_best_model: eval_rewards/margins\n");
    assert_int_equal(r->data.data_seed, 7);
    assert_int_equal(r->data.max_prompt_length, 32);
    assert_string_equal(r->eval.metric_for_best_model, "rewards/margins");
    assert_int_equal(r->eval.greater_is_better, BN_RUN_YES);
    assert_string_equal(r->data.train_file.v[1], "b");
    bn_run_free(r);
    r = make_ok("task: sft\nmodel_name_or_path: m\ntrain_file: t\n"
                "output_dir: a/b//\n");
    assert_true(r->optim.learning_rate == 2e-5);
    assert_string_equal(r->run_name, "b");
    bn_run_free(r);
}

/* The canonical text loads to the same values and says the same again. */
static void canonical_text_returns(void **state)
{
    static const char text[] =
        "task: orpo\nmodel_name_or_path: 'a: #b'\ntrain_file: ['1', \"x\ty\","
        " no, 한국어]\noutput_dir: '-'\nlearning_rate: 0.1234567890123456789\n"
        "columns: {chosen: 'null', rejected: \"q\\\"uo\\\\te\"}\n"
        "seed: 9007199254740992\nbeta: 1e-300\nrun_name: '~'\n"
        "lora_r: 8\nlora_target_modules: []\nreport_to: [tensorboard]\n";
    struct bn_run *a = make_ok(text);
    char *once = bn_run_yaml(a);
    struct bn_run *b = make_ok(once);
    char *twice = bn_run_yaml(b);
    size_t n;
    const struct bn_conf_key *k = bn_conf_keys(&n);

    (void)state;
    assert_string_equal(once, twice);
    assert_non_null(strstr(once, "[\"1\", ")); /* a string to all readers */
    for (size_t i = 0; i < n; i++) {
        char *x = bn_run_value(a, k[i].name), *y = bn_run_value(b, k[i].name);

        assert_string_equal(x, y);
        free(x);
        free(y);
    }
    assert_true(a->optim.learning_rate == b->optim.learning_rate);
    assert_string_equal(b->data.train_file.v[1], "x\ty");
    assert_string_equal(b->data.train_file.v[2], "no");
    assert_null(bn_run_value(a, "nothing"));
    free(once);
    free(twice);
    bn_run_free(a);
    bn_run_free(b);
}

static void layers_keep_their_places(void **state)
{
    static const char points[] = "- {beta: 0.3, columns.prompt: q}\n"
                                 "- {beta: 0.5,\n   logging_steps: 5}\n";
    struct bn_problems p = {0};
    struct bn_yaml_doc *base = bn_yaml_parse(small, strlen(small), "base",
                                             &p);
    struct bn_yaml_doc *sweep = bn_yaml_parse(points, strlen(points),
                                              "sweep", &p);
    const struct bn_yaml *map = bn_yaml_root(sweep)->item[1];
    struct bn_setting s[] = {{map->key[0]->text, map->item[0]},
                             {map->key[1]->text, map->item[1]}};
    const char *const sets[] = {"logging_steps=6", "columns.prompt=z"};
    struct bn_run_parts parts = {bn_yaml_root(base), s, 2, sets, 2, 0};

    (void)state;
    struct bn_run *r = bn_run_make(&parts, &p);
    bn_yaml_free(base);
    bn_yaml_free(sweep);
    assert_int_equal(p.n, 0);
    assert_true(r->loss.beta == 0.5);
    assert_int_equal(r->log.logging_steps, 6);
    assert_string_equal(r->data.columns.prompt, "z");
    struct bn_place at = bn_run_place(r, "beta");
    assert_string_equal(at.file, "sweep");
    assert_int_equal(at.line, 2);
    at = bn_run_place(r, "task");
    assert_string_equal(at.file, "base");
    assert_int_equal(at.line, 1);
    assert_string_equal(bn_run_place(r, "logging_steps").file, "--set");
    assert_null(bn_run_place(r, "seed").file);
    bn_run_free(r);
}

static void trajectory_names_what_changed(void **state)
{
    struct bn_err err;
    char buf[1000];

    (void)state;
    struct bn_run *a = make_ok(small);
    snprintf(buf, sizeof(buf), "%s%s", small,
             "logging_steps: 3\nrun_name: other\nnum_threads: 2\n"
             "per_device_train_batch_size: 1\ntensor_parallel_size: 2\n");
    struct bn_run *same = make_ok(buf);
    snprintf(buf, sizeof(buf), "%s%s", small, "beta: 0.2\nmax_length: 64\n");
    struct bn_run *other = make_ok(buf);
    struct bn_hash ha = bn_run_fingerprint(a), hs = bn_run_fingerprint(same);
    struct bn_hash ho = bn_run_fingerprint(other);
    char *ta = bn_run_trajectory(a), *ts = bn_run_trajectory(same);
    char *to = bn_run_trajectory(other);

    assert_true(ha.hi == hs.hi && ha.lo == hs.lo);
    assert_false(ha.hi == ho.hi && ha.lo == ho.lo);
    assert_int_equal(bn_run_trajectory_same(ta, ts, &err), 0);
    assert_int_equal(bn_run_trajectory_same(ta, to, &err), -1);
    assert_int_equal(err.code, BN_ERR_USAGE);
    assert_string_equal(err.text, "the run has changed: max_length was 1024"
                                  " and is 64; max_prompt_length was 512 and"
                                  " is 32; beta was 0.1 and is 0.2");
    assert_int_equal(bn_run_trajectory_same("a: 1\nb: 2\n", "b: 2\nc: 3\n",
                                            &err), -1);
    assert_string_equal(err.text, "the run has changed: a is gone; c is new");
    free(ta);
    free(ts);
    free(to);
    bn_run_free(a);
    bn_run_free(same);
    bn_run_free(other);
}

static void no_train_demands_less(void **state)
{
    struct bn_problems p = {0};
    struct bn_run *r = make("task: sft\nmodel_name_or_path: m\n"
                            "eval_strategy: steps\n", BN_RUN_NO_TRAIN, &p);

    (void)state;
    assert_non_null(r);
    assert_null(r->output_dir);
    assert_string_equal(r->run_name, "run");
    bn_run_free(r);
    assert_null(make("task: sft\nmodel_name_or_path: m\n", 0, &p));
    assert_int_equal(p.n, 2);
    bn_problems_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_sound),
        cmocka_unit_test(choices_match_enums),
        cmocka_unit_test(defaults_derive),
        cmocka_unit_test(canonical_text_returns),
        cmocka_unit_test(layers_keep_their_places),
        cmocka_unit_test(trajectory_names_what_changed),
        cmocka_unit_test(no_train_demands_less),
    };

    return BN_TAP_RUN(tests);
}
