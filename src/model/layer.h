/* One decoder layer; used by forward.c only. */
#ifndef BN_MODEL_LAYER_H
#define BN_MODEL_LAYER_H

#include "model/model.h"

/* x_a of layer l (already filled, with rstd_a and y_a) to the two summands of
 * the next residual stream: x_m (kept) and the MLP's output in a->h. */
void bn_layer_forward(struct bn_model *m, struct bn_acts *a, int l);
/* a->d_x: dL/d(output stream) in, dL/d(input stream) out. */
void bn_layer_backward(struct bn_model *m, struct bn_acts *a, int l);

#endif
