/* What a user may ask of sampling (kernels/sample.h says what it means). */
#ifndef BN_MODEL_SAMPLE_H
#define BN_MODEL_SAMPLE_H

#include "base/err.h"
#include "kernels/sample.h"

/* Values outside of the ranges there: class usage, naming the option. */
int bn_sample_check(const struct bn_sample *s, struct bn_err *err);

#endif
