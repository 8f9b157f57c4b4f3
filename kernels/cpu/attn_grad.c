#include "config.h"
#include "kernels/cpu/attn.h"
#include "kernels/cpu/attn_work.h"

BN_CPU_DECLARE(attn_grad);

/* Segments that share rows of keys form a group; a job is a group and a kv
 * head. It owns all that it writes, so it can run through its blocks of keys
 * in order: dk and dv of a block are whole after one visit, and dq grows in
 * the shared scratch. Fixed order, whatever the threads do. */
struct job {
    const struct bn_attn *a;
    const struct bn_attn_grad *g;
    const int *seg; /* of the group, ascending */
    int nseg;
    struct shared_work sh;
    struct backward_work w;
    int kvh;
};

/* Weights and dS of a row from its scores s and dp = d_o . v: s becomes the
 * weights 2^(by s - lse), dp dS, both 0 where nothing is seen. */
BN_INLINE void row_slopes(float *s, float *dp, int lo, int hi, float by,
                          float scale, float lse, float d)
{
    int n = (hi + 15) / 16 * 16;

    if (lo == 0 && hi == ATTN) {
#pragma omp simd
        for (int j = 0; j < ATTN; j++) {
            float p = bn_cpu_exp2_low(s[j] * by - lse);

            s[j] = p;
            dp[j] = p * (dp[j] - d) * scale;
        }
        return;
    }
#pragma omp simd
    for (int j = 0; j < n; j++) {
        bool in = j >= lo && j < hi;
        float p = in ? bn_cpu_exp2_low(s[j] * by - lse) : 0;

        s[j] = p;
        dp[j] = in ? p * (dp[j] - d) * scale : 0;
    }
    memset(s + n, 0, (size_t)(ATTN - n) * sizeof(*s));
    memset(dp + n, 0, (size_t)(ATTN - n) * sizeof(*dp));
}

/* All rows of a block; as bf16 also in 'narrow' and in pairs of queries. */
BN_INLINE void block_slopes(enum bn_dtype t, const struct backward_work *w,
                            const struct seen *b, float scale, const float *lse,
                            const float *d)
{
    uint16_t p[2][ATTN], *ds[2];

    for (int r = 0; r < b->rows; r++) {
        float *s = w->s + r * ATTN_LD, *dp = w->dp + r * ATTN_LD;

        row_slopes(s, dp, b->lo[r], b->hi[r], scale * BN_CPU_LOG2E, scale,
                   lse[r] * BN_CPU_LOG2E, d[r]);
        if (!tile_pairs(t))
            continue;
        ds[r & 1] = w->narrow + r * ATTN_LD;
        row_narrow(p[r & 1], s, ATTN);
        row_narrow(ds[r & 1], dp, ATTN);
        if ((r & 1) == 0 && r + 1 < b->rows)
            continue;
        if ((r & 1) == 0) { /* the last, paired with nothing */
            ds[1] = p[1];
            memset(p[1], 0, sizeof(p[1]));
        }
#pragma omp simd
        for (int j = 0; j < ATTN; j++) {
            w->pt[r / 2 * ATTN_LD + j] = p[0][j] | (uint32_t)p[1][j] << 16;
            w->dst[r / 2 * ATTN_LD + j] = ds[0][j] | (uint32_t)ds[1][j] << 16;
        }
    }
}

/* Add to out[j, :] of every key the weights of the queries that see it times
 * the rows of 'panels'. */
BN_INLINE void block_back(enum bn_dtype t, float *out, int ld,
                          const void *weights, const tile_unit *panels,
                          const struct seen *b, int keys, int hd)
{
    int per = tile_pairs(t) ? 2 : 1;
    size_t panel = (size_t)tile_steps(t, ATTN) * TILE_N;

    for (int j = 0; j < keys; j += TILE_M) {
        int lo, hi;

        seen_queries(b, j, &lo, &hi);
        lo /= per;
        hi = (hi + per - 1) / per;
        if (lo >= hi)
            continue;
        for (int c = 0; c < hd; c += TILE_N)
            tile_mul(per == 2, out + (size_t)j * ld + c, (size_t)ld, true,
                     (const tile_unit *)weights + (size_t)lo * ATTN_LD + j, 1,
                     ATTN_LD,
                     panels + (size_t)(c / TILE_N) * panel
                         + (size_t)lo * TILE_N,
                     hi - lo);
    }
}

/* A block of queries of a head against the block of keys that is packed. */
BN_INLINE void block_pair(enum bn_dtype t, struct job *j, const struct seen *b,
                          int q, int head, int keys)
{
    const struct bn_attn *a = j->a;
    struct backward_work *w = &j->w;
    int hd = a->hd, hp = head_cols(hd);
    const void *qrow = head_row(t, a->q, q, a->ldq, head, hd);
    const void *orow = head_row(t, j->g->d_o, q, a->ldo, head, hd);

    copy_rows(t, w->q, qrow, a->ldq, b->rows, ATTN, hd);
    copy_rows(t, w->d_o, orow, a->ldo, b->rows, ATTN, hd);
    cols_to_panels(t, w->qc, qrow, a->ldq, b->rows, hd);
    cols_to_panels(t, w->doc, orow, a->ldo, b->rows, hd);
    block_scores(t, w->s, w->q, w->k, b, hd);
    block_scores(t, w->dp, w->d_o, w->v, b, hd);
    block_slopes(t, w, b, a->scale, a->lse + (size_t)head * a->nq + q,
                 j->sh.d + (size_t)head * a->nq + q);
    block_back(t, w->dv, hp, tile_pairs(t) ? (void *)w->pt : w->s, w->doc, b,
               keys, hd);
    block_back(t, w->dk, hp, tile_pairs(t) ? (void *)w->dst : w->dp, w->qc, b,
               keys, hd);
    block_sum(t, w->dq, hp, false, tile_pairs(t) ? (void *)w->narrow : w->dp,
              w->kc, b, hd);
    for (int r = 0; r < b->rows; r++) {
        float *to = j->sh.dq + ((size_t)(q + r) * a->heads + head) * hd;
        const float *from = w->dq + (size_t)r * hp;

#pragma omp simd
        for (int c = 0; c < hd; c++)
            to[c] += from[c];
    }
}

/* Keys [row, row + n) as segment s sees them in one way. */
BN_INLINE void way_keys(enum bn_dtype t, struct job *j,
                        const struct bn_attn_seg *s, bool own, int row, int n)
{
    const struct bn_attn *a = j->a;
    struct way w = way_of(s, own);
    int group = a->heads / a->kv_heads;
    /* The block may begin before the way's rows, and end after them. */
    int from = row - w.start;
    struct seen b;

    if (from + n <= 0 || from >= w.len)
        return;
    for (int q = 0; q < s->q_len; q += ATTN) {
        int rows = s->q_len - q < ATTN ? s->q_len - q : ATTN;

        seen_fill(&b, a, s, &w, q, rows, from, n);
        if (!b.any)
            continue;
        for (int h = 0; h < group; h++)
            block_pair(t, j, &b, s->q_start + q, j->kvh * group + h, n);
    }
}

/* dk and dv of rows [row, row + n), n <= ATTN. */
BN_INLINE void job_keys(enum bn_dtype t, struct job *j, int row, int n)
{
    const struct bn_attn *a = j->a;
    int hd = a->hd, hp = head_cols(hd);
    const void *k = head_row(t, a->k, row, a->ldk, j->kvh, hd);
    size_t to_k = (size_t)row * a->ldk + (size_t)j->kvh * hd;
    size_t to_v = (size_t)row * a->ldv + (size_t)j->kvh * hd;

    rows_to_panels(t, j->w.k, k, a->ldk, n, hd);
    cols_to_panels(t, j->w.kc, k, a->ldk, n, hd);
    rows_to_panels(t, j->w.v, head_row(t, a->v, row, a->ldv, j->kvh, hd),
                   a->ldv, n, hd);
    memset(j->w.dk, 0, (size_t)ATTN * hp * sizeof(float));
    memset(j->w.dv, 0, (size_t)ATTN * hp * sizeof(float));
    for (int i = 0; i < j->nseg; i++) {
        const struct bn_attn_seg *s = &a->host_seg[j->seg[i]];

        way_keys(t, j, s, false, row, n);
        way_keys(t, j, s, true, row, n);
    }
    for (int r = 0; r < n; r++) {
        for (int c = 0; c < hd; c++) {
            bn_put(t, j->g->dk, to_k + (size_t)r * a->ldk + c,
                   j->w.dk[(size_t)r * hp + c]);
            bn_put(t, j->g->dv, to_v + (size_t)r * a->ldv + c,
                   j->w.dv[(size_t)r * hp + c]);
        }
    }
}

/* D of the queries of a segment, and dq = 0. */
BN_INLINE void prepare(enum bn_dtype t, struct job *j,
                       const struct bn_attn_seg *s)
{
    const struct bn_attn *a = j->a;
    int group = a->heads / a->kv_heads;

    for (int i = 0; i < s->q_len; i++) {
        size_t q = (size_t)s->q_start + i;

        for (int h = j->kvh * group; h < (j->kvh + 1) * group; h++) {
            size_t at = q * a->ldo + (size_t)h * a->hd;

            j->sh.d[(size_t)h * a->nq + q] =
                row_dot(t, j->g->d_o, at, a->o, at, a->hd);
            memset(j->sh.dq + (q * a->heads + h) * a->hd, 0,
                   (size_t)a->hd * sizeof(float));
        }
    }
}

BN_INLINE void store_dq(enum bn_dtype t, struct job *j,
                        const struct bn_attn_seg *s)
{
    const struct bn_attn *a = j->a;
    int cols = a->heads / a->kv_heads * a->hd, first = j->kvh * cols;

    for (int i = 0; i < s->q_len; i++) {
        size_t q = (size_t)s->q_start + i;
        const float *from = j->sh.dq + q * a->heads * a->hd + first;

#pragma omp simd
        for (int c = 0; c < cols; c++)
            bn_put(t, j->g->dq, q * a->ldq + first + c, from[c]);
    }
}

/* The first row at or after 'row' that a segment of the group names, and the
 * end of the run of named rows from there on; false if there is none. */
static bool next_run(const struct job *j, int row, int *from, int *to)
{
    const struct bn_attn_seg *all = j->a->host_seg;
    bool grown = true;

    *from = INT32_MAX;
    for (int i = 0; i < 2 * j->nseg; i++) {
        struct way w = way_of(&all[j->seg[i / 2]], i % 2);
        int start = w.start > row ? w.start : row;

        if (start < w.start + w.len && start < *from)
            *from = start;
    }
    *to = *from;
    while (grown && *from < INT32_MAX) {
        grown = false;
        for (int i = 0; i < 2 * j->nseg; i++) {
            struct way w = way_of(&all[j->seg[i / 2]], i % 2);

            if (w.start <= *to && w.start + w.len > *to) {
                *to = w.start + w.len;
                grown = true;
            }
        }
    }
    return *from < INT32_MAX;
}

BN_INLINE void job_run(enum bn_dtype t, struct job *j)
{
    int from, to = 0;

    for (int i = 0; i < j->nseg; i++)
        prepare(t, j, &j->a->host_seg[j->seg[i]]);
    while (next_run(j, to, &from, &to))
        for (int row = from; row < to; row += ATTN)
            job_keys(t, j, row, to - row < ATTN ? to - row : ATTN);
    for (int i = 0; i < j->nseg; i++)
        store_dq(t, j, &j->a->host_seg[j->seg[i]]);
}

static bool overlap(const struct bn_attn_seg *a, const struct bn_attn_seg *b)
{
    for (int i = 0; i < 4; i++) {
        struct way x = way_of(a, i & 1), y = way_of(b, i >> 1);

        if (x.len > 0 && y.len > 0 && x.start < y.start + y.len
            && y.start < x.start + x.len)
            return true;
    }
    return false;
}

/* Sort segments into groups. Returns their number; order[first[g] ..
 * first[g + 1] - 1] are the segments of group g, ascending (first has room
 * for nseg, the end being nseg). */
static int group_segments(const struct bn_attn *a, int *order, int *first,
                          int *root)
{
    int groups = 0, n = 0;

    for (int i = 0; i < a->nseg; i++) {
        root[i] = i;
        for (int k = 0; k < i; k++) {
            if (root[k] == root[i]
                || !overlap(&a->host_seg[i], &a->host_seg[k]))
                continue;
            int to = root[k] < root[i] ? root[k] : root[i];
            int gone = root[k] < root[i] ? root[i] : root[k];

            for (int m = 0; m <= i; m++)
                if (root[m] == gone)
                    root[m] = to;
        }
    }
    for (int i = 0; i < a->nseg; i++) {
        if (root[i] != i)
            continue;
        first[groups++] = n;
        for (int k = i; k < a->nseg; k++)
            if (root[k] == i)
                order[n++] = k;
    }
    return groups;
}

static void zero_rows(enum bn_dtype t, void *p, int ld, int cols, int rows)
{
    size_t size = bn_dtype_size(t);

#pragma omp parallel for schedule(static) if ((size_t)rows * cols              \
                                              > BN_CPU_SMALL)
    for (int r = 0; r < rows; r++)
        memset((char *)p + (size_t)r * ld * size, 0, (size_t)cols * size);
}

void BN_CPU(attn_grad)(enum bn_dtype t, const struct bn_attn *a,
                       const struct bn_attn_grad *g)
{
    struct shared_work sh;
    size_t bytes = backward_take(&(struct backward_work){0}, NULL, a->hd);

    shared_take(&sh, a->work, a);
    int *order = sh.seg, *first = order + a->nseg;
    int groups = group_segments(a, order, first, first + a->nseg);
    zero_rows(t, g->dk, a->ldk, a->kv_heads * a->hd, a->nkv);
    zero_rows(t, g->dv, a->ldv, a->kv_heads * a->hd, a->nkv);
#pragma omp parallel for collapse(2) schedule(dynamic, 1)
    for (int i = 0; i < groups; i++) {
        for (int kvh = 0; kvh < a->kv_heads; kvh++) {
            int end = i + 1 < groups ? first[i + 1] : a->nseg;
            struct job j = {.a = a,
                            .g = g,
                            .seg = order + first[i],
                            .nseg = end - first[i],
                            .sh = sh,
                            .kvh = kvh};

            backward_take(&j.w, (char *)sh.end + attn_thread() * bytes, a->hd);
            if (t == BN_F32)
                job_run(BN_F32, &j);
            else
                job_run(BN_BF16, &j);
        }
    }
}
