/* A small .tar.gz (POSIX ustar), made in memory. */
#ifndef BN_CMD_TAR_H
#define BN_CMD_TAR_H

#include "base/err.h"
#include "base/str.h"

/* Append one regular file, mode 0644, to the archive in 'tar'. A name of more
 * than 100 bytes, or one that is absolute or goes up, is an error. */
int bn_tar_add(struct bn_str *tar, const char *name, const char *data,
               size_t len, long mtime, struct bn_err *err);
/* End the archive and compress it into 'out'. */
int bn_tar_finish(struct bn_str *tar, struct bn_str *out, struct bn_err *err);

#endif
