/* Everything that can be known to be wrong before a job is queued. */
#ifndef BN_SWEEP_CHECK_H
#define BN_SWEEP_CHECK_H

#include "base/str.h"
#include "sweep/sweep.h"

/* Add to 'p' what is wrong with a loaded sweep on this machine and cluster:
 * models against their configs, tokenizers against the models, the first rows
 * of the data (each distinct set is opened once), the memory that a rank
 * takes by bn_plan_rank against the GPUs and 'mem' asked for, room on the
 * disk, lengths of paths and sockets, and what Slurm would refuse: srun
 * without PMIx, limits, and the script itself (sbatch --test-only). 'notes'
 * gets a line for each thing that could not be checked, and why, and for what
 * is no fault but worth a look. */
void bn_sweep_check(const struct bn_sweep *s, struct bn_problems *p,
                    struct bn_str *notes);

#endif
