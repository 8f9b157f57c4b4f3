/* A rule of a layout for one layer, and where its rows go. */
#ifndef BN_CONVERT_LAYOUT_PIECE_H
#define BN_CONVERT_LAYOUT_PIECE_H

#include "convert/layout.h"

/* Names filled in, rows of each target known. */
struct bn_piece {
    const struct bn_layout_rule *rule;
    const struct bn_model_config *c;
    char *from;
    char *to[BN_MAX_PARTS];
    int64_t rows[BN_MAX_PARTS]; /* 0: the config has no such tensor */
    int64_t all; /* sum of rows */
    enum bn_split_rule split; /* of the first target */
};

/* Call f for every rule and layer, with the number of targets that the config
 * has, until it returns other than 0; returns that. -1 too where the layout
 * is not for the config's family. */
int bn_each_piece(const struct bn_layout *l, const struct bn_model_config *c,
                  int (*f)(const struct bn_piece *, int known, void *arg),
                  void *arg, struct bn_err *err);

/* The row of the source tensor that holds row 'row' of target number 'part'.
 * rows[parts]: rows of every target, which fit the form. groups, head_dim:
 * of the form grouped, of neighbours. */
int64_t bn_form_row(enum bn_layout_form form, int groups, int head_dim,
                    const int64_t *rows, int parts, int part, int64_t row);

#endif
