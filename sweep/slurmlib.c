#include "config.h"

#include "sweep/slurmlib.h"

#include <stddef.h>

#ifdef HAVE_SLURM

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "sweep/template.h"

extern char **environ;

struct bn_slurmlib {
    void *dl;
    void (*init_desc)(job_desc_msg_t *);
    int (*submit)(job_desc_msg_t *, submit_response_msg_t **);
    void (*free_response)(submit_response_msg_t *);
    char *(*error_text)(int);
    mode_t mask; /* of the process: asking for it sets it, which threads
                  * must not see */
};

/* The number in the library's name that goes with the headers; 0: not known
 * here, so sbatch is used. */
static int so_number(void)
{
    switch (SLURM_VERSION_NUMBER >> 8) {
    case 0x140b: return 36; /* 20.11 */
    case 0x1508: return 37; /* 21.08 */
    case 0x1605: return 38; /* 22.05 */
    case 0x1702: return 39; /* 23.02 */
    case 0x170b: return 40; /* 23.11 */
    case 0x1805: return 41; /* 24.05 */
    case 0x180b: return 42; /* 24.11 */
    case 0x1905: return 43; /* 25.05 */
    default: return 0;
    }
}

struct bn_slurmlib *bn_slurmlib_open(void)
{
    const char *way = getenv("BURNISH_SLURM");
    struct bn_slurmlib *l = BN_NEW(struct bn_slurmlib);
    void (*init)(const char *) = NULL;
    char name[32];

    snprintf(name, sizeof(name), "libslurm.so.%d", so_number());
    if (so_number() > 0 && (way == NULL || strcmp(way, "sbatch") != 0))
        /* global: its plugins look for its symbols */
        l->dl = dlopen(name, RTLD_LAZY | RTLD_GLOBAL);
    if (l->dl) {
        *(void **)&init = dlsym(l->dl, "slurm_init");
        *(void **)&l->init_desc = dlsym(l->dl, "slurm_init_job_desc_msg");
        *(void **)&l->submit = dlsym(l->dl, "slurm_submit_batch_job");
        *(void **)&l->free_response =
            dlsym(l->dl, "slurm_free_submit_response_response_msg");
        *(void **)&l->error_text = dlsym(l->dl, "slurm_strerror");
    }
    if (init && l->init_desc && l->submit && l->free_response
        && l->error_text) {
        init(NULL);
        l->mask = umask(0);
        umask(l->mask);
        bn_debug("submitting through %s", name);
        return l;
    }
    bn_slurmlib_close(l);
    return NULL;
}

/* The library stays loaded: its threads may outlive the last call. */
void bn_slurmlib_close(struct bn_slurmlib *l)
{
    free(l);
}

/* --- Options -------------------------------------------------------------- */

/* What is built for one job besides the descriptor. */
struct extra {
    char *gpus, *dependency;
    const char **env; /* of the job; strings added are owned */
    size_t nenv, first;
};

/* Minutes, rounded up. */
static bool read_time(const char *s, uint32_t *out)
{
    unsigned v[3] = { 0, 0, 0 }, days = 0;
    const char *dash = strchr(s, '-');
    int n;

    if (dash) {
        days = (unsigned)strtoul(s, NULL, 10);
        s = dash + 1;
    }
    n = sscanf(s, "%u:%u:%u", &v[0], &v[1], &v[2]);
    if (n < 1)
        return false;
    if (dash || n == 3)
        *out = days * 1440 + v[0] * 60 + v[1] + (v[2] > 0);
    else
        *out = v[0] + (v[1] > 0);
    return true;
}

static bool read_mem(const char *s, uint64_t *mb)
{
    char *end;
    unsigned long long v = strtoull(s, &end, 10);
    if (end == s)
        return false;
    switch (*end) {
    case '\0':
    case 'M': *mb = v; break;
    case 'G': *mb = v << 10; break;
    case 'T': *mb = v << 20; break;
    default: return false;
    }
    return true;
}

/* One directive; false if it is not known here. */
static bool take(job_desc_msg_t *d, struct extra *x, const char *name,
                 char *v)
{
    unsigned long n = v ? strtoul(v, NULL, 10) : 0;

    if (strcmp(name, "job-name") == 0)
        d->name = v;
    else if (strcmp(name, "output") == 0)
        d->std_out = v;
    else if (strcmp(name, "chdir") == 0)
        d->work_dir = v;
    else if (strcmp(name, "partition") == 0)
        d->partition = v;
    else if (strcmp(name, "account") == 0)
        d->account = v;
    else if (strcmp(name, "qos") == 0)
        d->qos = v;
    else if (strcmp(name, "reservation") == 0)
        d->reservation = v;
    else if (strcmp(name, "constraint") == 0)
        d->features = v;
    else if (strcmp(name, "comment") == 0)
        d->comment = v;
    else if (strcmp(name, "nodelist") == 0)
        d->req_nodes = v;
    else if (strcmp(name, "exclude") == 0)
        d->exc_nodes = v;
    else if (strcmp(name, "time") == 0)
        return read_time(v, &d->time_limit);
    else if (strcmp(name, "mem") == 0)
        return read_mem(v, &d->pn_min_memory);
    else if (strcmp(name, "nodes") == 0)
        d->min_nodes = d->max_nodes = (uint32_t)n;
    else if (strcmp(name, "ntasks-per-node") == 0)
        d->ntasks_per_node = (uint16_t)n;
    else if (strcmp(name, "cpus-per-task") == 0)
        d->cpus_per_task = (uint16_t)n;
    else if (strcmp(name, "gpus-per-node") == 0 && n > 0)
        d->tres_per_node = x->gpus = bn_asprintf("gres:gpu:%lu", n);
    else if (strcmp(name, "requeue") == 0)
        d->requeue = 1;
    else if (strcmp(name, "hold") == 0)
        d->priority = 0;
    else if (strcmp(name, "exclusive") == 0 && v == NULL)
        d->shared = JOB_SHARED_NONE;
    else if (strcmp(name, "open-mode") == 0 && strcmp(v, "append") == 0)
        d->open_mode = OPEN_MODE_APPEND;
    else if (strcmp(name, "signal") == 0 && strncmp(v, "USR1@", 5) == 0) {
        d->warn_signal = SIGUSR1;
        d->warn_time = (uint16_t)strtoul(v + 5, NULL, 10);
    } else
        return false;
    return true;
}

static void add_env(struct extra *x, char *take_text)
{
    x->env[x->nenv++] = take_text;
}

/* What sbatch sets for the job beyond what slurmd does. */
static void make_env(const struct bn_slurmlib *l, job_desc_msg_t *d,
                     struct extra *x)
{
    char host[256] = "";

    gethostname(host, sizeof(host) - 1);
    while (environ[x->nenv])
        x->nenv++;
    x->first = x->nenv;
    x->env = BN_NEWN(const char *, x->nenv + 12);
    for (size_t i = 0; i < x->nenv; i++)
        x->env[i] = environ[i];
    add_env(x, bn_asprintf("SLURM_SUBMIT_DIR=%s", d->work_dir));
    add_env(x, bn_asprintf("SLURM_SUBMIT_HOST=%s", host));
    add_env(x, bn_asprintf("SLURM_UMASK=%04o", (unsigned)l->mask));
    add_env(x, bn_strdup("SLURM_PRIO_PROCESS=0"));
    if (d->open_mode == OPEN_MODE_APPEND)
        add_env(x, bn_strdup("SLURM_OPEN_MODE=a"));
    add_env(x, bn_asprintf("SLURM_JOB_NAME=%s", d->name));
    add_env(x, bn_asprintf("SLURM_NTASKS=%u", d->num_tasks));
    add_env(x, bn_asprintf("SLURM_NPROCS=%u", d->num_tasks));
    add_env(x, bn_asprintf("SLURM_NTASKS_PER_NODE=%u", d->ntasks_per_node));
    add_env(x, bn_asprintf("SLURM_CPUS_PER_TASK=%u", d->cpus_per_task));
    if (x->gpus)
        add_env(x, bn_asprintf("SLURM_GPUS_PER_NODE=%s",
                               x->gpus + strlen("gres:gpu:")));
    d->environment = (char **)x->env;
    d->env_size = (uint32_t)x->nenv;
}

static void release(struct extra *x)
{
    for (size_t i = x->first; i < x->nenv; i++)
        free((char *)x->env[i]);
    free(x->env);
    free(x->gpus);
    free(x->dependency);
}

static void set_dependency(job_desc_msg_t *d, struct extra *x,
                           const struct bn_submission *sub)
{
    struct bn_str b = { 0 };
    if (sub->after_ok)
        bn_str_addf(&b, "afterok:%u", sub->after_ok);
    if (sub->after_any)
        bn_str_addf(&b, "%safterany:%u", b.len ? "," : "", sub->after_any);
    if (b.len) {
        d->dependency = x->dependency = bn_str_take(&b);
        d->bitflags |= KILL_INV_DEP;
    }
}

int bn_slurmlib_submit(struct bn_slurmlib *l, const struct bn_submission *sub,
                       uint32_t *job, struct bn_err *err)
{
    submit_response_msg_t *reply = NULL;
    struct bn_directives dir;
    struct extra x = { 0 };
    job_desc_msg_t d;
    size_t len;
    char *path = bn_strdup(sub->script);
    char *text = bn_file_read(path, 1 << 20, &len, err);
    int rc = -1;

    if (text == NULL || bn_directives_read(&dir, text, err) < 0) {
        free(text);
        free(path);
        return -1;
    }
    l->init_desc(&d);
    d.min_nodes = d.max_nodes = 1;
    d.ntasks_per_node = d.cpus_per_task = 1;
    for (size_t i = 0; i < dir.n; i++) {
        if (!take(&d, &x, dir.v[i].name, dir.v[i].value)) {
            rc = 0;
            goto done;
        }
    }
    d.num_tasks = d.min_nodes * d.ntasks_per_node;
    d.min_cpus = d.num_tasks * d.cpus_per_task;
    d.user_id = getuid();
    d.group_id = getgid();
    d.script = text;
    d.argc = 1;
    d.argv = &path;
    d.std_in = (char *)"/dev/null";
    set_dependency(&d, &x, sub);
    make_env(l, &d, &x);
    if (l->submit(&d, &reply) != SLURM_SUCCESS) {
        if (errno == EAGAIN)
            bn_fail(err, BN_ERR_AGAIN, "Slurm takes no more jobs for now, "
                    "from '%s' on: submit again when some are gone",
                    sub->script);
        else
            bn_fail(err, BN_ERR_DATA, "Slurm refuses '%s': %s", sub->script,
                    l->error_text(errno));
        goto done;
    }
    *job = reply->job_id;
    l->free_response(reply);
    rc = 1;
done:
    release(&x);
    bn_directives_release(&dir);
    free(text);
    free(path);
    return rc;
}

#else

struct bn_slurmlib *bn_slurmlib_open(void)
{
    return NULL;
}

void bn_slurmlib_close(struct bn_slurmlib *l)
{
    (void)l;
}

int bn_slurmlib_submit(struct bn_slurmlib *l, const struct bn_submission *sub,
                       uint32_t *job, struct bn_err *err)
{
    (void)l;
    (void)sub;
    (void)job;
    (void)err;
    return 0;
}

#endif
