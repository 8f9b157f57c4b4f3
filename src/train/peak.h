/* What a device could do at most, for MFU. */
#ifndef BN_TRAIN_PEAK_H
#define BN_TRAIN_PEAK_H

#include "ops/ops.h"

/* FLOP/s of products of type t on this device at best, 0 if not known; 'how'
 * gets the way it was found. A GPU: its data sheet, dense. A CPU: what
 * multiply-adds on registers reach now (kernels/peak.h). */
double bn_peak_flops(const struct bn_dev *d, enum bn_dtype t, char *how,
                     size_t size);

#endif
