/* One YAML file in, a sweep out: a base run and the points that differ from
 * it (doc/formats/sweep.md). Every point is a whole, valid run.
 */
#ifndef BN_SWEEP_SWEEP_H
#define BN_SWEEP_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/hash.h"
#include "conf/conf.h"

enum bn_launch {
    BN_LAUNCH_JOBS,       /* one job a point */
    BN_LAUNCH_ARRAY,      /* one array for all, with a limit */
    BN_LAUNCH_SEQUENTIAL, /* one allocation, points in turn */
    BN_LAUNCH_LOCAL,      /* here, in turn, without Slurm */
};
enum bn_scheduler { BN_SCHEDULER_NONE, BN_SCHEDULER_ASHA };
enum bn_tokenize { BN_TOKENIZE_JOB, BN_TOKENIZE_NOW, BN_TOKENIZE_NO };

/* What one job asks for; strings are NULL where unset. */
struct bn_resources {
    int64_t nodes, gpus_per_node, tasks_per_node, cpus_per_task;
    char *time;           /* as Slurm writes it; NULL only in launch local */
    char *mem, *partition, *account, *qos, *constraint, *reservation;
    bool exclusive;
};

enum { BN_POINT_NAME_MAX = 100 };

struct bn_point {
    char *name;           /* a safe file name */
    struct bn_place at;   /* where it was written */
    struct bn_setting *settings;
    size_t n;
    char *run_yaml;       /* the whole run, output_dir included; NULL if it
                           * has problems */
    struct bn_hash hash;  /* of run_yaml: changes when anything does */
    struct bn_hash group; /* points of equal group may be ranked together:
                           * same data and lengths */
    /* points that are equal in ... */
    struct bn_hash inputs; /* read the same model and tokenizer */
    struct bn_hash data;   /* and make the same tokens of the same files */
    struct bn_hash memory; /* and take the same memory */
    int64_t max_steps;    /* of the run; -1: by epochs */
    int64_t checkpoints;  /* that it keeps at most; -1: not known */
};

struct bn_sweep {
    char *path, *name, *dir; /* dir is absolute */
    unsigned launch, tokenize, scheduler;
    struct bn_resources res;
    int64_t limit;        /* tasks of the array at once; 0: all */
    int64_t max_requeues;
    int64_t tokenize_cpus;
    char *tokenize_time;
    char *template;       /* path, or NULL: by launch and resources */
    char *core;           /* ulimit -c */
    char *gpu_memory;     /* of one GPU, as Slurm writes sizes; or NULL */
    struct bn_run_list modules, container, sbatch;
    struct bn_run_list environment; /* "NAME=value" */
    char *rank_by;        /* a metric, or NULL: the task's default */
    struct bn_run_list asha_rungs; /* steps; empty without asha */
    int64_t asha_reduction;
    struct bn_point *points;
    size_t n;
    struct bn_sweep_keep *keep; /* private: what places point into */
};

/* Read and expand. All problems of all points are added, each once, with the
 * points that it concerns. A sweep with problems is only good for
 * bn_sweep_check, which finds the others; NULL if the file is no YAML map. */
struct bn_sweep *bn_sweep_load(const char *path, struct bn_problems *p);
void bn_sweep_free(struct bn_sweep *s);

/* malloc'ed: the folder of a point, and a file in it. */
char *bn_point_dir(const struct bn_sweep *s, const struct bn_point *p);
char *bn_point_file(const struct bn_sweep *s, const struct bn_point *p,
                    const char *file);
/* A point by name, or NULL. */
struct bn_point *bn_sweep_find(const struct bn_sweep *s, const char *name);

/* The keys of a sweep file, for help and completion. */
struct bn_sweep_key {
    const char *name;
    enum bn_sweep_type {
        BN_SWEEP_STR,
        BN_SWEEP_INT,
        BN_SWEEP_BOOL,
        BN_SWEEP_TIME,
        BN_SWEEP_CHOICE,
        BN_SWEEP_LIST,
        BN_SWEEP_ENV,
        BN_SWEEP_NODE, /* read by points.c */
    } type;
    size_t offset;
    const char *dflt;
    double min, max;
    const char *const *choices;
    const char *help;
};
const struct bn_sweep_key *bn_sweep_keys(size_t *n);

/* --- Shared by spec.c, points.c, build.c and check ------------------------------ */

/* Add the points of grid, zip, list and random, without their runs. */
void bn_sweep_expand(struct bn_sweep *s, const struct bn_yaml *root,
                     struct bn_problems *p);
/* Build the run of every point. */
void bn_sweep_build(struct bn_sweep *s, struct bn_problems *p);
/* The run of a point, with the places where its values were written, less
 * what asha adds; NULL after adding problems. */
struct bn_run *bn_point_run(const struct bn_sweep *s,
                            const struct bn_point *pt, struct bn_problems *p);
/* Memory that lives as long as the sweep. */
void *bn_sweep_alloc(struct bn_sweep *s, size_t n);
const struct bn_yaml *bn_sweep_base(const struct bn_sweep *s);
/* The keys of the winner's full run, or NULL. */
const struct bn_yaml *bn_sweep_full(const struct bn_sweep *s);
/* The node of a key of the sweep file, or NULL. */
const struct bn_yaml *bn_sweep_node(const struct bn_sweep *s,
                                    const char *key);
/* malloc'ed: the folder where points leave their metrics for asha. */
char *bn_sweep_asha_dir(const struct bn_sweep *s);
/* Keys that a sweep sets itself and no file may. */
bool bn_sweep_owns(const char *key);

#endif
