#include "config.h"
#include "mesh/split.h"
#include "base/mem.h"

#include <stdbool.h>
#include <string.h>

/* Rows [*from, *from + result) of a segment of n are run 'run' of 'runs'. */
static int cut(int n, int runs, int run, int *from)
{
    *from = (int)((int64_t)n * run / runs);
    return (int)((int64_t)n * (run + 1) / runs) - *from;
}

/* Rank r's two runs of a segment, in order. */
static int run_of(int size, int rank, int which)
{
    return which == 0 ? rank : 2 * size - 1 - rank;
}

static int rows_of(const struct bn_batch *b, int size, int rank)
{
    int n = 0, from;

    for (int s = 0; s < b->nseg; s++)
        for (int k = 0; k < 2; k++)
            n += cut(b->seg[s].q_len, 2 * size, run_of(size, rank, k), &from);
    return n;
}

/* Where each row of the whole batch lies: owner * pad_rows + its row there.
 * -1 where no segment has it. */
static void place_rows(const struct bn_batch *b, int size, int pad_rows,
                       int32_t *place)
{
    for (int i = 0; i < b->ntok; i++)
        place[i] = -1;
    for (int r = 0; r < size; r++) {
        int32_t at = r * pad_rows;

        for (int s = 0; s < b->nseg; s++)
            for (int k = 0; k < 2; k++) {
                int from, n = cut(b->seg[s].q_len, 2 * size,
                                  run_of(size, r, k), &from);

                for (int i = 0; i < n; i++)
                    place[b->seg[s].q_start + from + i] = at++;
            }
    }
}

static void take_segments(struct bn_batch *out, const struct bn_batch *b,
                          int size, int rank)
{
    for (int s = 0; s < b->nseg; s++)
        for (int k = 0; k < 2; k++) {
            struct bn_attn_seg g = b->seg[s];
            int from, n = cut(g.q_len, 2 * size, run_of(size, rank, k),
                              &from);

            if (n == 0)
                continue;
            memcpy(out->ids + out->ntok, b->ids + g.q_start + from,
                   (size_t)n * sizeof(*b->ids));
            memcpy(out->pos + out->ntok, b->pos + g.q_start + from,
                   (size_t)n * sizeof(*b->pos));
            memcpy(out->span + out->ntok, b->span + g.q_start + from,
                   (size_t)n * sizeof(*b->span));
            memcpy(out->row_id + out->ntok, b->row_id + g.q_start + from,
                   (size_t)n * sizeof(*b->row_id));
            g.q_start = out->ntok;
            g.q_len = n;
            g.q_off += from;
            out->seg[out->nseg++] = g;
            out->ntok += n;
        }
}

static int check(const struct bn_batch *b, int size, int rank,
                 struct bn_err *err)
{
    if (b->layout != BN_BATCH_WHOLE)
        return bn_fail(err, BN_ERR_BUG, "a batch is split a second time");
    if (size < 1 || rank < 0 || rank >= size)
        return bn_fail(err, BN_ERR_BUG, "share %d of %d of a batch", rank,
                       size);
    return 0;
}

int bn_mesh_split(struct bn_batch *out, const struct bn_batch *whole,
                  int size, int rank, struct bn_err *err)
{
    struct bn_batch b = {.layout = BN_BATCH_SPLIT, .group = whole->group};
    size_t n, nseg = 2 * (size_t)whole->nseg, score = 0;
    bool all = true;

    if (check(whole, size, rank, err) < 0)
        return -1;
    n = (size_t)rows_of(whole, size, rank);
    for (int r = 0; r < size; r++) {
        int rows = rows_of(whole, size, r);

        if (rows > b.pad_rows)
            b.pad_rows = rows;
    }
    char *p = bn_calloc(1, n * sizeof(*b.row_id)
                               + (size_t)whole->nseq * sizeof(*b.seq)
                               + nseg * sizeof(*b.seg)
                               + (size_t)whole->nscore * sizeof(*b.score)
                               + (3 * n + (size_t)whole->ntok)
                                     * sizeof(int32_t));
    b.memory = p;
    b.row_id = (uint64_t *)p;
    b.seq = (struct bn_batch_seq *)(b.row_id + n);
    b.seg = (struct bn_attn_seg *)(b.seq + whole->nseq);
    b.score = (struct bn_score *)(b.seg + nseg);
    b.ids = (int32_t *)(b.score + whole->nscore);
    b.pos = b.ids + n;
    b.span = b.pos + n;
    b.kv_row = b.span + n;
    b.nkv = whole->ntok;
    b.nseq = whole->nseq;
    memcpy(b.seq, whole->seq, (size_t)b.nseq * sizeof(*b.seq));
    place_rows(whole, size, b.pad_rows, b.kv_row);
    take_segments(&b, whole, size, rank);
    for (int e = 0; e < whole->nscore; e++) {
        int32_t at = b.kv_row[whole->score[e].row];

        all &= at >= 0;
        if (at < 0 || at / b.pad_rows != rank)
            continue;
        b.score[score] = whole->score[e];
        b.score[score++].row = at % b.pad_rows;
    }
    b.nscore = (int)score;
    for (int i = 0; i < whole->ntok; i++)
        all &= b.kv_row[i] >= 0;
    if (!all) {
        bn_batch_release(&b);
        return bn_fail(err, BN_ERR_BUG, "a batch has rows in no segment");
    }
    *out = b;
    return 0;
}

int bn_split_max_tokens(int max_tokens, int max_segs, int size)
{
    /* Each of a segment's two runs is rounded up by less than one. */
    int64_t n = (int64_t)max_tokens / size + 2 * (int64_t)max_segs + 1;

    return n < max_tokens ? (int)n : max_tokens;
}
