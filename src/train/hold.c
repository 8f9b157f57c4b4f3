#include "config.h"
#include "train/hold.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/signal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* NFS makes of flock() a lock of bytes, which needs a file that is open for
 * writing: a folder cannot be locked there. */
static int open_lock_file(const char *dir, struct bn_err *err)
{
    char *path = bn_path_join(dir, ".lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

    if (fd < 0)
        bn_fail(err, bn_err_from_errno(errno), "cannot open '%s': %s", path,
                strerror(errno));
    free(path);
    return fd;
}

/* 0, or the errno of what stands in the way. */
static int try_lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) < 0 ? errno : 0;
}

static int wait_for_lock(int fd, double seconds)
{
    double until = bn_now() + seconds;
    int why;

    do {
        usleep(20000);
        why = try_lock(fd);
    } while (why == EWOULDBLOCK && bn_now() < until && bn_stop_signal() == 0);
    return why;
}

int bn_hold_dir(const char *dir, double seconds, struct bn_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return bn_fail(err, bn_err_from_errno(errno), "cannot open '%s': %s",
                       dir, strerror(errno));
    int why = try_lock(fd);
    if (why == EBADF) {
        close(fd);
        fd = open_lock_file(dir, err);
        if (fd < 0)
            return -1;
        why = try_lock(fd);
    }
    if (why == EWOULDBLOCK) {
        bn_info("another run is writing in '%s': waiting %.0f s for its end",
                dir, seconds);
        why = wait_for_lock(fd, seconds);
    }
    if (why == EWOULDBLOCK) {
        close(fd);
        return bn_fail(err, BN_ERR_AGAIN, "another run is writing in '%s': "
                       "wait for its end, or give another output_dir", dir);
    }
    if (why != 0)
        bn_debug("'%s' cannot be locked: %s", dir, strerror(why));
    return fd;
}
