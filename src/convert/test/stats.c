#include "config.h"
#include "convert/verify.h"
#include "base/tap.h"

#include <math.h>

enum { ROWS = 256, COLS = 512 };

static float x[ROWS * COLS];

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

static void fill_normal(double sd)
{
    uint64_t s = 7;

    for (int i = 0; i < ROWS * COLS; i++) {
        double r = sqrt(-2 * log(uniform(&s)));

        x[i] = (float)(sd * r * cos(2 * acos(-1) * uniform(&s)));
    }
}

static const char *judged(int rows)
{
    struct bn_named t = {.name = "w", .dtype = BN_F32, .ndim = 2,
                         .dims = {rows, COLS}, .count = rows * COLS,
                         .data = x};

    return bn_init_like(&t, 0.02);
}

static void drawn_matrices_are_told(void **state)
{
    double bound = 1 / sqrt(COLS);
    uint64_t s = 3;

    (void)state;
    fill_normal(0.02);
    assert_non_null(judged(ROWS));
    assert_null(judged(ROWS / 4)); /* too small to tell */
    /* trained: a little wider, heavier tails, a row that grew */
    fill_normal(0.0203);
    assert_null(judged(ROWS));
    fill_normal(0.02);
    for (int i = 0; i < 500; i++)
        x[i * 250] *= 5;
    assert_null(judged(ROWS));
    for (int i = 0; i < ROWS * COLS; i++)
        x[i] = (float)((2 * uniform(&s) - 1) * bound);
    assert_non_null(judged(ROWS));
    for (int i = 0; i < COLS; i++)
        x[i] *= 3;
    assert_null(judged(ROWS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_matrices_are_told),
    };

    return BN_TAP_RUN(tests);
}
