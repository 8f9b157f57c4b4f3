/* What sampling takes and refuses; kernels/test/sample.c says what it does. */
#include "config.h"
#include "base/mem.h"
#include "base/tap.h"
#include "model/sample.h"

#include <math.h>
#include <string.h>

static void good_values(void **state)
{
    static const struct bn_sample good[] = {
        {0, 0, 1, 0, 1},       {0.7, 0, 1, 0, 1},    {1, 1, 1, 0, 1},
        {1, 0, 1e-9, 0, 1},    {1, 0, 1, 1, 1},      {1, 0, 1, 0, 1.5},
        {1.2, 10, 0.8, 0, 0.7}, {1, 100000, 1, 0, 1},
    };

    (void)state;
    for (size_t i = 0; i < BN_COUNT(good); i++)
        assert_int_equal(bn_sample_check(&good[i], NULL), 0);
}

static void bad_values(void **state)
{
    static const struct {
        struct bn_sample s;
        const char *name;
    } bad[] = {
        {{-1, 0, 1, 0, 1}, "temperature"},
        {{NAN, 0, 1, 0, 1}, "temperature"},
        {{1, -1, 1, 0, 1}, "top-k"},
        {{1, 0, 0, 0, 1}, "top-p"},
        {{1, 0, 1.1, 0, 1}, "top-p"},
        {{1, 0, 1, -0.1, 1}, "min-p"},
        {{1, 0, 1, 1.5, 1}, "min-p"},
        {{1, 0, 1, 0, 0}, "repetition-penalty"},
        {{1, 0, 1, 0, INFINITY}, "repetition-penalty"},
    };
    struct bn_err err;

    (void)state;
    for (size_t i = 0; i < BN_COUNT(bad); i++) {
        assert_int_equal(bn_sample_check(&bad[i].s, &err), -1);
        assert_int_equal(err.code, BN_ERR_USAGE);
        assert_non_null(strstr(err.text, bad[i].name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_values),
        cmocka_unit_test(bad_values),
    };

    return BN_TAP_RUN(tests);
}
