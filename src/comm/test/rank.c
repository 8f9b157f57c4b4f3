/* One rank of t/t5010-comm.t:
 *     rank ops              every collective, in world and in groups
 *     rank late R S T       rank R comes S seconds late; deadline T
 *     rank die R            rank R kills itself while the others wait
 *     rank told R           the others are told that rank R failed
 *     rank drop R           rank R leaves one sum out, and is found out
 *     rank absent R S T     rank R comes to the boot S seconds late (NCCL)
 *     rank unmade R S T     and here to the making of the world (NCCL)
 * Built with BN_EMU: the same over NCCL on emulated devices, with buffers in
 * host memory or, with BN_RANK_DEVICE=1, in the device's.
 */
#include "config.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "boot/boot.h"
#include "comm/comm.h"
#include "kernels/number.h"

#ifdef BN_EMU
#include "comm/nccl.h"
#include "comm/test/over_device.h"
#include "ops/cuda.h"
#endif

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures;

static void check(bool ok, const char *what, size_t n)
{
    if (!ok) {
        bn_error("%s of %zu is wrong", what, n);
        failures++;
    }
}

/* Small integers, different a rank and place: their sums are exact in every
 * type and order. */
static int value(int rank, size_t i)
{
    return (int)((i * 7 + (size_t)rank * 5 + (i >> 9)) % 13) - 6;
}

static int total(const struct bn_comm *c, const int *world, size_t i)
{
    int sum = 0;

    for (int r = 0; r < c->size; r++)
        sum += value(world[r], i);
    return sum;
}

static void put(void *p, enum bn_dtype t, size_t i, double x)
{
    if (t == BN_F32)
        ((float *)p)[i] = (float)x;
    else if (t == BN_BF16)
        ((uint16_t *)p)[i] = bn_float_to_bf16((float)x);
    else if (t == BN_F64)
        ((double *)p)[i] = x;
    else
        ((int64_t *)p)[i] = (int64_t)x;
}

static double get(const void *p, enum bn_dtype t, size_t i)
{
    if (t == BN_F32)
        return (double)((const float *)p)[i];
    if (t == BN_BF16)
        return (double)bn_bf16_to_float(((const uint16_t *)p)[i]);
    if (t == BN_F64)
        return ((const double *)p)[i];
    return (double)((const int64_t *)p)[i];
}

/* world: the world rank of each member. */
static int test_sums(struct bn_comm *c, const int *world, enum bn_dtype t,
                     size_t n, struct bn_err *err)
{
    size_t es = bn_dtype_size(t), p = (size_t)c->size, me = (size_t)c->rank;
    char *buf = bn_malloc((n * p + 1) * es), *out = bn_malloc((n + 1) * es);
    bool ok = true;

    for (size_t i = 0; i < n; i++)
        put(buf, t, i, value(world[me], i));
    put(buf, t, n, 99); /* a guard */
    if (c->ops->allreduce(c, buf, t, n, BN_SUM, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        ok &= get(buf, t, i) == total(c, world, i);
    check(ok && get(buf, t, n) == 99, "allreduce", n);

    ok = true;
    for (size_t i = 0; i < n * p; i++)
        put(buf, t, i, value(world[me], i));
    put(out, t, n, 99);
    if (c->ops->reduce_scatter(c, out, buf, t, n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        ok &= get(out, t, i) == total(c, world, me * n + i);
    check(ok && get(out, t, n) == 99, "reduce-scatter", n);
    if (c->ops->reduce_scatter(c, buf + me * n * es, buf, t, n, err) < 0)
        return -1;
    check(memcmp(buf + me * n * es, out, n * es) == 0,
          "reduce-scatter in place", n);

    for (int root = 0; root < c->size; root++) {
        ok = true;
        for (size_t i = 0; i < n; i++)
            put(buf, t, i, value(world[me], i));
        put(out, t, 0, 99);
        if (c->ops->reduce(c, root % 2 == 0 ? out : buf, buf, t, n, root, err)
            < 0)
            return -1;
        for (size_t i = 0; i < n && c->rank == root; i++)
            ok &= get(root % 2 == 0 ? out : buf, t, i) == total(c, world, i);
        ok &= c->rank == root || get(out, t, 0) == 99;
        check(ok, "reduce", n);
    }
    ok = true;
    for (size_t i = 0; i < n; i++)
        put(out, t, i, value(world[me], i));
    put(buf, t, n * p, 99);
    if (c->ops->allgather(c, buf, out, t, n, err) < 0)
        return -1;
    for (size_t r = 0; r < p; r++)
        for (size_t i = 0; i < n; i++)
            ok &= get(buf, t, r * n + i) == value(world[r], i);
    check(ok && get(buf, t, n * p) == 99, "allgather", n);
    free(buf);
    free(out);
    return 0;
}

/* Numbers whose sum depends on the order: it must be that of the ranks. */
static int test_order(struct bn_comm *c, size_t n, struct bn_err *err)
{
    float *x = BN_NEWN(float, n);
    bool ok = true;

    for (size_t i = 0; i < n; i++)
        x[i] = 1.0f / (float)(3 + c->rank * 7 + (int)(i % 11));
    if (c->ops->allreduce(c, x, BN_F32, n, BN_SUM, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        float want = 1.0f / (float)(3 + (int)(i % 11));

        for (int r = 1; r < c->size; r++)
            want += 1.0f / (float)(3 + r * 7 + (int)(i % 11));
        ok &= x[i] == want;
    }
    check(ok, "order of a sum", n);
    free(x);
    return 0;
}

/* What rank r gives to reduction k: the sum depends on the order. */
static float term(int r, size_t k, size_t i)
{
    return 1.0f / (float)(3 + r * 7 + (int)((i + 5 * k) % 11));
}

/* Reductions to all roots, more than go at a time, while others are done. */
static int test_later(struct bn_comm *c, size_t n, struct bn_err *err)
{
    enum { MANY = 9 };
    float *x[MANY];
    int64_t one = 1;

    for (size_t k = 0; k < MANY; k++) {
        int root = (int)k % c->size;

        x[k] = BN_NEWN(float, n + 1);
        for (size_t i = 0; i < n; i++)
            x[k][i] = term(c->rank, k, i);
        x[k][n] = 99;
        if (c->ops->reduce_begin(c, root == c->rank ? x[k] : NULL, x[k],
                                 BN_F32, n, root, err) < 0
            || (k % 3 == 0
                && c->ops->allreduce(c, &one, BN_I64, 1, BN_MAX, err) < 0))
            return -1;
    }
    if (c->ops->finish(c, err) < 0)
        return -1;
    for (size_t k = 0; k < MANY; k++) {
        bool ok = one == 1 && x[k][n] == 99, root = (int)k % c->size == c->rank;

        for (size_t i = 0; i < n; i++) {
            float want = root ? term(0, k, i) : term(c->rank, k, i);

            for (int r = 1; root && r < c->size; r++)
                want += term(r, k, i);
            ok &= x[k][i] == want;
        }
        check(ok, "reduction later", n);
        free(x[k]);
    }
    return c->ops->finish(c, err); /* of nothing */
}

/* Byte i of what rank r gives to gather k. */
static char given(int r, size_t k, size_t i)
{
    return (char)(1 + (size_t)r * 31 + k * 7 + i * 13 % 61);
}

/* Gathers of pieces that lie apart, and sums of more than goes at a time,
 * begun by turns while others are done; what is between the pieces stays. */
static int test_gather_later(struct bn_comm *c, size_t n, struct bn_err *err)
{
    enum { MANY = 5, GAP = 3 };
    size_t stride = n + GAP, whole = (size_t)c->size * stride;
    char *x[MANY];
    float *sum[MANY];
    int64_t one = 1;

    for (size_t k = 0; k < MANY; k++) {
        int root = (int)k % c->size;

        x[k] = bn_malloc(whole);
        memset(x[k], 0, whole);
        sum[k] = BN_NEWN(float, n);
        for (size_t i = 0; i < n; i++) {
            x[k][(size_t)c->rank * stride + i] = given(c->rank, k, i);
            sum[k][i] = 1;
        }
        if (c->ops->reduce_begin(c, root == c->rank ? sum[k] : NULL, sum[k],
                                 BN_F32, n, root, err) < 0
            || c->ops->allgather_begin(c, x[k], n, stride, err) < 0
            || (k % 3 == 0
                && c->ops->allreduce(c, &one, BN_I64, 1, BN_MAX, err) < 0))
            return -1;
    }
    if (c->ops->finish(c, err) < 0)
        return -1;
    for (size_t k = 0; k < MANY; k++) {
        bool root = (int)k % c->size == c->rank, ok = one == 1;

        for (size_t i = 0; i < n; i++)
            ok &= sum[k][i] == (root ? (float)c->size : 1);
        for (size_t i = 0; i < whole; i++)
            ok &= x[k][i] == (i % stride < n
                                  ? given((int)(i / stride), k, i % stride)
                                  : 0);
        check(ok, "gather later", n);
        free(sum[k]);
        free(x[k]);
    }
    return 0;
}

static int test_rest(struct bn_comm *c, struct bn_err *err)
{
    enum { N = 300001 };
    int64_t v[2] = {c->rank, -c->rank};
    char *buf = bn_malloc(N), *from = bn_malloc(N);
    int next = (c->rank + 1) % c->size;
    int prev = (c->rank + c->size - 1) % c->size;

    if (c->ops->allreduce(c, v, BN_I64, 1, BN_MAX, err) < 0
        || c->ops->allreduce(c, v + 1, BN_I64, 1, BN_MIN, err) < 0)
        return -1;
    check(v[0] == c->size - 1 && v[1] == 1 - c->size, "max, min", 1);
    for (int root = 0; root < c->size; root++) {
        memset(buf, c->rank == root ? 'a' + root : 0, N);
        if (c->ops->bcast(c, buf, N, root, err) < 0)
            return -1;
        check(buf[0] == 'a' + root && memcmp(buf, buf + 1, N - 1) == 0,
              "broadcast", N);
    }
    memset(buf, 'a' + c->rank, N);
    if (c->size > 1
        && c->ops->sendrecv(c, buf, N, next, from, N, prev, err) < 0)
        return -1;
    if (c->size > 1)
        check(from[0] == 'a' + prev && from[N - 1] == 'a' + prev, "exchange",
              N);
    free(buf);
    free(from);
    return c->ops->barrier(c, err);
}

static int test_group(struct bn_comm *c, const int *world, struct bn_err *err)
{
    static const enum bn_dtype types[] = {BN_F32, BN_BF16, BN_F64, BN_I64};
    static const size_t sizes[] = {0, 1, 7, 513, 1025, 70000, 600001};

    for (size_t t = 0; t < BN_COUNT(types); t++)
        for (size_t s = 0; s < BN_COUNT(sizes); s++)
            if (sizes[s] < 100000 || types[t] == BN_F32)
                if (test_sums(c, world, types[t], sizes[s], err) < 0)
                    return -1;
    if (test_order(c, 5, err) < 0 || test_order(c, 100003, err) < 0
        || test_later(c, 1, err) < 0 || test_later(c, 200003, err) < 0
        || test_gather_later(c, 1, err) < 0
        || test_gather_later(c, 600011, err) < 0)
        return -1;
    return test_rest(c, err);
}

/* World, then both ways to halve it, used in turns. */
static int ops(struct bn_comm *w, struct bn_err *err)
{
    int members[64], even[64], high[64], ne = 0, nh = 0;
    int half = w->size / 2;
    struct bn_comm *a, *b;

    for (int r = 0; r < w->size; r++) {
        members[r] = r;
        if (r % 2 == w->rank % 2)
            even[ne++] = r;
        /* Keys that count down: ranks in the opposite order. */
        if ((r >= half) == (w->rank >= half))
            high[nh++] = r;
    }
    for (int i = 0; i < nh / 2; i++) {
        int swap = high[i];

        high[i] = high[nh - 1 - i];
        high[nh - 1 - i] = swap;
    }
    if (test_group(w, members, err) < 0)
        return -1;
    a = w->ops->split(w, w->rank % 2, w->rank, err);
    b = w->ops->split(w, w->rank >= half, -w->rank, err);
    if (a == NULL || b == NULL)
        return -1;
    check(a->size == ne && b->size == nh, "split", 2);
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++)
        if (test_group(a, even, err) < 0 || test_group(b, high, err) < 0)
            rc = -1;
    bn_comm_destroy(a);
    bn_comm_destroy(b);
    if (rc == 0 && bn_comm_agree(w, 0, err) < 0)
        rc = -1;
    enum bn_err_code mine = w->rank == w->size - 1 ? BN_ERR_DATA : 0;
    struct bn_err got = {0};
    check(rc == 0 && bn_comm_agree(w, mine, &got) < 0
              && (mine != 0 || got.code == BN_ERR_DATA), "agree", 1);
    return rc;
}

static int sums(struct bn_comm *w, int times, struct bn_err *err)
{
    float x[2000] = {0};

    for (int i = 0; i < times; i++)
        if (w->ops->allreduce(w, x, BN_F32, 2000, BN_SUM, err) < 0)
            return -1;
    return 0;
}

static int victim = -1;
#ifdef BN_EMU
static const char *mode;
static unsigned late;
#endif

static void where(void *arg, int rank, char *out)
{
    (void)arg;
    snprintf(out, BN_WATCH_WHERE, "step %d", rank + 40);
}

static int failed(void *arg, int rank, struct bn_err *err)
{
    if (*(int *)arg == rank)
        return bn_fail(err, BN_ERR_NUMERIC, "rank %d failed: a NaN", rank);
    return 0;
}

static int run(struct bn_comm *w, int argc, char **argv, struct bn_err *err)
{
    bool me = victim == w->rank;

    if (strcmp(argv[1], "ops") == 0)
        return ops(w, err);
    if (sums(w, 3, err) < 0)
        return -1;
    if (strcmp(argv[1], "drop") == 0) {
        float x[2] = {1, 1}; /* every rank adds one, the victim nothing */

        if (me)
            x[1] = 0;
        if (w->ops->allreduce(w, x, BN_F32, 2, BN_SUM, err) < 0)
            return -1;
        check(x[0] == w->size, "control", 1);
        check(x[1] == w->size, "sum", 1);
        return 0;
    }
    if (me && strcmp(argv[1], "late") == 0 && argc > 3)
        sleep((unsigned)atoi(argv[3]));
    if (me && strcmp(argv[1], "die") == 0)
        raise(SIGKILL);
    if (me && strcmp(argv[1], "told") == 0) {
        sleep(8); /* alive, but it will not come */
        return bn_fail(err, BN_ERR_NUMERIC, "my own NaN");
    }
    return sums(w, 3, err);
}

#ifdef BN_EMU
static struct bn_comm *world(const struct bn_boot_info *info,
                             struct bn_boot *boot, double timeout,
                             const struct bn_watch *watch, struct bn_err *err)
{
    const struct bn_cuda_options co = {.rank = info->rank, .threads = 1};
    const struct bn_nccl_options o = {.rank = info->rank, .size = info->size,
                                      .timeout = timeout, .watch = watch,
                                      .boot = boot};
    struct bn_dev *dev = bn_dev_cuda(&co, err);
    struct bn_nccl_id id;

    bool me = victim == info->rank;
    if (me && strcmp(mode, "absent") == 0)
        sleep(late);
    if (dev == NULL || (info->rank == 0 && bn_nccl_id(&id, err) < 0)
        || bn_boot_bcast(boot, &id, sizeof(id), err) < 0)
        return NULL;
    if (me && strcmp(mode, "unmade") == 0)
        sleep(late);
    struct bn_comm *c = bn_comm_nccl(&id, &o, dev, err);
    return c != NULL && getenv("BN_RANK_DEVICE") != NULL
               ? over_device(c, dev)
               : c;
}
#else
static struct bn_comm *world(const struct bn_boot_info *info,
                             struct bn_boot *boot, double timeout,
                             const struct bn_watch *watch, struct bn_err *err)
{
    (void)boot;
    return info->size > 1 ? bn_comm_mpi(info->rank, info->size, timeout,
                                        watch, err)
                          : bn_comm_self();
}
#endif

int main(int argc, char **argv)
{
    struct bn_boot_info info;
    struct bn_err err = {0};
    struct bn_comm *w = NULL;
    int told = -1;
    struct bn_watch watch = {where, failed, &told};
    double timeout = 60, t0;
    int rc = -1;

    if (argc < 2)
        return BN_ERR_USAGE;
    victim = argc > 2 ? atoi(argv[2]) : -1;
#ifdef BN_EMU
    mode = argv[1];
    late = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
#endif
    if (strcmp(argv[1], "told") == 0)
        told = victim;
    timeout = argc > 4 ? atof(argv[4]) : timeout;
    struct bn_boot *boot = bn_boot_create(&info, timeout, &err);
    if (boot != NULL) {
        bn_log_set_rank(info.rank, info.size);
        w = world(&info, boot, timeout, &watch, &err);
    }
    t0 = bn_now();
    if (w != NULL)
        rc = run(w, argc, argv, &err);
    if (rc < 0)
        bn_error("%s (after %.1f s)", err.text, bn_now() - t0);
    else if (failures == 0)
        printf("rank %d of %d: ok\n", info.rank, info.size);
    if (rc == 0)
        bn_comm_destroy(w);
    fflush(stdout);
    if (rc < 0) {
        sleep(3); /* so that nobody takes this one's end for the cause */
        _exit((int)err.code);
    }
    bn_boot_destroy(boot);
    return failures > 0 ? 1 : 0;
}
