/* Windows of a long word, eight at a time. For bpe_windows.c. */
#ifndef BN_TEXT_BPE_LANES_H
#define BN_TEXT_BPE_LANES_H

#include "text/bpe_impl.h"

enum {
    BN_LANES = 8,
    BN_LANE_WIDTH = 32,  /* symbols of a window */
    BN_LANE_STRIDE = 26, /* from the start of a window to that of the next */
    BN_LANE_SPAN = BN_LANE_WIDTH + (BN_LANES - 1) * BN_LANE_STRIDE
};

/* The windows of a block, each merged by itself: token id[k][i] begins at
 * symbol i of window k where bit i of left[k] is set. */
struct bn_bpe_block {
    uint32_t sym[BN_LANE_SPAN];
    uint32_t id[BN_LANES][BN_LANE_WIDTH];
    uint32_t left[BN_LANES]; /* 0 in a block that was never filled */
};

/* Merge the windows of o->sym. */
void bn_bpe_lanes(const struct bn_bpe *b, struct bn_bpe_block *o);
#endif
