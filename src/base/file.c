#include "config.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(struct bn_err *err, const char *what, const char *path)
{
    int e = errno;

    return bn_fail(err, bn_err_from_errno(e), "cannot %s '%s': %s", what, path,
                   strerror(e));
}

/* Open a regular file for reading and tell its size; -1 on failure. */
static int open_regular(const char *path, size_t *len, struct bn_err *err)
{
    struct stat st;
    /* A pipe without a writer must not be waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 && errno == ENOENT && bn_is_listed(path))
        return bn_fail(err, BN_ERR_DATA, "cannot open '%s': it is a link to "
                       "what is not there", path);
    if (fd < 0)
        return fail(err, "open", path);
    if (fstat(fd, &st) < 0) {
        fail(err, "stat", path);
        close(fd);
        return -1;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return bn_fail(err, BN_ERR_DATA, "'%s' is not a regular file", path);
    }
    *len = (size_t)st.st_size;
    return fd;
}

int bn_map_open(struct bn_map *m, const char *path, struct bn_err *err)
{
    struct bn_map got = {0};
    int fd = open_regular(path, &got.len, err);

    if (fd < 0)
        return -1;
    if (got.len > 0) {
        void *p = mmap(NULL, got.len, PROT_READ, MAP_SHARED, fd, 0);

        if (p == MAP_FAILED) {
            fail(err, "map", path);
            close(fd);
            return -1;
        }
        got.data = p;
    }
    close(fd);
    *m = got;
    return 0;
}

void bn_map_close(struct bn_map *m)
{
    if (m->data != NULL)
        munmap((void *)(uintptr_t)m->data, m->len);
    *m = (struct bn_map){0};
}

char *bn_file_read(const char *path, size_t max, size_t *len,
                   struct bn_err *err)
{
    size_t size, got = 0;
    int fd = open_regular(path, &size, err);
    char *buf;

    if (fd < 0)
        return NULL;
    if (size > max) {
        bn_fail(err, BN_ERR_DATA, "'%s' has %zu bytes, more than the %zu that "
                "such a file may have", path, size, max);
        close(fd);
        return NULL;
    }
    buf = bn_malloc(size + 1);
    while (got < size) {
        ssize_t n = read(fd, buf + got, size - got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            fail(err, "read", path);
            free(buf);
            close(fd);
            return NULL;
        }
        if (n == 0)
            break;
        got += (size_t)n;
    }
    close(fd);
    buf[got] = '\0';
    *len = got;
    return buf;
}

int bn_write_all(int fd, const void *data, size_t len, const char *path,
                 struct bn_err *err)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(err, "write", path);
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int bn_pwrite_all(int fd, const void *data, size_t len, off_t at,
                  const char *path, struct bn_err *err)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = pwrite(fd, p, len, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(err, "write", path);
        p += n;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int bn_dir_sync(const char *path, struct bn_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;

    if (fd < 0)
        return fail(err, "open", path);
    if (fsync(fd) < 0)
        rc = fail(err, "fsync", path);
    close(fd);
    return rc;
}

int bn_file_write(const char *path, const void *data, size_t len,
                  struct bn_err *err)
{
    char *tmp = bn_asprintf("%s.tmp.%ld", path, (long)getpid());
    char *dir = bn_path_dir(path);
    int rc = -1;
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    if (fd < 0) {
        fail(err, "create", path);
        goto out;
    }
    if (bn_write_all(fd, data, len, path, err) < 0)
        goto undo;
    if (fsync(fd) < 0) {
        fail(err, "fsync", path);
        goto undo;
    }
    if (close(fd) < 0) {
        fd = -1;
        fail(err, "close", path);
        goto undo;
    }
    fd = -1;
    if (rename(tmp, path) < 0) {
        fail(err, "rename to", path);
        goto undo;
    }
    rc = bn_dir_sync(dir, err);
    goto out;
undo:
    if (fd >= 0)
        close(fd);
    unlink(tmp);
out:
    free(dir);
    free(tmp);
    return rc;
}

int bn_file_copy(const char *from, const char *to, struct bn_err *err)
{
    struct bn_map m;
    int rc;

    if (bn_map_open(&m, from, err) < 0)
        return -1;
    rc = bn_file_write(to, m.data != NULL ? m.data : "", m.len, err);
    bn_map_close(&m);
    return rc;
}

int bn_mkdirs(const char *path, struct bn_err *err)
{
    char *p = bn_strdup(path);
    int rc = 0;

    for (char *s = p + 1; rc == 0 && *p != '\0'; s++) {
        char c = *s;

        if (c != '/' && c != '\0')
            continue;
        *s = '\0';
        if (mkdir(p, 0777) == 0 || (errno == EEXIST && bn_is_dir(p)))
            rc = 0;
        else if (errno == EEXIST)
            rc = bn_fail(err, BN_ERR_DATA, "cannot create directory '%s': "
                         "'%s' is not a directory", path, p);
        else
            rc = fail(err, "create directory", p);
        *s = c;
        if (c == '\0')
            break;
    }
    free(p);
    return rc;
}

int bn_dir_may_write(const char *path, struct bn_err *err)
{
    char *p = bn_strdup(path);
    int rc = 0;

    while (!bn_exists(p)) {
        char *up = bn_path_dir(p);

        free(p);
        p = up;
    }
    if (!bn_is_dir(p))
        rc = bn_fail(err, BN_ERR_DATA, "cannot create directory '%s': '%s' is "
                     "not a directory", path, p);
    else if (access(p, W_OK | X_OK) < 0)
        rc = fail(err, "write in", p);
    free(p);
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

int bn_remove_tree(const char *path, struct bn_err *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : fail(err, "stat", path);
    if (nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS) < 0)
        return fail(err, "remove", path);
    return 0;
}

bool bn_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool bn_is_listed(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

bool bn_is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool bn_path_within(const char *path, const char *dir)
{
    char *p = realpath(path, NULL), *d = realpath(dir, NULL);
    size_t n = d != NULL ? strlen(d) : 0;
    bool in = p != NULL && d != NULL && strncmp(p, d, n) == 0
              && (n == 1 || p[n] == '/' || p[n] == '\0');

    free(p);
    free(d);
    return in;
}

char *bn_path_join(const char *a, const char *b)
{
    if (*a == '\0' || *b == '/')
        return bn_strdup(b);
    return bn_asprintf("%s%s%s", a, bn_str_ends(a, "/") ? "" : "/", b);
}

char *bn_path_dir(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return bn_strdup(".");
    return bn_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

const char *bn_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}
