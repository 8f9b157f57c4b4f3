/* Everything that can be known to be wrong before a job is queued. */
#ifndef BN_SWEEP_CHECK_H
#define BN_SWEEP_CHECK_H

#include "base/str.h"
#include "sweep/sweep.h"

/* Add to 'p' what is wrong with a loaded sweep on this machine and cluster:
 * models and tokenizers (each distinct one is opened once), data files,
 * room on the disk, lengths of paths, and what Slurm would refuse: srun
 * without PMIx, partition limits, and the script itself (sbatch
 * --test-only). 'notes' gets a line for each thing that could not be
 * checked, and why. */
void bn_sweep_check(const struct bn_sweep *s, struct bn_problems *p,
                    struct bn_str *notes);

#endif
