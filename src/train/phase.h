/* Where this rank is, for people and for `burnish sweep status`: one small
 * file a rank, output_dir/phase.RANK, rewritten in place of itself
 * (doc/formats/phase.md). And why the run failed: output_dir/exit-class,
 * made by the first rank that fails, since srun reports 143 for ranks that
 * it killed.
 */
#ifndef BN_TRAIN_PHASE_H
#define BN_TRAIN_PHASE_H

#include "base/err.h"

/* Begin to publish in 'dir' as this rank; removes a left-over exit-class if
 * rank is 0. A file that cannot be written warns once, and never stops a
 * run. dir NULL: publish nothing. */
void bn_phase_begin(const char *dir, int rank, int size);
/* "tokenize", "boot", "load", "step", "eval", "save", "done", "failed". For
 * "step" at most one write a second. */
void bn_phase_set(const char *phase, long step);
/* The current phase and step, for messages. */
const char *bn_phase_name(long *step);
/* Record why: exit-class unless a rank was first, and phase "failed". */
void bn_phase_fail(const struct bn_err *err);

#endif
