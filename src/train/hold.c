#include "config.h"
#include "train/hold.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

int bn_hold_dir(const char *dir, double seconds, struct bn_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    double until = bn_now() + seconds;
    bool told = false;

    if (fd < 0)
        return bn_fail(err, bn_err_from_errno(errno), "cannot open '%s': %s",
                       dir, strerror(errno));
    while (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        if (bn_now() >= until || bn_stop_signal() != 0) {
            close(fd);
            return bn_fail(err, BN_ERR_AGAIN, "another run is writing in '%s':"
                           " wait for its end, or give another output_dir",
                           dir);
        }
        if (!told)
            bn_info("another run is writing in '%s': waiting %.0f s for its "
                    "end", dir, seconds);
        told = true;
        usleep(20000);
    }
    return fd;
}
