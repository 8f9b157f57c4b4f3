#include "config.h"
#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"

enum { IN_SIZE = 256 << 10 };
enum packing { PLAIN, GZIP, ZSTD };

struct bn_source {
    char *path;
    int fd;
    enum packing packing;
    uint64_t at;
    bool ended;  /* nothing more to read from the disk */
    bool inside; /* in the middle of a compressed frame */
    char *in;
    size_t in_at, in_len;
    z_stream z;
    ZSTD_DStream *zstd;
};

static ssize_t raw_read(struct bn_source *s, char *buf, size_t n,
                        struct bn_err *err)
{
    size_t got = 0;

    while (got < n) {
        ssize_t r = read(s->fd, buf + got, n - got);

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return bn_fail(err, bn_err_from_errno(errno),
                           "cannot read '%s': %s", s->path, strerror(errno));
        if (r == 0)
            break;
        got += (size_t)r;
    }
    s->at += got;
    return (ssize_t)got;
}

static int refill(struct bn_source *s, struct bn_err *err)
{
    ssize_t n = raw_read(s, s->in, IN_SIZE, err);

    if (n < 0)
        return -1;
    s->in_at = 0;
    s->in_len = (size_t)n;
    s->ended = n < IN_SIZE;
    return 0;
}

struct bn_source *bn_source_open(const char *path, struct bn_err *err)
{
    struct bn_source *s = BN_NEW(struct bn_source);

    s->path = bn_strdup(path);
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0) {
        bn_fail(err, bn_err_from_errno(errno), "cannot open '%s': %s", path,
                strerror(errno));
        goto fail;
    }
    posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    s->in = bn_malloc(IN_SIZE);
    if (refill(s, err) < 0)
        goto fail;
    if (s->in_len >= 2 && memcmp(s->in, "\x1f\x8b", 2) == 0) {
        s->packing = GZIP;
        if (inflateInit2(&s->z, 15 + 16) != Z_OK) {
            s->packing = PLAIN;
            bn_fail(err, BN_ERR_AGAIN, "cannot start zlib for '%s'", path);
            goto fail;
        }
    } else if (s->in_len >= 4 && memcmp(s->in, "\x28\xb5\x2f\xfd", 4) == 0) {
        s->packing = ZSTD;
        s->zstd = ZSTD_createDStream();
        /* a window of at most 128 MiB, zstd's own limit */
        ZSTD_initDStream(s->zstd);
    }
    return s;
fail:
    bn_source_close(s);
    return NULL;
}

static int damaged(struct bn_source *s, const char *what, struct bn_err *err)
{
    return bn_fail(err, BN_ERR_DATA, "'%s' is damaged: %s", s->path, what);
}

/* Unpack some; *out moves on. */
static int gzip_step(struct bn_source *s, char **out, char *end,
                     struct bn_err *err)
{
    s->z.next_in = (unsigned char *)s->in + s->in_at;
    s->z.avail_in = (unsigned)(s->in_len - s->in_at);
    s->z.next_out = (unsigned char *)*out;
    s->z.avail_out = end - *out > 1 << 30 ? 1u << 30 : (unsigned)(end - *out);
    s->inside = true;
    int rc = inflate(&s->z, Z_NO_FLUSH);

    s->in_at = s->in_len - s->z.avail_in;
    *out = (char *)s->z.next_out;
    if (rc == Z_STREAM_END) { /* another member may follow */
        inflateReset(&s->z);
        s->inside = false;
    } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
        return damaged(s, s->z.msg != NULL ? s->z.msg : "zlib error", err);
    }
    return 0;
}

static int zstd_step(struct bn_source *s, char **out, char *end,
                     struct bn_err *err)
{
    ZSTD_inBuffer in = {s->in, s->in_len, s->in_at};
    ZSTD_outBuffer to = {*out, (size_t)(end - *out), 0};
    size_t rc = ZSTD_decompressStream(s->zstd, &to, &in);

    if (ZSTD_isError(rc))
        return damaged(s, ZSTD_getErrorName(rc), err);
    s->in_at = in.pos;
    *out += to.pos;
    s->inside = rc != 0;
    return 0;
}

ssize_t bn_source_read(struct bn_source *s, char *buf, size_t n,
                       struct bn_err *err)
{
    char *out = buf, *end = buf + n;

    while (out < end) {
        char *before = out;
        size_t in_before = s->in_at;

        if (s->packing == PLAIN) {
            size_t have = s->in_len - s->in_at;

            if (have == 0) { /* straight to where it is wanted */
                ssize_t r = s->ended ? 0
                                     : raw_read(s, out, (size_t)(end - out),
                                                err);
                if (r < 0)
                    return -1;
                s->ended |= r < end - out;
                out += r;
                break;
            }
            if (have > (size_t)(end - out))
                have = (size_t)(end - out);
            memcpy(out, s->in + s->in_at, have);
            s->in_at += have;
            out += have;
            continue;
        }
        if (s->in_at == s->in_len && !s->ended && refill(s, err) < 0)
            return -1;
        /* Even without input, what is inside may have more to give. */
        if (s->in_at < s->in_len || s->inside) {
            in_before = s->in_at;
            if ((s->packing == GZIP ? gzip_step(s, &out, end, err)
                                    : zstd_step(s, &out, end, err)) < 0)
                return -1;
        }
        if (out == before && s->in_at == in_before && s->ended
            && s->in_at == s->in_len) {
            if (s->inside)
                return damaged(s, "its end is missing", err);
            break;
        }
    }
    return out - buf;
}

uint64_t bn_source_at(const struct bn_source *s)
{
    return s->at;
}

void bn_source_close(struct bn_source *s)
{
    if (s == NULL)
        return;
    int e = errno;
    if (s->fd >= 0)
        close(s->fd);
    if (s->packing == GZIP)
        inflateEnd(&s->z);
    ZSTD_freeDStream(s->zstd);
    free(s->in);
    free(s->path);
    free(s);
    errno = e;
}
