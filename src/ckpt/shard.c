/* One shard from device memory to its file. */
#include "config.h"
#include "ckpt/ckpt.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 8 << 20 };

struct writer {
    int fd;
    const char *path;
    struct bn_hasher *hash;
    size_t bytes;
    char *block;
    struct bn_dev *dev;
};

static int put(struct writer *w, const float *p, size_t n,
               struct bn_err *err)
{
    enum { STEP = BLOCK / sizeof(float) };

    for (size_t i = 0; i < n; i += STEP) {
        size_t k = n - i < STEP ? n - i : STEP;

        w->dev->op.to_host(w->dev, w->block, BN_F32, p + i, BN_F32, k);
        if (bn_dev_check(w->dev, err) < 0
            || bn_write_all(w->fd, w->block, k * sizeof(float), w->path, err)
                   < 0)
            return -1;
        bn_hasher_add(w->hash, w->block, k * sizeof(float));
        w->bytes += k * sizeof(float);
    }
    return 0;
}

int bn_ckpt_write_shard(const char *tmp, struct bn_ckpt_shard *s,
                        const struct bn_ckpt_state *state, struct bn_dev *dev,
                        struct bn_err *err)
{
    char name[BN_CKPT_NAME];
    char *path = bn_path_join(tmp, bn_ckpt_shard_name(s, name));
    struct writer w = {.path = path, .dev = dev};
    int rc = -1;

    w.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w.fd < 0) {
        bn_fail(err, bn_err_from_errno(errno), "cannot create '%s': %s", path,
                strerror(errno));
        free(path);
        return -1;
    }
    w.block = bn_malloc(BLOCK);
    w.hash = bn_hasher_begin();
    if (put(&w, state->master, s->count, err) == 0
        && put(&w, state->m, s->count, err) == 0
        && put(&w, state->v, s->count, err) == 0) {
        rc = fsync(w.fd);
        if (rc < 0)
            bn_fail(err, bn_err_from_errno(errno), "cannot sync '%s': %s",
                    path, strerror(errno));
    }
    if (close(w.fd) < 0 && rc == 0)
        rc = bn_fail(err, bn_err_from_errno(errno), "cannot close '%s': %s",
                     path, strerror(errno));
    s->hash = bn_hasher_end(w.hash);
    s->bytes = w.bytes;
    if (rc < 0)
        unlink(path);
    free(w.block);
    free(path);
    return rc;
}
