/* Submission through libslurm, in one process and without a fork a job:
 * ten times as many jobs a second as sbatch.
 *
 * The library is opened at run time, not linked: it is under the GPL with an
 * exception for OpenSSL, which this program's licence is not, and the login
 * tool must run where there is none. Its structures differ from version to
 * version, so it is used only if it is of the version of the headers.
 */
#ifndef BN_SWEEP_SLURMLIB_H
#define BN_SWEEP_SLURMLIB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sweep/submit.h"

struct bn_slurmlib;

/* NULL if built without libslurm, or no library of the right version is
 * there, or BURNISH_SLURM=sbatch. To be opened before threads that make
 * files: the umask is asked for. */
struct bn_slurmlib *bn_slurmlib_open(void);
void bn_slurmlib_close(struct bn_slurmlib *l);

/* Submit what sbatch would: the directives of the script are read from it.
 * 1 and '*job' if done; 0 if the script has an option that is not known
 * here, so that sbatch has to do it; -1 if Slurm refused. Thread safe. */
int bn_slurmlib_submit(struct bn_slurmlib *l, const struct bn_submission *sub,
                       uint32_t *job, struct bn_err *err);

#endif
