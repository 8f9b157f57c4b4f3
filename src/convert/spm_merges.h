/* Merges of a SentencePiece BPE, which has scores instead. */
#ifndef BN_CONVERT_SPM_MERGES_H
#define BN_CONVERT_SPM_MERGES_H

#include "base/json.h"

#include <stddef.h>
#include <stdint.h>

struct bn_spm_piece {
    const char *text; /* UTF-8, no space in it */
    int32_t id;       /* rising through the list */
    double score;
};

/* A list of "left right": each cut of a piece, between two characters, into
 * two pieces of the list; by falling score of the whole, then by its id, then
 * by the ids of left and right. The caller owns it. Time: pieces times their
 * lengths, and a sort. */
json_t *bn_spm_merges(const struct bn_spm_piece *piece, size_t n);

#endif
