#include "config.h"

#include "sweep/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

extern char **environ;

/* The environment of the child: ours, less what 'set' names, plus 'set'. */
static char **make_env(const char *const *set)
{
    size_t n = 0, m = 0, k = 0;
    while (environ[n])
        n++;
    while (set && set[m])
        m++;
    char **env = BN_NEWN(char *, n + m + 1);
    for (size_t i = 0; i < n; i++) {
        bool keep = true;
        for (size_t j = 0; j < m && keep; j++)
            keep = strncmp(environ[i], set[j],
                           strcspn(set[j], "=") + 1) != 0;
        if (keep)
            env[k++] = environ[i];
    }
    for (size_t j = 0; j < m; j++)
        env[k++] = (char *)set[j];
    return env;
}

/* What is left to do with one pipe; closes it when that is nothing. */
static void drain(struct pollfd *p, struct bn_str *to)
{
    char buf[65536];
    ssize_t n = read(p->fd, buf, sizeof(buf));
    if (n > 0) {
        bn_str_add(to, buf, (size_t)n);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        close(p->fd);
        p->fd = -1;
    }
}

static void feed(struct pollfd *p, const struct bn_child *c, size_t *sent)
{
    ssize_t n = write(p->fd, c->input + *sent, c->input_len - *sent);
    if (n > 0)
        *sent += (size_t)n;
    bool broken = n < 0 && errno != EINTR && errno != EAGAIN;
    if (broken || *sent == c->input_len) {
        close(p->fd);
        p->fd = -1;
    }
}

/* Move bytes until both outputs are closed, the time is up, or the child
 * ended: a daemon that it left behind may hold them open for ever. */
static void talk(struct bn_child *c, int pidfd, int in, int out, int errfd)
{
    struct pollfd p[4] = {
        { .fd = in, .events = POLLOUT },
        { .fd = out, .events = POLLIN },
        { .fd = errfd, .events = POLLIN },
        { .fd = pidfd, .events = POLLIN },
    };
    double end = bn_now() + c->timeout;
    size_t sent = 0;
    bool ended = false;

    while (p[1].fd >= 0 || p[2].fd >= 0) {
        double left = c->timeout > 0 ? end - bn_now() : 3600;
        if (left <= 0) {
            c->timed_out = true;
            break;
        }
        int ready = poll(p, 4, ended ? 0 : (int)(left * 1000) + 1);
        if (ready < 0)
            continue;
        if (ready == 0 && ended)
            break;
        if (p[0].fd >= 0 && p[0].revents)
            feed(&p[0], c, &sent);
        if (p[1].fd >= 0 && p[1].revents)
            drain(&p[1], &c->out);
        if (p[2].fd >= 0 && p[2].revents)
            drain(&p[2], &c->err);
        if (p[3].fd >= 0 && p[3].revents) {
            ended = true;
            p[3].fd = -1;
        }
    }
    for (int i = 0; i < 3; i++)
        if (p[i].fd >= 0)
            close(p[i].fd);
}

static int spawn(struct bn_child *c, int fd[3][2], pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t set;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, fd[0][0], 0);
    posix_spawn_file_actions_adddup2(&files, fd[1][1], 1);
    posix_spawn_file_actions_adddup2(&files, fd[2][1], 2);
    posix_spawnattr_init(&attr);
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE); /* we ignore it; the child should not */
    posix_spawnattr_setsigdefault(&attr, &set);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    char **env = make_env(c->env);
    int rc = posix_spawnp(pid, c->argv[0], &files, &attr,
                          (char *const *)(void *)c->argv, env);
    free(env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

int bn_child_run(struct bn_child *c, struct bn_err *err)
{
    int fd[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
    int status = 0;
    pid_t pid;

    c->timed_out = false;
    c->status = 127;
    bn_str_adds(&c->out, "");
    bn_str_adds(&c->err, "");
    for (int i = 0; i < 3; i++) {
        if (pipe2(fd[i], O_CLOEXEC) < 0) {
            bn_fail(err, BN_ERR_AGAIN, "pipe: %s", strerror(errno));
            for (int j = 0; j < i; j++) {
                close(fd[j][0]);
                close(fd[j][1]);
            }
            return -1;
        }
    }
    int rc = spawn(c, fd, &pid);
    close(fd[0][0]);
    close(fd[1][1]);
    close(fd[2][1]);
    if (rc != 0) {
        close(fd[0][1]);
        close(fd[1][0]);
        close(fd[2][0]);
        return bn_fail(err, BN_ERR_DATA, "cannot run '%s': %s", c->argv[0],
                       strerror(rc));
    }
    if (c->input_len == 0) {
        close(fd[0][1]);
        fd[0][1] = -1;
    } else {
        fcntl(fd[0][1], F_SETFL, O_NONBLOCK);
    }
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    talk(c, pidfd, fd[0][1], fd[1][0], fd[2][0]);
    if (pidfd >= 0)
        close(pidfd);
    if (c->timed_out)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    c->status = WIFEXITED(status) ? WEXITSTATUS(status)
                                  : 128 + WTERMSIG(status);
    if (c->timed_out)
        return bn_fail(err, BN_ERR_AGAIN, "'%s' did not answer in %g s",
                       c->argv[0], c->timeout);
    return 0;
}

int bn_child_must(struct bn_child *c, struct bn_err *err)
{
    if (bn_child_run(c, err) < 0)
        return -1;
    if (c->status == 0)
        return 0;
    const char *why = c->err.len ? c->err.s : c->out.s;
    return bn_fail(err, BN_ERR_DATA, "'%s' failed with status %d: %.*s",
                   c->argv[0], c->status, (int)strcspn(why, "\n"), why);
}

void bn_child_release(struct bn_child *c)
{
    bn_str_release(&c->out);
    bn_str_release(&c->err);
}
