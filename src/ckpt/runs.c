#include "config.h"
#include "ckpt/runs.h"
#include "base/mem.h"

#include <stdlib.h>

void bn_ckpt_runs_add(struct bn_ckpt_runs *r, const struct bn_ckpt_run *run)
{
    struct bn_ckpt_run *last = r->n > 0 ? &r->run[r->n - 1] : NULL;

    if (last != NULL && last->k == run->k && last->at + last->n == run->at
        && last->from + last->n == run->from) {
        last->n += run->n;
        return;
    }
    bn_grow(&r->run, &r->cap, r->n + 1, sizeof(*r->run));
    r->run[r->n++] = *run;
}

static int in_order(const void *a, const void *b)
{
    const struct bn_ckpt_run *x = a, *y = b;

    if (x->k != y->k)
        return x->k < y->k ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

void bn_ckpt_runs_sort(struct bn_ckpt_runs *r)
{
    if (r->n > 0)
        qsort(r->run, r->n, sizeof(*r->run), in_order);
}

void bn_ckpt_runs_release(struct bn_ckpt_runs *r)
{
    free(r->run);
    *r = (struct bn_ckpt_runs){0};
}

/* Whether the run is over before element 'at' of array k. */
static bool behind(const struct bn_ckpt_run *run, int k, size_t at)
{
    return run->k < k || (run->k == k && run->at + run->n <= at);
}

bool bn_ckpt_runs_next(const struct bn_ckpt_runs *r, size_t end,
                       struct bn_ckpt_run *part, size_t *index)
{
    size_t at = part->at + part->n;

    if (at >= end)
        return false;
    while (*index < r->n && behind(&r->run[*index], part->k, at))
        ++*index;
    const struct bn_ckpt_run *run =
        *index < r->n && r->run[*index].k == part->k ? &r->run[*index] : NULL;
    size_t stop = run == NULL ? end : run->at > at ? run->at : run->at + run->n;

    *part = (struct bn_ckpt_run){
        .k = part->k, .at = at, .n = (stop < end ? stop : end) - at,
        .from = run != NULL && run->at <= at ? run->from + (at - run->at)
                                             : NULL};
    return true;
}
