#include "config.h"
#include "format/safetensors.h"
#include "base/mem.h"
#include "base/str.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 4 << 20 }; /* bytes asked of a reader at once */

/* Alignment order of the safetensors library: higher comes first. */
static const int rank[BN_NDTYPE] = {
    [BN_BOOL] = 0, [BN_U8] = 1,       [BN_I8] = 2,  [BN_F8_E5M2] = 3,
    [BN_F8_E4M3] = 4, [BN_I16] = 5,   [BN_U16] = 6, [BN_F16] = 7,
    [BN_BF16] = 8, [BN_I32] = 9,      [BN_U32] = 10, [BN_F32] = 11,
    [BN_F64] = 12, [BN_I64] = 13,     [BN_U64] = 14,
};

struct slot {
    const struct bn_st_entry *e;
    size_t index; /* in the caller's list */
    int64_t bytes;
    int shard;
};

static int by_rank(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;
    int rx = rank[x->e->dtype], ry = rank[y->e->dtype];

    return rx != ry ? ry - rx : strcmp(x->e->name, y->e->name);
}

/* The caller's entries in file order; NULL on a bad one. */
static struct slot *plan(const struct bn_st_entry *entry, size_t n,
                         struct bn_err *err)
{
    struct slot *s = BN_NEWN(struct slot, n);

    for (size_t i = 0; i < n; i++) {
        const struct bn_st_entry *e = &entry[i];
        int64_t count = bn_dims_count(e->ndim, e->dims, e->dtype);

        if (count < 0) {
            bn_fail(err, BN_ERR_BUG, "tensor '%s' has no valid shape",
                    e->name);
            free(s);
            return NULL;
        }
        s[i] = (struct slot){e, i, count * (int64_t)bn_dtype_size(e->dtype),
                             0};
    }
    if (n > 0)
        qsort(s, n, sizeof(*s), by_rank);
    for (size_t i = 1; i < n; i++) {
        if (by_rank(&s[i - 1], &s[i]) == 0) {
            bn_fail(err, BN_ERR_BUG, "tensor '%s' is to be written twice",
                    s[i].e->name);
            free(s);
            return NULL;
        }
    }
    return s;
}

static void build_header(struct bn_str *h, const struct slot *s, size_t n)
{
    int64_t at = 0;
    uint64_t len;

    bn_str_add(h, "\0\0\0\0\0\0\0\0", 8);
    bn_str_adds(h, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < n; i++) {
        const struct bn_st_entry *e = s[i].e;

        bn_str_addc(h, ',');
        bn_str_add_json(h, e->name, strlen(e->name));
        bn_str_addf(h, ":{\"dtype\":\"%s\",\"shape\":[",
                    bn_dtype_name(e->dtype));
        for (int d = 0; d < e->ndim; d++)
            bn_str_addf(h, "%s%lld", d > 0 ? "," : "",
                        (long long)e->dims[d]);
        bn_str_addf(h, "],\"data_offsets\":[%lld,%lld]}", (long long)at,
                    (long long)(at + s[i].bytes));
        at += s[i].bytes;
    }
    bn_str_addc(h, '}');
    while (h->len % 8 != 0)
        bn_str_addc(h, ' ');
    len = htole64(h->len - 8);
    memcpy(h->s, &len, 8);
}

static int write_tensor(int fd, const char *path, const struct slot *s,
                        bn_st_read_f *read, void *arg, void *buf,
                        struct bn_err *err)
{
    int64_t size = (int64_t)bn_dtype_size(s->e->dtype);
    int64_t count = s->bytes / size;

    if (s->e->data != NULL)
        return bn_write_all(fd, s->e->data, (size_t)s->bytes, path, err);
    for (int64_t at = 0; at < count;) {
        int64_t n = count - at < PIECE / size ? count - at : PIECE / size;

        if (read(arg, s->index, at, n, buf, err) < 0
            || bn_write_all(fd, buf, (size_t)(n * size), path, err) < 0)
            return -1;
        at += n;
    }
    return 0;
}

static int sys_fail(const char *what, const char *path, struct bn_err *err)
{
    return bn_fail(err, bn_err_from_errno(errno), "cannot %s '%s': %s", what,
                   path, strerror(errno));
}

/* Everything of one file to 'fd'. */
static int write_body(int fd, const char *path, const struct slot *s,
                      size_t n, bn_st_read_f *read, void *arg,
                      struct bn_err *err)
{
    struct bn_str head = {0};
    void *buf = bn_malloc(PIECE);
    int rc;

    build_header(&head, s, n);
    rc = bn_write_all(fd, head.s, head.len, path, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = write_tensor(fd, path, &s[i], read, arg, buf, err);
    if (rc == 0 && fsync(fd) < 0)
        rc = sys_fail("fsync", path, err);
    bn_str_release(&head);
    free(buf);
    return rc;
}

static int write_file(const char *path, const struct slot *s, size_t n,
                      bn_st_read_f *read, void *arg, struct bn_err *err)
{
    char *tmp = bn_asprintf("%s.tmp.%ld", path, (long)getpid());
    char *dir = bn_path_dir(path);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int rc;

    if (fd < 0) {
        rc = sys_fail("create", tmp, err);
        goto out;
    }
    rc = write_body(fd, path, s, n, read, arg, err);
    if (close(fd) < 0 && rc == 0)
        rc = sys_fail("close", path, err);
    if (rc == 0 && rename(tmp, path) < 0)
        rc = sys_fail("rename to", path, err);
    if (rc < 0)
        unlink(tmp);
    else
        rc = bn_dir_sync(dir, err);
out:
    free(dir);
    free(tmp);
    return rc;
}

int bn_safetensors_write(const char *path, const struct bn_st_entry *entry,
                         size_t n, bn_st_read_f *read, void *arg,
                         struct bn_err *err)
{
    struct slot *s = plan(entry, n, err);
    int rc;

    if (s == NULL)
        return -1;
    rc = write_file(path, s, n, read, arg, err);
    free(s);
    return rc;
}

/* Deal the tensors out to files in order; returns how many files. */
static int deal(struct slot *s, size_t n, uint64_t max_bytes)
{
    uint64_t used = 0;
    int shard = 0;

    for (size_t i = 0; i < n; i++) {
        if (used > 0 && used + (uint64_t)s[i].bytes > max_bytes) {
            shard++;
            used = 0;
        }
        used += (uint64_t)s[i].bytes;
        s[i].shard = shard;
    }
    return shard + 1;
}

static int by_tensor_name(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;

    return strcmp(x->e->name, y->e->name);
}

/* Sorts 's' by name on the way. */
static int write_index(const char *dir, struct slot *s, size_t n, int shards,
                       struct bn_err *err)
{
    char *path = bn_path_join(dir, "model.safetensors.index.json");
    struct bn_str t = {0};
    int64_t total = 0;
    int rc;

    for (size_t i = 0; i < n; i++)
        total += s[i].bytes;
    qsort(s, n, sizeof(*s), by_tensor_name);
    bn_str_addf(&t, "{\n  \"metadata\": {\n    \"total_size\": %lld\n  },\n"
                "  \"weight_map\": {", (long long)total);
    for (size_t i = 0; i < n; i++) {
        bn_str_adds(&t, i > 0 ? ",\n    " : "\n    ");
        bn_str_add_json(&t, s[i].e->name, strlen(s[i].e->name));
        bn_str_addf(&t, ": \"model-%05d-of-%05d.safetensors\"",
                    s[i].shard + 1, shards);
    }
    bn_str_adds(&t, "\n  }\n}\n");
    rc = bn_file_write(path, t.s, t.len, err);
    bn_str_release(&t);
    free(path);
    return rc;
}

int bn_safetensors_write_dir(const char *dir,
                             const struct bn_st_entry *entry, size_t n,
                             uint64_t max_bytes, bn_st_read_f *read,
                             void *arg, struct bn_err *err)
{
    struct slot *s = plan(entry, n, err);
    int shards, rc = 0;

    if (s == NULL)
        return -1;
    shards = deal(s, n, max_bytes);
    for (size_t i = 0, end = 0; rc == 0 && end < n; i = end) {
        char file[64];

        while (end < n && s[end].shard == s[i].shard)
            end++;
        if (shards == 1)
            strcpy(file, "model.safetensors");
        else
            snprintf(file, sizeof(file), "model-%05d-of-%05d.safetensors",
                     s[i].shard + 1, shards);
        char *path = bn_path_join(dir, file);
        rc = write_file(path, s + i, end - i, read, arg, err);
        free(path);
    }
    if (rc == 0 && shards > 1)
        rc = write_index(dir, s, n, shards, err);
    free(s);
    return rc;
}
