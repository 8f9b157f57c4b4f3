/* Who holds a port or a file. */
#include "config.h"

#include "sweep/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Calls f(path of a link, its target) over all that processes have open,
 * until it returns true; then '*pid' is that process. */
static bool any_open(bool (*f)(const char *target, const void *arg),
                     const void *arg, pid_t *pid)
{
    struct dirent *e, *l;
    char path[PATH_MAX], target[PATH_MAX];
    bool found = false;
    DIR *proc = opendir("/proc");

    while (proc && !found && (e = readdir(proc)) != NULL) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(path, sizeof(path), "/proc/%s/fd", e->d_name);
        DIR *fds = opendir(path);
        while (fds && !found && (l = readdir(fds)) != NULL) {
            snprintf(path, sizeof(path), "/proc/%s/fd/%s", e->d_name,
                     l->d_name);
            ssize_t n = readlink(path, target, sizeof(target) - 1);
            target[n > 0 ? n : 0] = '\0';
            found = n > 0 && f(target, arg);
        }
        if (fds)
            closedir(fds);
        if (found && pid)
            *pid = (pid_t)atoi(e->d_name);
    }
    if (proc)
        closedir(proc);
    return found;
}

static bool same_text(const char *target, const void *arg)
{
    return strcmp(target, arg) == 0;
}

/* The socket that listens on 'port' in one of the tables: inode and uid. */
static bool listener(const char *table, int port, unsigned long *inode,
                     uid_t *uid)
{
    char line[512];
    bool found = false;
    FILE *f = fopen(table, "re");

    while (f && !found && fgets(line, sizeof(line), f)) {
        unsigned local, state, owner;
        unsigned long node;
        if (sscanf(line, "%*d: %*[0-9A-Fa-f]:%X %*[0-9A-Fa-f]:%*X %X %*s "
                         "%*s %*s %u %*d %lu",
                   &local, &state, &owner, &node) == 4
            && state == 0x0A && (int)local == port) {
            *inode = node;
            *uid = owner;
            found = true;
        }
    }
    if (f)
        fclose(f);
    return found;
}

int bn_port_holder(int port, pid_t *pid, uid_t *uid)
{
    unsigned long inode;
    char name[64];

    if (!listener("/proc/net/tcp", port, &inode, uid)
        && !listener("/proc/net/tcp6", port, &inode, uid))
        return 0;
    snprintf(name, sizeof(name), "socket:[%lu]", inode);
    *pid = 0;
    any_open(same_text, name, pid);
    return 1;
}

int bn_port_free(int from)
{
    unsigned long inode;
    uid_t uid;
    for (int port = from; port < 65536; port++)
        if (!listener("/proc/net/tcp", port, &inode, &uid)
            && !listener("/proc/net/tcp6", port, &inode, &uid))
            return port;
    return 0;
}

static bool mapped(const char *path)
{
    char name[PATH_MAX], line[PATH_MAX + 128];
    struct dirent *e;
    bool found = false;
    DIR *proc = opendir("/proc");

    while (proc && !found && (e = readdir(proc)) != NULL) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(name, sizeof(name), "/proc/%s/maps", e->d_name);
        FILE *f = fopen(name, "re");
        while (f && !found && fgets(line, sizeof(line), f)) {
            char *at = strchr(line, '/');
            if (at == NULL)
                continue;
            at[strcspn(at, "\n")] = '\0';
            found = strcmp(at, path) == 0;
        }
        if (f)
            fclose(f);
    }
    if (proc)
        closedir(proc);
    return found;
}

bool bn_file_in_use(const char *path)
{
    return any_open(same_text, path, NULL) || mapped(path);
}
