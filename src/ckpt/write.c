/* A checkpoint's directory: begun, committed, pruned. */
#include "config.h"
#include "ckpt/ckpt.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *bn_ckpt_shard_name(const struct bn_ckpt_shard *s,
                         char out[BN_CKPT_NAME])
{
    snprintf(out, BN_CKPT_NAME, "state-pp%d-tp%d-dp%d.bin", s->pp,
             s->part.tp_rank, s->dp);
    return out;
}

char *bn_ckpt_tmp(const char *output_dir, long step)
{
    return bn_asprintf("%s/tmp.checkpoint-%ld", output_dir, step);
}

int bn_ckpt_begin(const char *tmp, struct bn_err *err)
{
    return bn_remove_tree(tmp, err) == 0 && bn_mkdirs(tmp, err) == 0 ? 0 : -1;
}

static json_t *shard_json(const struct bn_ckpt_shard *s)
{
    char name[BN_CKPT_NAME], hex[BN_HASH_HEX];

    return json_pack(
        "{s:s, s:I, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:I, s:I}",
        "file", bn_ckpt_shard_name(s, name), "bytes", (json_int_t)s->bytes,
        "xxh3_128_tree", bn_hash_hex(s->hash, hex), "pp", s->pp, "dp", s->dp,
        "tp", s->part.tp_rank, "tp_size", s->part.tp_size, "first_layer",
        s->part.first_layer, "end_layer", s->part.end_layer, "embed",
        (int)s->part.has_embed, "head", (int)s->part.has_head, "begin",
        (json_int_t)s->begin, "count", (json_int_t)s->count);
}

static int put_json(const char *dir, const char *name, const json_t *v,
                    struct bn_err *err)
{
    char *path = bn_path_join(dir, name);
    char *text = json_dumps(v, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    int rc = bn_file_write(path, text, strlen(text), err);

    free(text);
    free(path);
    return rc;
}

static int put_manifest(const char *tmp, long step,
                        const struct bn_ckpt_shard *shards, size_t n,
                        const struct bn_ckpt_of *of, const char *trajectory,
                        const json_t *loop, struct bn_err *err)
{
    bool adapter = of->lora != NULL && of->lora->r > 0;
    json_t *list = json_array(), *m;
    int rc;

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, shard_json(&shards[i]));
    m = json_pack("{s:s, s:i, s:I, s:s, s:O, s:o}", "format",
                  "burnish checkpoint", "version", BN_CKPT_VERSION, "step",
                  (json_int_t)step, "trajectory", trajectory, "loop", loop,
                  "shards", list);
    if (adapter) {
        json_object_set_new(m, "adapter", bn_lora_json(of->lora));
        json_object_set_new(m, "base", json_string(of->base));
    }
    rc = put_json(tmp, "manifest.json", m, err);
    json_decref(m);
    return rc;
}

/* Put the finished directory in its place; a former one of the same step
 * steps aside first and is removed after. */
static int swap_in(const char *tmp, const char *final, struct bn_err *err)
{
    char *old = bn_asprintf("%s.old", final);
    int rc = 0;

    bn_remove_tree(old, NULL);
    if (rename(final, old) < 0 && errno != ENOENT)
        rc = bn_fail(err, bn_err_from_errno(errno), "cannot move '%s' aside:"
                     " %s", final, strerror(errno));
    if (rc == 0 && rename(tmp, final) < 0) {
        rc = bn_fail(err, bn_err_from_errno(errno), "cannot rename '%s' to "
                     "'%s': %s", tmp, final, strerror(errno));
        rename(old, final); /* if there was one, it is back */
    }
    if (rc == 0)
        bn_remove_tree(old, NULL);
    free(old);
    return rc;
}

int bn_ckpt_commit(const char *tmp, const char *output_dir, long step,
                   const struct bn_ckpt_shard *shards, size_t n,
                   const struct bn_ckpt_of *of, const char *trajectory,
                   const json_t *loop, struct bn_err *err)
{
    char *final = bn_asprintf("%s/checkpoint-%ld", output_dir, step);
    json_t *config = bn_model_config_json(of->cfg, NULL, BN_F32);
    int rc = -1;

    if (put_json(tmp, "config.json", config, err) == 0
        && put_manifest(tmp, step, shards, n, of, trajectory, loop, err) == 0
        && bn_dir_sync(tmp, err) == 0 && swap_in(tmp, final, err) == 0)
        rc = bn_dir_sync(output_dir, err);
    if (rc < 0)
        bn_remove_tree(tmp, NULL);
    json_decref(config);
    free(final);
    return rc;
}

void bn_ckpt_prune(const char *output_dir, long limit, long keep)
{
    struct bn_err err;
    long *steps;
    size_t n;

    if (limit <= 0 || bn_ckpt_list(output_dir, &steps, &n, &err) < 0)
        return;
    size_t extra = n > (size_t)limit ? n - (size_t)limit : 0;
    for (size_t i = 0; i + 1 < n && extra > 0; i++) {
        if (steps[i] == keep)
            continue;
        char *path = bn_asprintf("%s/checkpoint-%ld", output_dir, steps[i]);
        char *gone = bn_asprintf("%s/tmp.gone-%ld", output_dir, steps[i]);

        /* Renamed first, so that a half-removed one is never found. */
        if (rename(path, gone) < 0)
            bn_warn("cannot remove old checkpoint '%s': %s", path,
                    strerror(errno));
        else if (bn_remove_tree(gone, &err) < 0)
            bn_warn("%s", err.text);
        extra--;
        free(path);
        free(gone);
    }
    free(steps);
}
