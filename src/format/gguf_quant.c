/* The block formats of ggml. A block holds 32 values, or 256 in groups of 32
 * (Q4_K, Q5_K) or 16 (Q6_K) with scales of their own. Nibbles: the low ones
 * are the first half of what a run of bytes holds, the high ones the second.
 */
#include "config.h"
#include "format/gguf.h"
#include "base/mem.h"
#include "tensor/convert.h"

static float half_at(const unsigned char *p)
{
    return bn_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

static uint32_t u32_at(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16
           | (uint32_t)p[3] << 24;
}

static void q8_0(float *out, const unsigned char *b)
{
    float d = half_at(b);

    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(signed char)b[2 + i];
}

/* 4-bit values in 16 bytes, a fifth bit of each in 'high'. */
static void nibbles(float *out, const unsigned char *q, uint32_t high,
                    float d, float zero, float m)
{
    for (int i = 0; i < 16; i++) {
        unsigned lo = (q[i] & 15u) | (high >> i & 1) << 4;
        unsigned hi = q[i] >> 4 | (high >> (i + 16) & 1) << 4;

        out[i] = d * ((float)lo - zero) + m;
        out[i + 16] = d * ((float)hi - zero) + m;
    }
}

static void q4_0(float *out, const unsigned char *b)
{
    nibbles(out, b + 2, 0, half_at(b), 8, 0);
}

static void q4_1(float *out, const unsigned char *b)
{
    nibbles(out, b + 4, 0, half_at(b), 0, half_at(b + 2));
}

static void q5_0(float *out, const unsigned char *b)
{
    nibbles(out, b + 6, u32_at(b + 2), half_at(b), 16, 0);
}

static void q5_1(float *out, const unsigned char *b)
{
    nibbles(out, b + 8, u32_at(b + 4), half_at(b), 0, half_at(b + 2));
}

/* Scale and minimum of group j of 8: 6 bits each, packed in 12 bytes. */
static void group_scale(const unsigned char *s, int j, float *scale,
                        float *min)
{
    if (j < 4) {
        *scale = (float)(s[j] & 63);
        *min = (float)(s[j + 4] & 63);
    } else {
        *scale = (float)((s[j + 4] & 15) | (s[j - 4] >> 6) << 4);
        *min = (float)(s[j + 4] >> 4 | (s[j] >> 6) << 4);
    }
}

/* Q4_K, and Q5_K when 'high' holds a fifth bit of each value. */
static void groups_of_32(float *out, const unsigned char *b,
                         const unsigned char *high, const unsigned char *q)
{
    float d = half_at(b), dmin = half_at(b + 2), scale, min;

    for (int j = 0; j < 8; j++) {
        const unsigned char *run = q + j / 2 * 32;

        group_scale(b + 4, j, &scale, &min);
        for (int i = 0; i < 32; i++) {
            unsigned v = j % 2 == 0 ? run[i] & 15u : run[i] >> 4;

            if (high != NULL)
                v |= (high[i] >> j & 1u) << 4;
            *out++ = d * scale * (float)v - dmin * min;
        }
    }
}

static void q4_k(float *out, const unsigned char *b)
{
    groups_of_32(out, b, NULL, b + 16);
}

static void q5_k(float *out, const unsigned char *b)
{
    groups_of_32(out, b, b + 16, b + 48);
}

static void q6_k(float *out, const unsigned char *b)
{
    const unsigned char *low = b, *high = b + 128;
    const signed char *scale = (const signed char *)b + 192;
    float d = half_at(b + 208);

    /* halves of 128 values: 64 bytes of nibbles, 32 of upper bit pairs */
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i % 128 / 32, l = i % 32;
        unsigned n = low[half * 64 + quarter % 2 * 32 + l];
        unsigned up = high[half * 32 + l] >> (2 * quarter) & 3u;
        int v = (int)((quarter < 2 ? n & 15u : n >> 4) | up << 4) - 32;

        out[i] = d * (float)scale[i / 16] * (float)v;
    }
}

static const struct bn_quant quants[] = {
    {"Q4_0", 2, 32, 18, q4_0},    {"Q4_1", 3, 32, 20, q4_1},
    {"Q5_0", 6, 32, 22, q5_0},    {"Q5_1", 7, 32, 24, q5_1},
    {"Q8_0", 8, 32, 34, q8_0},    {"Q4_K", 12, 256, 144, q4_k},
    {"Q5_K", 13, 256, 176, q5_k}, {"Q6_K", 14, 256, 210, q6_k},
};

const struct bn_quant *bn_quant_find(int id)
{
    for (size_t i = 0; i < BN_COUNT(quants); i++)
        if (quants[i].id == id)
            return &quants[i];
    return NULL;
}
