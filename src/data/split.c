/* Which examples are held out: those with the smallest hashes of (seed, their
 * tokens), so that equal examples are never on both sides, the share is as
 * asked, and nothing depends on the order of rows. */
#include "config.h"
#include "data/tokens_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* The k-th smallest of h[0..n), k from 1: by its 16-bit digits. */
static uint64_t kth(const uint64_t *h, uint64_t n, uint64_t k)
{
    uint64_t *count = BN_NEWN(uint64_t, 1 << 16);
    uint64_t found = 0;

    for (int shift = 48; shift >= 0; shift -= 16) {
        uint64_t digit = 0;

        memset(count, 0, sizeof(*count) << 16);
        for (uint64_t i = 0; i < n; i++) {
            if (shift == 48 || h[i] >> (shift + 16) == found >> (shift + 16))
                count[h[i] >> shift & 0xffff]++;
        }
        while (k > count[digit])
            k -= count[digit++];
        found |= digit << shift;
    }
    free(count);
    return found;
}

struct out {
    char *path;
    int fd;
    struct bn_tokens_entry buf[512];
    size_t n;
};

static int flush(struct out *o, struct bn_err *err)
{
    size_t n = o->n;

    o->n = 0;
    return bn_write_all(o->fd, o->buf, n * sizeof(*o->buf), o->path, err);
}

static int open_out(struct out *o, const char *dir, const char *name,
                    struct bn_err *err)
{
    o->path = bn_path_join(dir, name);
    o->fd = open(o->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (o->fd < 0)
        return bn_fail(err, bn_err_from_errno(errno), "cannot create '%s': "
                       "%s", o->path, strerror(errno));
    return 0;
}

static int close_out(struct out *o, int rc, struct bn_err *err)
{
    if (rc == 0)
        rc = flush(o, err);
    if (rc == 0 && fsync(o->fd) < 0)
        rc = bn_fail(err, bn_err_from_errno(errno), "cannot fsync '%s': %s",
                     o->path, strerror(errno));
    if (o->fd >= 0)
        close(o->fd);
    free(o->path);
    return rc;
}

static int write_parts(struct bn_tokens_meta *m, const char *dir,
                       const struct bn_tokens_entry *e, const uint64_t *h,
                       uint64_t n, uint64_t limit, struct bn_err *err)
{
    struct out *out = BN_NEWN(struct out, 2);
    int rc;

    out[0].fd = out[1].fd = -1;
    rc = open_out(&out[0], dir, "train.idx", err);
    if (rc == 0)
        rc = open_out(&out[1], dir, "eval.idx", err);
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        int p = h[i] <= limit;
        uint32_t len = e[i].n + e[i].nchosen + e[i].nrejected;

        if (out[p].n == BN_COUNT(out[p].buf))
            rc = flush(&out[p], err);
        out[p].buf[out[p].n++] = e[i];
        m->part[p].count++;
        if (len > m->part[p].longest)
            m->part[p].longest = len;
    }
    rc = close_out(&out[0], rc, err);
    rc = close_out(&out[1], rc, err);
    free(out);
    return rc;
}

uint64_t bn_split_count(double fraction, uint64_t n)
{
    return (uint64_t)ceil(fraction * (double)n - 1e-9);
}

int bn_tokens_split(struct bn_tokens_meta *m, const char *dir,
                    double fraction, struct bn_err *err)
{
    struct bn_map index = {0}, hashes = {0};
    char *ip = bn_path_join(dir, "all.idx"), *hp = bn_path_join(dir, "hash");
    uint64_t n, want;
    int rc = -1;

    memset(m->part, 0, sizeof(m->part));
    if (bn_map_open(&index, ip, err) < 0 || bn_map_open(&hashes, hp, err) < 0)
        goto out;
    n = hashes.len / sizeof(uint64_t);
    want = bn_split_count(fraction, n);
    const uint64_t *h = (const uint64_t *)hashes.data;
    rc = write_parts(m, dir, (const struct bn_tokens_entry *)index.data, h, n,
                     kth(h, n, want), err);
    if (rc == 0 && m->part[0].count == 0)
        rc = bn_fail(err, BN_ERR_DATA, "eval_split %g holds out all %llu "
                     "examples: none is left to train on", fraction,
                     (unsigned long long)n);
    unlink(ip);
    unlink(hp);
out:
    bn_map_close(&index);
    bn_map_close(&hashes);
    free(ip);
    free(hp);
    return rc;
}
