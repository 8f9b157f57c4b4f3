/* What a report reads of metrics.jsonl (doc/formats/metrics.md). */
#ifndef BN_SWEEP_METRICS_H
#define BN_SWEEP_METRICS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum bn_column {
    BN_COL_LOSS,
    BN_COL_NLL,
    BN_COL_ODDS,
    BN_COL_ACCURACY,
    BN_COL_MARGIN,
    BN_COL_RATE,
    BN_COL_GRAD,
    BN_COL_SPEED,
    BN_NCOL
};
/* The key of a column in a record of kind train. */
const char *bn_column_key(enum bn_column c);

/* What generated answers are like (burnish-generate --record). */
enum { BN_NGEN = 6 };
/* Its key, without "eval_". */
const char *bn_gen_key(int k);

enum bn_cell { BN_CELL_ABSENT, BN_CELL_FINITE, BN_CELL_NONFINITE };

/* The last evaluation of a run. */
struct bn_last {
    long step;     /* of the evaluation; -1: there is none */
    long reached;  /* step of the last record; -1: none */
    enum bn_cell cell[BN_NCOL];
    double value[BN_NCOL]; /* where finite */
    bool has_gen;
    enum bn_cell gen[BN_NGEN]; /* of the last record of generations */
    double gen_value[BN_NGEN];
    bool gen_bounded[BN_NGEN]; /* its 95 % confidence interval is there */
    double gen_low[BN_NGEN], gen_high[BN_NGEN];
    bool half;     /* the last line was half written, and left out */
    size_t broken; /* other lines that are no records, and left out */
};
/* Read it from the end of the file; an absent file has step -1. */
void bn_last_read(const char *path, struct bn_last *last);

/* One curve: value[i] at step[i], in order. */
struct bn_curve {
    double *step, *value;
    size_t n, cap;
};
struct bn_curves {
    struct bn_curve train[BN_NCOL], eval[BN_NCOL];
};
/* Read all records. An absent file has none. */
void bn_curves_read(const char *path, struct bn_curves *c);
void bn_curves_release(struct bn_curves *c);

#endif
