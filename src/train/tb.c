#include "config.h"
#include "train/tb.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "train/event.pb-c.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bn_tb {
    int fd;
    char *path;
};

uint32_t bn_crc32c(const void *data, size_t len)
{
    const unsigned char *s = data;
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < len; i++) {
        crc ^= s[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static void put_le(unsigned char *out, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out[i] = (unsigned char)(v >> 8 * i);
}

/* TFRecord's way of keeping a checksum of checksums from being weak. */
static void put_crc(unsigned char *out, const void *data, size_t len)
{
    uint32_t crc = bn_crc32c(data, len);

    put_le(out, (crc >> 15 | crc << 17) + 0xa282ead8u, 4);
}

/* length, crc of length, bytes, crc of bytes */
static int write_event(struct bn_tb *tb, const BnTb__Event *e,
                       struct bn_err *err)
{
    size_t len = bn_tb__event__get_packed_size(e);
    unsigned char *buf = bn_malloc(len + 16);

    put_le(buf, len, 8);
    put_crc(buf + 8, buf, 8);
    bn_tb__event__pack(e, buf + 12);
    put_crc(buf + 12 + len, buf + 12, len);
    int rc = bn_write_all(tb->fd, buf, len + 16, tb->path, err);
    free(buf);
    return rc;
}

static int write_header(struct bn_tb *tb, double now, int64_t step,
                        struct bn_err *err)
{
    BnTb__Event e = BN_TB__EVENT__INIT;
    BnTb__SessionLog log = BN_TB__SESSION_LOG__INIT;
    char version[] = "brain.Event:2";

    e.wall_time = now;
    e.what_case = BN_TB__EVENT__WHAT_FILE_VERSION;
    e.file_version = version;
    if (write_event(tb, &e, err) < 0)
        return -1;
    if (step == 0)
        return 0;
    log.status = BN_TB__SESSION_LOG__STATUS__START;
    e.step = step + 1; /* the first that the reader forgets */
    e.what_case = BN_TB__EVENT__WHAT_SESSION_LOG;
    e.session_log = &log;
    return write_event(tb, &e, err);
}

struct bn_tb *bn_tb_open(const char *dir, int64_t step, struct bn_err *err)
{
    struct bn_tb *tb = BN_NEW(struct bn_tb);
    double now = bn_wall_time();
    char host[64] = "";

    tb->fd = -1;
    gethostname(host, sizeof(host) - 1);
    if (bn_mkdirs(dir, err) < 0)
        goto fail;
    /* The reader takes files in order of name: time first. */
    for (int i = 0; tb->fd < 0; i++) {
        free(tb->path);
        tb->path = bn_asprintf("%s/events.out.tfevents.%010lld.%s.%ld.%d",
                               dir, (long long)now, host, (long)getpid(), i);
        tb->fd = open(tb->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (tb->fd < 0 && (errno != EEXIST || i == 1000)) {
            bn_fail(err, bn_err_from_errno(errno), "cannot create '%s': %s",
                    tb->path, strerror(errno));
            goto fail;
        }
    }
    if (write_header(tb, now, step, err) < 0)
        goto fail;
    return tb;
fail:
    bn_tb_close(tb);
    return NULL;
}

int bn_tb_scalars(struct bn_tb *tb, double time, int64_t step,
                  const char *const *tags, const double *values, size_t n,
                  struct bn_err *err)
{
    BnTb__Event e = BN_TB__EVENT__INIT;
    BnTb__Summary summary = BN_TB__SUMMARY__INIT;
    BnTb__Value *v = BN_NEWN(BnTb__Value, n + 1);

    summary.value = BN_NEWN(BnTb__Value *, n + 1);
    summary.n_value = n;
    for (size_t i = 0; i < n; i++) {
        bn_tb__value__init(&v[i]);
        v[i].tag = (char *)tags[i];
        v[i].value_case = BN_TB__VALUE__VALUE_SIMPLE_VALUE;
        v[i].simple_value = (float)values[i];
        summary.value[i] = &v[i];
    }
    e.wall_time = time;
    e.step = step;
    e.what_case = BN_TB__EVENT__WHAT_SUMMARY;
    e.summary = &summary;
    int rc = write_event(tb, &e, err);
    free(summary.value);
    free(v);
    return rc;
}

void bn_tb_close(struct bn_tb *tb)
{
    int saved = errno;

    if (tb == NULL)
        return;
    if (tb->fd >= 0)
        close(tb->fd);
    free(tb->path);
    free(tb);
    errno = saved;
}
