/* How much memory the GPUs have that a sweep asks for. */
#include "config.h"

#include "sweep/check_impl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "sweep/child.h"

static const double GIB = 1024.0 * 1024 * 1024;

double bn_slurm_bytes(const char *text)
{
    static const char unit[] = "KMGT";
    char *end;

    if (!isdigit((unsigned char)*text))
        return -1;
    double v = strtod(text, &end) * 1024 * 1024;
    if (*end == '\0')
        return v;
    const char *u = strchr(unit, toupper((unsigned char)*end));
    if (u == NULL || (end[1] != '\0' && strcasecmp(end + 1, "B") != 0))
        return -1;
    v /= 1024;
    for (; u > unit; u--)
        v *= 1024;
    return v;
}

/* "80gb" within a name: a part that is digits and then "gb". */
static double said_size(const char *type)
{
    for (const char *p = type; *p; p++) {
        char *end;
        if (!isdigit((unsigned char)*p)
            || (p > type && isalnum((unsigned char)p[-1])))
            continue;
        unsigned long v = strtoul(p, &end, 10);
        if (strncasecmp(end, "gb", 2) == 0 && !isalnum((unsigned char)end[2]))
            return (double)v * GIB;
    }
    return 0;
}

/* GiB of the largest model of each name. */
static const struct {
    const char *name;
    int gib;
} known[] = {
    { "p100", 16 },  { "t4", 16 },     { "v100", 32 },  { "a10", 24 },
    { "a30", 24 },   { "a40", 48 },    { "a6000", 48 }, { "a100", 80 },
    { "l4", 24 },    { "l40", 48 },    { "l40s", 48 },  { "h100", 94 },
    { "h200", 141 }, { "gh200", 144 }, { "b200", 192 }, { "gb200", 192 },
    { "b300", 288 }, { "gb300", 288 },
};

double bn_gpu_bytes(const char *type)
{
    double size = said_size(type);

    for (const char *p = type; size == 0 && *p;) {
        size_t n = strcspn(p, "_-.: ");
        for (size_t i = 0; i < BN_COUNT(known); i++)
            if (strlen(known[i].name) == n
                && strncasecmp(p, known[i].name, n) == 0)
                size = known[i].gib * GIB;
        p += n + (p[n] != '\0');
    }
    return size;
}

/* --- Which types ------------------------------------------------------------ */

/* The type in "gpu:TYPE:8" or, with 'bare', "TYPE:8", malloc'ed; NULL if none
 * is named. */
static char *type_of(const char *gres, bool bare)
{
    size_t n;

    if (!bare) {
        if (strncmp(gres, "gpu:", 4) != 0)
            return NULL;
        gres += 4;
    }
    n = strcspn(gres, ":,( \n");
    return n > 0 && gres[n] == ':' && !isdigit((unsigned char)gres[0])
                   ? bn_strndup(gres, n)
               : n > 0 && isdigit((unsigned char)gres[0]) && gres[n] == ':'
                       && strspn(gres, "0123456789") < n
                   ? bn_strndup(gres, n)
                   : NULL;
}

/* The type that the sweep's own options name. */
static char *asked_type(const struct bn_sweep *s)
{
    for (size_t i = 0; i < s->sbatch.n; i++) {
        const char *o = s->sbatch.v[i];
        char *type = NULL;
        if (strncmp(o, "--gres=", 7) == 0)
            type = type_of(o + 7, false);
        else if (strncmp(o, "--gpus-per-node=", 16) == 0)
            type = type_of(o + 16, true);
        if (type)
            return type;
    }
    return NULL;
}

/* Of all nodes of the partition with GPUs, the most; 0 if one is unknown. */
static double cluster_bytes(const struct bn_sweep *s)
{
    const char *argv[] = { "sinfo", "--noheader", "--format=%G",
                           s->res.partition ? "--partition" : NULL,
                           s->res.partition, NULL };
    struct bn_child c = { .argv = argv, .timeout = 60 };
    struct bn_err err;
    double most = 0;

    if (bn_child_must(&c, &err) == 0) {
        for (const char *p = c.out.s; p && (p = strstr(p, "gpu")); p++) {
            if (p > c.out.s && !strchr(",\n", p[-1]))
                continue;
            char *type = type_of(p, false);
            double bytes = type ? bn_gpu_bytes(type) : 0;
            free(type);
            if (bytes == 0) {
                most = 0;
                break;
            }
            most = bytes > most ? bytes : most;
        }
    }
    bn_child_release(&c);
    return most;
}

double bn_check_gpu_memory(struct bn_check *c)
{
    const struct bn_sweep *s = c->s;
    double bytes = 0;

    if (s->gpu_memory)
        return bn_slurm_bytes(s->gpu_memory);
    char *type = asked_type(s);
    if (type)
        bytes = bn_gpu_bytes(type);
    else if (s->launch != BN_LAUNCH_LOCAL)
        bytes = cluster_bytes(s);
    if (bytes == 0)
        bn_str_addf(c->notes, "the memory of a GPU is not known%s%s: say "
                              "gpu_memory, such as 80G, to have it held "
                              "against the plan\n", type ? " of type " : "",
                    type ? type : "");
    free(type);
    return bytes;
}
