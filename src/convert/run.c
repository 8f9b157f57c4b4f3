#include "config.h"
#include "convert/run.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/thread.h"
#include "ckpt/hf.h"
#include "convert/gguf_tokenizer.h"
#include "convert/verify.h"
#include "format/safetensors.h"
#include "tensor/convert.h"

#include <stdlib.h>
#include <string.h>

struct work {
    const struct bn_convert_job *j;
    struct bn_layout l;
    struct bn_tensors raw, *shard; /* as the files hold them */
    struct bn_tensors src, out;
    struct bn_model_config c;
    struct bn_params ps; /* of the whole model: the order of writing */
    struct bn_hf_files files;
    struct bn_str *report;
};

static bool in_itself(const struct work *w)
{
    return w->l.reader == BN_READ_GGUF || w->l.reader == BN_READ_LLAMA2C;
}

/* The folder of the config, malloc'ed; NULL if it is the file's own. */
static char *config_dir(const struct work *w)
{
    if (w->j->config != NULL)
        return bn_path_dir(w->j->config);
    return bn_is_dir(w->j->source) ? bn_strdup(w->j->source) : NULL;
}

static json_t *read_config(const struct work *w, const char **where,
                           struct bn_err *err)
{
    const struct bn_convert_job *j = w->j;

    *where = j->config != NULL ? j->config : j->source;
    if (j->config != NULL)
        return bn_json_load(j->config, err);
    if (w->l.reader == BN_READ_GGUF)
        return bn_config_of_gguf(&w->raw, j->source, err);
    if (w->l.reader == BN_READ_LLAMA2C)
        return bn_config_of_llama2c(&w->raw, j->source, err);
    if (bn_is_dir(j->source)) {
        char *path = bn_path_join(j->source, "config.json");
        json_t *o = bn_json_load(path, err);

        free(path);
        return o;
    }
    bn_fail(err, BN_ERR_DATA, "'%s' does not say what model it is: give a "
            "config.json", j->source);
    return NULL;
}

/* A config that is given must say what a file that tells of itself says. */
static int check_own_config(const struct work *w, struct bn_err *err)
{
    const struct bn_convert_job *j = w->j;
    struct bn_model_config own;
    struct bn_err why = {0};
    json_t *o;

    if (j->config == NULL || !in_itself(w))
        return 0;
    o = w->l.reader == BN_READ_GGUF
            ? bn_config_of_gguf(&w->raw, j->source, &why)
            : bn_config_of_llama2c(&w->raw, j->source, &why);
    int rc = o != NULL
                 ? bn_model_config_parse(&own, o, j->source, NULL, &why)
                 : -1;
    json_decref(o);
    if (rc < 0) {
        bn_str_addf(w->report, "the given config was not held against the "
                    "file: %s\n", why.text);
        return 0;
    }
    if (bn_config_same(&w->c, j->config, &own, j->source, err) < 0)
        return -1;
    bn_str_adds(w->report, "the given config says what the file says\n");
    return 0;
}

static bool carries(const struct work *w, const char *name)
{
    for (size_t i = 0; i < w->files.n; i++)
        if (strcmp(w->files.item[i].name, name) == 0)
            return true;
    return false;
}

/* 'o' is taken. */
static void carry_json(struct work *w, const char *name, json_t *o)
{
    char *text = json_dumps(o, JSON_INDENT(2));
    char *line = bn_asprintf("%s\n", text);

    bn_hf_files_add_take(&w->files, name, line, strlen(line));
    free(text);
    json_decref(o);
}

/* The tokenizer in a GGUF file, where none came from a folder. */
static int own_tokenizer(struct work *w, struct bn_err *err)
{
    json_t *tokenizer = NULL, *config = NULL;

    if (w->l.reader != BN_READ_GGUF || carries(w, "tokenizer.json"))
        return 0;
    if (bn_tokenizer_of_gguf(w->raw.meta, w->j->source, &tokenizer, &config,
                             err) < 0)
        return -1;
    if (tokenizer == NULL)
        return 0;
    carry_json(w, "tokenizer.json", tokenizer);
    carry_json(w, "tokenizer_config.json", config);
    bn_str_adds(w->report, "tokenizer.json and tokenizer_config.json made of "
                           "the file's metadata\n");
    return 0;
}

static int prepare(struct work *w, struct bn_err *err)
{
    const struct bn_convert_job *j = w->j;

    w->shard = BN_NEWN(struct bn_tensors, (size_t)j->n_shards + 1);
    for (int i = 0; i < j->n_shards; i++)
        if (bn_layout_open(&w->l, &w->shard[i], j->shards[i], err) < 0)
            return -1;
    return bn_layout_prepare(&w->l, &w->c, &w->raw, w->shard, j->n_shards,
                             j->source, &w->src, w->report, err);
}

static int open_all(struct work *w, struct bn_err *err)
{
    const char *where;
    json_t *o;
    int rc;

    if (bn_layout_load(&w->l, w->j->layout, err) < 0)
        return -1;
    if (w->j->reader >= 0)
        w->l.reader = (enum bn_reader)w->j->reader;
    if (bn_layout_open(&w->l, &w->raw, w->j->source, err) < 0)
        return -1;
    o = read_config(w, &where, err);
    if (o == NULL)
        return -1;
    if (w->l.scale_suffix != NULL
        && json_object_del(o, "quantization_config") == 0)
        bn_str_adds(w->report, "'quantization_config' left out: the new "
                               "folder's weights are not quantized\n");
    rc = bn_model_config_parse(&w->c, o, where, w->report, err);
    char *dir = config_dir(w);
    if (rc == 0)
        rc = bn_hf_files_load(&w->files, dir, w->j->tokenizer, err);
    free(dir);
    json_decref(w->files.config);
    w->files.config = o;
    if (rc < 0 || check_own_config(w, err) < 0)
        return -1;
    return own_tokenizer(w, err) < 0 ? -1 : prepare(w, err);
}

/* Hash of every matrix, in parallel, to find equal ones. */
struct print {
    const struct bn_named *t;
    struct bn_hash h;
    bool zero;
    const char *init; /* why it looks untrained; NULL: it does not */
};
struct prints {
    struct print *p;
    size_t n;
    int threads;
    double init_std;
};

static void take_prints(void *arg, int index)
{
    const struct prints *all = arg;

    for (size_t i = (size_t)index; i < all->n; i += (size_t)all->threads) {
        struct print *p = &all->p[i];

        p->h = bn_hash_bytes(p->t->data, (size_t)p->t->count
                                             * bn_dtype_size(p->t->dtype));
        p->zero = bn_all_zero(p->t->data, p->t->dtype,
                              (size_t)p->t->count);
        p->init = bn_init_like(p->t, all->init_std);
    }
}

static int by_hash(const void *a, const void *b)
{
    const struct print *x = a, *y = b;

    if (x->h.hi != y->h.hi)
        return x->h.hi < y->h.hi ? -1 : 1;
    if (x->h.lo != y->h.lo)
        return x->h.lo < y->h.lo ? -1 : 1;
    return strcmp(x->t->name, y->t->name);
}

static int judge_prints(const struct work *w, struct print *p, size_t n,
                        struct bn_err *err)
{
    const char *where = w->j->source;

    for (size_t i = 0; i < n; i++)
        if (p[i].zero && !(w->j->flags & BN_CONVERT_ALLOW_ZERO))
            return bn_fail(err, BN_ERR_DATA, "%s: %s is all zero", where,
                           p[i].t->name);
    for (size_t i = 0; i < n; i++)
        if (p[i].init != NULL && !(w->j->flags & BN_CONVERT_ALLOW_UNTRAINED))
            return bn_fail(err, BN_ERR_DATA, "%s: %s looks untrained: %s "
                           "(--allow-untrained)", where, p[i].t->name,
                           p[i].init);
    qsort(p, n, sizeof(*p), by_hash);
    for (size_t i = 1; i < n; i++)
        if (!p[i].zero && p[i - 1].h.hi == p[i].h.hi
            && p[i - 1].h.lo == p[i].h.lo
            && !(w->j->flags & BN_CONVERT_ALLOW_SAME))
            return bn_fail(err, BN_ERR_DATA, "%s: %s and %s are equal bit "
                           "for bit", where, p[i - 1].t->name,
                           p[i].t->name);
    return 0;
}

/* Matrices of the model; a tied head that was carried along is not one. */
static int check_matrices(const struct work *w, struct bn_err *err)
{
    struct prints all = {BN_NEWN(struct print, (size_t)w->ps.n), 0,
                         bn_cpu_count(), w->c.init_std};
    int rc;

    for (int i = 0; i < w->ps.n; i++)
        if (w->ps.item[i].ndim == 2)
            all.p[all.n++].t = bn_tensors_find(&w->out,
                                               w->ps.item[i].name);
    bn_parallel(all.threads, take_prints, &all);
    rc = judge_prints(w, all.p, all.n, err);
    free(all.p);
    return rc;
}

/* Tensor data for the writers, converted to the target's format. */
static int deliver(const struct work *w, const struct bn_named *t,
                   int64_t first, int64_t n, void *dst, struct bn_err *err)
{
    size_t at = (size_t)first * bn_dtype_size(t->dtype), bad;

    bn_convert(dst, w->j->dtype, (const char *)t->data + at, t->dtype,
               (size_t)n);
    bad = bn_find_nonfinite(dst, w->j->dtype, (size_t)n);
    if (bad == (size_t)n || (w->j->flags & BN_CONVERT_ALLOW_NONFINITE))
        return 0;
    return bn_fail(err, BN_ERR_DATA, "%s: element %lld of %s is not finite "
                   "as %s", w->j->source, (long long)first + (long long)bad,
                   t->name, bn_dtype_name(w->j->dtype));
}

static int read_param(void *arg, size_t index, int64_t first, int64_t n,
                      void *dst, struct bn_err *err)
{
    const struct work *w = arg;

    return deliver(w, bn_tensors_find(&w->out, w->ps.item[index].name),
                   first, n, dst, err);
}

static int read_item(void *arg, size_t index, int64_t first, int64_t n,
                     void *dst, struct bn_err *err)
{
    const struct work *w = arg;

    return deliver(w, &w->out.item[index], first, n, dst, err);
}

/* "211 tensors from Q4_1 to BF16" */
static void report_formats(const struct work *w)
{
    const char *to = bn_dtype_name(w->j->dtype);
    bool *done = BN_NEWN(bool, w->out.n);

    for (size_t i = 0; i < w->out.n; i++) {
        const struct bn_named *t = &w->out.item[i];
        const char *from = t->quant ? t->quant : bn_dtype_name(t->dtype);
        int n = 0;

        if (done[i])
            continue;
        for (size_t k = i; k < w->out.n; k++) {
            const struct bn_named *u = &w->out.item[k];
            const char *other = u->quant ? u->quant
                                         : bn_dtype_name(u->dtype);

            if (strcmp(from, other) == 0) {
                done[k] = true;
                n++;
            }
        }
        bn_str_addf(w->report, strcmp(from, to) == 0
                                   ? "%d tensors kept as %s\n"
                                   : "%d tensors converted from %s to %s\n",
                    n, from, to);
    }
    free(done);
}

static void work_release(struct work *w)
{
    bn_params_release(&w->ps);
    bn_hf_files_release(&w->files);
    bn_tensors_close(&w->out);
    bn_tensors_close(&w->src);
    for (int i = 0; w->shard != NULL && i < w->j->n_shards; i++)
        bn_tensors_close(&w->shard[i]);
    free(w->shard);
    bn_tensors_close(&w->raw);
    bn_layout_release(&w->l);
}

static int verify(void *arg, const char *folder, struct bn_err *err)
{
    const struct work *w = arg;
    const struct bn_convert_job *j = w->j;
    struct bn_verify v = {
        .l = &w->l, .src = &w->out, .c = &w->c, .ps = &w->ps,
        .dtype = j->dtype, .where = j->source, .reference = j->reference,
        .text = j->text, .tokens = j->tokens, .flags = j->flags,
        .report = w->report};

    bn_str_addf(w->report, "every value finite as %s\n",
                bn_dtype_name(j->dtype));
    return bn_verify_folder(&v, folder, err);
}

static int convert(struct work *w, struct bn_err *err)
{
    const struct bn_convert_job *j = w->j;
    struct bn_part whole;

    if (open_all(w, err) < 0
        || bn_layout_apply(&w->l, &w->c, &w->src, j->source, &w->out,
                           w->report, err) < 0)
        return -1;
    bn_str_addf(w->report, "all %zu source tensors used once\n"
                "%zu tensors as the config implies\n", w->src.n, w->out.n);
    if (bn_layout_verify(&w->l, &w->c, &w->src, j->source, &w->out, err) < 0)
        return -1;
    bn_str_adds(w->report, "the way back gives the source bit for bit\n");
    whole = bn_part_whole(&w->c);
    if (bn_params_init(&w->ps, &w->c, &whole, err) < 0
        || check_matrices(w, err) < 0)
        return -1;
    bn_str_adds(w->report, "no matrix all zero, like initial weights, or "
                           "equal to another\n");
    report_formats(w);
    return bn_hf_save_checked(j->output, &w->c, j->dtype, j->max_bytes,
                              &w->files, read_param, verify, w, err);
}

int bn_convert_run(const struct bn_convert_job *j, struct bn_str *report,
                   struct bn_err *err)
{
    struct work w = {.j = j, .report = report};
    int rc = convert(&w, err);

    work_release(&w);
    return rc;
}

static int write_back(struct work *w, struct bn_err *err)
{
    char *config = bn_path_join(w->j->source, "config.json");
    int rc = bn_model_config_load(&w->c, config, w->report, err);

    free(config);
    if (rc < 0 || bn_layout_load(&w->l, w->j->layout, err) < 0
        || bn_safetensors_open(&w->src, w->j->source, err) < 0
        || bn_hf_check(&w->src, w->j->source, &w->c, w->report, err) < 0
        || bn_layout_invert(&w->l, &w->c, &w->src, &w->out, err) < 0
        || bn_layout_unprepare(&w->l, &w->out, err) < 0)
        return -1;
    report_formats(w);
    struct bn_st_entry *e = BN_NEWN(struct bn_st_entry, w->out.n);
    for (size_t i = 0; i < w->out.n; i++) {
        const struct bn_named *t = &w->out.item[i];

        e[i] = (struct bn_st_entry){t->name, w->j->dtype, t->ndim, {0},
                                    NULL};
        memcpy(e[i].dims, t->dims, sizeof(e[i].dims));
    }
    rc = bn_safetensors_write(w->j->output, e, w->out.n, read_item, w, err);
    free(e);
    return rc;
}

int bn_convert_back(const struct bn_convert_job *j, struct bn_str *report,
                    struct bn_err *err)
{
    struct work w = {.j = j, .report = report};
    int rc = write_back(&w, err);

    work_release(&w);
    return rc;
}
