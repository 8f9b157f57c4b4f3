#include "config.h"
#include "convert/run.h"
#include "base/mem.h"
#include "base/tap.h"
#include "format/safetensors.h"

#include <stdlib.h>
#include <string.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/bn-run-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int drop_dir(void **state)
{
    (void)state;
    return bn_remove_tree(dir, NULL);
}

/* What is wrong with layer 1's up matrix in the source. */
enum fault { NONE, ZERO, SAME, LARGE };

static void write_source(const char *variant, const char *path,
                         enum fault fault)
{
    static float up[40 * 64];
    struct bn_tensors ts;
    struct bn_err err = {0};

    if (bn_safetensors_open(&ts, variant, &err) < 0)
        fail_msg("%s", err.text);
    struct bn_st_entry *e = BN_NEWN(struct bn_st_entry, ts.n);
    for (size_t i = 0; i < ts.n; i++) {
        const struct bn_named *t = &ts.item[i];

        e[i] = (struct bn_st_entry){t->name, t->dtype, t->ndim, {0}, t->data};
        memcpy(e[i].dims, t->dims, sizeof(e[i].dims));
        if (strcmp(t->name, "model.layers.1.mlp.up_proj.weight") != 0)
            continue;
        memcpy(up, t->data, sizeof(up));
        if (fault == ZERO)
            memset(up, 0, sizeof(up));
        else if (fault == SAME)
            memcpy(up, bn_tensors_find(&ts, "model.layers.0.mlp.up_proj"
                                            ".weight")->data, sizeof(up));
        else if (fault == LARGE)
            up[70] = 1e6f;
        e[i].data = up;
    }
    assert_int_equal(bn_safetensors_write(path, e, ts.n, NULL, NULL, &err),
                     0);
    free(e);
    bn_tensors_close(&ts);
}

static void wrong_values_are_refused(void **state)
{
    static const struct {
        enum fault fault;
        enum bn_dtype dtype;
        unsigned flags;
        const char *says; /* after the source's path; NULL: converts */
    } t[] = {
        {NONE, BN_F16, 0, NULL},
        {ZERO, BN_BF16, 0,
         ": model.layers.1.mlp.up_proj.weight is all zero"},
        {ZERO, BN_BF16, BN_CONVERT_ALLOW_ZERO, NULL},
        {SAME, BN_BF16, 0,
         ": model.layers.0.mlp.up_proj.weight and "
         "model.layers.1.mlp.up_proj.weight are equal bit for bit"},
        {SAME, BN_BF16, BN_CONVERT_ALLOW_SAME, NULL},
        {LARGE, BN_BF16, 0, NULL},
        {LARGE, BN_F16, 0,
         ": element 70 of model.layers.1.mlp.up_proj.weight is not finite as "
         "F16"},
        {LARGE, BN_F16, BN_CONVERT_ALLOW_NONFINITE, NULL},
    };
    char *variant = bn_asprintf("%s/t/data/arch-variants/llama-untied",
                                getenv("BN_SRCDIR"));
    char *layout = bn_asprintf("%s/templates/layouts/hf-torch.yaml",
                               getenv("BN_SRCDIR"));
    char *config = bn_path_join(variant, "config.json");
    char *source = bn_path_join(dir, "m.safetensors");
    char *output = bn_path_join(dir, "out");

    (void)state;
    for (size_t i = 0; i < BN_COUNT(t); i++) {
        struct bn_convert_job j = {
            .source = source, .layout = layout, .config = config,
            .output = output, .dtype = t[i].dtype, .max_bytes = 1 << 30,
            .flags = t[i].flags, .reader = BN_READ_SAFETENSORS};
        struct bn_str report = {0};
        struct bn_err err = {0};

        write_source(variant, source, t[i].fault);
        int rc = bn_convert_run(&j, &report, &err);
        if (t[i].says != NULL) {
            assert_int_equal(rc, -1);
            assert_true(bn_str_starts(err.text, source));
            assert_string_equal(err.text + strlen(source), t[i].says);
            assert_false(bn_exists(output));
        } else if (rc < 0) {
            fail_msg("%s", err.text);
        }
        bn_str_release(&report);
        assert_int_equal(bn_remove_tree(output, NULL), 0);
    }
    free(variant);
    free(layout);
    free(config);
    free(source);
    free(output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_values_are_refused, make_dir,
                                        drop_dir),
    };

    return BN_TAP_RUN(tests);
}
