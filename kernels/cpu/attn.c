#include "config.h"
#include "kernels/cpu/attn.h"
#include "kernels/cpu/attn_work.h"

BN_CPU_DECLARE(attn);
extern __typeof__(bn_attn_work_cpu) BN_CPU(attn_work);

size_t BN_CPU(attn_work)(const struct bn_attn *a)
{
    struct forward_work f;
    struct backward_work b;
    struct shared_work s;
    size_t threads = (size_t)attn_threads();
    size_t forward = threads * forward_take(&f, NULL, a->hd);
    size_t backward =
        threads * backward_take(&b, NULL, a->hd) + shared_take(&s, NULL, a);

    return forward > backward ? forward : backward;
}

/* Turn a row of scores into weights 2^(by score - top), where top is the
 * greatest of by score so far; returns what earlier weights must be multiplied
 * by. */
BN_INLINE float row_weights(float *s, int lo, int hi, int n, float by,
                            float *top, float *sum)
{
    float before = *top, add = 0;

    if (lo > 0 || hi < n) {
#pragma omp simd
        for (int j = 0; j < n; j++)
            s[j] = j >= lo && j < hi ? s[j] : -INFINITY;
    }
    float t = row_max(s, n, -INFINITY) * by;
    t = t > before ? t : before;
    if (t == -INFINITY) { /* nothing seen yet; NaN scores go on */
        for (int j = 0; j < n; j++)
            s[j] = s[j] == -INFINITY ? 0 : s[j];
        return 1;
    }
#pragma omp simd reduction(+ : add)
    for (int j = 0; j < n; j++) {
        float p = bn_cpu_exp2_low(s[j] * by - t);

        s[j] = p;
        add += p;
    }
    float keep = before == t ? 1 : bn_cpu_exp2_low(before - t);
    *top = t;
    *sum = *sum * keep + add;
    return keep;
}

/* All rows of a block: weights in place or, as bf16, in 'narrow'; earlier
 * sums 'out' are scaled to the new top. */
BN_INLINE void block_weights(enum bn_dtype t, float *s, uint16_t *narrow,
                             const struct seen *b, float by, float *top,
                             float *sum, float *out, int ld)
{
    for (int r = 0; r < b->rows; r++) {
        float *row = s + r * ATTN_LD;
        int lo, hi, n;

        /* All that the tile of this row reads must be set. */
        seen_keys(b, r / TILE_M * TILE_M, &lo, &hi);
        n = (hi + 31) / 32 * 32;
        float keep =
            row_weights(row, b->lo[r], b->hi[r], n, by, &top[r], &sum[r]);
        if (tile_pairs(t))
            row_narrow(narrow + r * ATTN_LD, row, n);
        if (keep != 1) {
#pragma omp simd
            for (int c = 0; c < ld; c++)
                out[(size_t)r * ld + c] *= keep;
        }
    }
}

/* A run of queries of one segment and some heads that share a kv head: they
 * see the same blocks of keys, which are packed once for all of them. Where
 * the queries are few, as when a text grows word by word, all heads' lie in
 * one block, below one another. */
struct job {
    const struct bn_attn *a;
    const struct bn_attn_seg *s;
    struct forward_work w;
    int kvh, head, heads; /* the first head, and how many */
    int q0, rows, blocks; /* q0 in the segment; blocks a head */
    bool stacked;
    size_t copied;
};

/* Heads with blocks of their own. */
BN_INLINE int job_sets(const struct job *j)
{
    return j->stacked ? 1 : j->heads;
}

/* Row of the blocks that query r of head h is. */
BN_INLINE size_t job_row(const struct job *j, int h, int r)
{
    if (j->stacked)
        return (size_t)h * j->rows + r;
    return ((size_t)h * j->blocks + r / ATTN) * ATTN + r % ATTN;
}

BN_INLINE void job_keys(enum bn_dtype t, struct job *j, const struct way *w,
                        int from, int n)
{
    const struct bn_attn *a = j->a;
    int hp = head_cols(a->hd), row = w->start + from;
    bool packed = false;
    struct seen b;

    for (int q = 0; q < j->blocks; q++) {
        int left = j->rows - q * ATTN;

        seen_fill(&b, a, j->s, w, j->q0 + q * ATTN, left < ATTN ? left : ATTN,
                  from, n);
        if (!b.any)
            continue;
        if (j->stacked)
            seen_repeat(&b, j->heads);
        if (!packed) {
            rows_to_panels(t, j->w.k,
                           head_row(t, a->k, row, a->ldk, j->kvh, a->hd),
                           a->ldk, n, a->hd);
            cols_to_panels(t, j->w.v,
                           head_row(t, a->v, row, a->ldv, j->kvh, a->hd),
                           a->ldv, n, a->hd);
            packed = true;
        }
        for (int h = 0; h < job_sets(j); h++) {
            size_t block = (size_t)h * j->blocks + q;
            float *out = j->w.out + block * ATTN * hp;

            block_scores(t, j->w.s, j->w.q + block * j->copied, j->w.k, &b,
                         a->hd);
            block_weights(t, j->w.s, j->w.narrow, &b, a->scale * BN_CPU_LOG2E,
                          j->w.top + block * ATTN, j->w.sum + block * ATTN, out,
                          hp);
            block_sum(t, out, hp, true,
                      tile_pairs(t) ? (void *)j->w.narrow : j->w.s, j->w.v, &b,
                      a->hd);
        }
    }
}

/* Divide by the sums and store. */
BN_INLINE void job_store(enum bn_dtype t, struct job *j)
{
    const struct bn_attn *a = j->a;
    int hp = head_cols(a->hd);

    for (int h = 0; h < j->heads; h++) {
        for (int r = 0; r < j->rows; r++) {
            size_t at = job_row(j, h, r);
            size_t q = (size_t)j->s->q_start + j->q0 + r;
            size_t to = q * a->ldo + (size_t)(j->head + h) * a->hd;
            float sum = j->w.sum[at], by = sum == 0 ? 0 : 1 / sum;
            const float *out = j->w.out + at * hp;

            a->lse[(size_t)(j->head + h) * a->nq + q] =
                sum == 0 ? -INFINITY : j->w.top[at] * BN_CPU_LN2 + logf(sum);
#pragma omp simd
            for (int c = 0; c < a->hd; c++)
                bn_put(t, a->o, to + c, out[c] * by);
        }
    }
}

/* Queries into blocks, each filled up to whole tiles. */
BN_INLINE void job_queries(enum bn_dtype t, struct job *j)
{
    const struct bn_attn *a = j->a;

    for (int h = 0; h < j->heads; h++) {
        for (int k = 0; k < j->blocks; k++) {
            size_t row = job_row(j, h, k * ATTN);
            int left = j->rows - k * ATTN, n = left < ATTN ? left : ATTN;
            int room = (int)bn_cpu_round((size_t)(row % ATTN) + (size_t)n,
                                         TILE_M) - (int)(row % ATTN);

            copy_rows(t, j->w.q + row / ATTN * j->copied
                             + row % ATTN * ROW_LD,
                      head_row(t, a->q, j->s->q_start + j->q0 + k * ATTN,
                               a->ldq, j->head + h, a->hd),
                      a->ldq, n, room, a->hd);
        }
    }
}

BN_INLINE void job_run(enum bn_dtype t, struct job *j)
{
    const struct bn_attn *a = j->a;
    int hp = head_cols(a->hd), last = j->s->q_off + j->q0 + j->rows;
    size_t n = j->stacked ? bn_cpu_round((size_t)j->heads * j->rows, TILE_M)
                          : (size_t)j->heads * j->blocks * ATTN;

    job_queries(t, j);
    memset(j->w.out, 0, n * hp * sizeof(float));
    memset(j->w.sum, 0, n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        j->w.top[i] = -INFINITY;
    for (int own = 0; own < 2; own++) {
        struct way w = way_of(j->s, own);
        int len = own && last < w.len ? last : w.len;

        for (int from = 0; from < len; from += ATTN)
            job_keys(t, j, &w, from, w.len - from < ATTN ? w.len - from : ATTN);
    }
    job_store(t, j);
}

void BN_CPU(attn)(enum bn_dtype t, const struct bn_attn *a)
{
    int group = a->heads / a->kv_heads, longest = 0;
    /* Heads that a job takes together, and its rows of each. */
    int heads = group < FORWARD_BLOCKS ? group : FORWARD_BLOCKS;
    int rows = FORWARD_BLOCKS / heads * ATTN;
    int sets = (group + heads - 1) / heads;
    size_t bytes = forward_take(&(struct forward_work){0}, NULL, a->hd);

    for (int i = 0; i < a->nseg; i++)
        if (a->host_seg[i].q_len > longest)
            longest = a->host_seg[i].q_len;
    int parts = (longest + rows - 1) / rows;
#pragma omp parallel for collapse(3) schedule(dynamic, 1)
    for (int i = 0; i < a->nseg; i++) {
        for (int part = 0; part < parts; part++) {
            for (int set = 0; set < sets * a->kv_heads; set++) {
                struct job j = {.a = a, .s = &a->host_seg[i]};
                int first = set % sets * heads;

                j.q0 = part * rows;
                j.rows = j.s->q_len - j.q0 < rows ? j.s->q_len - j.q0 : rows;
                if (j.rows <= 0)
                    continue;
                j.blocks = (j.rows + ATTN - 1) / ATTN;
                j.kvh = set / sets;
                j.head = j.kvh * group + first;
                j.heads = group - first < heads ? group - first : heads;
                j.stacked = j.s->q_len * j.heads <= ATTN;
                j.copied = copied_units(a->hd);
                forward_take(&j.w, (char *)a->work + attn_thread() * bytes,
                             a->hd);
                if (t == BN_F32)
                    job_run(BN_F32, &j);
                else
                    job_run(BN_BF16, &j);
            }
        }
    }
}
