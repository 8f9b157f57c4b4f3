#include "config.h"
#include "base/core.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* --- A program that takes the core ----------------------------------------- */

static bool names(const char *pattern, const char *word)
{
    return strstr(pattern, word) != NULL;
}

static bool piped(struct bn_safe *b, const char *pattern)
{
    char program[256];
    size_t n = strcspn(pattern + 1, " ");

    if (names(pattern, "systemd-coredump")) {
        bn_safe_str(b, "systemd keeps it: 'coredumpctl info ");
        bn_safe_int(b, getpid());
        bn_safe_str(b, "', 'coredumpctl dump -o core ");
        bn_safe_int(b, getpid());
        bn_safe_str(b, "' on this node");
        return true;
    }
    n = n < sizeof(program) ? n : sizeof(program) - 1;
    memcpy(program, pattern + 1, n);
    program[n] = '\0';
    if (access(program, X_OK) != 0) {
        bn_safe_str(b, "none: it is handed to '");
        bn_safe_str(b, program);
        bn_safe_str(b, "', which is not there; as root: sysctl -w "
                       "kernel.core_pattern=core.%h.%p");
        return false;
    }
    if (names(pattern, "apport"))
        bn_safe_str(b, "apport keeps it: see /var/lib/apport/coredump and "
                       "/var/crash on this node (for programs of no package,"
                       " 'unpackaged=true' in apport's settings)");
    else {
        bn_safe_str(b, "it is handed to '");
        bn_safe_str(b, program);
        bn_safe_str(b, "', whose manual says where it is kept");
    }
    return true;
}

/* --- A file ----------------------------------------------------------------- */

static void host(struct bn_safe *b)
{
    char name[256];

    if (gethostname(name, sizeof(name)) == 0) {
        name[sizeof(name) - 1] = '\0';
        bn_safe_str(b, name);
    }
}

static void command(struct bn_safe *b)
{
    char name[64];

    bn_safe_read("/proc/self/comm", name, sizeof(name));
    name[strcspn(name, "\n")] = '\0';
    bn_safe_str(b, name);
}

/* One specifier of core(5); what is not known here is a star. True if it is
 * the process id. */
static bool specifier(struct bn_safe *b, char c, int sig)
{
    char one[2] = {c, '\0'};

    switch (c) {
    case 'p':
    case 'P':
        bn_safe_int(b, getpid());
        return true;
    case '%':
        bn_safe_str(b, one);
        break;
    case 'e':
        command(b);
        break;
    case 'g':
        bn_safe_int(b, getgid());
        break;
    case 'h':
        host(b);
        break;
    case 's':
        bn_safe_int(b, sig);
        break;
    case 't':
        bn_safe_int(b, (long long)time(NULL));
        break;
    case 'u':
        bn_safe_int(b, getuid());
        break;
    default:
        bn_safe_str(b, "*");
    }
    return false;
}

/* core_uses_pid adds the process id to a pattern that lacks it. */
static void add_pid(struct bn_safe *b)
{
    char uses[8];

    bn_safe_read("/proc/sys/kernel/core_uses_pid", uses, sizeof(uses));
    if (uses[0] == '1') {
        bn_safe_str(b, ".");
        bn_safe_int(b, getpid());
    }
}

static void expand(struct bn_safe *b, const char *pattern, int sig)
{
    bool has_pid = false;

    for (const char *p = pattern; *p != '\0'; p++) {
        char one[2] = {*p, '\0'};

        if (*p != '%') {
            bn_safe_str(b, one);
        } else if (p[1] != '\0') {
            has_pid |= specifier(b, *++p, sig);
        }
    }
    if (!has_pid)
        add_pid(b);
}

static bool file(struct bn_safe *b, const char *pattern, int sig)
{
    char dir[1024] = "";
    const char *slash = strrchr(pattern, '/');

    if (pattern[0] != '/') {
        ssize_t n = readlink("/proc/self/cwd", dir, sizeof(dir) - 1);

        dir[n > 0 ? n : 0] = '\0';
    } else {
        size_t n = (size_t)(slash - pattern);

        n = n < sizeof(dir) ? n : sizeof(dir) - 1;
        memcpy(dir, pattern, n);
        dir[n] = '\0';
    }
    const char *where = dir[0] != '\0' ? dir : "/";
    bool sub = strchr(where, '%') != NULL; /* a folder named by a specifier */

    if (!sub && access(where, W_OK) != 0) {
        bn_safe_str(b, "none: its folder '");
        bn_safe_str(b, where);
        bn_safe_str(b, "' cannot be written; start in one that can, or as "
                       "root set kernel.core_pattern");
        return false;
    }
    bn_safe_str(b, "'");
    if (pattern[0] != '/') {
        bn_safe_str(b, dir);
        bn_safe_str(b, "/");
    }
    expand(b, pattern, sig);
    bn_safe_str(b, "' on this node");
    return true;
}

bool bn_core_explain_as(struct bn_safe *b, int sig, const char *pattern,
                        unsigned long long limit)
{
    bool pipe = pattern[0] == '|';

    bn_safe_str(b, "core: ");
    if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0) {
        bn_safe_str(b, "none: this process may not be dumped (it changed "
                       "its user); see prctl(2), PR_SET_DUMPABLE");
        return false;
    }
    /* A program is given the core whatever the limit is, but for 1. */
    if (!pipe && limit < 4096) {
        bn_safe_str(b, "none: 'ulimit -c' is ");
        bn_safe_int(b, (long long)limit);
        bn_safe_str(b, "; say 'ulimit -c unlimited' before srun or mpirun "
                       "(Slurm hands it on: --propagate=CORE) and run again");
        return false;
    }
    if (pattern[0] == '\0') {
        bn_safe_str(b, "none: kernel.core_pattern is empty; as root: sysctl "
                       "-w kernel.core_pattern=core.%h.%p");
        return false;
    }
    return pipe ? piped(b, pattern) : file(b, pattern, sig);
}

bool bn_core_explain(struct bn_safe *b, int sig)
{
    char pattern[256];
    struct rlimit r = {0};

    bn_safe_read("/proc/sys/kernel/core_pattern", pattern, sizeof(pattern));
    pattern[strcspn(pattern, "\n")] = '\0';
    getrlimit(RLIMIT_CORE, &r);
    return bn_core_explain_as(b, sig, pattern, r.rlim_cur);
}
