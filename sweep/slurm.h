/* What Burnish asks of Slurm, through its own commands: squeue, sbatch,
 * scancel, scontrol. They are found on PATH and given 60 s. An error names
 * the command and the first line that it said.
 */
#ifndef BN_SWEEP_SLURM_H
#define BN_SWEEP_SLURM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* One job, or one task of an array. */
struct bn_job {
    uint32_t id;      /* SLURM_JOB_ID of its processes */
    uint32_t array;   /* SLURM_ARRAY_JOB_ID; the id if it is no array */
    int32_t task;     /* SLURM_ARRAY_TASK_ID; -1 if it is no array */
    char state[24];   /* PENDING, RUNNING, COMPLETING, ... */
    char reason[48];  /* why it is pending */
    char nodes[128];
};
struct bn_queue {
    struct bn_job *v; /* by array, task */
    size_t n, cap;
    double asked;     /* bn_wall_time before the question */
};

/* This user's jobs that are not over, tasks of arrays one by one. */
int bn_queue_ask(struct bn_queue *q, struct bn_err *err);
const struct bn_job *bn_queue_find(const struct bn_queue *q, uint32_t array,
                                   int32_t task);
/* By SLURM_JOB_ID. */
const struct bn_job *bn_queue_id(const struct bn_queue *q, uint32_t id);
void bn_queue_release(struct bn_queue *q);

/* The value of 'key' in "scontrol show config" text, malloc'ed, or NULL. */
char *bn_slurm_config(const char *text, const char *key);
/* "scontrol show config", malloc'ed; NULL with 'err'. */
char *bn_slurm_show_config(struct bn_err *err);

#endif
