/* Which elements of a target lie in the shards just as they belong: they are
 * taken from the mapping, where no copy of them is needed.
 */
#ifndef BN_CKPT_RUNS_H
#define BN_CKPT_RUNS_H

#include <stdbool.h>
#include <stddef.h>

/* Elements [at, at + n) of array k of a target, at 'from' in the mapping of a
 * shard. */
struct bn_ckpt_run {
    int k;
    size_t at, n;
    const float *from;
};

/* A list of them; all zero is empty. */
struct bn_ckpt_runs {
    struct bn_ckpt_run *run;
    size_t n, cap;
};

/* One more; it is joined to the last one where it goes on there. */
void bn_ckpt_runs_add(struct bn_ckpt_runs *r, const struct bn_ckpt_run *run);
/* By array and place, which bn_ckpt_runs_next wants. */
void bn_ckpt_runs_sort(struct bn_ckpt_runs *r);
void bn_ckpt_runs_release(struct bn_ckpt_runs *r);

/* Walk over elements [at, end) of array k: begin with '*part' all zero but
 * .k and .at, and '*index' 0. Each call makes '*part' the next piece, which
 * lies in one run or, with 'from' NULL, in none; false at the end. Of runs
 * that overlap one is taken. */
bool bn_ckpt_runs_next(const struct bn_ckpt_runs *r, size_t end,
                       struct bn_ckpt_run *part, size_t *index);

#endif
