#include "config.h"

#include "sweep/mps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "sweep/child.h"

enum { MPS_ATTEMPTS = 9 };

char *bn_mps_dir(const char *root, const char *job, int attempt)
{
    unsigned uid = (unsigned)getuid();
    if (attempt == 1)
        return bn_asprintf("%s/burnish-mps-%u-%s", root, uid, job);
    return bn_asprintf("%s/burnish-mps-%u-%s.%d", root, uid, job, attempt);
}

/* Run nvidia-cuda-mps-control for the daemon of 'dir': with "-d" to start
 * it, else with a command on its standard input. */
static int control(const char *dir, const char *command, double seconds,
                   struct bn_err *err)
{
    char *pipe = bn_asprintf("CUDA_MPS_PIPE_DIRECTORY=%s/pipe", dir);
    char *log = bn_asprintf("CUDA_MPS_LOG_DIRECTORY=%s/log", dir);
    const char *env[] = { pipe, log, NULL };
    const char *argv[] = { "nvidia-cuda-mps-control", command ? NULL : "-d",
                           NULL };
    struct bn_child c = { .argv = argv, .env = env, .timeout = seconds,
                          .input = command,
                          .input_len = command ? strlen(command) : 0 };
    int rc = bn_child_must(&c, err);
    bn_child_release(&c);
    free(pipe);
    free(log);
    return rc;
}

enum bn_mps_state bn_mps_ask(const char *dir, double seconds)
{
    struct bn_err err;
    struct stat st;
    char *sock = bn_asprintf("%s/pipe/control", dir);
    enum bn_mps_state state = BN_MPS_NONE;

    if (lstat(dir, &st) == 0)
        state = BN_MPS_DOWN;
    if (state == BN_MPS_DOWN && lstat(sock, &st) == 0) {
        if (control(dir, "get_server_list\n", seconds, &err) == 0)
            state = BN_MPS_UP;
        else if (err.code == BN_ERR_AGAIN)
            state = BN_MPS_HUNG;
    }
    free(sock);
    return state;
}

/* A folder nobody else could have prepared for us: /tmp is everybody's. */
static int make_dirs(const char *dir, struct bn_err *err)
{
    static const char *const sub[] = { "", "/pipe", "/log" };
    for (size_t i = 0; i < BN_COUNT(sub); i++) {
        char *path = bn_asprintf("%s%s", dir, sub[i]);
        struct stat st;
        int rc = 0;
        if (mkdir(path, 0700) < 0
            && (errno != EEXIST || lstat(path, &st) < 0
                || !S_ISDIR(st.st_mode) || st.st_uid != getuid()))
            rc = bn_fail(err, BN_ERR_DATA,
                         "cannot make folder '%s': %s", path,
                         errno == EEXIST ? "something of another user is there"
                                         : strerror(errno));
        free(path);
        if (rc < 0)
            return -1;
    }
    return 0;
}

char *bn_mps_start(const char *root, const char *job, double seconds,
                   struct bn_str *said, struct bn_err *err)
{
    for (int i = 1; i <= MPS_ATTEMPTS; i++) {
        char *dir = bn_mps_dir(root, job, i);
        enum bn_mps_state state = bn_mps_ask(dir, seconds);
        if (state == BN_MPS_UP)
            return dir;
        if (state == BN_MPS_HUNG) {
            bn_str_addf(said, "the MPS daemon of '%s' does not answer: left "
                              "alone, another folder is taken\n", dir);
            free(dir);
            continue;
        }
        if (make_dirs(dir, err) < 0
            || control(dir, NULL, seconds, err) < 0) {
            free(dir);
            return NULL;
        }
        return dir;
    }
    bn_fail(err, BN_ERR_AGAIN, "%d MPS daemons of job %s hang in '%s'",
            MPS_ATTEMPTS, job, root);
    return NULL;
}

int bn_mps_stop(const char *dir, double seconds, struct bn_err *err)
{
    double end = bn_now() + seconds;
    enum bn_mps_state state = bn_mps_ask(dir, seconds);

    if (state == BN_MPS_UP && control(dir, "quit\n", seconds, err) < 0)
        return -1;
    while (state == BN_MPS_UP && bn_now() < end) {
        state = bn_mps_ask(dir, seconds);
        if (state == BN_MPS_UP)
            usleep(50000);
    }
    if (state == BN_MPS_UP || state == BN_MPS_HUNG)
        return bn_fail(err, BN_ERR_AGAIN,
                       "the MPS daemon of '%s' does not %s: left alone", dir,
                       state == BN_MPS_UP ? "quit" : "answer");
    return bn_remove_tree(dir, err);
}
