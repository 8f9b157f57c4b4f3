/* One run at a time in an output_dir. */
#ifndef BN_TRAIN_HOLD_H
#define BN_TRAIN_HOLD_H

#include "base/err.h"

/* Lock the folder 'dir', which is there, until the descriptor that is
 * returned is closed or this process ends, however it ends. While another has
 * it, wait for 'seconds' and then fail (BN_ERR_AGAIN): a run that was just
 * killed may take a moment to go. Where a folder cannot be locked (NFS), a file
 * '.lock' in it is, and stays; a file system without any locks gives the
 * descriptor all the same. -1 on failure. */
int bn_hold_dir(const char *dir, double seconds, struct bn_err *err);

#endif
