/* Which rows of the files were in what went wrong. */
#ifndef BN_TRAIN_ROWS_H
#define BN_TRAIN_ROWS_H

#include "data/data.h"
#include "train/pipeline.h"

/* Put "WHAT (a.jsonl:3, a.jsonl:9): " before the text of 'err', with the
 * places of the rows of the micro-batches m[n], examples of 'set'. If that is
 * long, the first of them and how many more; all are logged then, some a
 * line. An example that the text names by its number (model/head.h) is named
 * by its place. Returns -1. */
int bn_rows_blame(const struct bn_tokens *set, const struct bn_micro *m,
                  int n, const char *what, struct bn_err *err);

#endif
