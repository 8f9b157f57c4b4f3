/* burnish doctor: what was found, and what to do about it. Each check adds
 * findings; none of them ends the program.
 */
#ifndef BN_CMD_DOCTOR_H
#define BN_CMD_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

enum bn_finding_level { BN_FINDING_OK, BN_FINDING_WARN, BN_FINDING_FAIL };

struct bn_finding {
    enum bn_finding_level level;
    const char *name; /* of the check, a constant: "slurm" */
    char *text;       /* what is so */
    char *todo;       /* what to do; NULL: nothing */
};

struct bn_doctor {
    struct bn_finding *v;
    size_t n, cap;
    const char *dir; /* where runs go */
    double timeout;  /* of a program that is run, seconds */
    char *train;     /* burnish-train beside this program; NULL: none */
};

/* 'todo' NULL or a constant. */
void bn_doctor_add(struct bn_doctor *d, enum bn_finding_level level,
                   const char *name, const char *todo, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
enum bn_finding_level bn_doctor_worst(const struct bn_doctor *d);
void bn_doctor_release(struct bn_doctor *d);
/* All checks in the order of the page. */
void bn_doctor_examine(struct bn_doctor *d);
/* The page, and as one JSON object. */
void bn_doctor_text(const struct bn_doctor *d, struct bn_str *out);
void bn_doctor_json(const struct bn_doctor *d, struct bn_str *out);

/* Parts of bn_doctor_examine. */
void bn_doctor_build(struct bn_doctor *d);  /* compilers, libraries */
void bn_doctor_system(struct bn_doctor *d); /* CPUs, memory, limits, core */
void bn_doctor_disk(struct bn_doctor *d);
void bn_doctor_launch(struct bn_doctor *d); /* Slurm, PMIx, MPI, GPUs, clocks */

/* Standard output of a program that ended with 0 in d->timeout, malloc'ed;
 * NULL with its reason in 'err'. */
char *bn_doctor_ask(const struct bn_doctor *d, const char *const *argv,
                    struct bn_err *err);

/* Print what a core file tells: program, signal, threads with their stacks
 * (by gdb where there is one). Returns the exit status. */
int bn_doctor_core(const struct bn_doctor *d, const char *path);

/* Pack what a bug report needs of 'run_dir' into 'out', a .tar.gz; names are
 * printed before. Returns the exit status. */
int bn_doctor_bundle(struct bn_doctor *d, const char *out,
                     const char *run_dir);

#endif
