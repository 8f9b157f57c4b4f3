#include "config.h"
#include "ckpt/hf.h"
#include "base/mem.h"
#include "tensor/convert.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char generation[] = "generation_config.json";
static const char *const tokenizer_files[] = {
    "tokenizer.json",     "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json",  "vocab.json",            "merges.txt",
    "tokenizer.model",    "chat_template.jinja",   "chat_template.json",
};
enum { MAX_CARRIED = 256 << 20 };

void bn_hf_files_add_take(struct bn_hf_files *f, const char *name, char *data,
                          size_t len)
{
    bn_grow(&f->item, &f->cap, f->n + 1, sizeof(*f->item));
    f->item[f->n++] = (struct bn_hf_file){name, data, len};
}

static int carry(struct bn_hf_files *f, const char *dir, const char *name,
                 struct bn_err *err)
{
    char *path = bn_path_join(dir, name);
    int rc = 0;

    if (bn_is_listed(path)) {
        size_t len;
        char *data = bn_file_read(path, MAX_CARRIED, &len, err);

        rc = data != NULL ? 0 : -1;
        if (rc == 0)
            bn_hf_files_add_take(f, name, data, len);
    }
    free(path);
    return rc;
}

int bn_hf_files_load(struct bn_hf_files *f, const char *model_dir,
                     const char *tokenizer_dir, struct bn_err *err)
{
    const char *tok = tokenizer_dir != NULL ? tokenizer_dir : model_dir;
    struct bn_hf_files got = {0};

    if (model_dir != NULL) {
        char *path = bn_path_join(model_dir, "config.json");

        if (bn_is_listed(path))
            got.config = bn_json_load(path, err);
        bool bad = got.config == NULL && bn_is_listed(path);
        free(path);
        if (bad || carry(&got, model_dir, generation, err) < 0)
            goto error;
    }
    for (size_t i = 0; tok != NULL && i < BN_COUNT(tokenizer_files); i++)
        if (carry(&got, tok, tokenizer_files[i], err) < 0)
            goto error;
    *f = got;
    return 0;
error:
    bn_hf_files_release(&got);
    return -1;
}

void bn_hf_files_release(struct bn_hf_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->item[i].data);
    free(f->item);
    json_decref(f->config);
    *f = (struct bn_hf_files){0};
}

int bn_hf_put_json(const char *dir, const char *name, const json_t *o,
                   struct bn_err *err)
{
    char *path = bn_path_join(dir, name);
    char *text = json_dumps(o, JSON_INDENT(2));
    char *line = bn_asprintf("%s\n", text);
    int rc = bn_file_write(path, line, strlen(line), err);

    free(line);
    free(text);
    free(path);
    return rc;
}

static int write_config(const char *dir, const struct bn_model_config *c,
                        const json_t *source, enum bn_dtype dtype,
                        struct bn_err *err)
{
    json_t *o = bn_model_config_json(c, source, dtype);
    int rc = bn_hf_put_json(dir, "config.json", o, err);

    json_decref(o);
    return rc;
}

static int write_weights(const char *dir, const struct bn_model_config *c,
                         enum bn_dtype dtype, uint64_t max_bytes,
                         bn_st_read_f *read, void *arg, struct bn_err *err)
{
    struct bn_part part = bn_part_whole(c);
    struct bn_params ps;

    if (bn_params_init(&ps, c, &part, err) < 0)
        return -1;
    struct bn_st_entry *e = BN_NEWN(struct bn_st_entry, (size_t)ps.n);
    for (int i = 0; i < ps.n; i++)
        e[i] = (struct bn_st_entry){ps.item[i].name, dtype, ps.item[i].ndim,
                                    {ps.item[i].rows, ps.item[i].cols},
                                    NULL};
    int rc = bn_safetensors_write_dir(dir, e, (size_t)ps.n, max_bytes, read,
                                      arg, err);
    free(e);
    bn_params_release(&ps);
    return rc;
}

int bn_hf_files_put(const struct bn_hf_files *f, const char *dir,
                    struct bn_err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < f->n; i++) {
        char *path = bn_path_join(dir, f->item[i].name);

        rc = bn_file_write(path, f->item[i].data, f->item[i].len, err);
        free(path);
    }
    return rc;
}

/* A model's folder. */
struct model {
    const struct bn_model_config *c;
    enum bn_dtype dtype;
    uint64_t max_bytes;
    const struct bn_hf_files *files;
    bn_st_read_f *read;
    bn_hf_check_f *check; /* NULL: none */
    void *arg;
};

static int fill_dir(void *arg, const char *dir, struct bn_err *err)
{
    const struct model *m = arg;

    if (write_config(dir, m->c, m->files != NULL ? m->files->config : NULL,
                     m->dtype, err) < 0
        || write_weights(dir, m->c, m->dtype, m->max_bytes, m->read, m->arg,
                         err) < 0)
        return -1;
    if (m->files != NULL && bn_hf_files_put(m->files, dir, err) < 0)
        return -1;
    return m->check != NULL ? m->check(m->arg, dir, err) : 0;
}

/* An empty directory in the way is removed; anything else is an error. */
static int make_room(const char *dir, struct bn_err *err)
{
    if (rmdir(dir) == 0 || errno == ENOENT)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
        return bn_fail(err, BN_ERR_DATA, "'%s' is there already and not "
                       "empty: nothing was saved", dir);
    return bn_fail(err, bn_err_from_errno(errno), "cannot replace '%s': %s",
                   dir, strerror(errno));
}

int bn_hf_make_dir(const char *dir, bn_hf_dir_f *fill, void *arg,
                   struct bn_err *err)
{
    char *plain = bn_strdup(dir);
    int rc = -1;

    for (size_t n = strlen(plain); n > 1 && plain[n - 1] == '/'; n--)
        plain[n - 1] = '\0';
    char *tmp = bn_asprintf("%s.tmp.%ld", plain, (long)getpid());
    char *parent = bn_path_dir(plain);
    if (make_room(plain, err) < 0)
        goto out;
    if (bn_remove_tree(tmp, err) < 0 || bn_mkdirs(tmp, err) < 0
        || fill(arg, tmp, err) < 0 || bn_dir_sync(tmp, err) < 0)
        goto undo;
    if (rename(tmp, plain) < 0) {
        bn_fail(err, bn_err_from_errno(errno), "cannot rename '%s' to '%s': "
                "%s", tmp, plain, strerror(errno));
        goto undo;
    }
    rc = bn_dir_sync(parent, err);
    goto out;
undo:
    bn_remove_tree(tmp, NULL);
out:
    free(parent);
    free(tmp);
    free(plain);
    return rc;
}

int bn_hf_save(const char *dir, const struct bn_model_config *c,
               enum bn_dtype dtype, uint64_t max_bytes,
               const struct bn_hf_files *files, bn_st_read_f *read, void *arg,
               struct bn_err *err)
{
    return bn_hf_save_checked(dir, c, dtype, max_bytes, files, read, NULL,
                              arg, err);
}

int bn_hf_save_checked(const char *dir, const struct bn_model_config *c,
                       enum bn_dtype dtype, uint64_t max_bytes,
                       const struct bn_hf_files *files, bn_st_read_f *read,
                       bn_hf_check_f *check, void *arg, struct bn_err *err)
{
    struct model m = {c, dtype, max_bytes, files, read, check, arg};

    return bn_hf_make_dir(dir, fill_dir, &m, err);
}

struct flat {
    struct bn_params ps;
    const char *data;
    enum bn_dtype from, to;
};

static int read_flat(void *arg, size_t index, int64_t first, int64_t n,
                     void *dst, struct bn_err *err)
{
    const struct flat *f = arg;
    size_t at = f->ps.item[index].offset + (size_t)first;

    (void)err;
    bn_convert(dst, f->to, f->data + at * bn_dtype_size(f->from), f->from,
               (size_t)n);
    return 0;
}

int bn_hf_save_flat(const char *dir, const struct bn_model_config *c,
                    const void *flat, enum bn_dtype flat_dtype,
                    enum bn_dtype dtype, uint64_t max_bytes,
                    const struct bn_hf_files *files, struct bn_err *err)
{
    struct bn_part part = bn_part_whole(c);
    struct flat f = {.data = flat, .from = flat_dtype, .to = dtype};
    int rc;

    if (bn_params_init(&f.ps, c, &part, err) < 0)
        return -1;
    rc = bn_hf_save(dir, c, dtype, max_bytes, files, read_flat, &f, err);
    bn_params_release(&f.ps);
    return rc;
}
