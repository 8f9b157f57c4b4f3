/* NCCL for tests: the calls of comm/nccl_emu.h between emulated devices, by
 * the MPI back end on a thread of its own. As NCCL's, calls return before the
 * work is done (or even begun: ncclInProgress), a rank that is lost stops
 * them for ever, and an abort ends the wait. BN_NCCL_DEAF=1: not even the end
 * of a peer's process is noticed (as when its node is down).
 */
#include "config.h"
#include "comm/nccl_emu.h"
#include "base/hash.h"
#include "base/mem.h"
#include "comm/test/nccl_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- Work on a stream --------------------------------------------------  */

static bool all_done(const struct job *j)
{
    while (j != NULL && atomic_load(&j->done))
        j = j->rest;
    return j == NULL;
}

static bool is_over(void *arg)
{
    struct job *first = arg;

    return all_done(first) || first->comm->aborted;
}

/* What was aborted stays with the engine, which may be at it. */
static void put_results(void *arg)
{
    bool done = all_done(arg);

    for (struct job *j = arg, *rest; j != NULL && done; j = rest) {
        rest = j->rest;
        if (!j->comm->aborted && j->out_bytes > 0) {
            bn_emu_open_at(j->dst);
            memcpy(j->dst, j->out, j->out_bytes);
        }
        free(j->in);
        free(j->out);
        free(j);
    }
}

/* A stream has one work at a time: all of a group. */
static void start(struct job *first)
{
    const struct bn_emu_work work = {is_over, put_results, first};

    bn_emu_open_some();
    for (struct job *j = first; j != NULL; j = j->rest)
        if (j->in_bytes > 0) {
            bn_emu_open_at(j->src);
            memcpy(j->in, j->src, j->in_bytes);
        }
    bn_emu_close();
    bn_emu_stream_put(first->stream, &work);
    for (struct job *j = first, *rest; j != NULL; j = rest) {
        rest = j->rest; /* it may be over as soon as the last one is given */
        bn_emu_nccl_give(j);
    }
}

static bool all_on_device(const struct job *j)
{
    return (j->in_bytes == 0 || bn_emu_is_device(j->src, j->in_bytes))
           && (j->out_bytes == 0 || bn_emu_is_device(j->dst, j->out_bytes));
}

static ncclResult_t check(const struct job *j)
{
    if (j->comm == NULL || j->comm->state != ncclSuccess
        || j->comm->deferred != NULL || j->stream == NULL)
        return ncclInvalidUsage;
    if (all_on_device(j))
        return ncclSuccess;
    snprintf(j->comm->text, sizeof(j->comm->text),
             "a buffer is not in device memory");
    return ncclInvalidArgument;
}

/* The jobs of a group, or one alone, in order. */
static ncclResult_t submit_all(const struct job *all, int n)
{
    struct job *first = NULL, **last = &first;

    for (int i = 0; i < n; i++) {
        ncclResult_t r = check(&all[i]);

        if (r != ncclSuccess || all[i].comm != all[0].comm)
            return r != ncclSuccess ? r : ncclInvalidUsage;
    }
    for (int i = 0; i < n; i++) {
        struct job *mine = BN_NEW(struct job);

        *mine = all[i];
        mine->in = bn_malloc(mine->in_bytes + 1);
        mine->out = bn_malloc(mine->out_bytes + 1);
        *last = mine;
        last = &mine->rest;
    }
    if (bn_emu_stream_idle(first->stream)) {
        start(first);
        return ncclSuccess;
    }
    first->comm->deferred = first;
    return ncclInProgress;
}

static ncclResult_t submit(struct job j)
{
    return submit_all(&j, 1);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *async)
{
    struct job *j = comm->deferred;

    *async = comm->state;
    if (*async != ncclSuccess || j == NULL)
        return ncclSuccess;
    if (pthread_equal(pthread_self(), comm->owner)
        && bn_emu_stream_idle(j->stream)) {
        comm->deferred = NULL;
        start(j);
    } else {
        *async = ncclInProgress;
    }
    return ncclSuccess;
}

/* --- Calls -------------------------------------------------------------  */

static enum bn_dtype type_of(ncclDataType_t t)
{
    switch (t) {
    case ncclInt64:
        return BN_I64;
    case ncclFloat32:
        return BN_F32;
    case ncclFloat64:
        return BN_F64;
    case ncclBfloat16:
        return BN_BF16;
    case ncclInt8:
        break;
    }
    return BN_U8;
}

static enum bn_comm_op op_of(ncclRedOp_t op)
{
    return op == ncclSum ? BN_SUM : op == ncclMax ? BN_MAX : BN_MIN;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    size_t bytes = count * bn_dtype_size(type_of(type));

    return submit((struct job){.kind = ALLREDUCE, .comm = comm, .src = in,
                               .dst = out, .in_bytes = bytes,
                               .out_bytes = bytes, .n = count,
                               .type = type_of(type),
                               .op = op_of(op),
                               .stream = stream});
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * bn_dtype_size(type_of(type));

    if (op != ncclSum)
        return ncclInvalidArgument;
    return submit((struct job){.kind = REDUCE_SCATTER,
                               .comm = comm,
                               .src = in,
                               .dst = out,
                               .in_bytes = bytes * (size_t)comm->size,
                               .out_bytes = bytes,
                               .n = count,
                               .type = type_of(type),
                               .stream = stream});
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count,
                        ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * bn_dtype_size(type_of(type));

    if (op != ncclSum)
        return ncclInvalidArgument;
    return submit(
        (struct job){.kind = REDUCE,
                     .comm = comm,
                     .src = in,
                     .dst = out,
                     .in_bytes = bytes,
                     .out_bytes = comm->rank == root ? bytes : 0,
                     .n = count,
                     .type = type_of(type),
                     .from = root,
                     .stream = stream});
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    size_t bytes = count * bn_dtype_size(type_of(type));

    return submit((struct job){.kind = ALLGATHER, .comm = comm, .src = in,
                               .dst = out, .in_bytes = bytes,
                               .out_bytes = bytes * (size_t)comm->size,
                               .n = bytes, .stream = stream});
}

/* What a group may hold: one message each way, or broadcasts. */
static struct {
    int depth;
    bool used;
    struct job job;
    struct job bcast[64];
    int nbcast;
} open_group;

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    size_t n = count * bn_dtype_size(type_of(type));
    struct job j = {.kind = BCAST, .comm = comm, .src = in, .dst = out,
                    .in_bytes = comm->rank == root ? n : 0, .out_bytes = n,
                    .n = n, .from = root, .stream = stream};

    if (open_group.depth == 0)
        return submit(j);
    if (open_group.nbcast == (int)BN_COUNT(open_group.bcast))
        return ncclInvalidUsage;
    open_group.bcast[open_group.nbcast++] = j;
    return ncclSuccess;
}

static ncclResult_t add(ncclComm_t comm, cudaStream_t stream)
{
    if (open_group.depth == 0
        || (open_group.used && open_group.job.comm != comm))
        return ncclInvalidUsage;
    if (!open_group.used)
        open_group.job = (struct job){.kind = SENDRECV, .to = -1, .from = -1};
    open_group.used = true;
    open_group.job.comm = comm;
    open_group.job.stream = stream;
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t r = add(comm, stream);

    if (r != ncclSuccess || open_group.job.to >= 0)
        return ncclInvalidUsage;
    open_group.job.src = in;
    open_group.job.in_bytes = count * bn_dtype_size(type_of(type));
    open_group.job.to = peer;
    return ncclSuccess;
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t r = add(comm, stream);

    if (r != ncclSuccess || open_group.job.from >= 0)
        return ncclInvalidUsage;
    open_group.job.dst = out;
    open_group.job.out_bytes = count * bn_dtype_size(type_of(type));
    open_group.job.from = peer;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    open_group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    bool used = open_group.used;
    int n = open_group.nbcast;

    if (open_group.depth == 0 || (used && n > 0))
        return ncclInvalidUsage;
    if (--open_group.depth > 0 || (!used && n == 0))
        return ncclSuccess;
    open_group.used = false;
    open_group.nbcast = 0;
    return n > 0 ? submit_all(open_group.bcast, n) : submit(open_group.job);
}

/* --- Communicators -----------------------------------------------------  */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    memset(id, 0, sizeof(*id));
    snprintf(id->internal, sizeof(id->internal), "%ld %lld %ld", (long)getpid(),
             (long long)t.tv_sec, t.tv_nsec);
    return ncclSuccess;
}

static struct bn_emu_nccl *create(int rank, int size)
{
    struct bn_emu_nccl *m = BN_NEW(struct bn_emu_nccl);

    m->rank = rank;
    m->size = size;
    m->state = ncclInProgress;
    m->owner = pthread_self();
    return m;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    struct job *j = BN_NEW(struct job);

    if (config->blocking != 0)
        return ncclInvalidArgument; /* it would wait for ever */
    *comm = create(rank, nranks);
    (*comm)->world = true;
    j->kind = INIT;
    j->made = *comm;
    j->id = (int64_t)bn_hash_bytes(&id, sizeof(id)).lo;
    bn_emu_nccl_give(j);
    return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key,
                           ncclComm_t *newcomm, ncclConfig_t *config)
{
    struct job *j = BN_NEW(struct job);

    if (config->blocking != 0 || comm->state != ncclSuccess)
        return ncclInvalidArgument;
    *newcomm = NULL; /* until it is made, as NCCL does it */
    comm->state = ncclInProgress;
    *j = (struct job){.kind = SPLIT,
                      .comm = comm,
                      .made = color == NCCL_SPLIT_NOCOLOR ? NULL : create(0, 0),
                      .newcomm = newcomm,
                      .color = color,
                      .key = key};
    bn_emu_nccl_give(j);
    return ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return comm->deferred == NULL ? ncclSuccess : ncclInternalError;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    struct job *j = BN_NEW(struct job);
    bool world = comm->world;
    struct timespec t = {.tv_nsec = 100000};

    *j = (struct job){.kind = FREE, .comm = comm, .key = world};
    bn_emu_nccl_give(j);
    while (!atomic_load(&j->done))
        nanosleep(&t, NULL);
    if (world)
        bn_emu_nccl_join();
    free(j);
    free(comm);
    return ncclSuccess;
}

/* The engine may be in the middle of it: it keeps what it uses. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    comm->aborted = true;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const text[] = {
        "no error",
        "unhandled cuda error",
        "unhandled system error",
        "internal error",
        "invalid argument",
        "invalid usage",
        "remote process exited or there was a network error",
        "NCCL operation in progress"};

    return text[result];
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return comm != NULL ? comm->text : "";
}
