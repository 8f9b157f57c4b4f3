/* burnish ckpt: list, verify and export checkpoints, without a device. */
#include "config.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "ckpt/peft.h"
#include "cmd/cmd.h"
#include "cmd/opts.h"
#include "tensor/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char usage[] =
    "usage: burnish ckpt ls OUTPUT_DIR\n"
    "       burnish ckpt verify OUTPUT_DIR|CHECKPOINT...\n"
    "       burnish ckpt export [OPTIONS] CHECKPOINT FOLDER\n"
    "\n";

enum { LS, VERIFY, EXPORT };
static const struct bn_verb verbs[] = {
    {"ls", "list the checkpoints of a run"},
    {"verify", "read every byte and hold it against the checksums"},
    {"export", "write the weights as a Hugging Face folder, or an adapter as PEFT's,"
               " from any layout"},
    {0},
};

/* The checkpoint itself, or all of an output directory; malloc'ed paths. */
static int find(const char *path, struct bn_opt_list *found,
                struct bn_err *err)
{
    char *manifest = bn_path_join(path, "manifest.json");
    bool one = bn_exists(manifest);
    long *steps = NULL;
    size_t n = 0;

    free(manifest);
    if (!one && !bn_is_dir(path))
        return bn_fail(err, BN_ERR_DATA, "'%s' is no directory", path);
    if (!one && bn_ckpt_list(path, &steps, &n, err) < 0)
        return -1;
    if (!one && n == 0)
        return bn_fail(err, BN_ERR_DATA, "'%s' is no checkpoint and holds "
                       "none", path);
    for (size_t i = 0; i < (one ? 1 : n); i++) {
        bn_grow(&found->v, &found->cap, found->n + 1, sizeof(*found->v));
        found->v[found->n++] = one ? bn_strdup(path)
                                   : bn_asprintf("%s/checkpoint-%ld", path,
                                                 steps[i]);
    }
    free(steps);
    return 0;
}

static void release(struct bn_opt_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free((char *)(uintptr_t)l->v[i]);
    free(l->v);
}

/* Ranks by axis: data-parallel shards, tensor shards, stages. */
static void layout(const struct bn_ckpt *c, char *out, size_t size)
{
    int dp = 0, tp = 0, pp = 0;

    for (size_t i = 0; i < c->n; i++) {
        const struct bn_ckpt_shard *s = &c->shard[i];

        dp = s->dp >= dp ? s->dp + 1 : dp;
        tp = s->part.tp_rank >= tp ? s->part.tp_rank + 1 : tp;
        pp = s->pp >= pp ? s->pp + 1 : pp;
    }
    snprintf(out, size, "%d x %d x %d", dp, tp, pp);
}

static void print_row(const struct bn_ckpt *c)
{
    char *manifest = bn_path_join(c->path, "manifest.json");
    char when[32] = "?", size[32], ranks[48];
    uint64_t bytes = 0;
    struct stat st;
    struct tm tm;

    for (size_t i = 0; i < c->n; i++)
        bytes += c->shard[i].bytes;
    if (stat(manifest, &st) == 0 && localtime_r(&st.st_mtime, &tm) != NULL)
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
    layout(c, ranks, sizeof(ranks));
    printf("%-8ld %-20s %6zu %10s  %-14s%s\n", c->step, when, c->n,
           bn_str_bytes(size, bytes), ranks,
           json_is_true(json_object_get(c->loop, "has_best"))
                   && json_integer_value(json_object_get(c->loop,
                                                         "best_step"))
                          == c->step
               ? " best then"
               : "");
    free(manifest);
}

/* One that is not whole is named, and the rest still listed. */
static int list(const struct bn_opt_list *paths)
{
    int status = 0;

    printf("%-8s %-20s %6s %10s  %-14s\n", "step", "written", "shards",
           "bytes", "dp x tp x pp");
    for (size_t i = 0; i < paths->n; i++) {
        struct bn_err err;
        struct bn_ckpt *c = bn_ckpt_open(paths->v[i], &err);

        if (c == NULL)
            status = bn_cmd_fail("ckpt", &err);
        else
            print_row(c);
        bn_ckpt_close(c);
    }
    return status;
}

static int verify(const struct bn_opt_list *paths)
{
    int status = 0;

    for (size_t i = 0; i < paths->n; i++) {
        struct bn_err err;
        struct bn_ckpt *c = bn_ckpt_open(paths->v[i], &err);

        if (c == NULL || bn_ckpt_check(c, 1, 0, &err) < 0)
            status = bn_cmd_fail("ckpt", &err);
        else
            printf("%s: step %ld, %zu shards, whole\n", c->path, c->step,
                   c->n);
        bn_ckpt_close(c);
    }
    return status;
}

/* --- Export --------------------------------------------------------------- */

struct export {
    struct bn_ckpt *c;
    struct bn_params whole;
    enum bn_dtype dtype;
    float *buf;
    size_t cap;
};

/* Elements of one tensor, as bn_hf_save asks for them. */
static int read_tensor(void *arg, size_t index, int64_t first, int64_t n,
                       void *dst, struct bn_err *err)
{
    struct export *x = arg;
    const struct bn_param *p = &x->whole.item[index];

    bn_grow(&x->buf, &x->cap, (size_t)n, sizeof(*x->buf));
    if (bn_ckpt_read_host(x->c, &x->whole, p->offset + (size_t)first,
                          (size_t)n, &x->buf, 1, err) < 0)
        return -1;
    bn_convert(dst, x->dtype, x->buf, BN_F32, (size_t)n);
    return 0;
}

static int parse_dtype(const char *name, enum bn_dtype *t, struct bn_err *err)
{
    static const struct {
        const char *name;
        enum bn_dtype t;
    } all[] = {{"float32", BN_F32}, {"bfloat16", BN_BF16},
               {"float16", BN_F16}};

    for (size_t i = 0; i < BN_COUNT(all); i++)
        if (strcmp(name, all[i].name) == 0) {
            *t = all[i].t;
            return 0;
        }
    return bn_fail(err, BN_ERR_USAGE, "--dtype %s is not float32, bfloat16 or"
                   " float16", name);
}

/* The folder that the run named, unless another is given; *out NULL: it named
 * none. */
static int folder_of(const struct bn_ckpt *c, const char *key,
                     const char *given, const char **out, struct bn_err *err)
{
    *out = given != NULL ? given
                         : json_string_value(json_object_get(c->loop, key));
    if (*out != NULL && !bn_is_dir(*out))
        return bn_fail(err, BN_ERR_DATA, "the run's %s folder '%s' is not "
                       "there: give one with --%s", key, *out, key);
    return 0;
}

/* The adapter of a run that trained one. */
static int export_adapter(struct export *x, const char *model,
                          const char *tokenizer, const char *to,
                          struct bn_err *err)
{
    struct bn_part part = bn_part_whole(&x->c->cfg);
    struct bn_hf_files files = {0};

    if (bn_params_init_lora(&x->whole, &x->c->cfg, &part, &x->c->lora, err)
        < 0)
        return -1;
    float *flat = BN_NEWN(float, x->whole.elems);
    int rc = bn_ckpt_read_host(x->c, &x->whole, 0, x->whole.elems, &flat, 1,
                               err);
    if (rc == 0)
        rc = bn_hf_files_load(&files, NULL, tokenizer, err);
    if (rc == 0)
        rc = bn_peft_save(to, &x->c->cfg, &x->c->lora, flat, model, &files,
                          err);
    bn_hf_files_release(&files);
    bn_params_release(&x->whole);
    free(flat);
    return rc;
}

static int export_open(struct export *x, const char *model,
                       const char *tokenizer, const char *to,
                       struct bn_err *err)
{
    struct bn_part part = bn_part_whole(&x->c->cfg);
    struct bn_hf_files files = {0};

    if (folder_of(x->c, "model", model, &model, err) < 0
        || folder_of(x->c, "tokenizer", tokenizer, &tokenizer, err) < 0)
        return -1;
    if (x->c->lora.r > 0 && x->dtype != BN_F32)
        return bn_fail(err, BN_ERR_USAGE, "adapters are written as float32: "
                       "leave --dtype out");
    if (x->c->lora.r > 0)
        return export_adapter(x, model, tokenizer, to, err);
    if (bn_params_init(&x->whole, &x->c->cfg, &part, err) < 0)
        return -1;
    int rc = bn_hf_files_load(&files, model, tokenizer, err);
    if (rc == 0)
        rc = bn_hf_save(to, &x->c->cfg, x->dtype, (uint64_t)5 << 30, &files,
                        read_tensor, x, err);
    bn_hf_files_release(&files);
    bn_params_release(&x->whole);
    return rc;
}

static int export(const char *from, const char *to, const char *dtype,
                  const char *model, const char *tokenizer)
{
    struct export x = {0};
    struct bn_err err;
    int rc = parse_dtype(dtype, &x.dtype, &err);

    if (rc == 0) {
        x.c = bn_ckpt_open(from, &err);
        rc = x.c != NULL ? bn_ckpt_check(x.c, 1, 0, &err) : -1;
    }
    if (rc == 0)
        rc = export_open(&x, model, tokenizer, to, &err);
    bn_ckpt_close(x.c);
    free(x.buf);
    return rc < 0 ? bn_cmd_fail("ckpt", &err) : 0;
}

/* --- The command ---------------------------------------------------------- */

static int list_or_verify(int verb, const char *const *paths, size_t n)
{
    struct bn_opt_list found = {0};
    struct bn_err err;
    int status = 0;

    for (size_t i = 0; status == 0 && i < n; i++)
        if (find(paths[i], &found, &err) < 0)
            status = bn_cmd_fail("ckpt", &err);
    if (status == 0)
        status = verb == LS ? list(&found) : verify(&found);
    release(&found);
    return status;
}

int bn_cmd_ckpt(int argc, char **argv)
{
    struct bn_opt_list words = {0};
    const char *dtype = "float32", *model = NULL, *tokenizer = NULL;
    bool help = false;
    const struct bn_opt opts[] = {
        {"dtype", BN_OPT_STR, &dtype, "float32|bfloat16|float16",
         "export: of the weights (default: float32)"},
        {"model", BN_OPT_STR, &model, "FOLDER",
         "export: take generation_config.json from here (default: the model "
         "that the run began with)"},
        {"tokenizer", BN_OPT_STR, &tokenizer, "FOLDER",
         "export: take the tokenizer from here (default: the run's)"},
        {"help", BN_OPT_FLAG, &help, NULL, "print this and exit"},
        {0},
    };
    struct bn_err err;
    int status = 0, verb;

    if (bn_opts_parse(opts, argc, argv, &words, &err) < 0) {
        status = bn_cmd_usage("ckpt", "%s", err.text);
    } else if (help) {
        fputs(usage, stdout);
        bn_verbs_help(verbs, stdout);
        bn_opts_help(opts, stdout);
    } else if ((verb = bn_verb_find(verbs, &words, &err)) < 0) {
        status = bn_cmd_usage("ckpt", "%s", err.text);
    } else if (verb != EXPORT && words.n >= 2) {
        status = list_or_verify(verb, words.v + 1, words.n - 1);
    } else if (verb == EXPORT && words.n == 3) {
        status = export(words.v[1], words.v[2], dtype, model, tokenizer);
    } else {
        status = bn_cmd_usage("ckpt", "expected ls DIR, verify PATH... or "
                              "export CHECKPOINT FOLDER");
    }
    bn_opt_list_release(&words);
    return status;
}
