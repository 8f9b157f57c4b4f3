/* What the files of the NCCL back end share. */
#ifndef BN_COMM_NCCL_STATE_H
#define BN_COMM_NCCL_STATE_H

#ifdef BN_EMU
#include "comm/nccl_emu.h"
#else
#include <cuda_runtime_api.h>
#include <nccl.h>
#endif

#include <pthread.h>
#include <stdint.h>

#include "comm/nccl.h"
#include "comm/peer.h"

enum {
    BN_NCCL_FLIGHTS = 256,   /* calls on the stream that are not over */
    BN_NCCL_STAGE = 1 << 20, /* bytes of host data at a time, in and out */
};

_Static_assert(2 * BN_NCCL_STAGE == BN_NCCL_ROOM, "in and out");

struct bn_nccl_group {
    struct bn_nccl *w;
    struct bn_nccl_group *next; /* in the world's list */
    ncclComm_t comm;            /* NULL: a group of one, or aborted */
    int rank, size;
    int *world_rank; /* [size] */
    char name[64];   /* the same on all its ranks, and only there */
    uint64_t calls;  /* the same on all its ranks */
    int splits;
    bool owner; /* of w */
};

/* When to do something about a call, in seconds of its waiting. */
struct bn_nccl_next {
    double look, say;
};

/* One call on the communication stream. */
struct bn_nccl_flight {
    cudaEvent_t begin, end;
    const struct bn_nccl_group *g;
    const char *what;
    uint64_t call;
    double since; /* 0: what is before it on the device is not over yet */
    struct bn_nccl_next next;
    bool announced;
    bool enqueued; /* 'end' is recorded */
    bool later;    /* nothing but 'finish' waits for it */
};

struct bn_nccl {
    int rank, size;
    double timeout;
    struct bn_watch watch; /* all NULL: none */
    struct bn_boot *boot;
    struct bn_peer *peer; /* [size]; zero until they are exchanged */
    struct bn_dev *dev;
    int device;           /* of the CUDA runtime */
    cudaStream_t compute; /* borrowed */
    cudaStream_t stream, side; /* of what is done later */
    cudaEvent_t ready, copied, aside;
    void (*dying)(const struct bn_err *why); /* may be NULL */
    char *stage;   /* pinned, 2 * BN_NCCL_STAGE: in, then out */
    char *scratch; /* the same on the device */
    struct bn_nccl_group *groups;
    /* Below: with the lock held. NCCL is called with it, too. */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    pthread_t watchdog;
    bool watching, stop;
    bool broken;
    struct bn_err why;
    pthread_t aborter;
    bool aborting;  /* it was started */
    double aborted; /* when */
    struct bn_nccl_flight flight[BN_NCCL_FLIGHTS];
    unsigned first, flying;              /* the oldest, and how many */
    const struct bn_nccl_group *looking; /* that the watchdog reads now */
};

/* World and watchdog (nccl_world.c). Functions that return int fail with the
 * world's failure if there is one. */
struct bn_nccl *bn_nccl_open(const struct bn_nccl_options *o,
                             struct bn_dev *dev, struct bn_err *err);
int bn_nccl_watch(struct bn_nccl *w, struct bn_err *err);
/* All groups are gone. */
void bn_nccl_close(struct bn_nccl *w);
/* Take a place in the list of calls, with the lock held until bn_nccl_done,
 * which is told what NCCL returned. */
int bn_nccl_begin(struct bn_nccl_group *g, const char *what, bool later,
                  struct bn_err *err);
int bn_nccl_done(struct bn_nccl_group *g, ncclResult_t r, struct bn_err *err);
/* Let the device's stream wait for what is done later. */
int bn_nccl_finish(struct bn_nccl *w, struct bn_err *err);
/* Until what is on the communication stream now is over. */
int bn_nccl_wait(struct bn_nccl *w, struct bn_err *err);
/* Wait for a communicator that is being made or ended in the background,
 * after NCCL returned r. The lock must not be held. */
int bn_nccl_settle(struct bn_nccl_group *g, ncclComm_t comm, ncclResult_t r,
                   const char *what, struct bn_err *err);
/* Mark the world as failed, with the lock held, and abort what is enqueued;
 * 'device': the device fails alike. */
void bn_nccl_break(struct bn_nccl *w, const struct bn_err *why, bool device);

/* Who is missing (nccl_missing.c); without the lock. */
extern const struct bn_nccl_next bn_nccl_first;
/* Show those that ask that this rank has come to a call. */
void bn_nccl_announce(const struct bn_nccl_group *g, uint64_t call);
/* -1 if any rank is lost, which ends the job: this one may wait for one that
 * waits for it. */
int bn_nccl_lost(const struct bn_nccl *w, const char *what, struct bn_err *err);
/* A call that has waited for so long: -1 with the reason to give up. Says a
 * word meanwhile. */
int bn_nccl_judge(const struct bn_nccl_group *g, const char *what,
                  uint64_t call, double waited, struct bn_nccl_next *next,
                  struct bn_err *err);

enum bn_nccl_kind {
    BN_NCCL_ALLREDUCE,
    BN_NCCL_REDUCE_SCATTER,
    BN_NCCL_REDUCE,
    BN_NCCL_ALLGATHER,
    BN_NCCL_BCAST,
    BN_NCCL_SENDRECV,
    BN_NCCL_GATHER
};

/* One call; buffers on the device. */
struct bn_nccl_call {
    enum bn_nccl_kind kind;
    const char *what;
    bool later; /* beside what the device computes, until 'finish' */
    const void *in;
    void *out;
    size_t n, n_out; /* n_out: of SENDRECV */
    ncclDataType_t type;
    ncclRedOp_t op;
    size_t stride; /* of GATHER: bytes from a rank's piece to the next */
    int to, from; /* of SENDRECV; from: the root of BCAST, REDUCE */
};

/* nccl_call.c. Put it on the communication stream; do not wait. */
int bn_nccl_enqueue(struct bn_nccl_group *g, const struct bn_nccl_call *k,
                    struct bn_err *err);
/* The same on host memory, through the stage; waits. 'k' says what, but for
 * buffers and sizes. */
int bn_nccl_host_allreduce(struct bn_nccl_group *g, struct bn_nccl_call *k,
                           char *buf, size_t n, size_t es, struct bn_err *err);
int bn_nccl_host_reduce_scatter(struct bn_nccl_group *g, struct bn_nccl_call *k,
                                char *out, const char *in, size_t n, size_t es,
                                struct bn_err *err);
int bn_nccl_host_reduce(struct bn_nccl_group *g, struct bn_nccl_call *k,
                        char *out, const char *in, size_t n, size_t es,
                        struct bn_err *err);
int bn_nccl_host_allgather(struct bn_nccl_group *g, struct bn_nccl_call *k,
                           char *out, const char *in, size_t bytes,
                           struct bn_err *err);
int bn_nccl_host_bcast(struct bn_nccl_group *g, struct bn_nccl_call *k,
                       char *buf, size_t bytes, struct bn_err *err);
int bn_nccl_host_sendrecv(struct bn_nccl_group *g, struct bn_nccl_call *k,
                          const char *out, size_t out_bytes, char *in,
                          size_t in_bytes, struct bn_err *err);

#endif
