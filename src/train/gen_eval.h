/* What generated answers are like, in figures that need no other model.
 *
 * Every figure has a 95 % confidence interval, z = 1.959964:
 *   share k of n   Wilson: with p = k/n, d = 1 + z^2/n,
 *                  (p + z^2/(2n))/d -+ z/d sqrt(p(1-p)/n + z^2/(4n^2))
 *   mean           m -+ z s/sqrt(n), s with n - 1; of one value: m, m
 *   distinct-n     t -+ z se, se of the jackknife: with t_i the figure without
 *                  answer i and t' their mean, se^2 = (n-1)/n sum (t_i - t')^2
 * bounds of shares and of distinct-n are cut to 0 and 1.
 */
#ifndef BN_TRAIN_GEN_EVAL_H
#define BN_TRAIN_GEN_EVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/metrics.h"

enum { BN_GEN_REPEAT = 4 }; /* n of the repetition of n-grams */

struct bn_gen_eval;
struct bn_gen_eval *bn_gen_eval_create(void);
void bn_gen_eval_destroy(struct bn_gen_eval *e);

/* One answer: ids[n] without the end of text. ended: it came to an end of
 * text. reference NULL: none; else the answer matches if text and reference
 * are equal but for white space around them. All or no answers have one. */
void bn_gen_eval_add(struct bn_gen_eval *e, const int32_t *ids, size_t n,
                     bool ended, const char *text, size_t len,
                     const char *reference);

/* Fill v[BN_GEN_EVAL_KEYS]; returns how many, 0 without answers. Keys, each
 * with _low and _high beside it:
 *   gen_length        mean number of tokens
 *   gen_eos_rate      share that came to an end of text
 *   gen_repetition_4  mean share of an answer's 4-grams that it had before
 *                     (1 - distinct / all), over answers of 4 tokens or more;
 *                     absent if there are none
 *   gen_distinct_1, gen_distinct_2   distinct n-grams of all answers together
 *                     over all of them (Li et al. 2016); absent if there are
 *                     none
 *   gen_exact_match   share that matches its reference; absent without
 * and gen_examples. */
enum { BN_GEN_EVAL_KEYS = 6 * 3 + 1 };
size_t bn_gen_eval_metrics(const struct bn_gen_eval *e, struct bn_metric *v);

/* The interval of k of n, n > 0. */
void bn_wilson(double k, double n, double *low, double *high);

#endif
