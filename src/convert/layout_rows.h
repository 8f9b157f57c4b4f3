/* Where rows go in the forms of layout.h. */
#ifndef BN_CONVERT_LAYOUT_ROWS_H
#define BN_CONVERT_LAYOUT_ROWS_H

#include "convert/layout.h"

/* The row of the source tensor that holds row 'row' of target number 'part'.
 * rows[parts]: rows of every target, which fit the form. */
int64_t bn_form_row(enum bn_layout_form form, const struct bn_model_config *c,
                    const int64_t *rows, int parts, int part, int64_t row);

#endif
