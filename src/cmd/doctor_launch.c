/* What starts ranks, and what they find: Slurm, PMIx, MPI, GPUs, clocks. */
#include "config.h"
#include "cmd/doctor.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "sweep/child.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- A meeting of ranks ---------------------------------------------------------- */

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

/* burnish-train --ping under a launcher: its JSON, or NULL with 'err'. */
static json_t *ping(const struct bn_doctor *d, const char *const *argv,
                    const char *const *env, struct bn_err *err)
{
    struct bn_child c = {.argv = argv, .env = env, .timeout = d->timeout};
    json_t *o = NULL;

    if (bn_child_must(&c, err) == 0) {
        /* Launchers say things of their own. */
        const char *at = strchr(c.out.s, '{');

        if (at != NULL)
            o = bn_json_parse(at, strcspn(at, "\n"), argv[0], err);
        else
            bn_fail(err, BN_ERR_DATA, "'%s' printed no result", argv[0]);
    }
    bn_child_release(&c);
    return o;
}

static void say_meeting(struct bn_doctor *d, const char *name,
                        const char *how, const json_t *o, int want)
{
    int ranks = (int)number(o, "ranks");

    if (ranks != want)
        bn_doctor_add(d, BN_FINDING_FAIL, name,
                      "the launcher and PMIx do not know of each other: see "
                      "'srun --mpi=list' and --with-pmix of Slurm and MPI",
                      "%s: %d ranks were asked for, and they believe to be "
                      "%d", how, want, ranks);
    else
        bn_doctor_add(d, BN_FINDING_OK, name, NULL,
                      "%s: %d ranks on %d node%s met in %.2f s, a barrier "
                      "takes %.0f us", how, ranks, (int)number(o, "nodes"),
                      number(o, "nodes") > 1 ? "s" : "",
                      number(o, "boot_seconds"),
                      number(o, "barrier_seconds") * 1e6);
}

static void say_clocks(struct bn_doctor *d, const json_t *o)
{
    double skew = number(o, "skew_seconds"), error = number(o, "skew_error");
    double far = fabs(skew) - error;
    const char *host = json_string_value(json_object_get(o, "skew_host"));

    if (number(o, "nodes") < 2)
        return;
    bn_doctor_add(d, far > 60  ? BN_FINDING_FAIL
                     : far > 1 ? BN_FINDING_WARN
                               : BN_FINDING_OK,
                  "clocks",
                  far > 1 ? "let chrony or ntpd set the clocks: munge refuses "
                            "what seems too old, and times of files mislead"
                          : NULL,
                  "%s is %+.6f s from this run's first node (within %.6f s)",
                  host != NULL ? host : "?", skew, error);
}

/* --- Slurm ------------------------------------------------------------------------- */

static const char no_pmix[] =
    "build Slurm --with-pmix (Debian: slurm-wlm has it), or start ranks with "
    "mpirun";

/* In an allocation a step costs nothing but a moment. */
static void srun(struct bn_doctor *d)
{
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    int n = nodes != NULL ? atoi(nodes) : 1;
    char tasks[16], count[16];
    const char *argv[] = {"srun", "--mpi=pmix", "--overlap", "-N", count,
                          "-n", tasks, "--ntasks-per-node=2", "--quiet",
                          d->train, "--ping", NULL};
    const char *task_count = getenv("SLURM_NTASKS");
    int want = task_count != NULL && atoi(task_count) < 2 * n ? n : 2 * n;
    struct bn_err err;

    if (want == n)
        argv[7] = "--ntasks-per-node=1";
    snprintf(count, sizeof(count), "%d", n);
    snprintf(tasks, sizeof(tasks), "%d", want);
    json_t *o = ping(d, argv, NULL, &err);

    if (o == NULL) {
        bn_doctor_add(d, BN_FINDING_FAIL, "pmix",
                      "see 'srun --mpi=list', slurmd's log, and that the PMIx "
                      "of Slurm and of burnish are of one major version; an "
                      "old /tmp/pmix* of another user blocks it too",
                      "srun --mpi=pmix does not work end to end: %s",
                      err.text);
        return;
    }
    say_meeting(d, "pmix", "srun --mpi=pmix", o, want);
    say_clocks(d, o);
    json_decref(o);
}

/* Returns whether there is Slurm. */
static bool slurm(struct bn_doctor *d)
{
    const char *const version[] = {"srun", "--version", NULL};
    const char *const list[] = {"srun", "--mpi=list", NULL};
    const char *const up[] = {"sinfo", "--noheader", "--format=%D", NULL};
    struct bn_child c = {.argv = list, .timeout = d->timeout};
    struct bn_err err;
    char *out = bn_doctor_ask(d, version, &err);

    if (out == NULL) {
        bn_doctor_add(d, BN_FINDING_WARN, "slurm",
                      "sweeps need it; 'burnish sweep submit' runs on a login "
                      "node", "no Slurm here: %s", err.text);
        return false;
    }
    out[strcspn(out, "\n")] = '\0';
    /* The list goes to standard error in some versions. */
    bool listed = bn_child_run(&c, &err) == 0
                  && (strstr(c.out.s, "pmix") != NULL
                      || strstr(c.err.s, "pmix") != NULL);
    bn_child_release(&c);
    bn_doctor_add(d, listed ? BN_FINDING_OK : BN_FINDING_FAIL, "slurm",
                  listed ? NULL : no_pmix, "%s, %s PMIx", out,
                  listed ? "with" : "without");
    free(out);
    out = bn_doctor_ask(d, up, &err);
    if (out == NULL)
        bn_doctor_add(d, BN_FINDING_WARN, "slurm",
                      "is slurmctld up ('scontrol ping'), munge the same key "
                      "everywhere?", "the controller does not answer: %s",
                      err.text);
    free(out);
    return true;
}

/* --- MPI --------------------------------------------------------------------------- */

static void mpirun(struct bn_doctor *d)
{
    const char *const version[] = {"mpirun", "--version", NULL};
    const char *argv[12];
    int n = 0;
    struct bn_err err;
    char *out = bn_doctor_ask(d, version, &err);

    if (out == NULL) {
        bn_doctor_add(d, BN_FINDING_OK, "mpi", NULL,
                      "no mpirun on PATH: several ranks start with srun");
        return;
    }
    argv[n++] = "mpirun";
    if (geteuid() == 0)
        argv[n++] = "--allow-run-as-root";
    argv[n++] = "--oversubscribe";
    argv[n++] = "-n";
    argv[n++] = "2";
    argv[n++] = d->train;
    argv[n++] = "--ping";
    argv[n] = NULL;
    json_t *o = ping(d, argv, NULL, &err);

    if (o == NULL)
        bn_doctor_add(d, BN_FINDING_FAIL, "mpi",
                      "try it by hand; 'ldd burnish-train' shows which MPI it "
                      "has, which must be mpirun's",
                      "mpirun -n 2 does not work end to end: %s", err.text);
    else
        say_meeting(d, "mpi", "mpirun -n 2", o, 2);
    json_decref(o);
    bn_doctor_add(d, BN_FINDING_OK, "mpi", NULL, "%.*s",
                  (int)strcspn(out, "\n"), out);
    free(out);
}

static void ranks(struct bn_doctor *d)
{
    bool has_slurm = slurm(d);

    if (d->train == NULL)
        return; /* said already */
#if defined(HAVE_MPI) && defined(HAVE_PMIX)
    if (has_slurm && getenv("SLURM_JOB_ID") != NULL) {
        srun(d);
        return;
    }
    if (has_slurm)
        bn_doctor_add(d, BN_FINDING_WARN, "pmix",
                      "in an allocation it is tried: salloc -N2 "
                      "--ntasks-per-node=2 burnish doctor",
                      "srun --mpi=pmix, and the clocks of nodes, were not "
                      "tried: this is no allocation");
    mpirun(d);
#else
    (void)has_slurm;
    (void)srun;
    (void)mpirun;
    bn_doctor_add(d, BN_FINDING_WARN, "mpi",
                  "install libpmix-dev and libopenmpi-dev, and build again",
                  "built without MPI or PMIx: runs have one rank");
#endif
}

/* --- GPUs ---------------------------------------------------------------------------- */

/* "575.57 for CUDA 12.9", by the driver itself. */
static void driver(struct bn_doctor *d)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*get)(int *) = NULL;
    int v = 0;

    if (lib != NULL)
        *(void **)&get = dlsym(lib, "cuDriverGetVersion");
    if (get != NULL && get(&v) == 0)
        bn_doctor_add(d, BN_FINDING_OK, "driver", NULL, "for CUDA up to %d.%d",
                      v / 1000, v / 10 % 100);
    if (lib != NULL)
        dlclose(lib);
}

static void nccl(struct bn_doctor *d)
{
    void *lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    int (*get)(int *) = NULL;
    int v = 0;

    if (lib != NULL)
        *(void **)&get = dlsym(lib, "ncclGetVersion");
    if (get != NULL && get(&v) == 0)
        bn_doctor_add(d, BN_FINDING_OK, "nccl", NULL, "%d.%d.%d", v / 10000,
                      v / 100 % 100, v % 100);
    else
        bn_doctor_add(d, BN_FINDING_OK, "nccl", NULL,
                      "not here (only runs on several GPUs need it)");
    if (lib != NULL)
        dlclose(lib);
}

static void smi(struct bn_doctor *d, bool present)
{
    const char *const argv[] = {
        "nvidia-smi", "--query-gpu=name,driver_version,memory.total",
        "--format=csv,noheader", NULL};
    struct bn_err err;
    char *out = bn_doctor_ask(d, argv, &err);

    if (out != NULL && out[0] != '\0') {
        for (char *at = out; *at != '\0';) {
            int n = (int)strcspn(at, "\n");

            bn_doctor_add(d, BN_FINDING_OK, "gpu", NULL, "%.*s", n, at);
            at += n + (at[n] == '\n');
        }
    } else if (present) {
        bn_doctor_add(d, BN_FINDING_FAIL, "gpu",
                      "'nvidia-smi' by hand, 'dmesg | grep -i nvrm'; a driver "
                      "that was updated needs a reboot or a module reload",
                      "/dev/nvidia0 is there but the driver does not answer: "
                      "%s", out != NULL ? "nothing was printed" : err.text);
    }
    free(out);
}

static void gpus(struct bn_doctor *d)
{
    const char *argv[] = {d->train, "--ping", NULL};
    /* Alone, whatever launcher is around. */
    const char *const env[] = {"SLURM_NTASKS=1", "SLURM_STEP_NUM_TASKS=1",
                               NULL};
    bool present = access("/dev/nvidia0", F_OK) == 0;
    struct bn_err err;

    smi(d, present);
    driver(d);
    nccl(d);
    if (d->train == NULL)
        return;
    json_t *o = ping(d, argv, env, &err);
    const char *text = json_string_value(json_object_get(o, "gpu"));

    if (o == NULL)
        bn_doctor_add(d, BN_FINDING_FAIL, "gpu", NULL,
                      "burnish-train alone does not work: %s", err.text);
    else if (number(o, "gpus") > 0 || !present)
        bn_doctor_add(d, BN_FINDING_OK, "gpu", NULL, "burnish-train: %s%s",
                      text != NULL ? text : "?",
                      present ? "" : " (runs use the CPU)");
    else
        bn_doctor_add(d, BN_FINDING_FAIL, "gpu",
                      "is CUDA_VISIBLE_DEVICES right, was --gpus asked of "
                      "Slurm, was burnish built with CUDA, is the driver new "
                      "enough for it?", "burnish-train: %s",
                      text != NULL ? text : "?");
    json_decref(o);
}

void bn_doctor_launch(struct bn_doctor *d)
{
    ranks(d);
    gpus(d);
}
