/* Losses as pure functions of per-sequence log-probability sums: no logits,
 * no devices, no I/O. What one example comes to is in kernels/loss.h, for it
 * is computed where the sums are; here is what a loss is called and counts. A
 * new preference loss is a function there, a file here and a line in
 * registry.c.
 */
#ifndef BN_LOSS_LOSS_H
#define BN_LOSS_LOSS_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/loss.h"

struct bn_loss {
    const char *name;
    enum bn_loss_kind kind;
    int group; /* sequences an example: 1 or 3 (prompt, chosen, rejected) */
    /* The loss is a sum over tokens, so dlogp does not depend on the sums
     * and a sequence may be evaluated in pieces. */
    bool additive;
    int nkeys;
    const char *keys[BN_LOSS_MAX_KEYS]; /* TRL's names; keys[0] is "loss" */

    /* Add the targets and examples of n sequences, a multiple of the group,
     * with ntok[n] targets each, to 'd'. */
    void (*count)(const int *ntok, size_t n, struct bn_loss_denom *d);
};

extern const struct bn_loss bn_loss_sft;
extern const struct bn_loss bn_loss_orpo;

/* By name; NULL if there is none. */
const struct bn_loss *bn_loss_find(const char *name);

#endif
