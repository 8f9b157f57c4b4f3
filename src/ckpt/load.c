/* Shards into memory in one pass: piece by piece a shard is brought to where
 * its elements belong, and hashed while the caches have it, by some threads
 * that never wait for each other: whoever finds the next piece to be hashed
 * there hashes it, else brings in another one. A piece that belongs in one
 * place as it is, is read into it; of others the mapping is copied.
 */
#include "config.h"
#include "ckpt/reshard.h"
#include "base/mem.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes of a piece, and how far the disk is asked to read ahead of it: enough
 * for it never to wait for us. */
enum { PIECE = 1 << 20, AHEAD = 32 << 20, WORKERS = 4 };

/* One shard on its way. */
struct pass {
    const struct bn_ckpt_shard *shard;
    const struct bn_map *map;
    int fd; /* of the same file */
    bool hashed;
    const struct bn_reshard *reshard; /* NULL: nothing is copied */
    float *const *to;                 /* [parts], each of the target's count */
    unsigned char *have;              /* of masters */
    int parts;
    size_t pieces; /* of each of the three arrays */
    struct bn_hasher *hasher;
    pthread_mutex_t lock; /* of what follows */
    size_t brought, hashed_to; /* pieces given out, and hashed so far */
    bool hashing;              /* a thread has the hasher */
    const void **at;           /* [3 * pieces]: its bytes, once there */
    int error;                 /* errno of the disk */
};

/* Piece 'index': elements [*at, *at + returned) of array '*k'. */
static size_t piece(const struct pass *p, size_t index, int *k, size_t *at)
{
    size_t most = PIECE / sizeof(float);

    *k = (int)(index / p->pieces);
    *at = index % p->pieces * most;
    return p->shard->count - *at < most ? p->shard->count - *at : most;
}

static const float *array(const struct pass *p, int k)
{
    return (const float *)(const void *)p->map->data
           + (size_t)k * p->shard->count;
}

/* madvise of bytes [from, from + n) of the mapping, as far as it goes. */
static int advise(const struct pass *p, size_t from, size_t n, int how)
{
    size_t page = (size_t)sysconf(_SC_PAGE_SIZE), end = from + n;

    from = from / page * page;
    if (end > p->map->len)
        end = p->map->len;
    return end <= from ? 0
                       : madvise((void *)(uintptr_t)(p->map->data + from),
                                 end - from, how);
}

/* Bring in a piece by one call rather than a fault for every page; that says
 * what a fault could only say by a signal. An older kernel, which cannot,
 * leaves it to the faults. */
static int fetch(const struct pass *p, size_t from, size_t n)
{
    if (from == 0)
        advise(p, 0, AHEAD, MADV_WILLNEED);
    advise(p, from + AHEAD, n, MADV_WILLNEED);
#ifdef MADV_POPULATE_READ
    if (advise(p, from, n, MADV_POPULATE_READ) < 0 && errno != EINVAL)
        return errno == EFAULT ? EIO : errno;
#endif
    return 0;
}

/* Read n bytes of the file; 0 or an errno. */
static int read_into(const struct pass *p, void *to, size_t from, size_t n)
{
    char *at = to;

    while (n > 0) {
        ssize_t got = pread(p->fd, at, n, (off_t)from);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : EIO; /* shorter than it was */
        at += got, from += (size_t)got, n -= (size_t)got;
    }
    return 0;
}

/* Bring in a piece; '*bytes' is where they are then. */
static int bring(struct pass *p, size_t index, const void **bytes)
{
    int k, error = 0;
    size_t at, to, n = piece(p, index, &k, &at);
    const float *data = array(p, k) + at;
    size_t from = (size_t)((const char *)data - p->map->data);
    bool wanted = p->reshard != NULL && k < p->parts
                  && bn_reshard_copy(p->reshard, at, n, NULL, NULL, NULL) > 0;

    *bytes = data;
    if (wanted && bn_reshard_straight(p->reshard, at, n, &to)) {
        *bytes = p->to[k] + to;
        error = read_into(p, p->to[k] + to, from, n * sizeof(float));
        if (k == 0)
            memset(p->have + to, 1, n);
        return error;
    }
    if (p->hashed || wanted)
        error = fetch(p, from, n * sizeof(float));
    if (wanted && error == 0)
        bn_reshard_copy(p->reshard, at, n, data, p->to[k],
                        k == 0 ? p->have : NULL);
    return error;
}

enum job { BRING, HASH, NONE };

/* What this thread does next, and to which piece. */
static enum job take(struct pass *p, size_t *i)
{
    enum job job = NONE;

    pthread_mutex_lock(&p->lock);
    if (p->error == 0 && p->hashed && !p->hashing
        && p->hashed_to < 3 * p->pieces && p->at[p->hashed_to] != NULL) {
        p->hashing = true;
        *i = p->hashed_to;
        job = HASH;
    } else if (p->error == 0 && p->brought < 3 * p->pieces) {
        *i = p->brought++;
        job = BRING;
    }
    pthread_mutex_unlock(&p->lock);
    return job;
}

static void finish(struct pass *p, enum job job, size_t i, const void *bytes,
                   int error)
{
    pthread_mutex_lock(&p->lock);
    if (job == HASH) {
        p->hashing = false;
        p->hashed_to++;
    } else {
        p->at[i] = bytes;
    }
    if (p->error == 0)
        p->error = error;
    pthread_mutex_unlock(&p->lock);
}

/* Nobody leaves anything behind: who brings in a piece comes back to look
 * whether it can be hashed. */
static void work(void *arg, int index)
{
    struct pass *p = arg;
    enum job job;
    size_t i, at;
    int k;

    (void)index;
    while ((job = take(p, &i)) != NONE) {
        const void *bytes = NULL;
        int error = 0;

        if (job == BRING) {
            error = bring(p, i, &bytes);
        } else {
            size_t n = piece(p, i, &k, &at);

            bn_hasher_add(p->hasher, p->at[i], n * sizeof(float));
        }
        finish(p, job, i, bytes, error);
    }
}

/* No more threads than there is work for: an export asks for one tensor after
 * the other. */
static int workers_for(const struct pass *p)
{
    size_t most = p->shard->count;
    int cpus = bn_cpu_count();

    if (!p->hashed)
        most = bn_reshard_copy(p->reshard, 0, most, NULL, NULL, NULL);
    size_t n = (most * sizeof(float) + PIECE - 1) / PIECE;
    cpus = cpus < WORKERS ? cpus : WORKERS;
    return n < (size_t)cpus ? (int)n : cpus;
}

static int open_file(struct pass *p, const struct bn_ckpt *c,
                     struct bn_err *err)
{
    char name[BN_CKPT_NAME];
    char *path = bn_path_join(c->path, bn_ckpt_shard_name(p->shard, name));

    p->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (p->fd < 0)
        bn_fail(err, bn_err_from_errno(errno), "cannot open '%s': %s", path,
                strerror(errno));
    free(path);
    return p->fd < 0 ? -1 : 0;
}

static int run(struct pass *p, const struct bn_ckpt *c, struct bn_err *err)
{
    const struct bn_hash *want = &p->shard->hash;
    size_t bytes = p->shard->count * sizeof(float);
    int workers = workers_for(p), rc = 0;
    char name[BN_CKPT_NAME];

    if (workers == 0 && !p->hashed)
        return 0; /* it has nothing of the range */
    if (open_file(p, c, err) < 0)
        return -1;
    p->pieces = (bytes + PIECE - 1) / PIECE;
    p->at = BN_NEWN(const void *, 3 * p->pieces + 1);
    p->hasher = bn_hasher_begin();
    pthread_mutex_init(&p->lock, NULL);
    bn_parallel(workers > 0 ? workers : 1, work, p);
    pthread_mutex_destroy(&p->lock);
    free(p->at);
    close(p->fd);
    struct bn_hash is = bn_hasher_end(p->hasher);
    bn_ckpt_shard_name(p->shard, name);
    if (p->error != 0)
        rc = bn_fail(err, bn_err_from_errno(p->error), "cannot read '%s/%s': "
                     "%s", c->path, name, strerror(p->error));
    else if (p->hashed && (is.hi != want->hi || is.lo != want->lo))
        rc = bn_fail(err, BN_ERR_DATA, "'%s/%s' is not what was written: its"
                     " checksum differs from the manifest's", c->path, name);
    return rc;
}

static bool falls_to(size_t shard, int checkers, int mine)
{
    return checkers > 0 && shard % (size_t)checkers == (size_t)mine;
}

int bn_ckpt_check(const struct bn_ckpt *c, int checkers, int mine,
                  struct bn_err *err)
{
    for (size_t i = 0; i < c->n; i++) {
        struct pass p = {.shard = &c->shard[i], .map = &c->map[i],
                         .hashed = true};

        if (falls_to(i, checkers, mine) && run(&p, c, err) < 0)
            return -1;
    }
    return 0;
}

/* --- What a range gets ----------------------------------------------------- */

/* Whether every parameter of the range was found. */
static int check_all(const unsigned char *have, const struct bn_params *params,
                     size_t begin, size_t count, const char *where,
                     struct bn_err *err)
{
    for (int k = 0; k < params->n; k++) {
        const struct bn_param *p = &params->item[k];
        size_t at = p->offset, end = p->offset + p->count;

        if (end <= begin || at >= begin + count)
            continue;
        if (at < begin)
            at = begin;
        if (end > begin + count)
            end = begin + count;
        if (memchr(have + (at - begin), 0, end - at) != NULL)
            return bn_fail(err, BN_ERR_DATA, "checkpoint '%s' does not hold "
                           "all of '%s'", where, p->name);
    }
    return 0;
}

/* Zero what of the target range lies between parameters and behind the last
 * one; the rest is copied, and writing it twice would cost a pass. */
static void zero_padding(float *to, const struct bn_params *params,
                         size_t begin, size_t count)
{
    size_t end = begin + count, at = begin;

    for (int k = 0; k <= params->n && at < end; k++) {
        const struct bn_param *p = k < params->n ? &params->item[k] : NULL;
        size_t next = p != NULL && p->offset < end ? p->offset : end;

        if (next > at)
            memset(to + (at - begin), 0, (next - at) * sizeof(float));
        if (p != NULL && p->offset + p->count > at)
            at = p->offset + p->count;
    }
}

int bn_ckpt_load_host(const struct bn_ckpt *c, const struct bn_params *params,
                      size_t begin, size_t count, float *const *to, int parts,
                      int checkers, int mine, struct bn_err *err)
{
    const struct bn_ckpt_of of = {&c->cfg, &c->lora, NULL};
    unsigned char *have = bn_calloc(count, 1);
    int rc = 0;

    for (int k = 0; k < parts; k++)
        zero_padding(to[k], params, begin, count);
    for (size_t i = 0; rc == 0 && i < c->n; i++) {
        struct bn_reshard *r = bn_reshard_begin(params, begin, count, &of,
                                                &c->shard[i], err);
        struct pass p = {.shard = &c->shard[i], .map = &c->map[i],
                         .hashed = falls_to(i, checkers, mine), .reshard = r,
                         .to = to, .have = have, .parts = parts};

        rc = r != NULL ? run(&p, c, err) : -1;
        bn_reshard_end(r);
    }
    if (rc == 0)
        rc = check_all(have, params, begin, count, c->path, err);
    free(have);
    return rc;
}

int bn_ckpt_read_host(const struct bn_ckpt *c, const struct bn_params *params,
                      size_t begin, size_t count, float *const *to, int parts,
                      struct bn_err *err)
{
    return bn_ckpt_load_host(c, params, begin, count, to, parts, 0, 0, err);
}
