#include "config.h"
#include "tensor/convert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The formats once more, as sums of powers of two: shares nothing with the
 * code under test. */
static const struct small {
    enum bn_dtype type;
    int exp, man, bias, codes;
    bool inf;
} smalls[] = {
    {BN_BF16, 8, 7, 127, 65536, true},
    {BN_F16, 5, 10, 15, 65536, true},
    {BN_F8_E4M3, 4, 3, 7, 256, false},
    {BN_F8_E5M2, 5, 2, 15, 256, true},
};

static double value(const struct small *s, int code)
{
    int sign = code >= s->codes / 2, abs = code % (s->codes / 2);
    int e = abs >> s->man, top = (1 << s->exp) - 1;
    double x = 0;

    if (s->inf && e == top)
        return abs & ((1 << s->man) - 1) ? NAN : sign ? -INFINITY : INFINITY;
    if (!s->inf && abs == s->codes / 2 - 1)
        return NAN;
    for (int bit = 0; bit < s->man; bit++)
        if (abs >> bit & 1)
            x += pow(2, (e > 0 ? e : 1) - s->bias - s->man + bit);
    if (e > 0)
        x += pow(2, e - s->bias);
    return sign ? -x : x;
}

static unsigned get(const struct small *s, const void *p, size_t i)
{
    uint16_t h;

    if (s->codes == 256)
        return ((const unsigned char *)p)[i];
    memcpy(&h, (const char *)p + 2 * i, 2);
    return h;
}

/* All codes as an array of the format, at an odd address. */
static char *all_codes(const struct small *s)
{
    char *p = bn_malloc(2 * (size_t)s->codes + 1);

    for (int c = 0; c < s->codes; c++) {
        uint16_t h = (uint16_t)c;

        if (s->codes == 256)
            p[1 + c] = (char)c;
        else
            memcpy(p + 1 + 2 * c, &h, 2);
    }
    return p;
}

static bool same(double x, double y)
{
    return isnan(x) ? isnan(y) && !signbit(x) == !signbit(y)
                    : x == y && !signbit(x) == !signbit(y);
}

static void every_code_decodes(void **state)
{
    (void)state;
    for (size_t k = 0; k < BN_COUNT(smalls); k++) {
        const struct small *s = &smalls[k];
        char *p = all_codes(s);
        double *d = bn_malloc(8 * (size_t)s->codes);
        float *f = bn_malloc(4 * (size_t)s->codes);

        bn_convert(d, BN_F64, p + 1, s->type, (size_t)s->codes);
        bn_convert(f, BN_F32, p + 1, s->type, (size_t)s->codes);
        for (int c = 0; c < s->codes; c++) {
            double v = value(s, c);

            if (isnan(v))
                v = copysign(v, c >= s->codes / 2 ? -1 : 1);
            if (!same(v, d[c]) || !same(v, f[c]))
                fail_msg("%s code %#x: %g and %g, not %g",
                         bn_dtype_name(s->type), c, d[c], f[c], v);
        }
        free(p);
        free(d);
        free(f);
    }
}

/* What x must become: the nearest of all values, even code on a tie. */
static unsigned nearest(const struct small *s, const double *v, double x)
{
    int n = s->codes / 2, lo = 0, hi = n - 1; /* positive codes */
    unsigned sign = signbit(x) ? (unsigned)n : 0;
    double a = fabs(x);

    while (hi > 0 && !isfinite(v[hi]))
        hi--;
    int max = hi;
    /* one more step of the top binade: where rounding overflows */
    double over = v[max] + (v[max] - v[max - 1]) / 2;
    if (a > over || (a == over && max % 2 == 1))
        return sign | (unsigned)(max + 1);
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;

        if (v[mid] <= a)
            lo = mid;
        else
            hi = mid - 1;
    }
    if (lo == max)
        return sign | (unsigned)lo;
    double down = a - v[lo], up = v[lo + 1] - a;
    bool take_up = up < down || (up == down && lo % 2 == 1);
    return sign | (unsigned)(lo + take_up);
}

/* Codes, midpoints and their neighbours, all signs, in double. */
static size_t inputs(const struct small *s, const double *v, double **out)
{
    size_t n = 0, cap = 0;
    double *x = NULL;

    for (int c = 0; c + 1 < s->codes / 2 && isfinite(v[c]); c++) {
        double next = isfinite(v[c + 1]) ? v[c + 1] : 2 * v[c] - v[c - 1];
        double mid = (v[c] + next) / 2;
        double set[] = {v[c], mid, nextafter(mid, 0), nextafter(mid, 1e300),
                        nextafter(v[c], 1e300), (float)mid,
                        nextafterf((float)mid, 0),
                        nextafterf((float)mid, 1e38f)};

        bn_grow(&x, &cap, n + 2 * BN_COUNT(set), sizeof(*x));
        for (size_t i = 0; i < BN_COUNT(set); i++) {
            x[n++] = set[i];
            x[n++] = -set[i];
        }
    }
    *out = x;
    return n;
}

static void every_boundary_rounds_to_even(void **state)
{
    (void)state;
    for (size_t k = 0; k < BN_COUNT(smalls); k++) {
        const struct small *s = &smalls[k];
        double *v = bn_malloc(8 * (size_t)s->codes), *x;

        for (int c = 0; c < s->codes; c++)
            v[c] = value(s, c);
        size_t n = inputs(s, v, &x);
        char *d = bn_malloc(2 * n + 1), *df = bn_malloc(2 * n + 1);
        float *f = bn_malloc(4 * n);
        for (size_t i = 0; i < n; i++)
            f[i] = (float)x[i];
        bn_convert(d + 1, s->type, x, BN_F64, n);
        bn_convert(df + 1, s->type, f, BN_F32, n);
        for (size_t i = 0; i < n; i++) {
            unsigned want = nearest(s, v, x[i]);
            unsigned wantf = nearest(s, v, f[i]);

            if (get(s, d + 1, i) != want || get(s, df + 1, i) != wantf)
                fail_msg("%s of %a: %#x, not %#x; of float %a: %#x, not %#x",
                         bn_dtype_name(s->type), x[i], get(s, d + 1, i),
                         want, (double)f[i], get(s, df + 1, i), wantf);
        }
        free(v);
        free(x);
        free(d);
        free(df);
        free(f);
    }
}

static void random_bits_agree_with_the_search(void **state)
{
    (void)state;
    for (size_t k = 0; k < BN_COUNT(smalls); k++) {
        const struct small *s = &smalls[k];
        double *v = bn_malloc(8 * (size_t)s->codes);

        for (int c = 0; c < s->codes; c++)
            v[c] = value(s, c);
        for (uint64_t i = 0; i < 100000; i++) {
            uint32_t b = (uint32_t)bn_rng_u64(1, k, i);
            unsigned char out[2];
            float f;

            memcpy(&f, &b, 4);
            bn_convert(out, s->type, &f, BN_F32, 1);
            if (isnan(f)) {
                double back;

                bn_convert(&back, BN_F64, out, s->type, 1);
                assert_true(isnan(back) && !signbit(back) == !signbit(f));
            } else {
                assert_int_equal(get(s, out, 0), nearest(s, v, f));
            }
        }
        free(v);
    }
}

static void special_values_follow_the_rules(void **state)
{
    static const struct {
        double in;
        uint16_t bf16, f16;
        unsigned char e4m3, e5m2;
    } t[] = {
        {0.0, 0, 0, 0, 0},
        {-0.0, 0x8000, 0x8000, 0x80, 0x80},
        {1, 0x3f80, 0x3c00, 0x38, 0x3c},
        {-448, 0xc3e0, 0xdf00, 0xfe, 0xdf},
        {464, 0x43e8, 0x5f40, 0x7e, 0x5f},      /* tie: to even, 448 */
        {464.0001, 0x43e8, 0x5f40, 0x7f, 0x5f}, /* above: NaN */
        {65504, 0x4780, 0x7bff, 0x7f, 0x7c},
        {65519.99, 0x4780, 0x7bff, 0x7f, 0x7c},
        {65520, 0x4780, 0x7c00, 0x7f, 0x7c},
        {61439, 0x4770, 0x7b80, 0x7f, 0x7b},
        {INFINITY, 0x7f80, 0x7c00, 0x7f, 0x7c},
        {-INFINITY, 0xff80, 0xfc00, 0xff, 0xfc},
        {0x1p-149, 0x0000, 0, 0, 0},
        {0x1p-133, 0x0001, 0, 0, 0},
        {0x1p-24, 0x3380, 0x0001, 0, 0},
        {0x1.8p-10, 0x3ac0, 0x1600, 0x01, 0x16},
        {0x1p-10, 0x3a80, 0x1400, 0x00, 0x14}, /* tie with 0: even */
        {1e300, 0x7f80, 0x7c00, 0x7f, 0x7c},
        {5e-324, 0, 0, 0, 0},
        {0x1.fep+127, 0x7f7f, 0x7c00, 0x7f, 0x7c}, /* largest bf16 */
        {0x1.ffp+127, 0x7f80, 0x7c00, 0x7f, 0x7c}, /* tie: infinity */
        /* one rounding: through float it would end on a tie */
        {1 + 0x1p-8 + 0x1p-40, 0x3f81, 0x3c04, 0x38, 0x3c},
    };

    (void)state;
    for (size_t i = 0; i < BN_COUNT(t); i++) {
        uint16_t b, h;
        unsigned char e4, e5;

        bn_convert(&b, BN_BF16, &t[i].in, BN_F64, 1);
        bn_convert(&h, BN_F16, &t[i].in, BN_F64, 1);
        bn_convert(&e4, BN_F8_E4M3, &t[i].in, BN_F64, 1);
        bn_convert(&e5, BN_F8_E5M2, &t[i].in, BN_F64, 1);
        if (b != t[i].bf16 || h != t[i].f16 || e4 != t[i].e4m3
            || e5 != t[i].e5m2)
            fail_msg("%a: %#x %#x %#x %#x", t[i].in, b, h, e4, e5);
    }
    float f = 1 + 0x1p-8f;
    assert_int_equal(bn_f32_to_bf16(f), 0x3f80);
    assert_int_equal(bn_f32_to_f16(65519), 0x7bff);
    assert_true(bn_bf16_to_f32(0xc000) == -2 && bn_f16_to_f32(1) == 0x1p-24f);
}

/* Every length and offset takes the same values through whatever path. */
static void paths_agree(void **state)
{
    enum { N = 67 };
    static const enum bn_dtype to[] = {BN_BF16, BN_F16};
    char src[4 * N + 4], back[4 * N + 4];

    (void)state;
    for (size_t t = 0; t < BN_COUNT(to); t++) {
        for (size_t off = 0; off < 4; off++) {
            for (size_t n = 0; n <= N; n++) {
                uint16_t dst[N + 1];

                for (size_t i = 0; i < n; i++) {
                    uint32_t b = (uint32_t)bn_rng_u64(2, off, i);

                    memcpy(src + off + 4 * i, &b, 4);
                }
                dst[n] = 0x5a5a;
                memset(back, 0x77, sizeof(back));
                bn_convert(dst, to[t], src + off, BN_F32, n);
                bn_convert(back + off, BN_F32, dst, to[t], n);
                assert_int_equal(dst[n], 0x5a5a);
                assert_int_equal(back[off + 4 * n], 0x77);
                for (size_t i = 0; i < n; i++) {
                    uint16_t one;
                    float f, g, b;

                    memcpy(&f, src + off + 4 * i, 4);
                    one = to[t] == BN_BF16 ? bn_f32_to_bf16(f)
                                           : bn_f32_to_f16(f);
                    g = to[t] == BN_BF16 ? bn_bf16_to_f32(one)
                                         : bn_f16_to_f32(one);
                    memcpy(&b, back + off + 4 * i, 4);
                    assert_int_equal(dst[i], one);
                    assert_memory_equal(&b, &g, 4);
                }
            }
        }
    }
}

static void scans_find_the_first(void **state)
{
    static const enum bn_dtype all[] = {BN_F64, BN_F32, BN_BF16, BN_F16,
                                        BN_F8_E4M3, BN_F8_E5M2};

    (void)state;
    for (size_t t = 0; t < BN_COUNT(all); t++) {
        double x[9] = {1, -2, 0.5, 448, -0.0, 3, 4, 5, 6};
        char b[73];

        bn_convert(b + 1, all[t], x, BN_F64, 9);
        assert_int_equal(bn_find_nonfinite(b + 1, all[t], 9), 9);
        x[4] = NAN;
        x[7] = -INFINITY;
        bn_convert(b + 1, all[t], x, BN_F64, 9);
        assert_int_equal(bn_find_nonfinite(b + 1, all[t], 9), 4);
        x[4] = 0;
        bn_convert(b + 1, all[t], x, BN_F64, 9);
        assert_int_equal(bn_find_nonfinite(b + 1, all[t], 9), 7);
        assert_true(!bn_all_zero(b + 1, all[t], 9));
        double z[3] = {0, -0.0, 0};
        bn_convert(b + 1, all[t], z, BN_F64, 3);
        assert_true(bn_all_zero(b + 1, all[t], 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_decodes),
        cmocka_unit_test(every_boundary_rounds_to_even),
        cmocka_unit_test(random_bits_agree_with_the_search),
        cmocka_unit_test(special_values_follow_the_rules),
        cmocka_unit_test(paths_agree),
        cmocka_unit_test(scans_find_the_first),
    };

    return BN_TAP_RUN(tests);
}
