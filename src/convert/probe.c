#include "config.h"
#include "convert/probe.h"
#include "base/mem.h"
#include "base/thread.h"
#include "model/rope.h"
#include "tensor/convert.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct probe {
    const struct bn_tensors *ts;
    const struct bn_model_config *c;
    const struct bn_probe_cut *cut;
    int n, threads;
    float *x, *h;      /* [n, hidden]: residual stream, its norm */
    float *wide, *out; /* [n, widest row of an intermediate] */
    float *cos, *sin;  /* [n, head_dim / 2] */
};

__attribute__((format(printf, 2, 3))) static const struct bn_named *
tensor(const struct probe *p, const char *fmt, ...)
{
    char name[128];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    return bn_tensors_find(p->ts, name);
}

/* Elements as float; 'room' if they have to be converted. */
static const float *as_float(const struct bn_named *t, int64_t first,
                             int64_t n, float *room)
{
    const char *at = (const char *)t->data
                     + (size_t)first * bn_dtype_size(t->dtype);

    bn_convert(room, BN_F32, at, t->dtype, (size_t)n);
    return room;
}

enum { LANES = 16 };

static inline __attribute__((always_inline)) float
dot_body(const float *a, const float *b, int n)
{
    float acc[LANES] = {0}, sum = 0;
    int i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            acc[l] += a[i + l] * b[i + l];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (int l = 0; l < LANES; l++)
        sum += acc[l];
    return sum;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static float
dot_avx2(const float *a, const float *b, int n)
{
    return dot_body(a, b, n);
}
#endif

static float dot(const float *a, const float *b, int n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2"))
        return dot_avx2(a, b, n);
#endif
    return dot_body(a, b, n);
}

/* y[i, first + r] = sum_c w[r, c] x[i, c] (+ bias[r]), over all threads. */
struct product {
    const struct bn_named *w, *bias;
    const float *x;
    float *y;
    int n, stride, first, threads;
};

static void some_rows(void *arg, int index)
{
    const struct product *j = arg;
    int64_t rows = j->w->dims[0];
    int cols = (int)j->w->dims[1];
    float *room = bn_malloc((size_t)cols * sizeof(float));

    for (int64_t r = rows * index / j->threads;
         r < rows * (index + 1) / j->threads; r++) {
        const float *w = as_float(j->w, r * cols, cols, room);
        float b = 0;

        if (j->bias != NULL)
            as_float(j->bias, r, 1, &b);
        for (int i = 0; i < j->n; i++)
            j->y[(size_t)i * (size_t)j->stride + (size_t)(j->first + r)] =
                dot(w, j->x + (size_t)i * (size_t)cols, cols) + b;
    }
    free(room);
}

static void multiply(const struct probe *p, const struct bn_named *w,
                     const struct bn_named *bias, const float *x, float *y,
                     int stride, int first)
{
    struct product j = {w, bias, x, y, p->n, stride, first, p->threads};

    bn_parallel(p->threads, some_rows, &j);
}

/* y[i, :] = norm of x[i, :] times w; y may be x. */
static void norm(const struct probe *p, const struct bn_named *w,
                 const float *x, float *y, int cols, int rows)
{
    float *room = bn_malloc((size_t)cols * sizeof(float));
    const float *g = as_float(w, 0, cols, room);

    for (int i = 0; i < rows; i++, x += cols, y += cols) {
        double sum = 0;

        for (int k = 0; k < cols; k++)
            sum += (double)x[k] * (double)x[k];
        double f = 1 / sqrt(sum / cols + p->c->rms_eps);
        for (int k = 0; k < cols; k++)
            y[k] = (float)((double)x[k] * f) * g[k];
    }
    free(room);
}

static void rotate(const struct probe *p, float *head, int position)
{
    int half = p->c->head_dim / 2;

    for (int i = 0; i < half; i++) {
        float c = p->cos[position * half + i];
        float s = p->sin[position * half + i];
        float a = head[i], b = head[i + half];

        head[i] = a * c - b * s;
        head[i + half] = b * c + a * s;
    }
}

/* Rows of q, k and v as 'cut' reads them, normed and rotated. */
static void shape_heads(const struct probe *p, int layer)
{
    const struct bn_model_config *c = p->c;
    int d = c->head_dim, heads = c->heads + c->kv_heads;
    int all = (heads + c->kv_heads) * d;
    float *room = bn_malloc((size_t)all * sizeof(float));
    const struct bn_named *q =
        tensor(p, "model.layers.%d.self_attn.q_norm.weight", layer);
    const struct bn_named *k =
        tensor(p, "model.layers.%d.self_attn.k_norm.weight", layer);

    for (int i = 0; i < p->n; i++) {
        float *row = p->wide + (size_t)i * (size_t)all;

        if (p->cut != NULL && p->cut->qkv != NULL) {
            memcpy(room, row, (size_t)all * sizeof(float));
            for (int r = 0; r < all; r++)
                row[r] = room[p->cut->qkv[r]];
        }
        if (c->qk_norm) {
            norm(p, q, row, row, d, c->heads);
            norm(p, k, row + c->heads * d, row + c->heads * d, d,
                 c->kv_heads);
        }
        for (int h = 0; h < heads; h++)
            rotate(p, row + h * d, i);
    }
    free(room);
}

/* One query's answer of one head at 'out'; 'w' has room for its weights. */
static void attend(const struct probe *p, int layer, int head, int i,
                   float *w, float *out)
{
    const struct bn_model_config *c = p->c;
    int d = c->head_dim, all = (c->heads + 2 * c->kv_heads) * d;
    int window = bn_model_window(c, layer);
    int from = window > 0 && i + 1 > window ? i + 1 - window : 0;
    int kv = c->heads + head / (c->heads / c->kv_heads);
    const float *q = p->wide + (size_t)i * (size_t)all + head * d;
    const float *k = p->wide + kv * d;
    const float *v = k + c->kv_heads * d;
    float top = -INFINITY, sum = 0;

    for (int t = from; t <= i; t++) {
        w[t] = dot(q, k + (size_t)t * (size_t)all, d) / sqrtf((float)d);
        top = w[t] > top ? w[t] : top;
    }
    for (int t = from; t <= i; t++)
        sum += w[t] = expf(w[t] - top);
    memset(out, 0, (size_t)d * sizeof(float));
    for (int t = from; t <= i; t++)
        for (int k2 = 0; k2 < d; k2++)
            out[k2] += w[t] / sum * v[(size_t)t * (size_t)all + (size_t)k2];
}

static void attention(const struct probe *p, int l)
{
    const struct bn_model_config *c = p->c;
    static const char *const part[] = {"q", "k", "v"};
    int d = c->head_dim, all = (c->heads + 2 * c->kv_heads) * d, at = 0;
    float *w = bn_malloc((size_t)p->n * sizeof(float));

    for (int i = 0; i < 3; i++) {
        multiply(p, tensor(p, "model.layers.%d.self_attn.%s_proj.weight", l,
                           part[i]),
                 tensor(p, "model.layers.%d.self_attn.%s_proj.bias", l,
                        part[i]), p->h, p->wide, all, at);
        at += (i == 0 ? c->heads : c->kv_heads) * d;
    }
    shape_heads(p, l);
    for (int i = 0; i < p->n; i++)
        for (int h = 0; h < c->heads; h++)
            attend(p, l, h, i, w,
                   p->out + ((size_t)i * (size_t)c->heads + (size_t)h)
                                * (size_t)d);
    multiply(p, tensor(p, "model.layers.%d.self_attn.o_proj.weight", l),
             tensor(p, "model.layers.%d.self_attn.o_proj.bias", l), p->out,
             p->h, c->hidden_size, 0);
    free(w);
}

static void feed_forward(const struct probe *p, int l)
{
    int f = p->c->intermediate_size;
    bool swap = p->cut != NULL && p->cut->swap_gate;

    multiply(p, tensor(p, "model.layers.%d.mlp.%s_proj.weight", l,
                       swap ? "up" : "gate"), NULL, p->h, p->wide, f, 0);
    multiply(p, tensor(p, "model.layers.%d.mlp.%s_proj.weight", l,
                       swap ? "gate" : "up"), NULL, p->h, p->out, f, 0);
    for (size_t i = 0; i < (size_t)p->n * (size_t)f; i++)
        p->out[i] *= p->wide[i] / (1 + expf(-p->wide[i]));
    multiply(p, tensor(p, "model.layers.%d.mlp.down_proj.weight", l), NULL,
             p->out, p->h, p->c->hidden_size, 0);
}

static void add(const struct probe *p)
{
    for (size_t i = 0; i < (size_t)p->n * (size_t)p->c->hidden_size; i++)
        p->x[i] += p->h[i];
}

static void run(const struct probe *p, const int32_t *ids, float *logits)
{
    const struct bn_named *embed = tensor(p, "model.embed_tokens.weight");
    const struct bn_named *head = tensor(p, "lm_head.weight");
    int hidden = p->c->hidden_size;

    for (int i = 0; i < p->n; i++)
        as_float(embed, (int64_t)ids[i] * hidden, hidden,
                 p->x + (size_t)i * (size_t)hidden);
    for (int l = 0; l < p->c->layers; l++) {
        norm(p, tensor(p, "model.layers.%d.input_layernorm.weight", l), p->x,
             p->h, hidden, p->n);
        attention(p, l);
        add(p);
        norm(p, tensor(p, "model.layers.%d.post_attention_layernorm.weight",
                       l), p->x, p->h, hidden, p->n);
        feed_forward(p, l);
        add(p);
    }
    norm(p, tensor(p, "model.norm.weight"), p->x, p->h, hidden, p->n);
    multiply(p, p->c->tie_embeddings || head == NULL ? embed : head, NULL,
             p->h, logits, p->c->vocab_size, 0);
}

static void fill_tables(struct probe *p)
{
    int half = p->c->head_dim / 2;
    double *f = BN_NEWN(double, (size_t)half), scale;

    bn_rope_freqs(p->c, p->n, f, &scale);
    for (int i = 0; i < p->n * half; i++) {
        p->cos[i] = (float)(scale * cos(i / half * f[i % half]));
        p->sin[i] = (float)(scale * sin(i / half * f[i % half]));
    }
    free(f);
}

int bn_probe_logits(const struct bn_tensors *ts,
                    const struct bn_model_config *c,
                    const struct bn_probe_cut *cut, const int32_t *ids, int n,
                    float *logits, struct bn_err *err)
{
    struct probe p = {.ts = ts, .c = c, .cut = cut, .n = n,
                      .threads = bn_cpu_count()};
    size_t rows = (size_t)n, hidden = (size_t)c->hidden_size;
    size_t qkv = (size_t)(c->heads + 2 * c->kv_heads) * (size_t)c->head_dim;
    size_t half = (size_t)c->head_dim / 2;
    size_t wide = qkv > (size_t)c->intermediate_size
                      ? qkv
                      : (size_t)c->intermediate_size;
    float *all = malloc(rows * (2 * hidden + 2 * wide + 2 * half)
                        * sizeof(float));

    if (all == NULL)
        return bn_fail(err, BN_ERR_AGAIN, "no memory to run %d tokens", n);
    p.x = all;
    p.h = p.x + rows * hidden;
    p.wide = p.h + rows * hidden;
    p.out = p.wide + rows * wide;
    p.cos = p.out + rows * wide;
    p.sin = p.cos + rows * half;
    fill_tables(&p);
    run(&p, ids, logits);
    free(all);
    return 0;
}

/* log of the sum of exp */
static double log_total(const float *x, int n)
{
    double top = -INFINITY, sum = 0;

    for (int i = 0; i < n; i++)
        top = (double)x[i] > top ? (double)x[i] : top;
    for (int i = 0; i < n; i++)
        sum += exp((double)x[i] - top);
    return top + log(sum);
}

double bn_probe_nll(const float *logits, int vocab, const int32_t *ids, int n)
{
    double sum = 0;

    for (int i = 0; i + 1 < n; i++, logits += vocab)
        sum += log_total(logits, vocab) - (double)logits[ids[i + 1]];
    return sum / (n - 1);
}

double bn_probe_kl(const float *a, const float *b, int vocab, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++, a += vocab, b += vocab) {
        double ta = log_total(a, vocab), tb = log_total(b, vocab);

        for (int k = 0; k < vocab; k++)
            sum += exp((double)a[k] - ta)
                   * ((double)a[k] - ta - ((double)b[k] - tb));
    }
    return sum / n;
}
