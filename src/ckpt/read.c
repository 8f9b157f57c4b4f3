/* Finding and opening checkpoints. */
#include "config.h"
#include "ckpt/ckpt.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ascending(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;

    return (x > y) - (x < y);
}

/* The step in "checkpoint-STEP"; -1 for any other name. */
static long step_of(const char *name)
{
    static const char prefix[] = "checkpoint-";
    char *end;
    long step;

    if (!bn_str_starts(name, prefix))
        return -1;
    name += strlen(prefix);
    step = strtol(name, &end, 10);
    return *name >= '0' && *name <= '9' && *end == '\0' ? step : -1;
}

/* 1 or 0. What may not be looked at is not taken for absent: a run would begin
 * anew over a checkpoint of another user. */
static int has_manifest(const char *output_dir, const char *name,
                        struct bn_err *err)
{
    char *path = bn_asprintf("%s/%s/manifest.json", output_dir, name);
    int rc = 1;

    if (access(path, F_OK) < 0)
        rc = errno == ENOENT || errno == ENOTDIR
                 ? 0
                 : bn_fail(err, bn_err_from_errno(errno),
                           "cannot look into '%s/%s': %s", output_dir, name,
                           strerror(errno));
    free(path);
    return rc;
}

int bn_ckpt_list(const char *output_dir, long **steps, size_t *n,
                 struct bn_err *err)
{
    DIR *d = opendir(output_dir);
    size_t cap = 0;
    struct dirent *e;

    *steps = NULL;
    *n = 0;
    if (d == NULL)
        return errno == ENOENT
                   ? 0
                   : bn_fail(err, bn_err_from_errno(errno),
                             "cannot list '%s': %s", output_dir,
                             strerror(errno));
    int rc = 0;
    for (e = readdir(d); e != NULL && rc == 0; e = readdir(d)) {
        long step = step_of(e->d_name);
        int there = step >= 0 ? has_manifest(output_dir, e->d_name, err) : 0;

        if (there > 0) {
            bn_grow(steps, &cap, *n + 1, sizeof(**steps));
            (*steps)[(*n)++] = step;
        }
        rc = there < 0 ? -1 : 0;
    }
    closedir(d);
    if (rc < 0) {
        free(*steps);
        *steps = NULL;
        *n = 0;
        return -1;
    }
    if (*n > 0)
        qsort(*steps, *n, sizeof(**steps), ascending);
    return 0;
}

static int64_t get_int(const json_t *o, const char *key, bool *bad)
{
    json_t *v = json_object_get(o, key);

    if (json_is_boolean(v))
        return json_is_true(v);
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        *bad = true;
    return json_integer_value(v);
}

static int hex_hash(const char *s, struct bn_hash *h)
{
    char part[17] = {0};

    if (s == NULL || strlen(s) != BN_HASH_HEX - 1
        || strspn(s, "0123456789abcdef") != BN_HASH_HEX - 1)
        return -1;
    memcpy(part, s, 16);
    h->hi = strtoull(part, NULL, 16);
    h->lo = strtoull(s + 16, NULL, 16);
    return 0;
}

/* One entry of the manifest's list; its file name must be the one that its
 * coordinates give, so no path can be smuggled in. */
static int parse_shard(const json_t *o, int version,
                       struct bn_ckpt_shard *s, const char *where,
                       struct bn_err *err)
{
    const char *file = json_string_value(json_object_get(o, "file"));
    bool tree = version >= 3, bad = false;
    const char *hash = json_string_value(
        json_object_get(o, tree ? "xxh3_128_tree" : "xxh3_128"));
    char name[BN_CKPT_NAME];

    s->tree = tree;
    s->pp = (int)get_int(o, "pp", &bad);
    s->dp = (int)get_int(o, "dp", &bad);
    s->part.tp_rank = (int)get_int(o, "tp", &bad);
    s->part.tp_size = (int)get_int(o, "tp_size", &bad);
    s->part.first_layer = (int)get_int(o, "first_layer", &bad);
    s->part.end_layer = (int)get_int(o, "end_layer", &bad);
    s->part.has_embed = get_int(o, "embed", &bad) != 0;
    s->part.has_head = get_int(o, "head", &bad) != 0;
    s->part.tight = version < 4;
    s->begin = (size_t)get_int(o, "begin", &bad);
    s->count = (size_t)get_int(o, "count", &bad);
    s->bytes = (size_t)get_int(o, "bytes", &bad);
    if (bad || file == NULL || hex_hash(hash, &s->hash) < 0
        || strcmp(file, bn_ckpt_shard_name(s, name)) != 0
        || s->bytes != 3 * sizeof(float) * s->count)
        return bn_fail(err, BN_ERR_DATA, "%s: a shard's entry is not valid",
                       where);
    return 0;
}

/* Of an adapter, and which model it belongs to. */
static int parse_adapter(struct bn_ckpt *c, const json_t *m, const char *path,
                         struct bn_err *err)
{
    const char *base = json_string_value(json_object_get(m, "base"));
    struct bn_hash h;

    if (hex_hash(base, &h) < 0)
        return bn_fail(err, BN_ERR_DATA, "%s: 'base' is not a hash", path);
    c->base = bn_strdup(base);
    return bn_lora_parse(&c->lora, json_object_get(m, "adapter"), path, err);
}

static int parse_manifest(struct bn_ckpt *c, const char *path,
                          struct bn_err *err)
{
    json_t *m = bn_json_load(path, err), *list, *o;
    const char *format, *trajectory;
    bool bad = false;
    size_t i;
    int rc = 0;

    if (m == NULL)
        return -1;
    format = json_string_value(json_object_get(m, "format"));
    trajectory = json_string_value(json_object_get(m, "trajectory"));
    list = json_object_get(m, "shards");
    c->step = (long)get_int(m, "step", &bad);
    int64_t version = get_int(m, "version", &bad);
    bool ours = !bad && format != NULL
                && strcmp(format, "burnish checkpoint") == 0;

    if (ours && (version < 1 || version > BN_CKPT_VERSION)) {
        json_decref(m);
        return bn_fail(err, BN_ERR_DATA, "%s: checkpoint format version %lld "
                       "is not known here (1 to %d are)", path,
                       (long long)version, BN_CKPT_VERSION);
    }
    if (!ours || trajectory == NULL
        || !json_is_object(json_object_get(m, "loop"))
        || json_array_size(list) == 0) {
        json_decref(m);
        return bn_fail(err, BN_ERR_DATA, "%s: not a manifest of a burnish "
                       "checkpoint, version 1 to %d", path, BN_CKPT_VERSION);
    }
    c->trajectory = bn_strdup(trajectory);
    c->loop = json_incref(json_object_get(m, "loop"));
    c->n = json_array_size(list);
    c->shard = BN_NEWN(struct bn_ckpt_shard, c->n);
    c->map = BN_NEWN(struct bn_map, c->n);
    json_array_foreach(list, i, o)
    {
        if (rc == 0)
            rc = parse_shard(o, (int)version, &c->shard[i], path, err);
    }
    if (rc == 0
        && (version == 2
            || (version >= 3 && json_object_get(m, "adapter") != NULL)))
        rc = parse_adapter(c, m, path, err);
    json_decref(m);
    return rc;
}

static int open_shard(struct bn_ckpt *c, size_t i, struct bn_err *err)
{
    const struct bn_ckpt_shard *s = &c->shard[i];
    char name[BN_CKPT_NAME];
    char *path = bn_path_join(c->path, bn_ckpt_shard_name(s, name));
    int rc = bn_map_open(&c->map[i], path, err);

    if (rc == 0 && c->map[i].len != s->bytes)
        rc = bn_fail(err, BN_ERR_DATA, "'%s' has %zu bytes, the manifest says"
                     " %zu", path, c->map[i].len, s->bytes);
    free(path);
    return rc;
}

struct bn_ckpt *bn_ckpt_open(const char *path, struct bn_err *err)
{
    struct bn_ckpt *c = BN_NEW(struct bn_ckpt);
    char *manifest = bn_path_join(path, "manifest.json");
    char *config = bn_path_join(path, "config.json");
    int rc;

    c->path = bn_strdup(path);
    rc = parse_manifest(c, manifest, err);
    if (rc == 0)
        rc = bn_model_config_load(&c->cfg, config, NULL, err);
    for (size_t i = 0; rc == 0 && i < c->n; i++)
        rc = open_shard(c, i, err);
    free(manifest);
    free(config);
    if (rc == 0)
        return c;
    bn_ckpt_close(c);
    return NULL;
}

void bn_ckpt_close(struct bn_ckpt *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; c->map != NULL && i < c->n; i++)
        bn_map_close(&c->map[i]);
    free(c->map);
    free(c->shard);
    free(c->trajectory);
    free(c->base);
    bn_lora_release(&c->lora);
    json_decref(c->loop);
    free(c->path);
    free(c);
}
