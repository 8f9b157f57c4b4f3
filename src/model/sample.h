/* From logits to a token: pure functions in double.
 *
 * In this order: repetition penalty on what was seen; division by the
 * temperature; the top_k most likely; of those, renormalised, the fewest
 * that hold top_p of the probability; those with at least min_p of the
 * probability of the most likely. What is left is drawn from by its
 * renormalised probability. Same order and meaning as the logits processors
 * of transformers, except that ties go to the lower id.
 */
#ifndef BN_MODEL_SAMPLE_H
#define BN_MODEL_SAMPLE_H

#include <stdint.h>

#include "base/err.h"

struct bn_sample {
    double temperature; /* 0: the most likely token, ties to the lower id */
    int top_k;          /* 0: no limit */
    double top_p;       /* 1: no limit; > 0 */
    double min_p;       /* 0: no limit; <= 1 */
    /* > 0; 1: none. Logits of tokens seen are divided by it where positive
     * and multiplied where negative (Keskar et al., CTRL, 2019). */
    double repetition_penalty;
};

/* Values outside of the ranges above: class usage, naming the option. */
int bn_sample_check(const struct bn_sample *s, struct bn_err *err);

/* A token and its weight relative to the most likely one's. */
struct bn_choice {
    double weight;
    int32_t id;
};

/* Scratch of one thread for one vocabulary size. */
struct bn_sampler {
    int vocab;
    double *logit;            /* [vocab] */
    struct bn_choice *choice; /* [vocab] */
    uint64_t *mark, stamp;    /* [vocab] the call that saw an id last */
};

void bn_sampler_init(struct bn_sampler *z, int vocab);
void bn_sampler_release(struct bn_sampler *z);

/* What 's' leaves to choose from: z->choice[0..n), weights > 0. Returns n >=
 * 1, or -1 (class numeric) when a logit is NaN or none is finite. seen: ids
 * of prompt and answer so far, repeats allowed. Temperature 0 leaves one. */
int bn_sample_choices(struct bn_sampler *z, const struct bn_sample *s,
                      const float *logits, const int32_t *seen, int nseen,
                      struct bn_err *err);
/* The token that u, uniform in [0, 1), picks from these; -1 as above. */
int32_t bn_sample_pick(struct bn_sampler *z, const struct bn_sample *s,
                       const float *logits, const int32_t *seen, int nseen,
                       double u, struct bn_err *err);

#endif
