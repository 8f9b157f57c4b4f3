/* One shard from host memory to its file. State that lies there as in the file
 * goes to the disk as it is (O_DIRECT), where the file system can: a copy for
 * the page cache would take more of the processors than all else, while they
 * train.
 */
#include "config.h"
#include "ckpt/ckpt.h"
#include "ckpt/tree.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of a write without the page cache, enough to keep a disk busy, and
 * what memory, places and sizes of those have to be multiples of: no file
 * system that does this asks for more than a page. */
enum { BLOCK = 8 << 20, DIRECT_ALIGN = 4096 };

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

/* Whether writes of the file pass by the page cache from now on. */
static bool set_direct(int fd, bool direct)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return false;
    flags = direct ? flags | O_DIRECT : flags & ~O_DIRECT;
    return fcntl(fd, F_SETFL, flags) == 0 && direct;
}

/* As much of the data as can go to the disk directly: '*done' bytes, which may
 * be none. */
static int write_direct(int fd, const char *data, size_t bytes, size_t *done,
                        const char *path, struct bn_err *err)
{
    size_t whole = bytes / DIRECT_ALIGN * DIRECT_ALIGN;
    int rc = 0;

    *done = 0;
    if ((uintptr_t)data % DIRECT_ALIGN != 0 || whole == 0
        || !set_direct(fd, true))
        return 0;
    while (rc == 0 && *done < whole) {
        size_t n = whole - *done < BLOCK ? whole - *done : BLOCK;
        ssize_t got = write(fd, data + *done, n);

        if (got < 0 && errno == EINVAL)
            break; /* it is not for this file, or no longer */
        if (got < 0 && errno != EINTR)
            rc = failed(err, "write", path);
        if (got > 0)
            *done += (size_t)got;
    }
    set_direct(fd, false);
    return rc;
}

static int write_data(int fd, const struct hashing *h, const char *path,
                      struct bn_err *err)
{
    const char *data = (const char *)h->data[0];
    size_t done = 0;
    bool block = (const char *)h->data[1] == data + h->bytes
                 && (const char *)h->data[2] == data + 2 * h->bytes;

    if (block) {
        if (write_direct(fd, data, 3 * h->bytes, &done, path, err) < 0)
            return -1;
        return bn_write_all(fd, data + done, 3 * h->bytes - done, path, err);
    }
    for (int k = 0; k < 3; k++)
        if (bn_write_all(fd, h->data[k], h->bytes, path, err) < 0)
            return -1;
    return 0;
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

    if (rc == 0)
        rc = write_data(fd, &h, path, err);
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
