#include "config.h"
#include "model/rope.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

static double clamp01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* Frequencies below low_freq_factor turns in the old context are divided by
 * the factor, those above high_freq_factor kept, between them blended. */
static void stretch_llama3(const struct bn_rope *r, int n, double *f)
{
    for (int i = 0; i < n; i++) {
        double turns = r->original_max_position * f[i] / (2 * M_PI);
        double keep = clamp01((turns - r->low_freq_factor)
                              / (r->high_freq_factor - r->low_freq_factor));

        f[i] = keep * f[i] + (1 - keep) * f[i] / r->factor;
    }
}

/* The dimension that makes 'turns' turns in the old context. */
static double yarn_dim(const struct bn_rope *r, int dim, double turns)
{
    return dim * log(r->original_max_position / (turns * 2 * M_PI))
           / (2 * log(r->theta));
}

static void stretch_yarn(const struct bn_rope *r, int n, double *f)
{
    double low = yarn_dim(r, 2 * n, r->beta_fast);
    double high = yarn_dim(r, 2 * n, r->beta_slow);

    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, 2 * n - 1);
    if (low == high)
        high += 0.001;
    for (int i = 0; i < n; i++) {
        double keep = 1 - clamp01((i - low) / (high - low));

        f[i] = keep * f[i] + (1 - keep) * f[i] / r->factor;
    }
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double yarn_attention(const struct bn_rope *r)
{
    if (r->attention_factor > 0)
        return r->attention_factor;
    if (r->mscale > 0 && r->mscale_all_dim > 0)
        return yarn_mscale(r->factor, r->mscale)
               / yarn_mscale(r->factor, r->mscale_all_dim);
    return yarn_mscale(r->factor, 1);
}

void bn_rope_freqs(const struct bn_model_config *c, int seq_len,
                   double *inv_freq, double *attention_factor)
{
    const struct bn_rope *r = &c->rope;
    int n = c->head_dim / 2;
    double theta = r->theta;

    if (r->type == BN_ROPE_DYNAMIC && seq_len > c->max_position)
        theta *= pow(r->factor * seq_len / c->max_position - (r->factor - 1),
                     c->head_dim / (c->head_dim - 2.0));
    for (int i = 0; i < n; i++) {
        inv_freq[i] = pow(theta, -2.0 * i / c->head_dim);
        if (r->type == BN_ROPE_LINEAR)
            inv_freq[i] /= r->factor;
    }
    if (r->type == BN_ROPE_LLAMA3)
        stretch_llama3(r, n, inv_freq);
    if (r->type == BN_ROPE_YARN)
        stretch_yarn(r, n, inv_freq);
    *attention_factor = r->type == BN_ROPE_YARN ? yarn_attention(r) : 1;
}

static void fill_row(const double *f, int n, double scale, int pos,
                     float *cos_, float *sin_)
{
    for (int i = 0; i < n; i++) {
        cos_[i] = (float)(scale * cos(pos * f[i]));
        sin_[i] = (float)(scale * sin(pos * f[i]));
    }
}

void bn_rope_init(const struct bn_model_config *c, int max_pos, float *cos_,
                  float *sin_)
{
    int n = c->head_dim / 2;
    double *f = BN_NEWN(double, (size_t)n);
    double scale;

    bn_rope_freqs(c, max_pos, f, &scale);
    for (int p = 0; p < max_pos; p++)
        fill_row(f, n, scale, p, cos_ + (size_t)p * (size_t)n,
                 sin_ + (size_t)p * (size_t)n);
    free(f);
}

void bn_rope_rows(const struct bn_model_config *c, int n, const int32_t *pos,
                  const int32_t *span, float *cos_, float *sin_)
{
    size_t h = (size_t)(c->head_dim / 2);
    double *f = BN_NEWN(double, h);
    double scale = 1;

    for (int i = 0; i < n; i++) {
        if (i == 0 || span[i] != span[i - 1])
            bn_rope_freqs(c, span[i], f, &scale);
        fill_row(f, (int)h, scale, pos[i], cos_ + (size_t)i * h,
                 sin_ + (size_t)i * h);
    }
    free(f);
}
