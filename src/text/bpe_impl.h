/* What the files that merge words share. */
#ifndef BN_TEXT_BPE_IMPL_H
#define BN_TEXT_BPE_IMPL_H

#include "text/bpe.h"

/* Symbols that are merged in one go, without a heap, and those of a window
 * of a long word. */
enum { BN_BPE_SMALL = 64, BN_BPE_WINDOW = 48 };

/* b->kind of a token of which b->seam knows nothing. */
enum { BN_BPE_OTHER = 0, BN_BPE_KINDS = 256 };

/* Fill b->kind, seam and step from the merges. Leaves seam NULL for a
 * vocabulary where symbols are not characters alone, or that would take long:
 * then words are merged by a heap. */
void bn_bpe_seam_init(struct bn_bpe *b);

/* Merge id[0..n), symbols as bn_bpe_word has them, 1 <= n <= BN_BPE_SMALL, of
 * a model with b->seam; start[i], if not NULL, becomes the place of id[i]
 * among the symbols. Returns the new n. */
size_t bn_bpe_merge_small(const struct bn_bpe *b, uint32_t *id,
                          uint32_t *start, size_t n);
/* The same by a heap, any n and model; uses the scratch memory of 'w', not
 * what is in it. */
size_t bn_bpe_merge_any(const struct bn_bpe *b, struct bn_bpe_work *w,
                        uint32_t *id, uint32_t *start, size_t n);
/* Merge w->sym[0..w->n), longer than BN_BPE_SMALL. */
void bn_bpe_merge_windows(const struct bn_bpe *b, struct bn_bpe_work *w);

#endif
