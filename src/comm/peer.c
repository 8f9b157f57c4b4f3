#include "config.h"
#include "comm/peer.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first line of a file of /proc, whose size is said to be 0; false if
 * there is none. */
static bool first_line(const char *path, char *out, int size)
{
    FILE *f = fopen(path, "re");
    bool ok = f != NULL && fgets(out, size, f) != NULL;

    if (f != NULL)
        fclose(f);
    return ok;
}

/* State and start time (fields 3 and 22) of a process. */
static bool stat_of(int64_t pid, char *state, uint64_t *born)
{
    char path[64], text[1024];

    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    if (!first_line(path, text, sizeof(text)))
        return false;
    char *p = strrchr(text, ')');
    if (p == NULL || p[1] != ' ')
        return false;
    *state = p[2];
    p += 2;
    for (int field = 3; field < 22 && p != NULL; field++) {
        p = strchr(p, ' ');
        p = p != NULL ? p + 1 : NULL;
    }
    if (p == NULL)
        return false;
    *born = strtoull(p, NULL, 10);
    return true;
}

struct bn_peer bn_peer_self(void)
{
    struct bn_peer p = {.pid = getpid()};
    char boot[64] = "?", id[128], state;
    struct stat ns = {0};

    first_line("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
    if (stat("/proc/self/ns/pid", &ns) < 0)
        ns.st_ino = 0;
    snprintf(id, sizeof(id), "%.40s %llu", boot,
             (unsigned long long)ns.st_ino);
    p.host = bn_hash_bytes(id, strlen(id)).lo;
    if (!stat_of(p.pid, &state, &p.born))
        p.host = 0; /* no /proc: nobody can tell */
    return p;
}

bool bn_peer_gone(const struct bn_peer *p, uint64_t this_host)
{
    char state;
    uint64_t born;

    if (this_host == 0 || p->host != this_host)
        return false;
    return !stat_of(p->pid, &state, &born) || born != p->born || state == 'Z'
           || state == 'X';
}
