/* A micro-batch: one packed stream of tokens, never padded.
 *
 * Text sequences are one segment each. A preference pair is three: prompt,
 * chosen and rejected answer; both answers attend to the one prompt, which is
 * computed once, and their positions go on from it. What is scored is a list
 * of (row, target token, sequence), so the prompt's last row is scored for
 * both answers. Read-only once built.
 */
#ifndef BN_DATA_BATCH_H
#define BN_DATA_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/segment.h"

/* log p(target | rows up to 'row') counts for sequence 'seq'. */
struct bn_score {
    int32_t row, target, seq;
};

/* A sequence whose log-probabilities are summed. Of a pair i, sequence 3i is
 * the prompt, 3i + 1 the chosen and 3i + 2 the rejected answer. */
struct bn_batch_seq {
    int32_t ntok;    /* scored targets; 0 for a prompt that is not scored */
    int64_t example; /* row of the token set it came from */
};

/* Whether a batch is whole or one rank's share of the rows (mesh/split.h).
 * What splits a batch refuses one that is split already. */
enum bn_batch_layout { BN_BATCH_WHOLE, BN_BATCH_SPLIT };

struct bn_batch {
    enum bn_batch_layout layout;
    int group; /* sequences an example: 1 (sft) or 3 (preference) */
    int ntok;
    int32_t *ids, *pos; /* [ntok] */
    /* [ntok]: what a row is, wherever it lies: a hash of its example, its part
     * of that (prompt, chosen, rejected) and its position */
    uint64_t *row_id;
    int32_t *span; /* [ntok]: positions of the longest sequence of the row's
                    * example, which dynamic RoPE turns with (model/rope.h) */
    int nseg;
    struct bn_attn_seg *seg;
    int nscore;
    struct bn_score *score; /* sorted by seq's example, then row, then seq */
    int nseq;
    struct bn_batch_seq *seq;
    /* Split: segments speak of the nkv key and value rows of the whole
     * batch; row i of them is row kv_row[i] of what the ranks of the group
     * give, pad_rows each, one after the other. A sequence's ntok counts the
     * targets of all ranks. */
    int nkv, pad_rows;
    int32_t *kv_row;
    void *memory; /* the one block that all of the above point into */
};

void bn_batch_release(struct bn_batch *b);

/* One example as tokens, borrowed from a token set. For sft: ids[0..n) and
 * mask[i] = 1 where ids[i] is a target (never i = 0). For preference: the
 * prompt ids and two answers; mask is unused. */
struct bn_example {
    int64_t index;
    const int32_t *ids;
    const uint8_t *mask;
    int32_t n;
    const int32_t *chosen, *rejected;
    int32_t nchosen, nrejected;
};

enum bn_batch_flags {
    BN_BATCH_SCORE_PROMPT = 1, /* pairs: score the prompt's own tokens too */
};

/* Build a batch of 'n' examples, all sft (group 1) or all pairs (group 3).
 * 'b' owns its memory; release it. Empty answers, an empty prompt or a
 * sequence without target are a bug of the caller. */
int bn_batch_build(struct bn_batch *b, int group, const struct bn_example *ex,
                   int n, int flags, struct bn_err *err);

/* The same pairs as full sequences prompt+chosen, prompt+rejected with the
 * prompt repeated: for tests and comparisons. Sums must equal those of
 * bn_batch_build; the prompt is scored on the chosen row. */
int bn_batch_build_repeated(struct bn_batch *b, const struct bn_example *ex,
                            int n, int flags, struct bn_err *err);

#endif
