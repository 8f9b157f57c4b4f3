#include "config.h"
#include "data/batch.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

/* How many of each a batch will hold. */
struct size {
    size_t tok, seg, score, seq;
};

/* Lay the arrays out in one zeroed block, the widest type first. */
static int take(struct bn_batch *b, const struct size *s, struct bn_err *err)
{
    size_t bytes = s->seq * sizeof(*b->seq) + s->seg * sizeof(*b->seg)
                   + s->score * sizeof(*b->score)
                   + s->tok * (sizeof(*b->row_id) + 3 * sizeof(*b->ids));
    char *p;

    if (s->tok > INT32_MAX || s->score > INT32_MAX)
        return bn_fail(err, BN_ERR_USAGE, "a micro-batch of %zu tokens is "
                       "more than 2^31 - 1", s->tok);
    p = bn_calloc(1, bytes);
    b->memory = p;
    b->row_id = (uint64_t *)p;
    p += s->tok * sizeof(*b->row_id);
    b->seq = (struct bn_batch_seq *)p;
    p += s->seq * sizeof(*b->seq);
    b->seg = (struct bn_attn_seg *)p;
    p += s->seg * sizeof(*b->seg);
    b->score = (struct bn_score *)p;
    p += s->score * sizeof(*b->score);
    b->ids = (int32_t *)p;
    b->pos = b->ids + s->tok;
    b->span = b->pos + s->tok;
    return 0;
}

enum part { PROMPT, CHOSEN, REJECTED };

/* Tokens of the longest sequence of an example. */
static int span_of(const struct bn_batch *b, const struct bn_example *ex)
{
    if (b->group == 1)
        return ex->n;
    return ex->n + (ex->nchosen > ex->nrejected ? ex->nchosen
                                                : ex->nrejected);
}

/* Append 'n' tokens of a part of an example at positions pos, pos + 1, ...;
 * returns their first row. */
static int add_tokens(struct bn_batch *b, const struct bn_example *ex,
                      enum part part, const int32_t *ids, int n, int pos)
{
    int row = b->ntok, span = span_of(b, ex);

    memcpy(b->ids + row, ids, (size_t)n * sizeof(*ids));
    for (int i = 0; i < n; i++) {
        b->pos[row + i] = pos + i;
        b->span[row + i] = span;
        b->row_id[row + i] = bn_rng_u64((uint64_t)ex->index, (uint64_t)part,
                                        (uint64_t)(pos + i));
    }
    b->ntok += n;
    return row;
}

/* Rows [row, row + n) as a segment that sees its own past and a prefix. */
static void add_seg(struct bn_batch *b, int row, int n, int p_start, int p_len)
{
    b->seg[b->nseg++] = (struct bn_attn_seg){
        .q_start = row, .q_len = n, .k_start = row, .k_len = n,
        .p_start = p_start, .p_len = p_len};
}

static void add_score(struct bn_batch *b, int row, int32_t target, int seq)
{
    b->score[b->nscore++] = (struct bn_score){row, target, seq};
    b->seq[seq].ntok++;
}

/* Score ids[1..n) whose rows begin at 'row'. */
static void add_scores(struct bn_batch *b, int row, const int32_t *ids, int n,
                       int seq)
{
    for (int i = 1; i < n; i++)
        add_score(b, row + i - 1, ids[i], seq);
}

static int bug(struct bn_err *err, const struct bn_example *ex,
               const char *what)
{
    return bn_fail(err, BN_ERR_BUG, "example %lld has %s",
                   (long long)ex->index, what);
}

static int check_pair(const struct bn_example *ex, struct bn_err *err)
{
    if (ex->n < 1)
        return bug(err, ex, "an empty prompt");
    if (ex->nchosen < 1 || ex->nrejected < 1)
        return bug(err, ex, "an empty answer");
    return 0;
}

static int build_text(struct bn_batch *b, const struct bn_example *ex, int n,
                      struct bn_err *err)
{
    struct size s = {.seg = (size_t)n, .seq = (size_t)n};

    for (int i = 0; i < n; i++) {
        size_t before = s.score;

        s.tok += (size_t)ex[i].n;
        for (int t = 1; t < ex[i].n; t++)
            s.score += ex[i].mask[t] != 0;
        if (s.score == before)
            return bug(err, &ex[i], "no target");
        if (ex[i].mask[0] != 0)
            return bug(err, &ex[i], "its first token as a target");
    }
    if (take(b, &s, err) < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        int row = add_tokens(b, &ex[i], PROMPT, ex[i].ids, ex[i].n, 0);

        add_seg(b, row, ex[i].n, 0, 0);
        b->seq[i].example = ex[i].index;
        for (int t = 1; t < ex[i].n; t++) {
            if (ex[i].mask[t] != 0)
                add_score(b, row + t - 1, ex[i].ids[t], i);
        }
    }
    b->nseq = n;
    return 0;
}

static void add_pair(struct bn_batch *b, const struct bn_example *ex, int i,
                     int flags)
{
    int p = add_tokens(b, ex, PROMPT, ex->ids, ex->n, 0);
    int w = add_tokens(b, ex, CHOSEN, ex->chosen, ex->nchosen, ex->n);
    int l = add_tokens(b, ex, REJECTED, ex->rejected, ex->nrejected, ex->n);

    add_seg(b, p, ex->n, 0, 0);
    add_seg(b, w, ex->nchosen, p, ex->n);
    add_seg(b, l, ex->nrejected, p, ex->n);
    if (flags & BN_BATCH_SCORE_PROMPT)
        add_scores(b, p, ex->ids, ex->n, 3 * i);
    add_score(b, p + ex->n - 1, ex->chosen[0], 3 * i + 1);
    add_score(b, p + ex->n - 1, ex->rejected[0], 3 * i + 2);
    add_scores(b, w, ex->chosen, ex->nchosen, 3 * i + 1);
    add_scores(b, l, ex->rejected, ex->nrejected, 3 * i + 2);
}

/* prompt + answer as one sequence. */
static void add_whole(struct bn_batch *b, const struct bn_example *ex,
                      enum part part, const int32_t *answer, int n, int seq,
                      int prompt_seq)
{
    int p = add_tokens(b, ex, PROMPT, ex->ids, ex->n, 0);
    int a = add_tokens(b, ex, part, answer, n, ex->n);

    add_seg(b, p, ex->n + n, 0, 0);
    if (prompt_seq >= 0)
        add_scores(b, p, ex->ids, ex->n, prompt_seq);
    add_score(b, a - 1, answer[0], seq);
    add_scores(b, a, answer, n, seq);
}

static void add_repeated(struct bn_batch *b, const struct bn_example *ex,
                         int i, int flags)
{
    int prompt_seq = flags & BN_BATCH_SCORE_PROMPT ? 3 * i : -1;

    add_whole(b, ex, CHOSEN, ex->chosen, ex->nchosen, 3 * i + 1, prompt_seq);
    add_whole(b, ex, REJECTED, ex->rejected, ex->nrejected, 3 * i + 2, -1);
}

static int build_pairs(struct bn_batch *b, const struct bn_example *ex, int n,
                       int flags, bool repeat, struct bn_err *err)
{
    struct size s = {.seg = 3 * (size_t)n, .seq = 3 * (size_t)n};

    for (int i = 0; i < n; i++) {
        if (check_pair(&ex[i], err) < 0)
            return -1;
        size_t p = (size_t)ex[i].n;
        size_t answers = (size_t)ex[i].nchosen + (size_t)ex[i].nrejected;

        s.tok += answers + (repeat ? 2 * p : p);
        s.score += answers + (flags & BN_BATCH_SCORE_PROMPT ? p - 1 : 0);
    }
    if (take(b, &s, err) < 0)
        return -1;
    b->nseq = 3 * n;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++)
            b->seq[3 * i + k].example = ex[i].index;
        if (repeat)
            add_repeated(b, &ex[i], i, flags);
        else
            add_pair(b, &ex[i], i, flags);
    }
    return 0;
}

int bn_batch_build(struct bn_batch *b, int group, const struct bn_example *ex,
                   int n, int flags, struct bn_err *err)
{
    struct bn_batch made = {.group = group};

    if (n < 0 || n > INT32_MAX / 3 || (group != 1 && group != 3))
        return bn_fail(err, BN_ERR_BUG, "a batch of %d examples of group %d",
                       n, group);
    if ((group == 1 ? build_text(&made, ex, n, err)
                    : build_pairs(&made, ex, n, flags, false, err)) < 0)
        return -1;
    *b = made;
    return 0;
}

int bn_batch_build_repeated(struct bn_batch *b, const struct bn_example *ex,
                            int n, int flags, struct bn_err *err)
{
    struct bn_batch made = {.group = 3};

    if (n < 0 || n > INT32_MAX / 3)
        return bn_fail(err, BN_ERR_BUG, "a batch of %d pairs", n);
    if (build_pairs(&made, ex, n, flags, true, err) < 0)
        return -1;
    *b = made;
    return 0;
}

void bn_batch_release(struct bn_batch *b)
{
    free(b->memory);
    *b = (struct bn_batch){0};
}
