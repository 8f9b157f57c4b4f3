#include "config.h"

#include "sweep/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

/* All of a file of /proc, which has no size. NULL if it cannot be read. */
static char *slurp(const char *path, size_t *len)
{
    struct bn_str b = { 0 };
    char buf[16384];
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return NULL;
    do {
        n = read(fd, buf, sizeof(buf));
        if (n > 0)
            bn_str_add(&b, buf, (size_t)n);
    } while (n > 0 || (n < 0 && errno == EINTR));
    close(fd);
    if (n < 0) {
        bn_str_release(&b);
        return NULL;
    }
    if (len)
        *len = b.len;
    return bn_str_take(&b);
}

static double boot_time(void)
{
    char *stat = slurp("/proc/stat", NULL);
    const char *at = stat ? strstr(stat, "\nbtime ") : NULL;
    double t = at ? strtod(at + 7, NULL) : 0;
    free(stat);
    return t;
}

/* State and start time: fields 3 and 22, after a name that may hold
 * anything. */
static int read_stat(pid_t pid, char *state, uint64_t *start)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    char *text = slurp(path, NULL);
    char *p = text ? strrchr(text, ')') : NULL;
    int rc = -1;

    if (p && p[1] == ' ' && p[2]) {
        *state = p[2];
        p += 2;
        for (int field = 3; field < 22 && p; field++) {
            p = strchr(p, ' ');
            p = p ? p + 1 : NULL;
        }
        if (p) {
            *start = strtoull(p, NULL, 10);
            rc = 0;
        }
    }
    free(text);
    return rc;
}

static char *read_exe(pid_t pid)
{
    char path[64], exe[PATH_MAX + 16];
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, exe, sizeof(exe) - 1);
    if (n < 0)
        return bn_strdup("");
    exe[n] = '\0';
    if (bn_str_ends(exe, " (deleted)"))
        exe[n - 10] = '\0';
    return bn_strdup(exe);
}

int bn_proc_read(struct bn_proc *p, pid_t pid)
{
    struct stat st;
    char path[64];

    memset(p, 0, sizeof(*p));
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (stat(path, &st) < 0 || read_stat(pid, &p->state, &p->start) < 0)
        return -1;
    p->pid = pid;
    p->uid = st.st_uid;
    p->born = boot_time()
              + (double)p->start / (double)sysconf(_SC_CLK_TCK);
    p->exe = read_exe(pid);
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    p->env = slurp(path, &p->env_len);
    if (p->env == NULL)
        p->env = bn_strdup("");
    return 0;
}

void bn_proc_release(struct bn_proc *p)
{
    free(p->exe);
    free(p->env);
    memset(p, 0, sizeof(*p));
}

const char *bn_proc_env(const struct bn_proc *p, const char *name)
{
    size_t n = strlen(name);
    const char *end = p->env + p->env_len;

    for (const char *e = p->env; e < end; e += strlen(e) + 1)
        if (strncmp(e, name, n) == 0 && e[n] == '=')
            return e + n + 1;
    return NULL;
}

struct bn_proc *bn_proc_list(uid_t uid, size_t *n)
{
    struct bn_proc *v = NULL;
    size_t cap = 0;
    struct dirent *e;
    DIR *dir = opendir("/proc");

    *n = 0;
    while (dir && (e = readdir(dir)) != NULL) {
        struct stat st;
        if (!isdigit((unsigned char)e->d_name[0])
            || fstatat(dirfd(dir), e->d_name, &st, 0) < 0
            || st.st_uid != uid)
            continue;
        bn_grow(&v, &cap, *n + 1, sizeof(*v));
        if (bn_proc_read(&v[*n], (pid_t)atoi(e->d_name)) == 0)
            ++*n;
    }
    if (dir)
        closedir(dir);
    return v;
}

void bn_proc_list_free(struct bn_proc *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bn_proc_release(&v[i]);
    free(v);
}

int bn_proc_open(const struct bn_proc *p)
{
    uint64_t start;
    char state;
    int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);

    if (fd < 0)
        return -1;
    /* The pid cannot change hands while we look: if this is the process we
     * know, the handle is on it. */
    if (read_stat(p->pid, &state, &start) < 0 || start != p->start) {
        close(fd);
        return -1;
    }
    return fd;
}

int bn_proc_signal(int handle, int sig)
{
    return (int)syscall(SYS_pidfd_send_signal, handle, sig, NULL, 0);
}

bool bn_proc_wait(int handle, double seconds)
{
    struct pollfd p = { .fd = handle, .events = POLLIN };
    int rc;
    do {
        rc = poll(&p, 1, (int)(seconds * 1000));
    } while (rc < 0 && errno == EINTR);
    return rc > 0;
}
