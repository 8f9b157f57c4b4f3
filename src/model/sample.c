#include "config.h"
#include "model/sample.h"

#include <math.h>

int bn_sample_check(const struct bn_sample *s, struct bn_err *err)
{
    if (!(s->temperature >= 0 && isfinite(s->temperature)))
        return bn_fail(err, BN_ERR_USAGE, "temperature is %g; it must be 0 "
                       "(most likely token) or more", s->temperature);
    if (s->top_k < 0)
        return bn_fail(err, BN_ERR_USAGE,
                       "top-k is %d; it must be 0 (no limit) or more",
                       s->top_k);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return bn_fail(err, BN_ERR_USAGE,
                       "top-p is %g; it must be above 0 and at most 1",
                       s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return bn_fail(err, BN_ERR_USAGE, "min-p is %g; it must be in 0 to 1",
                       s->min_p);
    if (!(s->repetition_penalty > 0 && isfinite(s->repetition_penalty)))
        return bn_fail(err, BN_ERR_USAGE, "repetition-penalty is %g; it must "
                       "be above 0 (1: none)", s->repetition_penalty);
    return 0;
}
