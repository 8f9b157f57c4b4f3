/* Where this rank is, for people and for `burnish sweep status`: one small
 * file a rank, output_dir/phase.RANK, rewritten in place of itself
 * (doc/formats/phase.md). And why the run failed: output_dir/exit-class,
 * made by the first rank that fails, since srun reports 143 for ranks that
 * it killed.
 */
#ifndef BN_TRAIN_PHASE_H
#define BN_TRAIN_PHASE_H

#include "base/err.h"
#include "boot/boot.h"

/* Begin to publish in 'dir' as this rank, and to show every 10 s by the
 * file's time that this process lives. Rank 0 removes an exit-class that an
 * earlier start left (with several ranks one that is 5 s old: a fresh one may
 * be another rank's), and again when the run is done. A file that cannot be
 * written warns once, and never stops a run. dir NULL: publish nothing. */
void bn_phase_begin(const char *dir, const struct bn_boot_info *info);
/* "tokenize", "boot", "load", "step", "eval", "save", "done", "failed". For
 * "step" at most one write a second. */
void bn_phase_set(const char *phase, long step);
/* The current phase and step, for messages. */
const char *bn_phase_name(long *step);
/* Record why: exit-class unless a rank was first, and phase "failed". Only
 * the first call counts. */
void bn_phase_fail(const struct bn_err *err);
/* Stop showing life; the file stays as it is. */
void bn_phase_end(void);

/* What the files of the other ranks of this start in 'dir' (NULL: nothing is
 * known) say: where they are; that one has failed, and why; that one has
 * shown no life for 'silence' seconds while it was asked about. Files of
 * another start are ignored. One watch a process. */
void bn_phase_watch(struct bn_watch *watch, const char *dir,
                    const struct bn_boot_info *info, double silence);

#endif
