/* Files and paths. Every error names the path and the reason. */
#ifndef BN_BASE_FILE_H
#define BN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* A read-only mapping of a whole regular file; data is NULL if it is empty. */
struct bn_map {
    const char *data;
    size_t len;
};
int bn_map_open(struct bn_map *m, const char *path, struct bn_err *err);
void bn_map_close(struct bn_map *m);

/* The whole file as a malloc'ed buffer with a NUL after its '*len' bytes, or
 * NULL. More than 'max' bytes is an error. */
char *bn_file_read(const char *path, size_t max, size_t *len,
                   struct bn_err *err);

/* Write 'path' so that it holds the old or the new bytes whatever happens:
 * temporary file in the same directory, fsync, rename, fsync of the
 * directory. */
int bn_file_write(const char *path, const void *data, size_t len,
                  struct bn_err *err);

/* write(2) and pwrite(2) of all bytes, through EINTR and short writes. 'path' is for
 * the message. */
int bn_write_all(int fd, const void *data, size_t len, const char *path,
                 struct bn_err *err);
int bn_pwrite_all(int fd, const void *data, size_t len, off_t at,
                  const char *path, struct bn_err *err);
/* Copy a file's bytes (atomic as bn_file_write). */
int bn_file_copy(const char *from, const char *to, struct bn_err *err);
/* fsync a directory, so that renames in it last. */
int bn_dir_sync(const char *path, struct bn_err *err);
/* mkdir -p */
int bn_mkdirs(const char *path, struct bn_err *err);
/* Whether files could be made in directory 'path' after a bn_mkdirs of it:
 * the nearest part that exists must be a directory that can be written. */
int bn_dir_may_write(const char *path, struct bn_err *err);
/* Remove a file or a whole tree without following links; absent is fine. */
int bn_remove_tree(const char *path, struct bn_err *err);

/* errno says why not. */
bool bn_exists(const char *path);
/* Whether the name is there, if only as a link to what is not: of a file that
 * may be absent, somebody meant it to be there. */
bool bn_is_listed(const char *path);
bool bn_is_dir(const char *path);
/* Whether both exist, and 'path' is 'dir' or lies in it, by whatever name. */
bool bn_path_within(const char *path, const char *dir);

/* malloc'ed: "a/b". */
char *bn_path_join(const char *a, const char *b);
/* malloc'ed: the directory part, "." if there is none. */
char *bn_path_dir(const char *path);
/* The last component, in 'path' itself. */
const char *bn_path_base(const char *path);

#endif
