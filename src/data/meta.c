/* meta.json of a token set. */
#include "config.h"
#include "data/tokens_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

static const char *const part_name[2] = {"train", "eval"};

void bn_tokens_meta_release(struct bn_tokens_meta *m)
{
    free(m->statement);
    free(m->notes);
    *m = (struct bn_tokens_meta){0};
}

/* The numbers, one table for both directions. */
struct number {
    const char *key;
    uint64_t *at;
};
enum { NNUMBERS = 8 };

static void numbers(struct bn_tokens_meta *m, struct number n[NNUMBERS])
{
    struct bn_tokens_stats *s = &m->stats;
    const struct number all[NNUMBERS] = {
        {"ids", &m->nids}, {"rows", &s->rows}, {"kept", &s->drops[BN_KEPT]},
        {"cut", &s->cut}, {"tokens", &s->tokens}, {"targets", &s->targets},
        {"longest", &s->longest}, {"bytes", &s->bytes}};

    memcpy(n, all, sizeof(all));
}

int bn_tokens_meta_write(const struct bn_tokens_meta *m, const char *dir,
                         const struct bn_data_files *files,
                         struct bn_err *err)
{
    struct bn_tokens_meta copy = *m;
    struct number n[NNUMBERS];
    struct bn_str b = {0};
    char *path = bn_path_join(dir, "meta.json");
    char hex[BN_HASH_HEX];
    int rc;

    numbers(&copy, n);
    bn_str_addf(&b, "{\n  \"format\": \"burnish tokens\",\n  \"version\": %d,"
                "\n  \"byte_order\": %d,\n  \"group\": %d,\n",
                BN_TOKENS_VERSION, __BYTE_ORDER__, m->group);
    for (int i = 0; i < NNUMBERS; i++)
        bn_str_addf(&b, "  \"%s\": %" PRIu64 ",\n", n[i].key, *n[i].at);
    for (int i = 0; i < 2; i++)
        bn_str_addf(&b, "  \"%s\": {\"count\": %" PRIu64 ", \"longest\": %"
                    PRIu32 "},\n", part_name[i], m->part[i].count,
                    m->part[i].longest);
    bn_str_adds(&b, "  \"dropped\": {");
    for (int d = BN_KEPT + 1; d < BN_DROP_COUNT; d++)
        bn_str_addf(&b, "%s\"%s\": %" PRIu64, d > BN_KEPT + 1 ? ", " : "",
                    bn_drop_name(d), m->stats.drops[d]);
    bn_str_adds(&b, "},\n  \"statement\": ");
    bn_str_add_json(&b, m->statement, strlen(m->statement));
    bn_str_adds(&b, ",\n  \"notes\": ");
    bn_str_add_json(&b, m->notes, strlen(m->notes));
    bn_str_adds(&b, ",\n  \"files\": [");
    for (size_t i = 0; i < files->n; i++) {
        const struct bn_data_file *f = &files->v[i];

        bn_str_adds(&b, i > 0 ? ",\n    {\"path\": " : "\n    {\"path\": ");
        bn_str_add_json(&b, f->path, strlen(f->path));
        bn_str_addf(&b, ", \"bytes\": %" PRIu64 ", \"xxh3\": \"%s\"}",
                    f->size, bn_hash_hex(f->hash, hex));
    }
    bn_str_adds(&b, "\n  ]\n}\n");
    rc = bn_file_write(path, b.s, b.len, err);
    bn_str_release(&b);
    free(path);
    return rc;
}

static int read_part(struct bn_tokens_part *p, const json_t *o,
                     const char *path, struct bn_err *err)
{
    int64_t count = 0, longest = 0;

    if (bn_json_int(o, path, "count", &count, err) < 0
        || bn_json_int(o, path, "longest", &longest, err) < 0)
        return -1;
    p->count = (uint64_t)count;
    p->longest = (uint32_t)longest;
    return 0;
}

static int read_all(struct bn_tokens_meta *m, const json_t *o,
                    const char *path, struct bn_err *err)
{
    const char *statement = "", *notes = "";
    int64_t v = 0, order = 0, group = 0;
    struct number n[NNUMBERS];

    if (bn_json_int(o, path, "version", &v, err) < 0
        || bn_json_int(o, path, "byte_order", &order, err) < 0
        || bn_json_int(o, path, "group", &group, err) < 0)
        return -1;
    if (v != BN_TOKENS_VERSION || order != __BYTE_ORDER__
        || (group != 1 && group != 3))
        return bn_fail(err, BN_ERR_DATA, "'%s' is of another version or "
                       "another machine's byte order", path);
    m->group = (int)group;
    numbers(m, n);
    for (int i = 0; i < NNUMBERS; i++) {
        int64_t x = 0;

        if (bn_json_int(o, path, n[i].key, &x, err) < 0)
            return -1;
        *n[i].at = (uint64_t)x;
    }
    const json_t *drops = json_object_get(o, "dropped");
    for (int d = BN_KEPT + 1; d < BN_DROP_COUNT; d++) {
        int64_t x = 0;

        if (bn_json_int(drops, path, bn_drop_name(d), &x, err) < 0)
            return -1;
        m->stats.drops[d] = (uint64_t)x;
    }
    if (bn_json_str(o, path, "statement", &statement, err) < 0
        || bn_json_str(o, path, "notes", &notes, err) < 0)
        return -1;
    m->statement = bn_strdup(statement);
    m->notes = bn_strdup(notes);
    for (int i = 0; i < 2; i++) {
        if (read_part(&m->part[i], json_object_get(o, part_name[i]), path,
                      err) < 0)
            return -1;
    }
    return 0;
}

int bn_tokens_meta_read(struct bn_tokens_meta *m, const char *dir,
                        struct bn_err *err)
{
    char *path = bn_path_join(dir, "meta.json");
    json_t *o = bn_json_load(path, err);
    int rc = -1;

    if (o != NULL)
        rc = read_all(m, o, path, err);
    if (rc < 0)
        bn_tokens_meta_release(m);
    json_decref(o);
    free(path);
    return rc;
}
