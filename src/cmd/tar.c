#include "config.h"
#include "cmd/tar.h"
#include "base/mem.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { BLOCK = 512 };

/* POSIX.1-1988, pax(1): "ustar Interchange Format". */
struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], chksum[8];
    char typeflag, linkname[100], magic[6], version[2], uname[32], gname[32];
    char devmajor[8], devminor[8], prefix[155], pad[12];
};

static void checksum(struct header *h)
{
    const unsigned char *p = (const unsigned char *)h;
    unsigned sum = 0;

    memset(h->chksum, ' ', sizeof(h->chksum));
    for (size_t i = 0; i < sizeof(*h); i++)
        sum += p[i];
    snprintf(h->chksum, sizeof(h->chksum), "%06o", sum);
}

int bn_tar_add(struct bn_str *tar, const char *name, const char *data,
               size_t len, long mtime, struct bn_err *err)
{
    static const char zero[BLOCK];
    struct header h = {.typeflag = '0'};
    size_t n = strlen(name);

    if (n == 0 || n > sizeof(h.name) || name[0] == '/'
        || strstr(name, "..") != NULL)
        return bn_fail(err, BN_ERR_USAGE, "'%s' cannot be a name in an "
                       "archive", name);
    memcpy(h.name, name, n);
    memcpy(h.magic, "ustar", 6);
    memcpy(h.version, "00", 2);
    memcpy(h.mode, "0000644", 8);
    memcpy(h.uid, "0000000", 8);
    memcpy(h.gid, "0000000", 8);
    snprintf(h.size, sizeof(h.size), "%011zo", len);
    snprintf(h.mtime, sizeof(h.mtime), "%011lo", mtime);
    checksum(&h);
    bn_str_add(tar, &h, sizeof(h));
    bn_str_add(tar, data, len);
    bn_str_add(tar, zero, (BLOCK - len % BLOCK) % BLOCK);
    return 0;
}

int bn_tar_finish(struct bn_str *tar, struct bn_str *out, struct bn_err *err)
{
    static const char zero[2 * BLOCK];
    z_stream z = {0};

    bn_str_add(tar, zero, sizeof(zero));
    if (tar->len > UINT_MAX
        || deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY)
               != Z_OK)
        return bn_fail(err, BN_ERR_DATA, "cannot compress %zu bytes",
                       tar->len);
    size_t room = deflateBound(&z, tar->len);
    char *buf = bn_malloc(room);

    z.next_in = (unsigned char *)tar->s;
    z.avail_in = (unsigned)tar->len;
    z.next_out = (unsigned char *)buf;
    z.avail_out = (unsigned)room;
    int rc = deflate(&z, Z_FINISH);

    if (rc == Z_STREAM_END)
        bn_str_add(out, buf, z.total_out);
    deflateEnd(&z);
    free(buf);
    return rc == Z_STREAM_END
               ? 0
               : bn_fail(err, BN_ERR_BUG, "zlib cannot compress: %d", rc);
}
