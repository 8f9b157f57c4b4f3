/* Which example is where in training: pure functions of the position, O(1)
 * in memory, so that resuming and changing the number of ranks keep the
 * order.
 *
 * An epoch is a permutation of all examples. A step takes the next
 * global_batch of them; the last step of an epoch takes what is left (as
 * Hugging Face does with dataloader_drop_last false), so that no example is
 * dropped or seen twice. Within a step, position ((m * dp_size) + r) * batch
 * + s is slot s of micro-batch m of rank r: which examples a step has, and
 * their order, depends only on the product batch * accum * dp_size.
 */
#ifndef BN_DATA_ORDER_H
#define BN_DATA_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* The example at position i < n of epoch 'epoch'. */
uint64_t bn_order(uint64_t seed, bool shuffle, uint64_t epoch, uint64_t n,
                  uint64_t i);

struct bn_plan {
    uint64_t n;        /* examples, >= 1 */
    uint64_t seed;
    bool shuffle;
    int batch;         /* examples a rank and micro-batch, >= 1 */
    int accum;         /* micro-batches a step, >= 1 */
    int dp_rank, dp_size;
};

/* batch * accum * dp_size */
uint64_t bn_plan_global_batch(const struct bn_plan *p);
/* ceil(n / global batch) */
uint64_t bn_plan_steps_per_epoch(const struct bn_plan *p);
/* Examples of step 'step' (from 0, over all epochs), all ranks together. */
uint64_t bn_plan_step_count(const struct bn_plan *p, uint64_t step);
/* Micro-batches of the step, the same on every rank, 1 to accum. In the last
 * one of a short step some ranks may have fewer examples, or none. */
int bn_plan_micros(const struct bn_plan *p, uint64_t step);
/* Examples of this rank in micro-batch m of the step, 0 to batch. */
int bn_plan_slots(const struct bn_plan *p, uint64_t step, int m);
/* The example at slot s < bn_plan_slots. */
uint64_t bn_plan_example(const struct bn_plan *p, uint64_t step, int m,
                         int s);
/* Examples of all ranks before step 'step': seen so far. */
uint64_t bn_plan_seen(const struct bn_plan *p, uint64_t step);

#endif
