/* A trained model from the reference inputs, where they are at hand. */
#include "config.h"
#include "ckpt/hf.h"
#include "base/mem.h"
#include "base/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *path;

static void trained_model_loads(void **state)
{
    char *config = bn_path_join(path, "config.json");
    struct bn_err err = {0};
    struct bn_model_config c;
    struct bn_params ps;

    (void)state;
    if (bn_model_config_load(&c, config, NULL, &err) < 0)
        fail_msg("%s", err.text);
    struct bn_part whole = bn_part_whole(&c);
    assert_int_equal(bn_params_init(&ps, &c, &whole, &err), 0);
    assert_int_equal(ps.n, 47);
    assert_int_equal(ps.count, 260032);
    void *flat = bn_malloc(ps.elems * 2);
    struct bn_str report = {0};
    if (bn_hf_load(path, &c, &ps, flat, BN_BF16, 0, &report, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(report.s, "47 tensors converted from F32 to BF16\n");
    bn_str_release(&report);
    bn_params_release(&ps);
    free(flat);
    free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trained_model_loads),
    };
    const char *shared = getenv("BN_SHARED"), *src = getenv("BN_SRCDIR");
    const char *require = getenv("BURNISH_TEST_REQUIRE");
    char *root = shared != NULL ? bn_strdup(shared)
                                : bn_asprintf("%s/../shared", src);

    path = bn_asprintf("%s/inputs/models/stories260K-hf", root);
    free(root);
    if (!bn_is_dir(path)) {
        bool must = require != NULL && strstr(require, "SHARED") != NULL;

        printf(must ? "1..1\nnot ok 1 - SHARED is required\n"
                    : "1..0 # SKIP no ../shared/inputs\n");
        free(path);
        return must;
    }
    int rc = BN_TAP_RUN(tests);
    free(path);
    return rc;
}
