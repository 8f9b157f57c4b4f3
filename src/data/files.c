/* Lists of data files, and hashes of their bytes. */
#include "config.h"
#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

void bn_files_release(struct bn_data_files *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free(f->v[i].path);
        free(f->v[i].stamp);
    }
    free(f->v);
    *f = (struct bn_data_files){0};
}

/* The ending that says what is inside, without .gz and .zst. */
static int kind_of(const char *path, enum bn_file_kind *kind,
                   struct bn_err *err)
{
    static const struct {
        const char *end;
        enum bn_file_kind kind;
    } known[] = {{".jsonl", BN_FILE_JSON}, {".json", BN_FILE_JSON},
                 {".ndjson", BN_FILE_JSON}, {".csv", BN_FILE_CSV}};
    char *base = bn_strdup(bn_path_base(path));
    int rc = -1;

    for (char *c = base; *c != '\0'; c++)
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
    if (bn_str_ends(base, ".gz"))
        base[strlen(base) - 3] = '\0';
    else if (bn_str_ends(base, ".zst"))
        base[strlen(base) - 4] = '\0';
    for (size_t i = 0; rc < 0 && i < BN_COUNT(known); i++) {
        if (bn_str_ends(base, known[i].end)) {
            *kind = known[i].kind;
            rc = 0;
        }
    }
    if (rc < 0 && (bn_str_ends(base, ".parquet")
                   || bn_str_ends(base, ".arrow")))
        bn_fail(err, BN_ERR_DATA, "'%s': Parquet and Arrow files are not read"
                "; convert once: python3 -c \"import datasets as d; "
                "d.load_dataset('parquet', data_files='IN')['train']"
                ".to_json('OUT.jsonl')\"", path);
    else if (rc < 0)
        bn_fail(err, BN_ERR_DATA, "'%s': cannot tell what is inside from its "
                "name; known endings are .jsonl, .json and .csv, each "
                "perhaps with .gz or .zst", path);
    free(base);
    return rc;
}

static int add(struct bn_data_files *f, size_t *cap, const char *path,
               struct bn_err *err)
{
    struct bn_data_file one = {0};
    struct stat st;

    if (stat(path, &st) < 0)
        return bn_fail(err, bn_err_from_errno(errno), "cannot open '%s': %s",
                       path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return bn_fail(err, BN_ERR_DATA, "'%s' is a directory; name its files "
                       "or write a glob such as '%s/*.jsonl'", path, path);
    if (!S_ISREG(st.st_mode))
        return bn_fail(err, BN_ERR_DATA, "'%s' is not a regular file", path);
    if (access(path, R_OK) < 0)
        return bn_fail(err, bn_err_from_errno(errno), "cannot open '%s': %s",
                       path, strerror(errno));
    if (kind_of(path, &one.kind, err) < 0)
        return -1;
    one.path = bn_strdup(path);
    one.size = (uint64_t)st.st_size;
    bn_grow(&f->v, cap, f->n + 1, sizeof(*f->v));
    f->v[f->n++] = one;
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_glob(struct bn_data_files *f, size_t *cap, const char *pattern,
                    struct bn_err *err)
{
    glob_t g;
    int rc = glob(pattern, GLOB_NOSORT, NULL, &g);

    if (rc != 0)
        return bn_fail(err, rc == GLOB_NOMATCH ? BN_ERR_DATA : BN_ERR_AGAIN,
                       rc == GLOB_NOMATCH ? "no file matches '%s'"
                                          : "cannot search for '%s'", pattern);
    qsort(g.gl_pathv, g.gl_pathc, sizeof(*g.gl_pathv), by_bytes);
    for (size_t i = 0; rc == 0 && i < g.gl_pathc; i++)
        rc = add(f, cap, g.gl_pathv[i], err);
    globfree(&g);
    return rc;
}

int bn_files_list(struct bn_data_files *f, const char *const *paths, size_t n,
                  struct bn_err *err)
{
    struct bn_data_files got = {0};
    size_t cap = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        bool pattern = strpbrk(paths[i], "*?[") != NULL
                       && !bn_exists(paths[i]);

        rc = pattern ? add_glob(&got, &cap, paths[i], err)
                     : add(&got, &cap, paths[i], err);
    }
    if (rc == 0 && got.n == 0)
        rc = bn_fail(err, BN_ERR_USAGE, "no data file is named");
    if (rc < 0)
        bn_files_release(&got);
    else
        *f = got;
    return rc;
}

/* What identifies a file's state: any write changes a time or the size. */
static char *stamp_of(const struct stat *st)
{
    return bn_asprintf("%ju %ju %jd %jd.%09ld %jd.%09ld", (uintmax_t)st->st_dev,
                       (uintmax_t)st->st_ino, (intmax_t)st->st_size,
                       (intmax_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
                       (intmax_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

static int hash_bytes(const char *path, int fd, struct bn_hash *out,
                      struct bn_err *err)
{
    enum { SIZE = 1 << 20 };
    char *buf = bn_malloc(SIZE);
    struct bn_hasher *h = bn_hasher_begin();
    ssize_t n;

    for (;;) {
        n = read(fd, buf, SIZE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        bn_hasher_add(h, buf, (size_t)n);
    }
    if (n < 0)
        bn_fail(err, bn_err_from_errno(errno), "cannot read '%s': %s", path,
                strerror(errno));
    *out = bn_hasher_end(h);
    free(buf);
    return n < 0 ? -1 : 0;
}

/* The remembered hash of a stamp; false if there is none. */
static bool recall(const char *memo, const char *stamp, struct bn_hash *out)
{
    size_t len;
    char *text = bn_exists(memo) ? bn_file_read(memo, 4096, &len, NULL) : NULL;
    size_t n = strlen(stamp);
    bool ok = text != NULL && strncmp(text, stamp, n) == 0
              && sscanf(text + n, " %" SCNx64 " %" SCNx64, &out->hi,
                        &out->lo) == 2;

    free(text);
    return ok;
}

/* Only a state that is older than the clock's grain can be told from a later
 * one; younger files are hashed again next time. */
static void remember(const char *memo, const struct stat *st,
                     const char *stamp, struct bn_hash h)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec - st->st_ctim.tv_sec < 3)
        return;
    char *text = bn_asprintf("%s %016" PRIx64 " %016" PRIx64 "\n", stamp,
                             h.hi, h.lo);
    /* A memo that cannot be written costs time, nothing else. */
    bn_file_write(memo, text, strlen(text), NULL);
    free(text);
}

static int unchanged(const struct bn_data_file *f, struct bn_err *err)
{
    struct stat st;
    char *now;
    int rc = 0;

    if (stat(f->path, &st) < 0)
        return bn_fail(err, bn_err_from_errno(errno), "cannot stat '%s': %s",
                       f->path, strerror(errno));
    now = stamp_of(&st);
    if (strcmp(now, f->stamp) != 0)
        rc = bn_fail(err, BN_ERR_DATA, "'%s' changed while it was read",
                     f->path);
    free(now);
    return rc;
}

int bn_files_unchanged(const struct bn_data_files *f, struct bn_err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < f->n; i++)
        rc = unchanged(&f->v[i], err);
    return rc;
}

static int hash_file(struct bn_data_file *f, const char *dir,
                     struct bn_err *err)
{
    char hex[BN_HASH_HEX];
    char *real = realpath(f->path, NULL);
    const char *name = real != NULL ? real : f->path;
    char *memo = bn_asprintf("%s/%s", dir,
                             bn_hash_hex(bn_hash_bytes(name, strlen(name)),
                                         hex));
    char *stamp = NULL;
    struct stat st;
    int rc = -1;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0) {
        bn_fail(err, bn_err_from_errno(errno), "cannot open '%s': %s",
                f->path, strerror(errno));
        goto out;
    }
    stamp = stamp_of(&st);
    f->size = (uint64_t)st.st_size;
    free(f->stamp);
    f->stamp = bn_strdup(stamp);
    rc = 0;
    if (recall(memo, stamp, &f->hash))
        goto out;
    rc = hash_bytes(f->path, fd, &f->hash, err);
    if (rc == 0)
        rc = unchanged(f, err);
    if (rc == 0)
        remember(memo, &st, stamp, f->hash);
out:
    if (fd >= 0)
        close(fd);
    free(stamp);
    free(memo);
    free(real);
    return rc;
}

int bn_files_hash(struct bn_data_files *f, const char *cache_dir,
                  struct bn_err *err)
{
    char *dir = bn_path_join(cache_dir, "files");
    int rc = 0;

    /* A cache that cannot be written to costs time, nothing else. */
    bn_mkdirs(dir, NULL);
    for (size_t i = 0; rc == 0 && i < f->n; i++)
        rc = hash_file(&f->v[i], dir, err);
    free(dir);
    return rc;
}
