/* Which ranks a call of NCCL waits for, and when to give up. Unlike messages
 * of MPI, calls of NCCL do not tell who has come: those that wait tell each
 * other through PMIx.
 */
#include "config.h"
#include "comm/nccl_state.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

static const double look_again = 1; /* seconds */
static const double say_again = 30;
/* Before looking who is dead; before a word. */
const struct bn_nccl_next bn_nccl_first = {.look = 1, .say = 30};

static void key_of(char *key, size_t size, const struct bn_nccl_group *g,
                   uint64_t call)
{
    snprintf(key, size, "burnish.nccl.%s.%llu", g->name,
             (unsigned long long)call);
}

void bn_nccl_announce(const struct bn_nccl_group *g, uint64_t call)
{
    char key[128];
    struct bn_err err;

    key_of(key, sizeof(key), g, call);
    if (bn_boot_announce(g->w->boot, key, &err) < 0)
        bn_debug("%s", err.text);
}

/* "1 (load), 5 (step 7)"; empty if all have come. Takes a second. */
static void describe(const struct bn_nccl_group *g, uint64_t call,
                     struct bn_str *out)
{
    const struct bn_nccl *w = g->w;
    bool *absent = BN_NEWN(bool, (size_t)g->size);
    char key[128];

    key_of(key, sizeof(key), g, call);
    bn_boot_absent(w->boot, key, g->world_rank, g->size, absent);
    for (int i = 0; i < g->size; i++) {
        char where[BN_WATCH_WHERE] = "";

        if (!absent[i] || i == g->rank)
            continue;
        if (w->watch.where != NULL)
            w->watch.where(w->watch.arg, g->world_rank[i], where);
        bn_str_addf(out, "%s%d", out->len > 0 ? ", " : "", g->world_rank[i]);
        if (where[0] != '\0')
            bn_str_addf(out, " (%s)", where);
    }
    free(absent);
}

/* The processes that have ended, of which all but one may have done so
 * because of the others: "1, 3". */
static int gone(const struct bn_nccl *w, struct bn_str *out)
{
    int n = 0;

    for (int r = 0; r < w->size; r++)
        if (r != w->rank && bn_peer_gone(&w->peer[r], w->peer[w->rank].host))
            bn_str_addf(out, "%s%d", n++ > 0 ? ", " : "", r);
    return n;
}

int bn_nccl_lost(const struct bn_nccl *w, const char *what, struct bn_err *err)
{
    struct bn_str who = {0};
    int rc = 0, n = gone(w, &who);

    /* What a rank says itself comes first, and is looked for after those that
     * are gone: one that ended because of another did so after that was told.
     */
    for (int r = 0; r < w->size && w->watch.failed != NULL && rc == 0; r++)
        if (r != w->rank)
            rc = w->watch.failed(w->watch.arg, r, err);
    if (rc == 0 && n > 0)
        rc = bn_fail(err, BN_ERR_AGAIN,
                     "rank %s %s gone: the process%s ended"
                     " while this one waited in %s",
                     who.s, n > 1 ? "are" : "is", n > 1 ? "es" : "", what);
    bn_str_release(&who);
    return rc;
}

int bn_nccl_judge(const struct bn_nccl_group *g, const char *what,
                  uint64_t call, double waited, struct bn_nccl_next *next,
                  struct bn_err *err)
{
    const struct bn_nccl *w = g->w;

    if (waited >= next->look) {
        next->look = waited + look_again;
        if (bn_nccl_lost(w, what, err) < 0)
            return -1;
    }
    if (waited < next->say && waited < w->timeout)
        return 0;
    struct bn_str who = {0};
    int rc = 0;
    describe(g, call, &who);
    if (waited >= w->timeout && who.len > 0)
        rc = bn_fail(err, BN_ERR_AGAIN, "%s: rank %s did not come in %.0f s",
                     what, who.s, w->timeout);
    else if (waited >= w->timeout)
        rc = bn_fail(err, BN_ERR_AGAIN,
                     "%s: all ranks came but NCCL did not "
                     "end it in %.0f s: see NCCL_DEBUG=INFO",
                     what, w->timeout);
    else
        bn_warn("%s: waiting for rank %s for %.0f s", what,
                who.len > 0 ? who.s : "(all have come: the network?)", waited);
    next->say = waited + say_again;
    bn_str_release(&who);
    return rc;
}
