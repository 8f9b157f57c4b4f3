/* What became of the points of a sweep, from files alone and the queue.
 *
 *   DIR/.burnish/jobs.jsonl   a line for each point submitted (append only)
 *   DIR/NAME/history          a line for each event of the point:
 *       submit TIME             (not before the first start)
 *       start TIME JOB RESTARTS NODES
 *       end TIME JOB STATUS CLASS
 *       cancel TIME
 */
#ifndef BN_SWEEP_STATE_H
#define BN_SWEEP_STATE_H

#include "base/str.h"
#include "sweep/slurm.h"
#include "sweep/sweep.h"
#include "train/asha.h"

struct bn_record {
    uint32_t job;  /* array id; 0: launched here */
    int32_t task;  /* -1: no array */
    uint32_t tokenize; /* job that it waits for; 0: none */
    struct bn_hash hash;
    double time;
};

/* The last record of each point, by its index; absent ones have time 0. */
struct bn_records {
    struct bn_record *v; /* [s->n] */
    bool local;          /* launch local is at work in another process */
};
int bn_records_read(struct bn_records *r, const struct bn_sweep *s,
                    struct bn_err *err);
void bn_records_release(struct bn_records *r);
/* Append records of points: what Slurm accepted is not forgotten, whatever
 * becomes of this process. The caller syncs the folder in the end. */
int bn_records_add(const struct bn_sweep *s, const size_t *points, size_t n,
                   uint32_t job, bool array, uint32_t tokenize,
                   struct bn_err *err);

enum bn_state {
    BN_STATE_NEW,      /* never submitted */
    BN_STATE_PENDING,  /* in the queue, not yet started or requeued */
    BN_STATE_RUNNING,
    BN_STATE_DONE,     /* its last run ended with 0 */
    BN_STATE_STOPPED,  /* likewise, but early: asha stopped it at a rung */
    BN_STATE_FAILED,   /* it ended with a class that is not tried again */
    BN_STATE_CANCELLED, /* by burnish sweep cancel */
    BN_STATE_LOST,     /* its job is over and left no end: node failure
                        * without requeue, time limit, scancel */
    BN_NSTATE
};
const char *bn_state_name(enum bn_state s);

struct bn_look {
    enum bn_state state;
    bool changed;        /* its run.yaml is not that of its last submission */
    int restarts;        /* starts after the first, since the submission */
    int status, exit_class; /* of the last end; -1: none */
    double submitted, started, ended; /* 0: not */
    struct bn_record record;
    char node[64];       /* of the last start */
    struct bn_asha_verdict asha; /* state stopped: by which */
};

/* Look at point 'i'. 'q' NULL: the queue could not be asked, and what has no
 * end is taken to run. */
void bn_look(const struct bn_sweep *s, size_t i, const struct bn_records *r,
             const struct bn_queue *q, struct bn_look *look);

/* Append "stopped at step 100 by asha, rank 5 of 8". */
void bn_asha_words(const struct bn_asha_verdict *v, struct bn_str *out);

/* "123", "123_4" or "-"; 'out' has 32 bytes. Returns 'out'. */
char *bn_record_name(const struct bn_record *r, char *out);

/* malloc'ed: DIR/.burnish/FILE. */
char *bn_sweep_file(const struct bn_sweep *s, const char *file);
/* Append a line to a point's history; 'make' false: only if there is one. */
int bn_history_add(const struct bn_sweep *s, const struct bn_point *p,
                   const char *line, bool make, struct bn_err *err);

#endif
