/* The adapters of one layer; used by layer.c only. The matrices are n kinds
 * from 'first' on, whose outputs lie side by side in rows of ld elements (q,
 * k, v; gate, up), and which read the same x.
 */
#ifndef BN_MODEL_ADAPT_H
#define BN_MODEL_ADAPT_H

#include "model/model.h"

/* y += s drop(x) A^T B^T. */
void bn_adapt_forward(struct bn_model *m, struct bn_acts *a, int l,
                      enum bn_param_kind first, int n, const void *x, void *y,
                      int ld);
/* dx += what dy gives through A and B. Leaves dh in a->lora_dh for
 * bn_adapt_dw, so that x may be made in between. */
void bn_adapt_dx(struct bn_model *m, struct bn_acts *a, int l,
                 enum bn_param_kind first, int n, void *dx, const void *dy,
                 int ld);
/* Add to the gradients of A and B. */
void bn_adapt_dw(struct bn_model *m, struct bn_acts *a, int l,
                 enum bn_param_kind first, int n, const void *x,
                 const void *dy, int ld);

#endif
