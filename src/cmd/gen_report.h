/* What generated answers are like: to a file, and into a run's metrics. */
#ifndef BN_CMD_GEN_REPORT_H
#define BN_CMD_GEN_REPORT_H

#include "cmd/prompts.h"
#include "train/gen.h"
#include "train/gen_eval.h"

/* An answer to a row of the prompts. */
void bn_gen_report_add(struct bn_gen_eval *e, const struct bn_gen_answer *a,
                       const struct bn_prompts *p);
/* One JSON object with keys eval_gen_*: 'file' is whole or not at all, "-" is
 * standard error. */
int bn_gen_report_write(const struct bn_gen_eval *e, const char *file,
                        struct bn_err *err);
/* Append a record of kind eval to run_dir/metrics.jsonl, at the step of its
 * last record; the file must have one. */
int bn_gen_report_record(const struct bn_gen_eval *e, const char *run_dir,
                         struct bn_err *err);

#endif
