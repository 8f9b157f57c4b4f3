/* Which point is best, and why (DESIGN decision 15).
 *
 * Points are ranked within a group: same data, tokenizer, lengths. In orpo
 * the columns nll_loss (low is good), log_odds_chosen and accuracies (high)
 * rank, for they mean the same at every beta; the total loss and the margins
 * are multiplied by beta and are only shown. A point's place is the mean of
 * its places in the three columns; a tie is broken by nll_loss. In sft the
 * loss ranks. 'rank_by' of the sweep makes one column decide alone.
 *
 * Compared are the last evaluations. A point that was evaluated at an
 * earlier step than others of its group comes after those, and one that asha
 * stopped after all that it did not: a number of half the way never wins over
 * one of the whole. One with a value that is not finite, or without an
 * evaluation, comes last and unranked.
 */
#ifndef BN_SWEEP_RANK_H
#define BN_SWEEP_RANK_H

#include "base/str.h"
#include "sweep/metrics.h"
#include "sweep/state.h"

struct bn_ranked {
    size_t point;         /* index in the sweep */
    enum bn_state state;
    struct bn_asha_verdict asha; /* state stopped */
    struct bn_last last;
    int group;            /* 0 .. ngroups-1, by first point */
    int place;            /* 1 is best; 0: unranked */
    double mean;          /* of the places in the ranking columns */
    char remark[160];     /* why unranked, or what was wrong; "" */
};
struct bn_ranking {
    struct bn_ranked *v;  /* by group, place, then unranked */
    size_t n;
    int ngroups;
    bool orpo;
    bool ranks[BN_NCOL];  /* columns that rank */
    bool low[BN_NCOL];    /* low is good */
};

/* Read and rank all points. Class usage if rank_by is no metric. */
int bn_rank(const struct bn_sweep *s, struct bn_ranking *r,
            struct bn_str *notes, struct bn_err *err);
void bn_ranking_release(struct bn_ranking *r);
/* Whether answers of any point were looked at. */
bool bn_ranking_has_gen(const struct bn_ranking *r);
/* Why column 'c' ranks or does not, one sentence. */
const char *bn_rank_reason(const struct bn_ranking *r, enum bn_column c);
/* "high is good", "low is good" or "not ranked". */
const char *bn_rank_sense(const struct bn_ranking *r, enum bn_column c);
/* Append its state and remark, as "done" or "failed: no evaluation". */
void bn_ranked_words(const struct bn_ranked *x, struct bn_str *out);
/* What a group shares, such as "max_length 1536"; malloc'ed. */
char *bn_group_title(const struct bn_sweep *s, const struct bn_ranking *r,
                     int group);
/* A point's own settings: "beta=0.1, learning_rate=1e-5"; malloc'ed. */
char *bn_point_settings(const struct bn_point *p);

#endif
