/* One shard from host memory to its file. */
#include "config.h"
#include "ckpt/ckpt.h"
#include "ckpt/tree.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is hashed while it is written. */
struct hashing {
    const float *const *data;
    size_t bytes; /* of each */
    struct bn_hash hash;
};

/* Piece i of the three arrays, one behind the other. */
static struct bn_hash hash_piece(const struct hashing *h, size_t i)
{
    struct bn_hasher *x = bn_hasher_begin();
    size_t from = i * BN_CKPT_PIECE, end = from + BN_CKPT_PIECE;

    for (size_t k = 0; k < 3; k++) {
        size_t first = k * h->bytes, last = first + h->bytes;
        size_t a = from > first ? from : first, b = end < last ? end : last;

        if (b > a)
            bn_hasher_add(x, (const char *)h->data[k] + (a - first), b - a);
    }
    return bn_hasher_end(x);
}

static void *hash_all(void *arg)
{
    struct hashing *h = arg;
    size_t n = bn_ckpt_pieces(3 * h->bytes);
    struct bn_hash *piece = BN_NEWN(struct bn_hash, n + 1);

    for (size_t i = 0; i < n; i++)
        piece[i] = hash_piece(h, i);
    h->hash = bn_ckpt_tree(piece, n);
    free(piece);
    return NULL;
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
    struct hashing h = {.data = data, .bytes = s->count * sizeof(float)};
    int rc = fd < 0 ? failed(err, "create", path) : 0;
    pthread_t thread;
    bool aside = pthread_create(&thread, NULL, hash_all, &h) == 0;

    for (int k = 0; rc == 0 && k < 3; k++)
        rc = bn_write_all(fd, data[k], h.bytes, path, err);
    if (rc == 0 && fsync(fd) < 0)
        rc = failed(err, "sync", path);
    if (fd >= 0 && close(fd) < 0 && rc == 0)
        rc = failed(err, "close", path);
    if (fd >= 0 && rc < 0)
        unlink(path);
    if (aside)
        pthread_join(thread, NULL);
    else
        hash_all(&h);
    s->hash = h.hash;
    s->tree = true;
    s->bytes = 3 * sizeof(float) * s->count;
    free(path);
    return rc;
}
