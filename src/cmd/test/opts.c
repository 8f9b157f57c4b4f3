#include "config.h"
#include "cmd/opts.h"

#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

struct got {
    bool flag;
    const char *str, *type;
    int64_t num;
    double real;
    struct bn_opt_list list, operands;
};

/* 'words' is cut up; what is parsed borrows from it. */
static int parse(struct got *g, struct bn_err *err, char *words)
{
    char *save = NULL;
    char *argv[20] = {words};
    int argc = 1;
    const struct bn_opt opts[] = {
        {"flag", BN_OPT_FLAG, &g->flag, NULL, "a flag"},
        {"str", BN_OPT_STR, &g->str, "WORD", "a string"},
        {"num", BN_OPT_INT, &g->num, "N", "a number"},
        {"real", BN_OPT_NUM, &g->real, "X", "a number with a point"},
        {"list", BN_OPT_LIST, &g->list, "WORD", "words"},
        {"type", BN_OPT_STR, &g->type, "float32|bfloat16|int8", "a choice"},
        {0},
    };

    for (char *w = strtok_r(words, " ", &save); w != NULL;
         w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    return bn_opts_parse(opts, argc, argv, &g->operands, err);
}

static void all_forms(void **state)
{
    char words[] = "a --flag --str x --num=-5 - --list=1 b --list --flag"
                   " --str= --real -2.5e-1 -- --num -x";
    struct got g = {0};
    struct bn_err err;

    (void)state;
    assert_int_equal(parse(&g, &err, words), 0);
    assert_true(g.flag);
    assert_string_equal(g.str, "");
    assert_int_equal(g.num, -5);
    assert_true(g.real == -0.25);
    assert_int_equal(g.list.n, 2);
    assert_string_equal(g.list.v[1], "--flag"); /* a value is a value */
    assert_int_equal(g.operands.n, 5);
    assert_string_equal(g.operands.v[1], "-");
    assert_string_equal(g.operands.v[3], "--num");
    bn_opt_list_release(&g.list);
    bn_opt_list_release(&g.operands);
}

static void refusals(void **state)
{
    static const char *const cases[][2] = {
        {"--flg", "unknown option '--flg'; did you mean '--flag'?"},
        {"--wibble", "unknown option '--wibble'"},
        {"--flag=1", "--flag takes no value"},
        {"--str", "--str needs a value: WORD"},
        {"--num x", "--num: expected an integer, got 'x'"},
        {"--num 1x", "--num: expected an integer, got '1x'"},
        {"--num=", "--num: expected an integer, got ''"},
        {"--num 99999999999999999999",
         "--num: expected an integer, got '99999999999999999999'"},
        {"--real 1,5", "--real: expected a number, got '1,5'"},
        {"--real nan", "--real: expected a number, got 'nan'"},
        {"--real 1e999", "--real: expected a number, got '1e999'"},
        {"-f", "unknown option '-f'; options have two dashes"},
        {"--type float", "--type: 'float' is none of float32|bfloat16|int8;"
                         " did you mean 'float32'?"},
        {"--type=flaot32", "--type: 'flaot32' is none of float32|bfloat16|int8;"
                           " did you mean 'float32'?"},
        {"--type wibble", "--type: 'wibble' is none of float32|bfloat16|int8"},
        {"--type int8|float32",
         "--type: 'int8|float32' is none of float32|bfloat16|int8; did you mean"
         " 'float32'?"},
        {"--type=", "--type: '' is none of float32|bfloat16|int8"},
    };

    (void)state;
    for (size_t i = 0; i < BN_COUNT(cases); i++) {
        struct got g = {0};
        struct bn_err err;
        char words[100];

        snprintf(words, sizeof(words), "%s", cases[i][0]);
        assert_int_equal(parse(&g, &err, words), -1);
        assert_int_equal(err.code, BN_ERR_USAGE);
        assert_string_equal(err.text, cases[i][1]);
        bn_opt_list_release(&g.operands);
    }
}

static void verbs(void **state)
{
    static const struct bn_verb table[] = {
        {"list", "a"}, {"verify", "b"}, {0}};
    static const char *const cases[][2] = {
        {NULL, "which of list, verify?"},
        {"verfy", "'verfy' is none of list, verify; did you mean 'verify'?"},
        {"x", "'x' is none of list, verify"},
    };
    const char *word = "verify";
    struct bn_opt_list l = {.v = &word, .n = 1};
    struct bn_err err;

    (void)state;
    assert_int_equal(bn_verb_find(table, &l, &err), 1);
    for (size_t i = 0; i < BN_COUNT(cases); i++) {
        word = cases[i][0];
        l.n = word != NULL;
        assert_int_equal(bn_verb_find(table, &l, &err), -1);
        assert_int_equal(err.code, BN_ERR_USAGE);
        assert_string_equal(err.text, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forms),
        cmocka_unit_test(refusals),
        cmocka_unit_test(verbs),
    };

    return BN_TAP_RUN(tests);
}
