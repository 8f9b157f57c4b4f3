/* Boot through PMIx (4.x). Every wait has a deadline of ours: fences and
 * look-ups are the non-blocking ones, waited for here.
 */
#include "config.h"
#include "boot/pmix.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <pmix.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double say_after = 30; /* seconds of waiting before a word */
static const double words_after = 2; /* seconds for a rank to say why it left */

struct bn_pmix {
    pmix_proc_t self;
    int size;
    int round; /* of fences and broadcasts: makes keys that occur once */
};

/* Somebody waits for a callback of PMIx's thread. Whoever comes second
 * frees: a waiter may give up first. */
struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done, abandoned;
    pmix_status_t status;
};

static struct waiter *waiter_create(void)
{
    struct waiter *w = BN_NEW(struct waiter);
    pthread_condattr_t a;

    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->cond, &a);
    pthread_condattr_destroy(&a);
    return w;
}

static void waiter_free(struct waiter *w)
{
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->cond);
    free(w);
}

static void finished(pmix_status_t status, void *arg)
{
    struct waiter *w = arg;

    pthread_mutex_lock(&w->lock);
    bool abandoned = w->abandoned;
    w->done = true;
    w->status = status;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
    if (abandoned)
        waiter_free(w);
}

static void looked_up(pmix_status_t status, pmix_value_t *v, void *arg)
{
    (void)v;
    finished(status, arg);
}

/* Up to 'seconds'; true if it is done. */
static bool waiter_wait(struct waiter *w, double seconds)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&w->lock);
    int rc = 0;
    while (!w->done && rc == 0)
        rc = pthread_cond_timedwait(&w->cond, &w->lock, &until);
    bool done = w->done;
    pthread_mutex_unlock(&w->lock);
    return done;
}

static void waiter_leave(struct waiter *w)
{
    pthread_mutex_lock(&w->lock);
    bool done = w->done;
    w->abandoned = true;
    pthread_mutex_unlock(&w->lock);
    if (done)
        waiter_free(w);
}

/* An unsigned count of the job, whatever width the server chose. */
static int get_count(struct bn_pmix *p, bool of_job, const char *key,
                     int *out, struct bn_err *err)
{
    pmix_proc_t who = p->self;
    pmix_value_t *v = NULL;
    int rc = 0;

    if (of_job)
        who.rank = PMIX_RANK_WILDCARD;
    pmix_status_t s = PMIx_Get(&who, key, NULL, 0, &v);
    if (s != PMIX_SUCCESS)
        return bn_fail(err, BN_ERR_AGAIN, "PMIx does not know '%s': %s", key,
                       PMIx_Error_string(s));
    if (v->type == PMIX_UINT32)
        *out = (int)v->data.uint32;
    else if (v->type == PMIX_UINT16)
        *out = v->data.uint16;
    else
        rc = bn_fail(err, BN_ERR_AGAIN, "PMIx gives '%s' as type %d, not a "
                     "count", key, (int)v->type);
    PMIX_VALUE_RELEASE(v);
    return rc;
}

struct bn_pmix *bn_pmix_open(struct bn_boot_info *info, struct bn_err *err)
{
    struct bn_pmix *p = BN_NEW(struct bn_pmix);
    struct bn_boot_info got = {0};
    pmix_status_t s = PMIx_Init(&p->self, NULL, 0);

    if (s != PMIX_SUCCESS) {
        bn_fail(err, BN_ERR_AGAIN, "cannot reach the PMIx server: %s",
                PMIx_Error_string(s));
        free(p);
        return NULL;
    }
    got.rank = (int)p->self.rank;
    if (get_count(p, true, PMIX_JOB_SIZE, &got.size, err) < 0
        || get_count(p, true, PMIX_LOCAL_SIZE, &got.local_size, err) < 0
        || get_count(p, false, PMIX_LOCAL_RANK, &got.local_rank, err) < 0) {
        bn_pmix_close(p);
        return NULL;
    }
    p->size = got.size;
    *info = got;
    return p;
}

void bn_pmix_close(struct bn_pmix *p)
{
    if (p == NULL)
        return;
    PMIx_Finalize(NULL, 0);
    free(p);
}

static void key_of(char *key, const char *what, int round)
{
    snprintf(key, PMIX_MAX_KEYLEN, "burnish.%s.%d", what, round);
}

/* Each is asked for the key and given a second, all at once. */
void bn_pmix_absent(struct bn_pmix *p, const char *key, const int *rank,
                    int n, bool *absent)
{
    struct waiter **w = BN_NEWN(struct waiter *, (size_t)n);
    double until = bn_now() + 1;

    for (int i = 0; i < n; i++) {
        pmix_proc_t who = p->self;

        who.rank = (pmix_rank_t)rank[i];
        w[i] = waiter_create();
        pmix_status_t s = PMIx_Get_nb(&who, key, NULL, 0, looked_up, w[i]);
        if (s != PMIX_SUCCESS)
            finished(s, w[i]);
    }
    for (int i = 0; i < n; i++) {
        double left = until - bn_now();

        absent[i] = !waiter_wait(w[i], left > 0 ? left : 0)
                    || w[i]->status != PMIX_SUCCESS;
        waiter_leave(w[i]);
    }
    free(w);
}

/* Ranks that have not yet announced 'key', as "1, 5". */
static void missing(struct bn_pmix *p, const char *key, struct bn_str *out)
{
    int *rank = BN_NEWN(int, (size_t)p->size);
    bool *absent = BN_NEWN(bool, (size_t)p->size);

    for (int r = 0; r < p->size; r++)
        rank[r] = r;
    bn_pmix_absent(p, key, rank, p->size, absent);
    for (int r = 0; r < p->size; r++)
        if (absent[r] && r != (int)p->self.rank)
            bn_str_addf(out, "%s%d", out->len > 0 ? ", " : "", r);
    if (out->len == 0)
        bn_str_adds(out, "(unknown)");
    free(rank);
    free(absent);
}

/* A rank that has failed will not come. */
static int anyone_failed(struct bn_pmix *p, const struct bn_watch *watch,
                         struct bn_err *err)
{
    for (int r = 0; r < p->size && watch->failed != NULL; r++)
        if (r != (int)p->self.rank && watch->failed(watch->arg, r, err) < 0)
            return -1;
    return 0;
}

/* missing, with the phases that are known. */
static void say_missing(struct bn_pmix *p, const char *key,
                        const struct bn_watch *watch, double waited)
{
    struct bn_str who = {0};
    char where[BN_WATCH_WHERE] = "";

    missing(p, key, &who);
    if (watch->where != NULL && who.len > 0 && who.s[0] != '(')
        watch->where(watch->arg, atoi(who.s), where);
    bn_warn("boot: waiting for rank %s for %.0f s%s%s", who.s, waited,
            where[0] != '\0' ? "; the first is in phase " : "", where);
    bn_str_release(&who);
}

/* Wait for a fence, saying who is missing. */
static int await(struct bn_pmix *p, struct waiter *w, const char *key,
                 const struct bn_pmix_wait *wait, struct bn_err *err)
{
    double t0 = bn_now(), say = say_after, waited = 0;
    struct bn_str who = {0};

    while (waited < wait->timeout) {
        double left = wait->timeout - waited;

        if (waiter_wait(w, left < 1 ? left : 1))
            return 0;
        if (anyone_failed(p, &wait->watch, err) < 0)
            return -1;
        waited = bn_now() - t0;
        if (waited >= say && waited < wait->timeout) {
            say_missing(p, key, &wait->watch, waited);
            say += say_after;
        }
    }
    missing(p, key, &who);
    bn_fail(err, BN_ERR_AGAIN, "boot: rank %s did not come in %.0f s", who.s,
            wait->timeout);
    bn_str_release(&who);
    return -1;
}

static int put(const char *key, pmix_value_t *v, struct bn_err *err)
{
    pmix_status_t s = PMIx_Put(PMIX_GLOBAL, key, v);

    if (s == PMIX_SUCCESS)
        s = PMIx_Commit();
    if (s != PMIX_SUCCESS)
        return bn_fail(err, BN_ERR_AGAIN, "PMIx does not publish '%s': %s",
                       key, PMIx_Error_string(s));
    return 0;
}

int bn_pmix_announce(struct bn_pmix *p, const char *key, struct bn_err *err)
{
    pmix_value_t here = {.type = PMIX_INT32, .data.int32 = 1};

    (void)p;
    return put(key, &here, err);
}

/* PMIx ended a fence because a rank left before it, and says so in words that
 * help nobody. The rank's own, if it has any, may be a moment behind. */
static int broken(struct bn_pmix *p, const char *key,
                  const struct bn_pmix_wait *wait, pmix_status_t status,
                  struct bn_err *err)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    double until = bn_now() + words_after;
    struct bn_str who = {0};

    while (wait->watch.failed != NULL && bn_now() < until) {
        if (anyone_failed(p, &wait->watch, err) < 0)
            return -1;
        nanosleep(&pause, NULL);
    }
    missing(p, key, &who);
    bn_fail(err, BN_ERR_AGAIN, "boot: rank %s ended before all had met (PMIx: "
            "%s)", who.s, PMIx_Error_string(status));
    bn_str_release(&who);
    return -1;
}

/* Announce this rank, then meet the others, collecting what they put. */
static int meet(struct bn_pmix *p, const struct bn_pmix_wait *wait,
                struct bn_err *err)
{
    char key[PMIX_MAX_KEYLEN + 1];
    pmix_proc_t all = p->self;
    pmix_info_t info;
    bool collect = true;
    int rc;

    key_of(key, "here", p->round);
    if (bn_pmix_announce(p, key, err) < 0)
        return -1;
    all.rank = PMIX_RANK_WILDCARD;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    struct waiter *w = waiter_create();
    pmix_status_t s = PMIx_Fence_nb(&all, 1, &info, 1, finished, w);
    if (s != PMIX_SUCCESS) {
        waiter_free(w);
        return bn_fail(err, BN_ERR_AGAIN, "PMIx does not fence: %s",
                       PMIx_Error_string(s));
    }
    rc = await(p, w, key, wait, err);
    if (rc == 0 && w->status != PMIX_SUCCESS)
        rc = broken(p, key, wait, w->status, err);
    waiter_leave(w);
    PMIX_INFO_DESTRUCT(&info);
    p->round++;
    return rc;
}

int bn_pmix_fence(struct bn_pmix *p, const struct bn_pmix_wait *wait,
                  struct bn_err *err)
{
    return meet(p, wait, err);
}

int bn_pmix_bcast(struct bn_pmix *p, void *buf, size_t len,
                  const struct bn_pmix_wait *wait, struct bn_err *err)
{
    char key[PMIX_MAX_KEYLEN + 1];
    pmix_proc_t root = p->self;
    pmix_value_t *v = NULL;
    int rc = 0;

    key_of(key, "bytes", p->round);
    if (p->self.rank == 0) {
        pmix_value_t mine = {.type = PMIX_BYTE_OBJECT,
                             .data.bo = {.bytes = buf, .size = len}};

        if (put(key, &mine, err) < 0)
            return -1;
    }
    if (meet(p, wait, err) < 0)
        return -1;
    if (p->self.rank == 0)
        return 0;
    root.rank = 0;
    pmix_status_t s = PMIx_Get(&root, key, NULL, 0, &v);
    if (s != PMIX_SUCCESS)
        return bn_fail(err, BN_ERR_AGAIN, "PMIx has nothing from rank 0: %s",
                       PMIx_Error_string(s));
    if (v->type != PMIX_BYTE_OBJECT || v->data.bo.size != len)
        rc = bn_fail(err, BN_ERR_BUG, "rank 0 broadcast other than %zu bytes",
                     len);
    else
        memcpy(buf, v->data.bo.bytes, len);
    PMIX_VALUE_RELEASE(v);
    return rc;
}
