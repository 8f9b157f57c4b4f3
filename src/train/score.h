/* Scoring rows: what evaluation, conversion checks and comparisons with other
 * tools need.
 */
#ifndef BN_TRAIN_SCORE_H
#define BN_TRAIN_SCORE_H

#include "base/err.h"
#include "conf/conf.h"

/* For every row of the JSONL file 'in', a JSON line in 'out' (NULL: standard
 * output). Rows:
 *   {"ids": [..]}, optionally "mask": [0, 1, ..]    one sequence
 *   {"text": ".."}                                  encoded as for training
 *   {"prompt": .., "chosen": .., "rejected": ..}    text or ids: a pair
 * Lines: {"row": LINE, "logp": [log p of each target], "targets": [..],
 * "sum": .., "count": ..}; of a pair one such object for each of "prompt",
 * "chosen" and "rejected". A row that cannot be scored ends the run with its
 * place. 'out' appears whole or not at all. Local. */
int bn_score_run(const struct bn_run *run, const char *in, const char *out,
                 struct bn_err *err);

#endif
