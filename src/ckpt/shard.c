/* One shard from host memory to its file. */
#include "config.h"
#include "ckpt/ckpt.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 8 << 20 };

/* Hashed while it is in the cache. */
static int put(int fd, struct bn_hasher *hash, const char *path,
               const float *data, size_t n, struct bn_err *err)
{
    const char *p = (const char *)data;
    size_t bytes = n * sizeof(float);

    for (size_t at = 0; at < bytes; at += BLOCK) {
        size_t k = bytes - at < BLOCK ? bytes - at : BLOCK;

        bn_hasher_add(hash, p + at, k);
        if (bn_write_all(fd, p + at, k, path, err) < 0)
            return -1;
    }
    return 0;
}

static int failed(struct bn_err *err, const char *what, const char *path)
{
    return bn_fail(err, bn_err_from_errno(errno), "cannot %s '%s': %s", what,
                   path, strerror(errno));
}

int bn_ckpt_write_shard(const char *tmp, struct bn_ckpt_shard *s,
                        const float *const data[3], struct bn_err *err)
{
    char name[BN_CKPT_NAME];
    char *path = bn_path_join(tmp, bn_ckpt_shard_name(s, name));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    struct bn_hasher *hash = bn_hasher_begin();
    int rc = fd < 0 ? failed(err, "create", path) : 0;

    for (int k = 0; rc == 0 && k < 3; k++)
        rc = put(fd, hash, path, data[k], s->count, err);
    if (rc == 0 && fsync(fd) < 0)
        rc = failed(err, "sync", path);
    if (fd >= 0 && close(fd) < 0 && rc == 0)
        rc = failed(err, "close", path);
    if (fd >= 0 && rc < 0)
        unlink(path);
    s->hash = bn_hasher_end(hash);
    s->bytes = 3 * sizeof(float) * s->count;
    free(path);
    return rc;
}
