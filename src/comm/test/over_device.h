/* A communicator that takes host memory and gives 'c' the device's: for tests
 * that are written for host memory. */
#ifndef BN_COMM_TEST_OVER_DEVICE_H
#define BN_COMM_TEST_OVER_DEVICE_H

#include "comm/comm.h"
#include "ops/ops.h"

/* Owns 'c'. */
struct bn_comm *over_device(struct bn_comm *c, struct bn_dev *dev);

#endif
