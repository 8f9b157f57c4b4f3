/* Shards into memory in one pass: some threads take one piece after the other,
 * hash it, and copy what of it belongs in the target while the caches have it.
 * Where the target may lie in the mapping itself, what is there as it belongs
 * is noted instead of copied.
 */
#include "config.h"
#include "ckpt/load.h"
#include "ckpt/reshard.h"
#include "ckpt/tree.h"
#include "base/mem.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORKERS = 4, PROBES = 64 };

/* One shard on its way. */
struct pass {
    const struct bn_ckpt_shard *shard;
    const struct bn_map *map;
    bool hashed;
    const struct bn_reshard *reshard; /* NULL: nothing is copied */
    float *const *to;                 /* [parts], each of the target's count */
    unsigned char *have;              /* of masters that were copied */
    int parts;
    size_t pieces;
    struct bn_hash *hash;     /* [pieces] */
    struct bn_ckpt_run *run;  /* [parts][pieces], n 0: none; NULL: all of it
                                 is to be copied */
    int fd;                   /* of a file that is not cached, else -1 */
    atomic_size_t next;       /* piece to be taken */
    atomic_int error;         /* errno of the disk */
};

/* Piece i is bytes [*from, *from + returned) of the file. */
static size_t piece(const struct pass *p, size_t i, size_t *from)
{
    *from = i * BN_CKPT_PIECE;
    return p->shard->bytes - *from < BN_CKPT_PIECE ? p->shard->bytes - *from
                                                   : BN_CKPT_PIECE;
}

/* Whether some of a file is not in the page cache, by looking at a few of its
 * pages. */
static bool is_cold(const struct bn_map *map)
{
    size_t page = (size_t)sysconf(_SC_PAGE_SIZE), pages = map->len / page;
    unsigned char there;

    for (size_t i = 0; i < PROBES; i++) {
        const char *at = map->data + pages * i / PROBES * page;

        if (pages > 0 && mincore((void *)(uintptr_t)at, 1, &there) == 0
            && (there & 1) == 0)
            return true;
    }
    return false;
}

int bn_ckpt_fetch(const struct bn_map *map, size_t from, size_t n)
{
#ifdef MADV_POPULATE_READ
    size_t page = (size_t)sysconf(_SC_PAGE_SIZE), end = from + n;

    from = from / page * page;
    if (end > map->len)
        end = map->len;
    if (end > from
        && madvise((void *)(uintptr_t)(map->data + from), end - from,
                   MADV_POPULATE_READ) < 0
        && errno != EINVAL)
        return errno == EFAULT ? EIO : errno;
#else
    (void)map, (void)from, (void)n;
#endif
    return 0;
}

/* Elements [at, at + n) of the shard's array k, which lie in piece i. */
static void give(struct pass *p, size_t i, int k, size_t at, size_t n)
{
    const float *data = (const float *)(const void *)p->map->data
                        + (size_t)k * p->shard->count + at;
    size_t to;

    if (p->run != NULL && bn_reshard_straight(p->reshard, at, n, &to))
        p->run[(size_t)k * p->pieces + i] =
            (struct bn_ckpt_run){.k = k, .at = to, .n = n, .from = data};
    else
        bn_reshard_copy(p->reshard, at, n, data, p->to[k],
                        k == 0 ? p->have : NULL);
}

/* Elements [*at, *at + returned) of array k lie in piece i. */
static size_t within(const struct pass *p, size_t i, int k, size_t *at)
{
    size_t from, n = piece(p, i, &from) / sizeof(float), end;
    size_t first = (size_t)k * p->shard->count; /* of the array */

    from /= sizeof(float);
    end = from + n < first + p->shard->count ? from + n
                                             : first + p->shard->count;
    from = from > first ? from : first;
    *at = from - first;
    return end > from ? end - from : 0;
}

/* Read a piece of the file into memory that is of no more use: that is how the
 * kernel reads ahead without waiting, and in large folios. Faults wait at the
 * end of each readahead (half the speed of the disk), and MADV_WILLNEED fills
 * the cache page by page, which makes every later use of it slow. 0 or an
 * errno. */
static int read_past(const struct pass *p, size_t from, size_t n,
                     char *scratch)
{
    while (n > 0) {
        ssize_t got = pread(p->fd, scratch, n, (off_t)from);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : EIO; /* shorter than it was */
        from += (size_t)got;
        n -= (size_t)got;
    }
    return 0;
}

static bool wanted(const struct pass *p, size_t i)
{
    bool any = p->hashed;

    for (int k = 0; k < p->parts && !any; k++) {
        size_t at, n = within(p, i, k, &at);

        any = n > 0
              && bn_reshard_copy(p->reshard, at, n, NULL, NULL, NULL) > 0;
    }
    return any;
}

static int bring(struct pass *p, size_t i, char *scratch)
{
    size_t from, n = piece(p, i, &from), at;
    bool any = wanted(p, i);
    int error = any && p->fd >= 0 ? read_past(p, from, n, scratch) : 0;

    if (any && error == 0)
        error = bn_ckpt_fetch(p->map, from, n);
    if (error == 0 && p->hashed && p->shard->tree)
        p->hash[i] = bn_hash_bytes(p->map->data + from, n);
    for (int k = 0; error == 0 && k < p->parts; k++) {
        size_t m = within(p, i, k, &at);

        if (m > 0)
            give(p, i, k, at, m);
    }
    return error;
}

static void work(void *arg, int index)
{
    struct pass *p = arg;
    char *scratch = p->fd >= 0 ? bn_malloc(BN_CKPT_PIECE) : NULL;
    size_t i = atomic_fetch_add(&p->next, 1);

    (void)index;
    for (; i < p->pieces && atomic_load(&p->error) == 0;
         i = atomic_fetch_add(&p->next, 1)) {
        int error = bring(p, i, scratch);

        if (error != 0)
            atomic_store(&p->error, error);
    }
    free(scratch);
}

/* No more threads than there is work for: an export asks for one tensor after
 * the other. */
static int workers_for(const struct pass *p)
{
    size_t most = p->shard->count;
    int cpus = bn_cpu_count();

    if (!p->hashed)
        most = bn_reshard_copy(p->reshard, 0, most, NULL, NULL, NULL);
    size_t n = bn_ckpt_pieces(most * sizeof(float));
    cpus = cpus < WORKERS ? cpus : WORKERS;
    return n < (size_t)cpus ? (int)n : cpus;
}

/* Whether the bytes, which are all there, are those that were written. */
static bool is_whole(const struct pass *p)
{
    const struct bn_hash *want = &p->shard->hash;
    struct bn_hash is = p->shard->tree
                            ? bn_ckpt_tree(p->hash, p->pieces)
                            : bn_hash_bytes(p->map->data, p->map->len);

    return is.hi == want->hi && is.lo == want->lo;
}

/* -1 if it cannot be opened again: the mapping does without. */
static int open_shard(const struct bn_ckpt *c, const char *name)
{
    char *path = bn_path_join(c->path, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    free(path);
    return fd;
}

static int run(struct pass *p, const struct bn_ckpt *c,
               struct bn_ckpt_runs *runs, struct bn_err *err)
{
    int workers = workers_for(p), rc = 0;
    char name[BN_CKPT_NAME];

    if (workers == 0 && !p->hashed)
        return 0; /* it has nothing of the range */
    p->pieces = bn_ckpt_pieces(p->shard->bytes);
    p->hash = BN_NEWN(struct bn_hash, p->pieces + 1);
    if (runs != NULL)
        p->run = BN_NEWN(struct bn_ckpt_run, (size_t)p->parts * p->pieces + 1);
    bn_ckpt_shard_name(p->shard, name);
    p->fd = is_cold(p->map) ? open_shard(c, name) : -1;
    bn_parallel(workers > 0 ? workers : 1, work, p);
    if (p->fd >= 0)
        close(p->fd);
    if (p->error != 0)
        rc = bn_fail(err, bn_err_from_errno(p->error), "cannot read '%s/%s': "
                     "%s", c->path, name, strerror(p->error));
    else if (p->hashed && !is_whole(p))
        rc = bn_fail(err, BN_ERR_DATA, "'%s/%s' is not what was written: its"
                     " checksum differs from the manifest's", c->path, name);
    for (size_t i = 0; p->run != NULL && i < (size_t)p->parts * p->pieces; i++)
        if (p->run[i].n > 0)
            bn_ckpt_runs_add(runs, &p->run[i]);
    free(p->hash);
    free(p->run);
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

        if (falls_to(i, checkers, mine) && run(&p, c, NULL, err) < 0)
            return -1;
    }
    return 0;
}

/* --- What a range gets ----------------------------------------------------- */

/* Whether elements [at, end) of the masters were found, copied or in a run. */
static bool found(const struct bn_ckpt_runs *runs, const unsigned char *have,
                  size_t at, size_t end)
{
    struct bn_ckpt_run part = {.at = at};
    size_t index = 0;

    while (bn_ckpt_runs_next(runs, end, &part, &index))
        if (part.from == NULL && memchr(have + part.at, 0, part.n) != NULL)
            return false;
    return true;
}

/* Whether every parameter of the range was found. */
static int check_all(const struct bn_ckpt_runs *runs,
                     const unsigned char *have, const struct bn_params *params,
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
        if (!found(runs, have, at - begin, end - begin))
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

int bn_ckpt_load_runs(const struct bn_ckpt *c, const struct bn_params *params,
                      size_t begin, size_t count, float *const *to, int parts,
                      int checkers, int mine, struct bn_ckpt_runs *runs,
                      struct bn_err *err)
{
    const struct bn_ckpt_of of = {&c->cfg, &c->lora, NULL};
    const struct bn_ckpt_runs none = {0};
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

        rc = r != NULL ? run(&p, c, runs, err) : -1;
        bn_reshard_end(r);
    }
    if (runs != NULL)
        bn_ckpt_runs_sort(runs);
    if (rc == 0)
        rc = check_all(runs != NULL ? runs : &none, have, params, begin, count,
                       c->path, err);
    free(have);
    return rc;
}

int bn_ckpt_load_host(const struct bn_ckpt *c, const struct bn_params *params,
                      size_t begin, size_t count, float *const *to, int parts,
                      int checkers, int mine, struct bn_err *err)
{
    return bn_ckpt_load_runs(c, params, begin, count, to, parts, checkers,
                             mine, NULL, err);
}

int bn_ckpt_read_host(const struct bn_ckpt *c, const struct bn_params *params,
                      size_t begin, size_t count, float *const *to, int parts,
                      struct bn_err *err)
{
    return bn_ckpt_load_host(c, params, begin, count, to, parts, 0, 0, err);
}
