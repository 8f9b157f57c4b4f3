#include "config.h"
#include "ckpt/hf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/signal.h"
#include "base/tap.h"
#include "model/init.h"
#include "tensor/convert.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/bn-hf-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int drop_dir(void **state)
{
    (void)state;
    return bn_remove_tree(dir, NULL);
}

static char *variant(const char *name)
{
    return bn_asprintf("%s/t/data/arch-variants/%s", getenv("BN_SRCDIR"),
                       name);
}

static const char *const variants[] = {
    "llama-untied", "llama-untied-bf16", "llama3-rope", "mistral-window",
    "qwen2-bias-tied", "qwen3-qknorm-tied",
};

/* A variant in memory: config, tensors of the file, whole flat buffer. */
struct model {
    char *path;
    struct bn_model_config c;
    struct bn_tensors ts;
    struct bn_params ps;
    float *flat;
};

static void model_open(struct model *m, const char *path)
{
    struct bn_err err = {0};
    char *config = bn_path_join(path, "config.json");

    memset(m, 0, sizeof(*m));
    m->path = bn_strdup(path);
    if (bn_model_config_load(&m->c, config, NULL, &err) < 0
        || bn_safetensors_open(&m->ts, path, &err) < 0)
        fail_msg("%s", err.text);
    struct bn_part whole = bn_part_whole(&m->c);
    assert_int_equal(bn_params_init(&m->ps, &m->c, &whole, &err), 0);
    m->flat = bn_malloc(m->ps.elems * sizeof(float));
    memset(m->flat, 0x7f, m->ps.elems * sizeof(float));
    free(config);
}

static void model_close(struct model *m)
{
    free(m->path);
    free(m->flat);
    bn_params_release(&m->ps);
    bn_tensors_close(&m->ts);
}

static float source(const struct model *m, const struct bn_param *p, int y,
                    int x)
{
    const struct bn_named *t = bn_tensors_find(&m->ts, p->name);
    size_t at = (size_t)(p->row0 + y) * (size_t)p->full_cols
                + (size_t)(p->col0 + x);
    float f;

    bn_convert(&f, BN_F32,
               (const char *)t->data + at * bn_dtype_size(t->dtype), t->dtype,
               1);
    return f;
}

static void variants_load_on_every_part(void **state)
{
    (void)state;
    for (size_t v = 0; v < BN_COUNT(variants); v++) {
        struct model m;
        struct bn_err err = {0};
        char *path = variant(variants[v]);

        model_open(&m, path);
        for (int r = 0; r < 3; r++) {
            struct bn_part part = r == 2 ? bn_part_whole(&m.c)
                                         : (struct bn_part){2, r, 1, 2,
                                                            false, true, false};
            struct bn_params ps;
            assert_int_equal(bn_params_init(&ps, &m.c, &part, &err), 0);
            float *flat = bn_malloc(ps.elems * 4);
            memset(flat, 0x7f, ps.elems * 4);
            if (bn_hf_load(path, &m.c, &ps, flat, BN_F32, 0, NULL, &err) < 0)
                fail_msg("%s", err.text);
            size_t sum = 0;
            for (int i = 0; i < ps.n; i++) {
                const struct bn_param *p = &ps.item[i];

                for (int y = 0; y < p->rows; y++)
                    for (int x = 0; x < p->cols; x++)
                        assert_true(flat[p->offset
                                         + (size_t)(y * p->cols + x)]
                                    == source(&m, p, y, x));
                for (; sum < p->offset; sum++)
                    assert_true(flat[sum] == 0);
                sum = p->offset + p->count;
            }
            for (; sum < ps.elems; sum++)
                assert_true(flat[sum] == 0);
            free(flat);
            bn_params_release(&ps);
        }
        model_close(&m);
        free(path);
    }
}

/* Write the variant's tensors with one changed. */
enum edit {
    DROP,
    DROP_LAYER,
    ADD,
    ROTARY,
    RESHAPE,
    INTEGER,
    NOT_FINITE,
    ZERO,
    HEAD_SAME,
    HEAD_F64,
    HEAD_F64_STALE,
    HEAD_STALE
};

static const char *write_edited(const struct model *m, enum edit edit)
{
    struct bn_st_entry *e = BN_NEWN(struct bn_st_entry, m->ts.n + 3);
    static char path[128];
    static float data[97 * 64];
    static double wide[97 * 64];
    size_t n = 0;

    snprintf(path, sizeof(path), "%s/m.safetensors", dir);
    for (size_t i = 0; i < m->ts.n; i++) {
        const struct bn_named *t = &m->ts.item[i];
        bool up = strcmp(t->name, "model.layers.1.mlp.up_proj.weight") == 0;
        bool embed = strcmp(t->name, "model.embed_tokens.weight") == 0;

        if ((edit == DROP && up)
            || (edit == DROP_LAYER && strstr(t->name, "layers.1.")))
            continue;
        e[n] = (struct bn_st_entry){t->name, t->dtype, t->ndim, {0}, t->data};
        memcpy(e[n].dims, t->dims, sizeof(e[n].dims));
        if (up && edit < HEAD_SAME) {
            memcpy(data, t->data, (size_t)t->count * 4);
            e[n].data = data;
            if (edit == RESHAPE) {
                e[n].dims[0] = t->dims[1];
                e[n].dims[1] = t->dims[0];
            } else if (edit == INTEGER) {
                e[n].dtype = BN_I32;
            } else if (edit == NOT_FINITE) {
                data[64 * 3 + 5] = NAN;
            } else if (edit == ZERO) {
                memset(data, 0, sizeof(data));
            }
        }
        n++;
        if (embed && edit >= HEAD_SAME) {
            e[n] = e[n - 1];
            e[n].name = "lm_head.weight";
            memcpy(data, t->data, (size_t)t->count * 4);
            if (edit == HEAD_STALE || edit == HEAD_F64_STALE)
                data[97 * 64 - 1] += 1e-6f;
            bn_convert(wide, BN_F64, data, BN_F32, 97 * 64);
            bool f64 = edit == HEAD_F64 || edit == HEAD_F64_STALE;
            e[n].dtype = f64 ? BN_F64 : BN_F32;
            e[n++].data = f64 ? (void *)wide : (void *)data;
        }
        if (embed && (edit == ADD || edit == ROTARY)) {
            e[n] = e[n - 1];
            e[n++].name = edit == ADD
                              ? "model.layers.2.mlp.up_proj.weight"
                              : "model.layers.0.self_attn.rotary_emb.inv_freq";
        }
    }
    assert_int_equal(bn_safetensors_write(path, e, n, NULL, NULL, NULL), 0);
    free(e);
    return path;
}

#define WRONG "m does not hold the tensors of its config: "
static void faults_are_named(void **state)
{
    static const struct {
        enum edit edit;
        unsigned flags;
        const char *says, *report;
    } t[] = {
        {DROP, 0, WRONG "1 missing (model.layers.1.mlp.up_proj.weight)",
         "missing: model.layers.1.mlp.up_proj.weight\n"},
        {ADD, 0, WRONG "1 extra (model.layers.2.mlp.up_proj.weight)",
         "extra: model.layers.2.mlp.up_proj.weight\n"},
        {DROP_LAYER, 0,
         WRONG "12 missing (model.layers.1.self_attn.q_proj.weight, ...)",
         NULL},
        {RESHAPE, 0, WRONG "1 misshapen (model.layers.1.mlp.up_proj.weight)",
         "misshapen: model.layers.1.mlp.up_proj.weight is [64, 40], not "
         "[40, 64]\n"},
        {INTEGER, 0,
         WRONG "1 of unsupported format (model.layers.1.mlp.up_proj.weight)",
         "of unsupported format: model.layers.1.mlp.up_proj.weight is I32\n"},
        {NOT_FINITE, 0,
         "m: model.layers.1.mlp.up_proj.weight[3, 5] is not finite as F32",
         ""},
        {NOT_FINITE, BN_LOAD_ALLOW_NONFINITE, NULL, ""},
        {ZERO, 0, "m: model.layers.1.mlp.up_proj.weight is all zero", ""},
        {ZERO, BN_LOAD_ALLOW_ZERO, NULL, ""},
        {ROTARY, 0, NULL, ""},
        {HEAD_SAME, 0, NULL, ""},
        {HEAD_F64, 0, NULL, ""},
        {HEAD_F64_STALE, 0,
         "m: tie_word_embeddings is true but lm_head.weight differs from "
         "model.embed_tokens.weight: one of the two is stale", ""},
        {HEAD_STALE, 0,
         "m: tie_word_embeddings is true but lm_head.weight differs from "
         "model.embed_tokens.weight: one of the two is stale", ""},
    };
    struct model m;
    char *path = variant("qwen2-bias-tied");

    (void)state;
    model_open(&m, path);
    for (size_t i = 0; i < BN_COUNT(t); i++) {
        struct bn_tensors ts;
        struct bn_err err = {0};
        struct bn_str report = {0};

        assert_int_equal(bn_safetensors_open(&ts, write_edited(&m, t[i].edit),
                                             &err), 0);
        int rc = bn_hf_load_tensors(&ts, "m", &m.c, &m.ps, m.flat, BN_F32,
                                    t[i].flags, &report, &err);
        assert_int_equal(rc, t[i].says != NULL ? -1 : 0);
        if (rc < 0)
            assert_string_equal(err.text, t[i].says);
        if (t[i].report != NULL)
            assert_string_equal(report.s != NULL ? report.s : "",
                                t[i].report);
        bn_str_release(&report);
        bn_tensors_close(&ts);
    }
    model_close(&m);
    free(path);
}

static void long_lists_are_cut(void **state)
{
    struct bn_tensors none = {0};
    struct bn_model_config c;
    struct bn_err err = {0};
    struct bn_str report = {0};
    char *path = variant("qwen2-bias-tied/config.json");
    int lines = 0;

    (void)state;
    assert_int_equal(bn_model_config_load(&c, path, NULL, &err), 0);
    assert_int_equal(bn_hf_check(&none, "m", &c, &report, &err), -1);
    assert_string_equal(err.text, WRONG "26 missing "
                                        "(model.embed_tokens.weight, ...)");
    for (const char *s = report.s; *s != '\0'; s++)
        lines += *s == '\n';
    assert_int_equal(lines, 21);
    assert_non_null(strstr(report.s, "\nmissing: and more\n"));
    bn_str_release(&report);
    free(path);
}

static void saved_folders_load_again(void **state)
{
    (void)state;
    for (size_t v = 0; v < BN_COUNT(variants); v++) {
        for (int sharded = 0; sharded < 2; sharded++) {
            struct model m, again;
            struct bn_hf_files files = {0};
            struct bn_err err = {0};
            char *path = variant(variants[v]);
            char *out = bn_asprintf("%s/%s-%d/", dir, variants[v], sharded);

            model_open(&m, path);
            assert_int_equal(bn_hf_load(path, &m.c, &m.ps, m.flat, BN_F32, 0,
                                        NULL, &err), 0);
            assert_int_equal(bn_hf_files_load(&files, path, NULL, &err), 0);
            if (bn_hf_save_flat(out, &m.c, m.flat, BN_F32, BN_F32,
                                sharded ? 30000 : 1 << 30, &files, &err) < 0)
                fail_msg("%s", err.text);
            model_open(&again, out);
            assert_int_equal(again.ts.n, (size_t)again.ps.n);
            again.c.dtype = m.c.dtype;
            assert_memory_equal(&again.c, &m.c, sizeof(m.c));
            assert_int_equal(bn_hf_load(out, &again.c, &again.ps, again.flat,
                                        BN_F32, 0, NULL, &err), 0);
            assert_memory_equal(again.flat, m.flat, m.ps.elems * 4);
            /* not over something that is there */
            assert_int_equal(bn_hf_save_flat(out, &m.c, m.flat, BN_F32,
                                             BN_F32, 1 << 30, NULL, &err),
                             -1);
            assert_non_null(strstr(err.text, "is there already and not "
                                             "empty: nothing was saved"));
            model_close(&m);
            model_close(&again);
            bn_hf_files_release(&files);
            free(path);
            free(out);
        }
    }
    char *cmd = bn_asprintf("ls -d %s/*.tmp.* 2>/dev/null | grep -q .", dir);
    assert_int_not_equal(system(cmd), 0);
    free(cmd);
}

static int broken_read(void *arg, size_t index, int64_t first, int64_t n,
                       void *dst, struct bn_err *err)
{
    (void)arg;
    (void)first;
    memset(dst, 0, (size_t)n * 4);
    return index < 5 ? 0 : bn_fail(err, BN_ERR_AGAIN, "lost a rank");
}

static void files_are_carried_and_failures_leave_nothing(void **state)
{
    struct bn_hf_files files = {0};
    struct bn_err err = {0};
    struct bn_model_config c;
    char *path = variant("llama-untied/config.json");
    char *out = bn_path_join(dir, "out"), *tok = bn_path_join(dir, "tok");
    char *f = bn_path_join(tok, "tokenizer.json"), *text;
    size_t len;

    (void)state;
    assert_int_equal(bn_model_config_load(&c, path, NULL, &err), 0);
    assert_int_equal(bn_mkdirs(tok, &err), 0);
    assert_int_equal(bn_file_write(f, "{}\n", 3, &err), 0);
    assert_int_equal(bn_hf_files_load(&files, NULL, tok, &err), 0);
    assert_int_equal(files.n, 1);
    assert_int_equal(bn_remove_tree(tok, &err), 0); /* gone by the end */
    assert_int_equal(bn_hf_save(out, &c, BN_F32, 1 << 30, &files,
                                broken_read, NULL, &err), -1);
    assert_string_equal(err.text, "lost a rank");
    assert_int_equal(err.code, BN_ERR_AGAIN);
    char *cmd = bn_asprintf("test -z \"$(ls -A %s)\"", dir);
    assert_int_equal(system(cmd), 0);
    struct bn_part whole = bn_part_whole(&c);
    struct bn_params ps;
    assert_int_equal(bn_params_init(&ps, &c, &whole, &err), 0);
    float *flat = bn_calloc(ps.elems, 4);
    assert_int_equal(bn_mkdirs(out, &err), 0); /* empty: fine */
    assert_int_equal(bn_hf_save_flat(out, &c, flat, BN_F32, BN_BF16, 1 << 30,
                                     &files, &err), 0);
    free(f);
    f = bn_path_join(out, "tokenizer.json");
    text = bn_file_read(f, 100, &len, &err);
    assert_string_equal(text, "{}\n");
    free(text);
    free(flat);
    bn_params_release(&ps);
    bn_hf_files_release(&files);
    free(cmd);
    free(f);
    free(tok);
    free(out);
    free(path);
}

static void random_weights_do_not_depend_on_the_split(void **state)
{
    struct model m;
    char *path = variant("qwen2-bias-tied");
    double sum = 0, sq = 0;
    size_t n = 0;

    (void)state;
    model_open(&m, path);
    bn_params_randomize(&m.ps, &m.c, 7, m.flat, BN_F32);
    for (int i = 0; i < m.ps.n; i++) {
        const struct bn_param *p = &m.ps.item[i];

        for (size_t k = 0; k < p->count; k++) {
            double x = m.flat[p->offset + k];

            if (p->ndim == 1) {
                assert_true(x == (strstr(p->name, "norm") ? 1 : 0));
                continue;
            }
            sum += x;
            sq += x * x;
            n++;
        }
    }
    assert_true(fabs(sum / (double)n) < 4 * 0.02 / sqrt((double)n));
    assert_true(fabs(sqrt(sq / (double)n) / 0.02 - 1)
                < 4 / sqrt(2 * (double)n));
    for (int r = 0; r < 2; r++) {
        struct bn_part part = {8, r + 1, 1, 2, false, true, false};
        struct bn_params ps;

        assert_int_equal(bn_params_init(&ps, &m.c, &part, NULL), 0);
        float *flat = bn_malloc(ps.elems * 4);
        bn_params_randomize(&ps, &m.c, 7, flat, BN_F32);
        for (int i = 0; i < ps.n; i++) {
            const struct bn_param *p = &ps.item[i];
            const struct bn_param *w = bn_param_find(&m.ps, p->kind,
                                                     p->layer);

            for (int y = 0; y < p->rows; y++)
                for (int x = 0; x < p->cols; x++)
                    assert_true(flat[p->offset + (size_t)(y * p->cols + x)]
                                == m.flat[w->offset
                                          + (size_t)((p->row0 + y) * w->cols
                                                     + p->col0 + x)]);
        }
        free(flat);
        bn_params_release(&ps);
    }
    model_close(&m);
    free(path);
}

/* The last test: the signal stays. */
static void a_signal_ends_a_load(void **state)
{
    struct model m;
    struct bn_err err;
    char *path = variant("llama-untied");

    (void)state;
    model_open(&m, path);
    bn_signals_catch();
    raise(SIGTERM);
    assert_int_equal(bn_hf_load(path, &m.c, &m.ps, m.flat, BN_F32, 0, NULL,
                                &err), -1);
    assert_int_equal(err.code, BN_ERR_AGAIN);
    assert_non_null(strstr(err.text, "stopped by signal 15 while loading"));
    model_close(&m);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_load_on_every_part),
        cmocka_unit_test_setup_teardown(faults_are_named, make_dir,
                                        drop_dir),
        cmocka_unit_test(long_lists_are_cut),
        cmocka_unit_test_setup_teardown(saved_folders_load_again, make_dir,
                                        drop_dir),
        cmocka_unit_test_setup_teardown(
            files_are_carried_and_failures_leave_nothing, make_dir,
            drop_dir),
        cmocka_unit_test(random_weights_do_not_depend_on_the_split),
        cmocka_unit_test(a_signal_ends_a_load),
    };

    return BN_TAP_RUN(tests);
}
