/* launch: local, the points in turn on this machine. */
#include "config.h"

#include "sweep/submit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/signal.h"
#include "base/str.h"
#include "sweep/here.h"

static const char **command(const struct bn_sweep *s, const char *prog,
                            const char *run, char *ranks)
{
    const char **argv = BN_NEWN(const char *, s->container.n + 6);
    size_t n = 0;
    sprintf(ranks, "%lld", (long long)s->res.tasks_per_node);
    if (s->res.tasks_per_node > 1) {
        argv[n++] = "mpirun";
        argv[n++] = "-n";
        argv[n++] = ranks;
    }
    for (size_t i = 0; i < s->container.n; i++)
        argv[n++] = s->container.v[i];
    argv[n++] = prog;
    argv[n++] = run;
    return argv;
}

/* In the child: nothing but calls that are safe after fork. */
static void become(const struct bn_sweep *s, const char *const *argv,
                   const char *log, pid_t parent)
{
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    int in = open("/dev/null", O_RDONLY);
    if (fd < 0 || in < 0)
        _exit(BN_ERR_DATA);
    /* a run that nobody waits for must not go on beside its successor */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
        _exit(BN_ERR_AGAIN);
    dup2(in, 0);
    dup2(fd, 1);
    dup2(fd, 2);
    signal(SIGPIPE, SIG_DFL);
    for (size_t i = 0; i < s->environment.n; i++)
        putenv(s->environment.v[i]);
    execvp(argv[0], (char *const *)(void *)argv);
    _exit(127);
}

/* Wait for the child; a signal for us goes on to it, once. */
static int wait_for(pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), status = 0;
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    bool told = false;

    while (poll(&p, 1, 200) <= 0) {
        if (bn_stop_signal() && !told) {
            kill(pid, SIGTERM);
            told = true;
        }
    }
    close(pidfd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int read_class(const struct bn_sweep *s, const struct bn_point *p,
                      int status)
{
    char *path = bn_point_file(s, p, "exit-class");
    size_t len;
    char *text = bn_file_read(path, 64, &len, NULL);
    int exit_class = text ? atoi(text) : status;
    free(text);
    free(path);
    return status == 0 ? 0 : exit_class;
}

static int run_point(const struct bn_sweep *s, size_t i, int *exit_class,
                     struct bn_err *err)
{
    const struct bn_point *p = &s->points[i];
    char *bin = bn_program_dir(), *prog = bn_path_join(bin, "burnish-train");
    char *run = bn_point_file(s, p, "run.yaml");
    char *log = bn_asprintf("%s/logs/%s.out", s->dir, p->name);
    char *stale = bn_point_file(s, p, "exit-class");
    char ranks[24], line[128];
    const char **argv = command(s, prog, run, ranks);
    int rc = bn_records_add(s, &i, 1, 0, false, 0, err);

    snprintf(line, sizeof(line), "submit %.0f\nstart %.0f - 0 local\n",
             bn_wall_time(), bn_wall_time());
    if (rc == 0)
        rc = bn_history_add(s, p, line, true, err);
    if (rc == 0) {
        unlink(stale);
        pid_t self = getpid(), pid = fork();
        if (pid == 0)
            become(s, argv, log, self);
        int status = pid > 0 ? wait_for(pid) : 127;
        *exit_class = read_class(s, p, status);
        snprintf(line, sizeof(line), "end %.0f - %d %d\n", bn_wall_time(),
                 status, *exit_class);
        rc = bn_history_add(s, p, line, true, err);
    }
    free(argv);
    free(stale);
    free(log);
    free(run);
    free(prog);
    free(bin);
    return rc;
}

int bn_local_run(const struct bn_sweep *s, const size_t *points, size_t n,
                 struct bn_submit *sub, struct bn_err *err)
{
    char took[32];
    bn_signals_catch();
    for (size_t k = 0; k < n; k++) {
        const char *name = s->points[points[k]].name;
        double begin = bn_now();
        int exit_class = 0;
        bn_info("point %zu of %zu: %s", k + 1, n, name);
        if (run_point(s, points[k], &exit_class, err) < 0)
            return -1;
        bn_progress_time(took, bn_now() - begin);
        sub->submitted++;
        if (exit_class == 0) {
            bn_info("point %s is done after %s", name, took);
            continue;
        }
        sub->failed++;
        bn_warn("point %s ended with class %d (%s) after %s; see "
                "%s/logs/%s.out", name, exit_class,
                bn_err_name((enum bn_err_code)exit_class), took, s->dir,
                name);
        if (bn_stop_signal())
            return bn_fail(err, BN_ERR_AGAIN, "stopped by a signal: submit "
                           "again to go on");
    }
    return 0;
}
