#include "config.h"

#include "sweep/check_impl.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* Longest file name under a point's folder, with room for temporary ones. */
enum { TAIL_MAX = 100 };

/* --- Disk and paths -------------------------------------------------------------- */

/* Masters and two moments in float32 a checkpoint, and the final weights. */
static void check_disk(const struct bn_sweep *s, const double *params,
                       struct bn_problems *p, struct bn_str *notes)
{
    struct bn_place here = { s->path, 0, 0 };
    char *dir = bn_strdup(s->dir), need[32], have[32];
    struct statvfs st;
    double bytes = 0;
    size_t unknown = 0;

    for (size_t i = 0; i < s->n; i++) {
        int64_t kept = s->points[i].checkpoints;
        unknown += kept < 0;
        bytes += params[i] * (12 * (double)(kept < 0 ? 1 : kept) + 4);
    }
    if (unknown > 0)
        bn_str_addf(notes, "%zu points keep an unknown number of checkpoints "
                           "(set save_total_limit): disk space was counted "
                           "for one\n", unknown);
    while (statvfs(dir, &st) < 0 && strcmp(dir, "/") != 0) {
        char *up = bn_path_dir(dir);
        free(dir);
        dir = up;
    }
    double room = (double)st.f_bavail * (double)st.f_frsize;
    if (bytes > room)
        bn_problem_add(p, here, "the checkpoints of all points need %s and "
                       "'%s' has room for %s: set save_total_limit or use "
                       "another output_dir", bn_str_bytes(need,
                                                          (uint64_t)bytes),
                       dir, bn_str_bytes(have, (uint64_t)room));
    free(dir);
}

static void check_paths(const struct bn_sweep *s, struct bn_problems *p)
{
    struct bn_place here = { s->path, 0, 0 };
    size_t longest = 0;

    if (s->dir[strcspn(s->dir, "\n\r\t\"'\\")] != '\0')
        bn_problem_add(p, here, "output_dir '%s' has a quote, a backslash or "
                       "a control character, which a batch script cannot "
                       "hold", s->dir);
    for (size_t i = 0; i < s->n; i++)
        if (strlen(s->points[i].name) > longest)
            longest = strlen(s->points[i].name);
    if (strlen(s->dir) + longest + TAIL_MAX >= PATH_MAX)
        bn_problem_add(p, here, "output_dir is %zu characters long: paths in "
                       "it would be longer than the system allows (%d)",
                       strlen(s->dir), PATH_MAX);
}

/* The daemon of template mps listens in its folder under TMPDIR: the path of
 * a socket has 107 bytes. */
static void check_sockets(const struct bn_sweep *s, struct bn_problems *p)
{
    static const char tail[] = "/burnish-mps-4294967295-4294967295.9"
                               "/pipe/control";
    struct bn_place here = { s->path, 0, 0 };
    const char *tmp = getenv("TMPDIR");

    if (s->template == NULL || strcmp(s->template, "mps") != 0)
        return;
    for (size_t i = 0; i < s->environment.n; i++)
        if (bn_str_starts(s->environment.v[i], "TMPDIR="))
            tmp = s->environment.v[i] + 7;
    if (tmp && strlen(tmp) + sizeof(tail) - 1 > BN_SOCKET_MAX)
        bn_problem_add(p, here, "TMPDIR '%s' is %zu characters long: the "
                       "socket of the MPS daemon would have a longer path "
                       "than the system allows (%d); set TMPDIR to at most "
                       "%zu characters under environment", tmp, strlen(tmp),
                       BN_SOCKET_MAX, BN_SOCKET_MAX - sizeof(tail) + 1);
}

/* A port that is written down is one that two runs on a node fight over. */
static void check_ports(const struct bn_sweep *s, struct bn_problems *p)
{
    static const char *const names[] = { "MASTER_PORT", "MASTER_ADDR",
                                         "RANK", "WORLD_SIZE", "LOCAL_RANK" };
    struct bn_place here = { s->path, 0, 0 };

    for (size_t i = 0; i < s->environment.n; i++)
        for (size_t k = 0; k < BN_COUNT(names); k++) {
            size_t n = strlen(names[k]);
            if (strncmp(s->environment.v[i], names[k], n) == 0
                && s->environment.v[i][n] == '=')
                bn_problem_add(p, here, "environment: %s has no effect: ranks "
                               "find each other through PMIx, without a port "
                               "of their own; leave it out", names[k]);
        }
}

void bn_sweep_check(const struct bn_sweep *s, struct bn_problems *p,
                    struct bn_str *notes)
{
    struct bn_check c = { .s = s, .p = p, .notes = notes };

    c.params = BN_NEWN(double, s->n + 1);
    if (s->dir)
        check_paths(s, p);
    check_sockets(s, p);
    check_ports(s, p);
    if (s->res.gpus_per_node > 0)
        c.gpu_memory = bn_check_gpu_memory(&c);
    bn_check_inputs(&c);
    if (s->dir)
        check_disk(s, c.params, p, notes);
    if (s->launch != BN_LAUNCH_LOCAL)
        bn_check_slurm(&c);
    bn_problems_sort(p, 0);
    free(c.params);
}
