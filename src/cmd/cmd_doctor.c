/* burnish doctor: is this a place where runs work, and what went wrong? */
#include "config.h"
#include "cmd/doctor.h"
#include "base/file.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/opts.h"
#include "sweep/here.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: burnish doctor [--json] [RUN_DIR]\n"
    "       burnish doctor --core FILE\n"
    "       burnish doctor --bundle OUT.tar.gz RUN_DIR\n\n"
    "Look at this machine and print one page: compilers and libraries, Slurm,\n"
    "PMIx and MPI end to end (two ranks that meet), GPUs, driver, NCCL, CPUs and\n"
    "memory by cgroup, /dev/shm, limits, core files, the disk of RUN_DIR\n"
    "(default: here), and, in an allocation, the clocks of its nodes. A line is\n"
    "OK, WARN or FAIL and says what to do. Exits with 0 if all is well, 1 if\n"
    "something is to be looked at, 65 if something is wrong.\n\n"
    "With --core, print what a core file tells: program, signal, and by gdb the\n"
    "stack of every thread.\n\n"
    "With --bundle, pack configs, logs, metrics, phases and stacks of RUN_DIR,\n"
    "this page and the environment that runs depend on, for a bug report. No\n"
    "data, no weights; values that look like secrets are masked. The names are\n"
    "printed.\n\n";

struct args {
    struct bn_opt_list words;
    const char *core, *bundle;
    int64_t timeout;
    bool json, help;
};

/* Beside this program, else on PATH; malloc'ed, or NULL. */
static char *find_train(void)
{
    char *dir = bn_program_dir();
    char *path = bn_path_join(dir, "burnish-train");
    const char *env = getenv("PATH");

    free(dir);
    while (access(path, X_OK) != 0) {
        free(path);
        if (env == NULL || *env == '\0')
            return NULL;
        size_t n = strcspn(env, ":");
        char *part = bn_strndup(env, n);

        path = bn_path_join(n > 0 ? part : ".", "burnish-train");
        free(part);
        env += n + (env[n] == ':');
    }
    return path;
}

static int page(struct bn_doctor *d, bool json)
{
    static const int status[] = {0, 1, BN_ERR_DATA};
    struct bn_str s = {0};

    bn_doctor_examine(d);
    if (json)
        bn_doctor_json(d, &s);
    else
        bn_doctor_text(d, &s);
    fputs(s.s, stdout);
    bn_str_release(&s);
    return status[bn_doctor_worst(d)];
}

static int run(const struct args *a)
{
    struct bn_doctor d = {.timeout = (double)a->timeout,
                          .dir = a->words.n > 0 ? a->words.v[0] : "."};
    int status;

    if (a->words.n > 1)
        return bn_cmd_usage("doctor", "one folder is expected, not %zu",
                            a->words.n);
    if (a->core != NULL && (a->bundle != NULL || a->words.n > 0))
        return bn_cmd_usage("doctor", "--core goes alone");
    if (a->bundle != NULL && a->words.n == 0)
        return bn_cmd_usage("doctor", "--bundle needs the folder of a run");
    if (a->timeout < 1 || a->timeout > 3600)
        return bn_cmd_usage("doctor", "--timeout is %lld; it must be 1 to "
                            "3600", (long long)a->timeout);
    d.train = find_train();
    if (a->core != NULL)
        status = bn_doctor_core(&d, a->core);
    else if (a->bundle != NULL)
        status = bn_doctor_bundle(&d, a->bundle, d.dir);
    else
        status = page(&d, a->json);
    bn_doctor_release(&d);
    return status;
}

int bn_cmd_doctor(int argc, char **argv)
{
    struct args a = {.timeout = 60};
    const struct bn_opt opts[] = {
        {"json", BN_OPT_FLAG, &a.json, NULL, "the page as one JSON object"},
        {"core", BN_OPT_STR, &a.core, "FILE", "explain a core file"},
        {"bundle", BN_OPT_STR, &a.bundle, "OUT.tar.gz",
         "pack what a bug report needs"},
        {"timeout", BN_OPT_INT, &a.timeout, "SECONDS",
         "for each program that is run (default: 60)"},
        {"help", BN_OPT_FLAG, &a.help, NULL, "print this and exit"},
        {0},
    };
    struct bn_err err;
    int status;

    if (bn_opts_parse(opts, argc, argv, &a.words, &err) < 0) {
        status = bn_cmd_fail("doctor", &err);
    } else if (a.help) {
        fputs(usage, stdout);
        bn_opts_help(opts, stdout);
        status = 0;
    } else {
        status = run(&a);
    }
    bn_opt_list_release(&a.words);
    return status;
}
