/* A file that is not what was written: the check of the new folder names the
 * tensor and its row.
 */
#include "config.h"
#include "convert/run.h"
#include "convert/verify.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"
#include "format/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/bn-verify-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int drop_dir(void **state)
{
    (void)state;
    return bn_remove_tree(dir, NULL);
}

/* Turn a bit of byte 'at' of a tensor in the file. */
static void flip(const char *file, const char *tensor, size_t at)
{
    unsigned char head[8];
    uint64_t n = 0;
    struct bn_err err;
    FILE *f = fopen(file, "r+b");

    assert_non_null(f);
    assert_int_equal(fread(head, 1, 8, f), 8);
    for (int i = 7; i >= 0; i--)
        n = n << 8 | head[i];
    char *text = bn_malloc(n);
    assert_int_equal(fread(text, 1, n, f), n);
    json_t *o = bn_json_parse(text, n, file, &err);
    json_t *range = json_object_get(json_object_get(o, tensor),
                                    "data_offsets");
    long pos = 8 + (long)n + (long)at
               + (long)json_integer_value(json_array_get(range, 0));
    assert_non_null(range);
    assert_int_equal(fseek(f, pos, SEEK_SET), 0);
    int c = getc(f);
    assert_int_equal(fseek(f, pos, SEEK_SET), 0);
    assert_int_equal(putc(c ^ 1, f), c ^ 1);
    assert_int_equal(fclose(f), 0);
    json_decref(o);
    free(text);
}

struct world {
    char *source, *layout, *config, *folder, *file;
    struct bn_layout l;
    struct bn_tensors src;
    struct bn_model_config c;
    struct bn_params ps;
    struct bn_str report;
};

static void open_world(struct world *w, enum bn_dtype dtype)
{
    const char *top = getenv("BN_SRCDIR");
    struct bn_part whole;
    struct bn_err err;

    *w = (struct world){
        .source = bn_asprintf("%s/t/data/arch-variants/llama-untied", top),
        .layout = bn_asprintf("%s/templates/layouts/hf-torch.yaml", top),
        .folder = bn_path_join(dir, "out"),
        .file = bn_path_join(dir, "out/model.safetensors"),
    };
    w->config = bn_path_join(w->source, "config.json");
    struct bn_convert_job j = {
        .source = w->source, .layout = w->layout, .config = w->config,
        .output = w->folder, .dtype = dtype, .max_bytes = 1 << 30,
        .reader = BN_READ_SAFETENSORS};

    if (bn_convert_run(&j, &w->report, &err) < 0
        || bn_model_config_load(&w->c, w->config, NULL, &err) < 0
        || bn_layout_load(&w->l, w->layout, &err) < 0
        || bn_safetensors_open(&w->src, w->source, &err) < 0)
        fail_msg("%s", err.text);
    whole = bn_part_whole(&w->c);
    assert_int_equal(bn_params_init(&w->ps, &w->c, &whole, &err), 0);
}

static void close_world(struct world *w)
{
    bn_params_release(&w->ps);
    bn_tensors_close(&w->src);
    bn_layout_release(&w->l);
    bn_str_release(&w->report);
    assert_int_equal(bn_remove_tree(w->folder, NULL), 0);
    free(w->source);
    free(w->layout);
    free(w->config);
    free(w->folder);
    free(w->file);
}

static int verify(struct world *w, enum bn_dtype dtype, struct bn_err *err)
{
    struct bn_verify v = {.l = &w->l, .src = &w->src, .c = &w->c,
                          .ps = &w->ps, .dtype = dtype, .where = w->source,
                          .report = &w->report};

    return bn_verify_folder(&v, w->folder, err);
}

static void flipped_bits_are_named(void **state)
{
    static const struct {
        const char *tensor;
        int row; /* -1: the last */
    } t[] = {
        {"model.embed_tokens.weight", 0},
        {"model.layers.0.self_attn.k_proj.weight", 3},
        {"model.layers.1.mlp.down_proj.weight", -1},
        {"model.norm.weight", 5},
        {"lm_head.weight", -1},
    };
    static const enum bn_dtype types[] = {BN_F32, BN_BF16, BN_F16};

    (void)state;
    for (size_t k = 0; k < BN_COUNT(types); k++) {
        struct world w;
        struct bn_err err;

        open_world(&w, types[k]);
        for (size_t i = 0; i < BN_COUNT(t); i++) {
            const struct bn_named *s = bn_tensors_find(&w.src, t[i].tensor);
            long row = t[i].row < 0 ? (long)s->dims[0] - 1 : t[i].row;
            size_t cols = s->ndim == 2 ? (size_t)s->dims[1] : 1;
            size_t bytes = cols * bn_dtype_size(types[k]);
            /* the last byte of a last row, else the first of the row */
            size_t at = (size_t)row * bytes + (t[i].row < 0 ? bytes - 1 : 0);
            char *want = bn_asprintf("row %ld of %s in the new folder is not "
                                     "that of the source", row, t[i].tensor);

            assert_int_equal(verify(&w, types[k], &err), 0);
            flip(w.file, t[i].tensor, at);
            assert_int_equal(verify(&w, types[k], &err), -1);
            assert_string_equal(err.text, want);
            assert_int_equal(err.code, BN_ERR_DATA);
            flip(w.file, t[i].tensor, at);
            free(want);
        }
        assert_int_equal(verify(&w, types[k], &err), 0);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(flipped_bits_are_named, make_dir,
                                        drop_dir),
    };

    return BN_TAP_RUN(tests);
}
