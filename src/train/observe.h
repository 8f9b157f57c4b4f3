/* What a run took: memory by class, time by activity, operations that ran off
 * their device, MFU. Of this rank whenever it is asked (SIGUSR2), of all
 * ranks at the end of a run. Nothing here changes what a run computes.
 */
#ifndef BN_TRAIN_OBSERVE_H
#define BN_TRAIN_OBSERVE_H

#include "base/times.h"
#include "train/metrics.h"
#include "train/session.h"

enum bn_memory {
    BN_MEMORY_WEIGHTS,
    BN_MEMORY_GRADIENTS,
    BN_MEMORY_TABLES, /* RoPE */
    BN_MEMORY_OPTIMIZER,
    BN_MEMORY_ACTIVATIONS, /* and the head's logits */
    BN_MEMORY_COMM,        /* buffers of collectives between CPUs */
    BN_MEMORY_COPY,        /* of the state, for checkpoints */
    BN_MEMORY_DATA,        /* token sets, mapped from files */
    BN_MEMORY_SCRATCH,     /* of matrix products and libraries, on the host */
    BN_MEMORY_GPU_SCRATCH, /* the same on a GPU */
    BN_MEMORY_STAGING,     /* between host and device */
    BN_MEMORY_ROUNDING,    /* of arenas to huge pages, on the host */
    BN_MEMORIES,
};

/* Bytes. allocated: taken from the system now; touched: of it, what has pages
 * (device and pinned memory has them from the beginning); peak: allocated at
 * most. planned: what `burnish plan` says; data, scratch of the host,
 * staging and rounding are in no plan: 0. */
struct bn_memory_use {
    uint64_t planned, allocated, touched, peak;
};

/* Of one rank; plain data. */
struct bn_observed {
    struct bn_memory_use memory[BN_MEMORIES];
    uint64_t resident, resident_peak;        /* the process */
    uint64_t device_free, device_total;      /* 0 on a CPU */
    double seconds[BN_TIMES], wall;          /* base/times.h */
    double flops, step_seconds;              /* of all ranks; of steps */
    double peak_flops;                       /* of this rank's device */
    long steps;
    int ranks; /* of the run */
    bool on_gpu;
    char peak_how[96];
    char off[512]; /* "slot (shapes) times, ..." */
};

/* Observe the steps of this session from now on; it must outlive the rest
 * here, but for bn_observe_end. 'copy' is false where no checkpoint is
 * written. */
void bn_observe_begin(const struct bn_session *s, bool copy);
void bn_observe_end(void);
/* A step was done: what it did, and how long it took. */
void bn_observe_step(const struct bn_step_result *r, double seconds);
/* At a safe point: if SIGUSR2 came, print this rank's report. Local. */
void bn_observe_poll(void);
/* Whether a report was printed so since the last time this was asked: then
 * the ranks agree on one of all. */
bool bn_observe_asked(void);

/* This rank, now. Local. */
void bn_observe(struct bn_observed *o);
/* Gather all[size], on every rank. Collective. */
int bn_observe_gather(struct bn_observed *all, struct bn_err *err);
/* Print a report of n ranks (n 1: of this one) to the log. */
void bn_observe_print(const struct bn_observed *all, int n);
/* The same as metrics for a record: "time/NAME" (mean over ranks), "time/wall",
 * "memory/CLASS/planned|allocated|touched|peak" (the most of any rank),
 * "memory/resident_peak", "mfu" where the peak is known. 'v' has
 * BN_OBSERVE_KEYS; keys are borrowed until the next call. */
enum { BN_OBSERVE_KEYS = BN_TIMES + 4 * BN_MEMORIES + 3 };
size_t bn_observe_metrics(const struct bn_observed *all, int n,
                          struct bn_metric *v);
/* FLOPs done over those possible in the steps so far; 0 if not known. */
double bn_observe_mfu(const struct bn_observed *all, int n);

#endif
