#include "config.h"
#include "format/zip.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Sizes and signatures of PKWARE's APPNOTE. */
enum { END_SIZE = 22, LOCATOR_SIZE = 20, END64_SIZE = 56, FILE_SIZE = 46,
       LOCAL_SIZE = 30, MAX_COMMENT = 65535 };
static const uint32_t end_sig = 0x06054b50, locator_sig = 0x07064b50,
                      end64_sig = 0x06064b50, file_sig = 0x02014b50,
                      local_sig = 0x04034b50;

static uint64_t number(const unsigned char *p, int n)
{
    uint64_t v = 0;

    for (int i = 0; i < n; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

struct in {
    const unsigned char *p;
    size_t len;
    const char *file;
    struct bn_err *err;
};

static int bad(const struct in *in, const char *what)
{
    return bn_fail(in->err, BN_ERR_DATA, "%s: damaged zip archive: %s",
                   in->file, what);
}

/* Where the directory is and how many entries it has. */
static int find_directory(const struct in *in, uint64_t *at, uint64_t *size,
                          uint64_t *count)
{
    size_t low = in->len > END_SIZE + MAX_COMMENT
                     ? in->len - END_SIZE - MAX_COMMENT
                     : 0;
    size_t end = in->len < END_SIZE ? 0 : in->len - END_SIZE;

    if (in->len < END_SIZE)
        return bad(in, "too short");
    while (number(in->p + end, 4) != end_sig) {
        if (end == low)
            return bad(in, "no end of the directory: it is cut short");
        end--;
    }
    *count = number(in->p + end + 10, 2);
    *size = number(in->p + end + 12, 4);
    *at = number(in->p + end + 16, 4);
    if (end < LOCATOR_SIZE
        || number(in->p + end - LOCATOR_SIZE, 4) != locator_sig)
        return 0;
    uint64_t end64 = number(in->p + end - LOCATOR_SIZE + 8, 8);
    if (in->len < END64_SIZE || end64 > in->len - END64_SIZE
        || number(in->p + end64, 4) != end64_sig)
        return bad(in, "no 64-bit end of the directory");
    *count = number(in->p + end64 + 32, 8);
    *size = number(in->p + end64 + 40, 8);
    *at = number(in->p + end64 + 48, 8);
    return 0;
}

/* Replace sizes that are all ones by those of the 64-bit extra field. */
static int extra64(const struct in *in, const unsigned char *x, size_t n,
                   uint64_t *len, uint64_t *stored, uint64_t *local)
{
    uint64_t *field[] = {len, stored, local};

    while (n >= 4) {
        size_t size = number(x + 2, 2);

        if (size > n - 4)
            return bad(in, "extra field of an entry");
        if (number(x, 2) == 1) {
            const unsigned char *p = x + 4;

            for (int i = 0; i < 3; i++) {
                if (*field[i] != UINT32_MAX)
                    continue;
                if ((size_t)(x + 4 + size - p) < 8)
                    return bad(in, "64-bit sizes of an entry");
                *field[i] = number(p, 8);
                p += 8;
            }
            return 0;
        }
        x += 4 + size;
        n -= 4 + size;
    }
    return 0;
}

/* One directory entry at 'p' with 'room' bytes; returns its length, 0 on an
 * error. */
static size_t read_entry(const struct in *in, struct bn_zip_entry *e,
                         const unsigned char *p, size_t room)
{
    if (room < FILE_SIZE || number(p, 4) != file_sig)
        return bad(in, "directory"), 0;
    size_t name = number(p + 28, 2), extra = number(p + 30, 2);
    size_t all = FILE_SIZE + name + extra + number(p + 32, 2);
    uint64_t stored = number(p + 20, 4), len = number(p + 24, 4);
    uint64_t local = number(p + 42, 4);
    if (all > room)
        return bad(in, "directory"), 0;
    e->name = bn_strndup((const char *)p + FILE_SIZE, name);
    if (extra64(in, p + FILE_SIZE + name, extra, &len, &stored, &local) < 0)
        return 0;
    if (number(p + 10, 2) != 0 || (number(p + 8, 2) & 1) || len != stored) {
        bn_fail(in->err, BN_ERR_DATA, "%s: '%s' is compressed or encrypted, "
                "which is not supported", in->file, e->name);
        return 0;
    }
    if (in->len < LOCAL_SIZE || local > in->len - LOCAL_SIZE
        || number(in->p + local, 4) != local_sig)
        return bad(in, "header of an entry"), 0;
    uint64_t start = local + LOCAL_SIZE + number(in->p + local + 26, 2)
                     + number(in->p + local + 28, 2);
    if (start > in->len || len > in->len - start)
        return bad(in, "an entry ends after the file"), 0;
    e->data = in->p + start;
    e->len = len;
    return all;
}

static int by_name(const void *a, const void *b)
{
    const struct bn_zip_entry *x = a, *y = b;

    return strcmp(x->name, y->name);
}

int bn_zip_open(struct bn_zip *z, const void *data, size_t len,
                const char *name, struct bn_err *err)
{
    struct in in = {data, len, name, err};
    struct bn_zip got = {0};
    uint64_t at = 0, size = 0, count = 0;

    if (find_directory(&in, &at, &size, &count) < 0)
        return -1;
    if (at > len || size > len - at || count > size / FILE_SIZE)
        return bad(&in, "place of the directory");
    got.item = BN_NEWN(struct bn_zip_entry, count);
    const unsigned char *p = in.p + at;
    for (uint64_t i = 0; i < count; i++) {
        got.n = i + 1;
        size_t used = read_entry(&in, &got.item[i], p, size);

        if (used == 0)
            goto error;
        p += used;
        size -= used;
    }
    if (count > 0)
        qsort(got.item, count, sizeof(*got.item), by_name);
    for (uint64_t i = 1; i < count; i++) {
        if (by_name(&got.item[i - 1], &got.item[i]) == 0) {
            bn_fail(err, BN_ERR_DATA, "%s: '%s' is twice there", name,
                    got.item[i].name);
            goto error;
        }
    }
    *z = got;
    return 0;
error:
    bn_zip_close(&got);
    return -1;
}

void bn_zip_close(struct bn_zip *z)
{
    for (size_t i = 0; i < z->n; i++)
        free(z->item[i].name);
    free(z->item);
    *z = (struct bn_zip){0};
}

const struct bn_zip_entry *bn_zip_find(const struct bn_zip *z,
                                       const char *name)
{
    struct bn_zip_entry key = {.name = (char *)(uintptr_t)name};

    return z->n == 0 ? NULL
                     : bsearch(&key, z->item, z->n, sizeof(key), by_name);
}
