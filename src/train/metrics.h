/* metrics.jsonl: one JSON object a line, one schema (doc/formats/metrics.md).
 * It is the record of a run; other sinks copy it and may fail.
 */
#ifndef BN_TRAIN_METRICS_H
#define BN_TRAIN_METRICS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum bn_metrics_kind { BN_METRICS_TRAIN, BN_METRICS_EVAL, BN_METRICS_END };

/* Keys are TRL's, bare: "loss", "rewards/chosen". Records of kind eval put
 * "eval_" before each. A value that is not finite is left out of the record
 * and its key listed under "nonfinite", so that there is never a null. */
struct bn_metric {
    const char *key;
    double value;
};

/* Append ',"KEY":VALUE' for each of v[n], and what is said of those that are
 * not finite: the rest of a JSON object. */
void bn_metrics_add(struct bn_str *s, enum bn_metrics_kind kind,
                    const struct bn_metric *v, size_t n);

struct bn_metrics;

/* Append to the file at 'path'; made if absent. tb_dir: also write a
 * TensorBoard event file there (NULL: no). 'step' is the last step that the
 * run holds already, 0 at its start: TensorBoard is told to forget later
 * ones. A sink other than the file that fails warns once and is closed. One
 * process writes. NULL on failure. */
struct bn_metrics *bn_metrics_open(const char *path, const char *tb_dir,
                                   int64_t step, struct bn_err *err);
/* Append one record with one write(2). step: optimizer steps done; epoch:
 * passes done, a fraction. The time is now. On failure the file is as long
 * as before. */
int bn_metrics_write(struct bn_metrics *m, enum bn_metrics_kind kind,
                     int64_t step, double epoch, const struct bn_metric *v,
                     size_t n, struct bn_err *err);
/* fsync (before a checkpoint that counts on the records so far). */
int bn_metrics_sync(struct bn_metrics *m, struct bn_err *err);
void bn_metrics_close(struct bn_metrics *m);

/* Cut the file back to its first '*records' records, and among these to
 * those of steps <= 'step', for a run that goes on from there; '*records' is
 * then how many stayed. A last line that was half written is cut too; an
 * absent file is fine. A broken line in the middle is an error (class data)
 * and leaves the file alone. */
int bn_metrics_truncate(const char *path, int64_t step, int64_t *records,
                        struct bn_err *err);

/* Call f for each record in order: 'at' and 'end' are the offsets of its
 * line, 'o' is borrowed. f returns 0 to go on, 1 to stop, -1 with 'err'
 * filled to fail. A half-written last line is left out; any other line that
 * is no record is an error. Returns 0 or -1. */
typedef int (*bn_metrics_f)(void *arg, const json_t *o, int64_t step,
                            size_t at, size_t end, struct bn_err *err);
int bn_metrics_scan(const char *path, bn_metrics_f f, void *arg,
                    struct bn_err *err);

#endif
