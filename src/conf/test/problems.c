/* Run files that are wrong: one problem each, named with its place. */
#include "config.h"
#include "conf/test/make.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

/* 'text' has one problem, and it is said as 'want'. */
static void expect_problem(const char *text, const char *want)
{
    struct bn_problems p = {0};
    char got[1000] = "";
    FILE *out = fmemopen(got, sizeof(got), "w");

    assert_null(make(text, 0, &p));
    bn_problems_print(&p, out);
    fclose(out);
    got[strcspn(got, "\n")] = '\0';
    assert_string_equal(got, want);
    assert_int_equal(p.n, 1);
    bn_problems_release(&p);
}

/* What is written after 'small', and what is said. */
#define STEPS "eval_split: 0.1\neval_strategy: steps\neval_steps: 5\n"
static void one_problem_each(void **state)
{
    static const char *const cases[][2] = {
        {"beta: fast", "r:5:7: beta: expected a number of at least 0, at most"
                       " 1000, got fast"},
        {"beta: '0.1'", "r:5:7: beta: expected a number of at least 0, at"
                        " most 1000, got the string \"0.1\""},
        {"beta: [1]", "r:5:7: beta: expected a number of at least 0, at most"
                      " 1000, got a list"},
        {"beta: {a: 1}", "r:5:7: beta: expected a number of at least 0, at"
                         " most 1000, got a map"},
        {"beta: -0.1", "r:5:7: beta: expected a number of at least 0, at most"
                       " 1000, got -0.1"},
        {"beta: nan", "r:5:7: beta: expected a number of at least 0, at most"
                      " 1000, got nan"},
        {"beta: 0x10", "r:5:7: beta: expected a number of at least 0, at most"
                       " 1000, got 0x10"},
        {"beta: 1e999", "r:5:7: beta: expected a number of at least 0, at"
                        " most 1000, got 1e999"},
        {"max_grad_norm: 1e999", "r:5:16: max_grad_norm: expected a number of"
                                 " at least 0, got 1e999"},
        {"beta:", "r:5:6: beta has no value; leave the key out for its"
                  " default"},
        {"beta: null", "r:5:7: beta has no value; leave the key out for its"
                       " default"},
        {"chat_template:", "r:5:15: chat_template has no value; leave the key"
                           " out for its default"},
        {"run_name: ''", "r:5:11: run_name: an empty string"},
        {"learning_rate: 0", "r:5:16: learning_rate: expected a number above"
                             " 0, at most 10, got 0"},
        {"eval_split: 1", "r:5:13: eval_split: expected a number of at least"
                          " 0, below 1, got 1"},
        {"seed: 1.5", "r:5:7: seed: expected an integer of at least 0, got"
                      " 1.5"},
        {"seed: 1e17", "r:5:7: seed: expected an integer of at least 0, at"
                       " most 9007199254740992, got 1e17"},
        {"shuffle: yes", "r:5:10: shuffle: expected true or false, got yes"},
        {"shuffle: 'true'", "r:5:10: shuffle: expected true or false, got the"
                            " string \"true\""},
        {"add_bos: maybe", "r:5:10: add_bos: expected true, false or auto,"
                           " got maybe"},
        {"dtype: bfloat", "r:5:8: dtype: expected one of float32, bfloat16,"
                          " got bfloat; did you mean 'bfloat16'?"},
        {"report_to: [wandb]", "r:5:13: report_to: expected none or"
                               " any of tensorboard, got wandb"},
        {"lora_target_modules: [[a]]\nlora_r: 1",
         "r:5:23: lora_target_modules: expected a string or a list of"
         " strings, got a list"},
        {"columns: q", "r:5:10: columns: expected a map"},
        {"columns: {promt: q}", "r:5:11: unknown key 'columns.promt'; did you"
                                " mean 'columns.prompt'?"},
        {"lerning_rate: 1", "r:5:1: unknown key 'lerning_rate'; did you mean"
                            " 'learning_rate'?"},
        {"wibble_wobble_x: 1", "r:5:1: unknown key 'wibble_wobble_x'"},
        {"packing: true", "r:5:1: unknown key 'packing'; leave it out;"
                          " nothing is ever padded"},
        {"eval_accumulation_steps: 2", "r:5:1: unknown key"
                                       " 'eval_accumulation_steps'; leave it"
                                       " out; no logits are kept"},
        {"warmup_steps: 0.1", "r:5:15: warmup_steps: expected an integer of at"
                              " least 0, got 0.1; a share of all steps is"
                              " 'warmup_ratio'"},
        {"lr_scheduler_type: cosine_with_min_lr",
         "r:5:20: lr_scheduler_type: expected one of linear, cosine, constant,"
         " constant_with_warmup, warmup_stable_decay, got cosine_with_min_lr;"
         " write 'cosine' and 'min_lr_ratio'"},
        {"seed: 1\nseed: 2", "r:6:1: duplicate key 'seed'; it was set in line"
                             " 5"},
        {"seed: !!int 1", "r:5:7: tags (!) are not supported"},
        {"label_smoothing_factor: 0.1", "r:5:1: label_smoothing_factor is for"
                                        " task sft only, and the task is"
                                        " orpo"},
        {"data_format: text", "r:5:1: orpo needs data_format: preference or"
                              " auto"},
        {"init: random", "r:2:1: init is random, so no weights are read: give"
                         " config_name and tokenizer_name_or_path, not"
                         " model_name_or_path"},
        {"config_name: c", "r:5:1: config_name has no effect unless init is"
                           " random"},
        {"init_std: 0.1", "r:5:1: init_std has no effect unless init is"
                          " random"},
        {"max_prompt_length: 1024", "r:5:1: max_prompt_length (1024) must be"
                                    " less than max_length (1024)"},
        {"eval_split: 0.1\neval_file: e", "r:5:1: eval_split and eval_file"
                                          " are both set; choose one"},
        {"eval_file: [b, a.jsonl]", "r:5:1: a file is both in train_file and"
                                    " in eval_file"},
        {"eval_strategy: epoch", "r:5:1: eval_strategy needs evaluation data:"
                                 " eval_file or eval_split"},
        {"eval_on_start: true", "r:5:1: eval_on_start needs evaluation data:"
                                " eval_file or eval_split"},
        {"eval_steps: 5", "r:5:1: eval_steps has no effect unless"
                          " eval_strategy is steps"},
        {"save_strategy: no\nsave_steps: 5", "r:6:1: save_steps has no effect"
                                             " unless save_strategy is"
                                             " steps"},
        {"load_best_model_at_end: true",
         "r:5:1: load_best_model_at_end needs eval_strategy: steps or epoch"},
        {"eval_split: 0.1\neval_strategy: epoch\n"
         "load_best_model_at_end: true",
         "r:7:1: load_best_model_at_end needs the same eval_strategy (epoch)"
         " and save_strategy (steps)"},
        {"eval_split: 0.1\neval_strategy: steps\neval_steps: 100\n"
         "load_best_model_at_end: true\nsave_steps: 9999",
         "r:9:1: load_best_model_at_end needs save_steps (9999) to be a"
         " multiple of eval_steps (100)"},
        {"metric_for_best_model: rewards/accuracy",
         "r:5:1: metric_for_best_model: 'rewards/accuracy' is not measured;"
         " did you mean 'rewards/accuracies'?"},
        {"early_stopping_patience: 1", "r:5:1: early_stopping_patience needs"
                                       " eval_strategy: steps or epoch"},
        {"early_stopping_threshold: 1", "r:5:1: early_stopping_threshold has"
                                        " no effect without"
                                        " early_stopping_patience"},
        {"asha_dir: a", "r:5:1: asha_dir and asha_rungs go together"},
        {"asha_rungs: [5]", "r:5:1: asha_dir and asha_rungs go together"},
        {"asha_dir: a\nasha_rungs: [5]",
         "r:6:1: asha_rungs needs eval_strategy: steps"},
        {STEPS "asha_dir: a\nasha_rungs: [5, 12]",
         "r:9:1: asha_rungs: 12 is not a multiple of eval_steps (5)"},
        {STEPS "asha_dir: a\nasha_rungs: [10, 10]",
         "r:9:1: asha_rungs: '10' is not a number of steps above 10: they"
         " must ascend"},
        {STEPS "asha_dir: a\nasha_rungs: [x]",
         "r:9:1: asha_rungs: 'x' is not a number of steps above 0: they must"
         " ascend"},
        {STEPS "asha_dir: a\nasha_rungs: [5, 10]\nmax_steps: 10",
         "r:9:1: asha_rungs: 10 is not below max_steps (10)"},
        {STEPS "asha_dir: a\nasha_rungs: [5]\nasha_metric: wibbles",
         "r:10:1: asha_metric: 'wibbles' is not measured; there is loss,"
         " nll_loss, log_odds_ratio, log_odds_chosen, rewards/chosen,"
         " rewards/rejected, rewards/margins, rewards/accuracies,"
         " logps/chosen, logps/rejected"},
        {STEPS "asha_dir: a\nasha_rungs: [5]\nrun_name: a/b",
         "r:10:1: run_name 'a/b' cannot name a file in asha_dir: leave out"
         " slashes, and take at most 200 characters"},
        {"max_steps: 0", "r:5:1: max_steps must be positive, or -1 for not"
                         " set"},
        {"warmup_steps: 5\nwarmup_ratio: 0.1",
         "r:6:1: warmup_steps and warmup_ratio are both set; choose one"},
        {"lr_scheduler_type: constant\nwarmup_steps: 5",
         "r:5:1: lr_scheduler_type constant has no warm-up; write"
         " constant_with_warmup"},
        {"warmup_steps: 50\nmax_steps: 10",
         "r:5:1: warmup_steps (50) is more than max_steps (10)"},
        {"lr_decay_ratio: 0.2", "r:5:1: lr_decay_ratio has no effect unless"
                                " lr_scheduler_type is warmup_stable_decay"},
        {"lr_scheduler_type: constant\nmin_lr_ratio: 0.1",
         "r:6:1: min_lr_ratio has no effect on a constant learning rate"},
        {"sequence_parallel: true", "r:5:1: sequence_parallel needs"
                                    " tensor_parallel_size of at least 2"},
        {"cuda_graph: true\ndevice: cpu", "r:5:1: cuda_graph is for one GPU,"
         " not the CPU or several ranks"},
        {"cuda_graph: true\ncontext_parallel_size: 2", "r:5:1: cuda_graph is"
         " for one GPU, not the CPU or several ranks"},
        {"lora_alpha: 8", "r:5:1: lora_alpha has no effect unless lora_r is"
                          " set"},
        {"adapter: a\nlora_r: 4", "r:5:1: lora_r makes a new adapter and"
                                  " adapter goes on from one: give one of"
                                  " them"},
        {"adapter: a\nlora_alpha: 8",
         "r:6:1: adapter says rank, alpha, dropout and modules itself: leave"
         " the lora_* keys out"},
        {"use_dora: true", "r:5:1: unknown key 'use_dora'; leave it out: DoRA"
                           " is not supported"},
        {"bad: [", "r:6:1: while parsing a flow node did not find expected"
                   " node content"},
        {"---\nb: 2", "r:5:1: a second document"},
        {"x: \"\\0\"", "r:5:4: a NUL character in a value"},
        {"? [a]\n: 1", "r:5:3: a key must be a single word"},
    };

    (void)state;
    for (size_t i = 0; i < BN_COUNT(cases); i++) {
        char text[1000];

        snprintf(text, sizeof(text), "%s%s\n", small, cases[i][0]);
        expect_problem(text, cases[i][1]);
    }
}

/* Whole files. */
static void one_problem_each_alone(void **state)
{
#define SFT "task: sft\noutput_dir: o\ntrain_file: t\n"
#define RANDOM SFT "init: random\n"
#define MODEL SFT "model_name_or_path: m\n"
    static const char *const cases[][2] = {
        {"output_dir: o\ntrain_file: t\nmodel_name_or_path: m",
         "r:1:1: task is missing: sft or orpo"},
        {"task: sft\ntrain_file: t\nmodel_name_or_path: m",
         "r:1:1: output_dir is missing"},
        {"task: sft\noutput_dir: o\nmodel_name_or_path: m",
         "r:1:1: train_file is missing"},
        {SFT, "r:1:1: model_name_or_path is missing (or give init: random"
              " with config_name)"},
        {RANDOM, "r:4:1: init is random: config_name is missing"},
        {RANDOM "config_name: c",
         "r:4:1: init is random: tokenizer_name_or_path is missing"},
        {RANDOM "config_name: c\ntokenizer_name_or_path: t\nlora_r: 4",
         "r:7:1: adapters on random weights make no sense: lora_r needs init:"
         " pretrained"},
        {RANDOM "config_name: c\ntokenizer_name_or_path: t\nadapter: a",
         "r:7:1: adapters on random weights make no sense: adapter needs"
         " init: pretrained"},
        {"task: sft\noutput_dir: /dev\ntrain_file: t\nmodel_name_or_path: /dev",
         "r:2:1: model_name_or_path lies in output_dir, which would be"
         " written over"},
        {"task: sft\noutput_dir: /\ntrain_file: t\nmodel_name_or_path: /dev",
         "r:2:1: model_name_or_path lies in output_dir, which would be"
         " written over"},
        {SFT "model_name_or_path: /dev/null",
         "r:4:1: model_name_or_path: '/dev/null' is a file, not the folder of"
         " a Hugging Face model (burnish convert makes one)"},
        {MODEL "data_format: preference",
         "r:5:1: preference data needs task: orpo"},
        {MODEL "assistant_only_loss: true\ndata_format: alpaca",
         "r:5:1: assistant_only_loss needs chats (data_format: messages,"
         " sharegpt or auto)"},
        {MODEL "last_turn_only: true",
         "r:5:1: last_turn_only needs assistant_only_loss: true"},
        {MODEL "completion_only_loss: true\ndata_format: text",
         "r:5:1: completion_only_loss needs a prompt, and data_format is"
         " text"},
        {MODEL "beta: 0.1", "r:5:1: beta is for task orpo only, and the task"
                            " is sft"},
        {MODEL "metric_for_best_model: wibble",
         "r:5:1: metric_for_best_model: 'wibble' is not measured; there is"
         " loss, nll_loss, mean_token_accuracy"},
        {"- a", "r:1:1: expected 'key: value' lines"},
    };

    (void)state;
    for (size_t i = 0; i < BN_COUNT(cases); i++)
        expect_problem(cases[i][0], cases[i][1]);
}

static void rules_have_names(void **state)
{
    const char *name, *text, *other, *unused;
    size_t n = 0;

    (void)state;
    for (; bn_conf_rule(n, &name, &text); n++)
        for (size_t i = 0; i < n; i++) {
            assert_true(bn_conf_rule(i, &other, &unused));
            assert_string_not_equal(name, other);
        }
    assert_true(n > 25);
}

static void yaml_bombs_are_bounded(void **state)
{
    struct bn_problems p = {0};
    struct bn_str s = {0};

    (void)state;
    bn_str_adds(&s, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 9; i++) {
        bn_str_addf(&s, "a%d: &a%d [", i, i);
        for (int j = 0; j < 10; j++)
            bn_str_addf(&s, "%s*a%d", j > 0 ? ", " : "", i - 1);
        bn_str_adds(&s, "]\n");
    }
    assert_null(bn_yaml_parse(s.s, s.len, "r", &p));
    assert_int_equal(p.n, 1);
    assert_string_equal(p.v[0].text, "too many values (1000000 with aliases"
                                     " expanded)");
    bn_problems_release(&p);
    bn_str_clear(&s);
    for (int i = 0; i < 100000; i++)
        bn_str_addc(&s, '[');
    assert_null(bn_yaml_parse(s.s, s.len, "r", &p));
    bn_problems_release(&p);
    /* depth through aliases: each level adds one */
    bn_str_clear(&s);
    bn_str_adds(&s, "- &a0 [x]\n");
    for (int i = 1; i < 80; i++)
        bn_str_addf(&s, "- &a%d [*a%d]\n", i, i - 1);
    assert_null(bn_yaml_parse(s.s, s.len, "r", &p));
    assert_string_equal(p.v[0].text, "nested too deeply");
    bn_problems_release(&p);
    static const char self[] = "a: &x [*x]\n";
    assert_null(bn_yaml_parse(self, strlen(self), "r", &p));
    assert_string_equal(p.v[0].text, "alias '*x' stands for nothing: no"
                                     " anchor '&x' ends before it");
    bn_problems_release(&p);
    bn_str_release(&s);
}

static void yaml_aliases_share(void **state)
{
    static const char text[] = "lr: &lr 1e-5\nlist: &l [*lr, 2]\nb: *l\n"
                               "*lr : key\n";
    struct bn_problems p = {0};
    struct bn_yaml_doc *doc = bn_yaml_parse(text, strlen(text), "r", &p);
    const struct bn_yaml *root = bn_yaml_root(doc);

    (void)state;
    assert_int_equal(p.n, 0);
    assert_ptr_equal(bn_yaml_get(root, "list"), bn_yaml_get(root, "b"));
    assert_string_equal(bn_yaml_get(root, "b")->item[0]->text, "1e-5");
    assert_string_equal(bn_yaml_get(root, "1e-5")->text, "key");
    assert_null(bn_yaml_get(root, "c"));
    bn_yaml_free(doc);
    doc = bn_yaml_parse("", 0, "r", &p);
    assert_int_equal(bn_yaml_root(doc)->n, 0);
    bn_yaml_free(doc);
    doc = bn_yaml_parse("# nothing\n", 10, "r", &p);
    assert_int_equal(bn_yaml_root(doc)->kind, BN_YAML_MAP);
    bn_yaml_free(doc);
    assert_int_equal(p.n, 0);
}

static void problems_are_bounded_and_ordered(void **state)
{
    struct bn_problems p = {0};

    (void)state;
    bn_problem_add(&p, (struct bn_place){"--set x", 0, 0}, "%s", "last");
    bn_problem_add(&p, (struct bn_place){"b", 2, 1}, "%s", "4");
    bn_problem_add(&p, (struct bn_place){"a", 1, 1}, "%s", "5");
    bn_problem_add(&p, (struct bn_place){"b", 1, 9}, "%s", "3");
    bn_problem_add(&p, (struct bn_place){"b", 1, 2}, "%s", "1");
    bn_problem_add(&p, (struct bn_place){"b", 1, 2}, "%s", "2");
    bn_problems_sort(&p, 0);
    assert_string_equal(p.v[0].text, "1");
    assert_string_equal(p.v[1].text, "2");
    assert_string_equal(p.v[2].text, "3");
    assert_string_equal(p.v[3].text, "4");
    assert_string_equal(p.v[4].text, "5");
    assert_string_equal(p.v[5].text, "last");
    for (int i = 0; i < 4; i++) /* once each, as far as they are equal */
        bn_problem_add(&p, (struct bn_place){"b", 1, i % 2 + 2}, "1");
    assert_int_equal(p.n, 7);
    for (int i = 0; i < 2000; i++)
        bn_problem_add(&p, (struct bn_place){"a", i, 1}, "a\nb");
    assert_int_equal(p.n, BN_PROBLEMS_MAX);
    assert_int_equal(p.dropped, 2007 - BN_PROBLEMS_MAX);
    assert_string_equal(p.v[p.n - 1].text, "a?b");
    bn_problems_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_problem_each),
        cmocka_unit_test(one_problem_each_alone),
        cmocka_unit_test(rules_have_names),
        cmocka_unit_test(yaml_bombs_are_bounded),
        cmocka_unit_test(yaml_aliases_share),
        cmocka_unit_test(problems_are_bounded_and_ordered),
    };

    return BN_TAP_RUN(tests);
}
