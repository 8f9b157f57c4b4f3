#include "config.h"
#include "kernels/attn.h"
#include "kernels/ref/ref.h"

#include <stdlib.h>

/* What one query of a segment sees: prefix keys [p_lo, p_len), then its own
 * keys [k_lo, k_hi). */
struct span {
    int p_lo, p_len, k_lo, k_hi;
};

static struct span seen(const struct bn_attn *a, const struct bn_attn_seg *s,
                        int i)
{
    struct span r = {0, s->p_len, 0, s->q_off + i + 1};

    if (r.k_hi > s->k_len)
        r.k_hi = s->k_len;
    if (a->window > 0) {
        int low = s->p_len + s->q_off + i - a->window + 1; /* position */

        r.p_lo = low < 0 ? 0 : low > s->p_len ? s->p_len : low;
        r.k_lo = low > s->p_len ? low - s->p_len : 0;
    }
    if (r.k_hi < r.k_lo)
        r.k_hi = r.k_lo;
    return r;
}

static int keys(const struct span *s)
{
    return s->p_len - s->p_lo + s->k_hi - s->k_lo;
}

/* The row of k and v of the j-th key seen. */
static size_t key_row(const struct bn_attn_seg *g, const struct span *s, int j)
{
    int prefix = s->p_len - s->p_lo;

    return (size_t)(j < prefix ? g->p_start + s->p_lo + j
                               : g->k_start + s->k_lo + j - prefix);
}

static double dot(enum bn_dtype t, const void *a, size_t ai, const void *b,
                  size_t bi, int n)
{
    double sum = 0;

    for (int j = 0; j < n; j++)
        sum += ref_get(t, a, ai + j) * ref_get(t, b, bi + j);
    return sum;
}

/* Fill p with the probabilities of query row qi of head h; returns the
 * log-sum-exp. */
static double softmax(enum bn_dtype t, const struct bn_attn *a,
                      const struct bn_attn_seg *g, const struct span *s, int h,
                      size_t qi, double *p)
{
    int kvh = h / (a->heads / a->kv_heads), n = keys(s);
    double top = -INFINITY, sum = 0;

    for (int j = 0; j < n; j++) {
        p[j] = a->scale
               * dot(t, a->q, qi * a->ldq + (size_t)h * a->hd, a->k,
                     key_row(g, s, j) * a->ldk + (size_t)kvh * a->hd, a->hd);
        top = fmax(top, p[j]);
    }
    for (int j = 0; j < n; j++)
        sum += p[j] = exp(p[j] - top);
    for (int j = 0; j < n; j++)
        p[j] /= sum;
    return n > 0 ? top + log(sum) : -INFINITY;
}

void bn_attn_ref(enum bn_dtype t, const struct bn_attn *a)
{
    double *p = calloc((size_t)a->nkv * 4 + 1, sizeof(*p));

    for (int si = 0; si < a->nseg; si++) {
        const struct bn_attn_seg *g = &a->host_seg[si];

        for (int i = 0; i < g->q_len; i++) {
            struct span s = seen(a, g, i);
            size_t qi = (size_t)g->q_start + i;

            for (int h = 0; h < a->heads; h++) {
                int kvh = h / (a->heads / a->kv_heads);

                a->lse[(size_t)h * a->nq + qi] =
                    (float)softmax(t, a, g, &s, h, qi, p);
                for (int c = 0; c < a->hd; c++) {
                    double sum = 0;

                    for (int j = 0; j < keys(&s); j++)
                        sum += p[j]
                               * ref_get(t, a->v,
                                         key_row(g, &s, j) * a->ldv
                                             + (size_t)kvh * a->hd + c);
                    ref_put(t, a->o, qi * a->ldo + (size_t)h * a->hd + c, sum);
                }
            }
        }
    }
    free(p);
}

/* Add what one query of one head sends back; dk, dv: [nkv, kv_heads, hd]. */
static void query_grad(enum bn_dtype t, const struct bn_attn *a,
                       const struct bn_attn_grad *d,
                       const struct bn_attn_seg *g, const struct span *s, int h,
                       size_t qi, double *p, double *dk, double *dv)
{
    int kvh = h / (a->heads / a->kv_heads), n = keys(s), hd = a->hd;
    size_t qa = qi * a->ldq + (size_t)h * hd, oa = qi * a->ldo + (size_t)h * hd;
    double dsum = 0, *ds = p + 2 * (size_t)a->nkv;

    softmax(t, a, g, s, h, qi, p);
    /* D through the exact output, not the stored one: the reference is to be
     * the gradient of the function. */
    for (int j = 0; j < n; j++) {
        ds[j] = dot(t, d->d_o, oa, a->v,
                    key_row(g, s, j) * a->ldv + (size_t)kvh * hd, hd);
        dsum += p[j] * ds[j];
    }
    for (int j = 0; j < n; j++)
        ds[j] = a->scale * p[j] * (ds[j] - dsum);
    for (int c = 0; c < hd; c++) {
        double sum = 0;

        for (int j = 0; j < n; j++) {
            size_t row = key_row(g, s, j), to = (row * a->kv_heads + kvh) * hd;

            sum +=
                ds[j] * ref_get(t, a->k, row * a->ldk + (size_t)kvh * hd + c);
            dk[to + c] += ds[j] * ref_get(t, a->q, qa + c);
            dv[to + c] += p[j] * ref_get(t, d->d_o, oa + c);
        }
        ref_put(t, d->dq, qa + c, sum);
    }
}

void bn_attn_grad_ref(enum bn_dtype t, const struct bn_attn *a,
                      const struct bn_attn_grad *d)
{
    size_t n = (size_t)a->nkv * a->kv_heads * a->hd;
    double *dk = calloc(n + 1, sizeof(*dk)), *dv = calloc(n + 1, sizeof(*dv));
    double *p = calloc((size_t)a->nkv * 4 + 1, sizeof(*p));

    for (int si = 0; si < a->nseg; si++) {
        const struct bn_attn_seg *g = &a->host_seg[si];

        for (int i = 0; i < g->q_len; i++) {
            struct span s = seen(a, g, i);

            for (int h = 0; h < a->heads; h++)
                query_grad(t, a, d, g, &s, h, (size_t)g->q_start + i, p, dk,
                           dv);
        }
    }
    for (int r = 0; r < a->nkv; r++) {
        for (int c = 0; c < a->kv_heads * a->hd; c++) {
            size_t from = (size_t)r * a->kv_heads * a->hd + c;

            ref_put(t, d->dk, (size_t)r * a->ldk + c, dk[from]);
            ref_put(t, d->dv, (size_t)r * a->ldv + c, dv[from]);
        }
    }
    free(p);
    free(dv);
    free(dk);
}
