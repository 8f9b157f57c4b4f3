#include "config.h"
#include "kernels/sample.h"

#include <stdbool.h>

#include "base/mem.h"

#include <stdlib.h>

/* By the definition: a token's rank is how many come before it. */
struct token {
    double l, p; /* logit over the temperature, probability */
    int rank;
};

static bool penalised(const struct bn_sample_rows *r, int row, int id)
{
    for (int i = r->seen_ptr[row]; i < r->seen_ptr[row + 1]; i++)
        if (r->seen[i] == id)
            return true;
    return false;
}

static void keep_only(struct token *t, int n, const bool *keep)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += t[i].p *= keep[i];
    for (int i = 0; i < n; i++)
        t[i].p /= sum;
}

static void filter(const struct bn_sample *s, struct token *t, int n)
{
    bool *keep = BN_NEWN(bool, (size_t)n);
    double top = 0;

    for (int i = 0; i < n; i++)
        keep[i] = s->top_k == 0 || t[i].rank < s->top_k;
    keep_only(t, n, keep);
    for (int i = 0; i < n; i++) {
        double ahead = 0;

        for (int j = 0; j < n && s->top_p < 1; j++)
            ahead += t[j].rank < t[i].rank ? t[j].p : 0;
        keep[i] = s->top_p == 1 || ahead < s->top_p;
    }
    keep_only(t, n, keep);
    for (int i = 0; i < n; i++)
        top = fmax(top, t[i].p);
    for (int i = 0; i < n; i++)
        keep[i] = t[i].p >= s->min_p * top;
    keep_only(t, n, keep);
    free(keep);
}

/* The token whose share [begin, begin + p) has u: the last that begins at u
 * or before. Shares too small to move the sum begin where others do. */
static int32_t pick(const struct bn_sample *s, const struct token *t, int n,
                    double u)
{
    bool by_id = (s->top_k == 0 || s->top_k >= n) && s->top_p == 1;
    int32_t best = -1;
    double begin_of_best = -1;

    for (int i = 0; i < n; i++) {
        double begin = 0;

        for (int j = 0; j < n; j++)
            begin += (by_id ? j < i : t[j].rank < t[i].rank) ? t[j].p : 0;
        if (t[i].p == 0 || begin > u || begin < begin_of_best
            || (begin == begin_of_best && t[i].p < t[best].p))
            continue;
        best = i;
        begin_of_best = begin;
    }
    return best;
}

static int32_t row_token(const struct bn_sample *s,
                         const struct bn_sample_rows *r, int row)
{
    const float *x = r->logits + (size_t)row * (size_t)r->ld;
    struct token *t = BN_NEWN(struct token, (size_t)r->vocab);
    int n = r->vocab;
    int32_t top = 0, id;
    bool good = true;

    for (int i = 0; i < n; i++) {
        t[i].l = (double)x[i];
        if (s->repetition_penalty != 1 && penalised(r, row, i))
            t[i].l = t[i].l < 0 ? t[i].l * s->repetition_penalty
                                : t[i].l / s->repetition_penalty;
        good = good && !isnan(t[i].l);
        if (t[i].l > t[top].l)
            top = i;
    }
    for (int i = 0; i < n && s->temperature > 0; i++) {
        t[i].p = exp((t[i].l - t[top].l) / s->temperature);
        for (int j = 0; j < n; j++)
            t[i].rank += t[j].l > t[i].l || (t[j].l == t[i].l && j < i);
    }
    if (!good || !isfinite(t[top].l)) {
        id = -1;
    } else if (s->temperature == 0) {
        id = top;
    } else {
        filter(s, t, n);
        id = pick(s, t, n, r->u[row]);
    }
    free(t);
    return id;
}

void bn_sample_ref(const struct bn_sample *s, const struct bn_sample_rows *r,
                   int32_t *token)
{
    for (int i = 0; i < r->rows; i++)
        token[i] = row_token(s, r, i);
}
