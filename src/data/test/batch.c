/* Batches and the order of examples. */
#include "config.h"
#include "base/tap.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "data/batch.h"
#include "data/order.h"

static void test_text(void **state)
{
    const int32_t a[] = {1, 10, 11, 12}, b[] = {1, 20};
    const uint8_t ma[] = {0, 0, 1, 1}, mb[] = {0, 1};
    const struct bn_example ex[] = {
        {.index = 7, .ids = a, .mask = ma, .n = 4},
        {.index = 9, .ids = b, .mask = mb, .n = 2}};
    const int32_t ids[] = {1, 10, 11, 12, 1, 20}, pos[] = {0, 1, 2, 3, 0, 1};
    const struct bn_score score[] = {{1, 11, 0}, {2, 12, 0}, {4, 20, 1}};
    struct bn_batch m;
    struct bn_err err;

    (void)state;
    assert_int_equal(bn_batch_build(&m, 1, ex, 2, 0, &err), 0);
    assert_int_equal(m.ntok, 6);
    assert_memory_equal(m.ids, ids, sizeof(ids));
    assert_memory_equal(m.pos, pos, sizeof(pos));
    assert_int_equal(m.nscore, 3);
    assert_memory_equal(m.score, score, sizeof(score));
    assert_int_equal(m.nseg, 2);
    assert_int_equal(m.seg[1].q_start, 4);
    assert_int_equal(m.seg[1].k_start, 4);
    assert_int_equal(m.seg[1].q_len, 2);
    assert_int_equal(m.seg[1].p_len, 0);
    assert_int_equal(m.nseq, 2);
    assert_int_equal(m.seq[0].ntok, 2);
    assert_int_equal(m.seq[0].example, 7);
    assert_int_equal(m.seq[1].ntok, 1);
    bn_batch_release(&m);
}

static const int32_t prompt[] = {1, 5, 6}, chosen[] = {7, 2},
                     rejected[] = {8, 9, 2};
static const struct bn_example pair = {
    .index = 3, .ids = prompt, .n = 3, .chosen = chosen, .nchosen = 2,
    .rejected = rejected, .nrejected = 3};

static void test_pair(void **state)
{
    const int32_t ids[] = {1, 5, 6, 7, 2, 8, 9, 2};
    const int32_t pos[] = {0, 1, 2, 3, 4, 3, 4, 5};
    const struct bn_score score[] = {{0, 5, 0}, {1, 6, 0}, {2, 7, 1},
                                     {2, 8, 2}, {3, 2, 1}, {5, 9, 2},
                                     {6, 2, 2}};
    struct bn_batch m;

    (void)state;
    assert_int_equal(bn_batch_build(&m, 3, &pair, 1, BN_BATCH_SCORE_PROMPT,
                                    NULL), 0);
    assert_int_equal(m.ntok, 8);
    assert_memory_equal(m.ids, ids, sizeof(ids));
    assert_memory_equal(m.pos, pos, sizeof(pos));
    assert_int_equal(m.nscore, 7);
    assert_memory_equal(m.score, score, sizeof(score));
    assert_int_equal(m.nseg, 3);
    assert_int_equal(m.seg[2].q_start, 5);
    assert_int_equal(m.seg[2].p_start, 0);
    assert_int_equal(m.seg[2].p_len, 3);
    assert_int_equal(m.seq[0].ntok, 2);
    assert_int_equal(m.seq[1].ntok, 2);
    assert_int_equal(m.seq[2].ntok, 3);
    bn_batch_release(&m);
    assert_int_equal(bn_batch_build(&m, 3, &pair, 1, 0, NULL), 0);
    assert_int_equal(m.nscore, 5);
    assert_int_equal(m.seq[0].ntok, 0);
    bn_batch_release(&m);
}

static void test_repeated(void **state)
{
    const int32_t ids[] = {1, 5, 6, 7, 2, 1, 5, 6, 8, 9, 2};
    const struct bn_score score[] = {{0, 5, 0}, {1, 6, 0}, {2, 7, 1},
                                     {3, 2, 1}, {7, 8, 2}, {8, 9, 2},
                                     {9, 2, 2}};
    struct bn_batch m;

    (void)state;
    assert_int_equal(bn_batch_build_repeated(&m, &pair, 1,
                                             BN_BATCH_SCORE_PROMPT, NULL), 0);
    assert_int_equal(m.ntok, 11);
    assert_memory_equal(m.ids, ids, sizeof(ids));
    assert_int_equal(m.pos[5], 0);
    assert_int_equal(m.pos[10], 5);
    assert_int_equal(m.nscore, 7);
    assert_memory_equal(m.score, score, sizeof(score));
    assert_int_equal(m.nseg, 2);
    assert_int_equal(m.nseq, 3);
    bn_batch_release(&m);
}

static void test_bugs(void **state)
{
    struct bn_example ex = pair;
    const uint8_t none[] = {0, 0, 0};
    struct bn_batch m;
    struct bn_err err;

    (void)state;
    ex.nchosen = 0;
    assert_int_equal(bn_batch_build(&m, 3, &ex, 1, 0, &err), -1);
    assert_int_equal(err.code, BN_ERR_BUG);
    ex = pair;
    ex.n = 0;
    assert_int_equal(bn_batch_build(&m, 3, &ex, 1, 0, &err), -1);
    ex = pair;
    ex.mask = none;
    assert_int_equal(bn_batch_build(&m, 1, &ex, 1, 0, &err), -1);
    assert_int_equal(bn_batch_build(&m, 2, &ex, 1, 0, &err), -1);
}

/* Every example once an epoch, whatever the layout; the same ones a step. */
static void test_order(void **state)
{
    enum { N = 103 };
    uint64_t ref[5][24], seen[N] = {0};

    (void)state;
    for (int layout = 0; layout < 4; layout++) {
        static const int shape[4][3] = {
            {24, 1, 1}, {4, 3, 2}, {1, 3, 8}, {2, 12, 1}};

        for (int rank = 0; rank < shape[layout][2]; rank++) {
            const struct bn_plan p = {
                .n = N, .seed = 5, .shuffle = true,
                .batch = shape[layout][0], .accum = shape[layout][1],
                .dp_rank = rank, .dp_size = shape[layout][2]};

            assert_int_equal(bn_plan_steps_per_epoch(&p), 5);
            assert_int_equal(bn_plan_step_count(&p, 4), 7);
            assert_int_equal(bn_plan_step_count(&p, 5), 24);
            assert_int_equal(bn_plan_seen(&p, 6), N + 24);
            for (uint64_t step = 5; step < 10; step++) {
                for (int m = 0; m < bn_plan_micros(&p, step); m++) {
                    for (int s = 0; s < bn_plan_slots(&p, step, m); s++) {
                        uint64_t at = (uint64_t)((m * p.dp_size + rank)
                                                 * p.batch + s);
                        uint64_t x = bn_plan_example(&p, step, m, s);

                        assert_true(x < N);
                        if (layout == 0)
                            ref[step - 5][at] = x;
                        assert_int_equal(x, ref[step - 5][at]);
                        seen[x]++;
                    }
                }
                for (int m = bn_plan_micros(&p, step); m < p.accum; m++)
                    assert_int_equal(bn_plan_slots(&p, step, m), 0);
            }
        }
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(seen[i], 4);
}

static void test_plain_order(void **state)
{
    const struct bn_plan p = {.n = 10, .batch = 2, .accum = 2, .dp_size = 1};

    (void)state;
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(bn_plan_example(&p, i / 4, (int)(i % 4 / 2),
                                         (int)(i % 2)), i);
    assert_int_equal(bn_plan_micros(&p, 2), 1);
    assert_int_equal(bn_plan_slots(&p, 2, 0), 2);
    assert_int_equal(bn_plan_example(&p, 3, 0, 0), 0);
}

/* A billion samples cost nothing, and epochs differ. */
static void test_large(void **state)
{
    const uint64_t n = 1000000007;
    int differ = 0;
    uint64_t sum = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t at = i * 999983;
        uint64_t x = bn_order(1, true, 0, n, at);

        assert_true(x < n);
        differ += x != bn_order(1, true, 1, n, at);
        sum += x / 1000;
    }
    assert_true(differ > 990);
    assert_true(sum > n / 2 * 8 / 10 && sum < n / 2 * 12 / 10);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* What both of two ranks take in 'steps' steps from 'step' on. */
static size_t walk(uint64_t n, uint64_t step, uint64_t steps, uint64_t *out)
{
    size_t count = 0;

    for (int rank = 0; rank < 2; rank++) {
        struct bn_plan p = {.n = n, .seed = 3, .shuffle = true, .batch = 4,
                            .accum = 8, .dp_rank = rank, .dp_size = 2};

        for (uint64_t s = step; s < step + steps; s++)
            for (int m = 0; m < bn_plan_micros(&p, s); m++)
                for (int k = 0; k < bn_plan_slots(&p, s, m); k++)
                    out[count++] = bn_plan_example(&p, s, m, k);
    }
    return count;
}

/* Of a billion samples, wherever in an epoch a run begins: no memory, no time
 * that a thousand samples would not take, none twice. */
static void test_virtual(void **state)
{
    enum { STEPS = 4000, GLOBAL = 64, SLACK = 20 };
    const uint64_t n = 1000000007, epoch = (n + GLOBAL - 1) / GLOBAL;
    const uint64_t from[] = {0, epoch / 3, epoch - STEPS, 7 * epoch - STEPS};
    uint64_t *got = BN_NEWN(uint64_t, (size_t)STEPS * GLOBAL);
    size_t before = mallinfo2().uordblks;
    clock_t t0 = clock();

    (void)state;
    walk(1009, 5, STEPS, got);
    clock_t few = clock() - t0;
    for (size_t i = 0; i < BN_COUNT(from); i++) {
        t0 = clock();
        size_t count = walk(n, from[i], STEPS, got);

        assert_true(clock() - t0 < SLACK * (few + CLOCKS_PER_SEC / 100));
        assert_true(mallinfo2().uordblks <= before);
        /* the last step of an epoch takes what is left */
        assert_int_equal(count, STEPS * GLOBAL - (i < 2 ? 0 : GLOBAL - n % GLOBAL));
        qsort(got, count, sizeof(*got), ascending);
        assert_true(got[count - 1] < n);
        for (size_t k = 1; k < count; k++)
            assert_true(got[k - 1] < got[k]);
    }
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),   cmocka_unit_test(test_pair),
        cmocka_unit_test(test_repeated), cmocka_unit_test(test_bugs),
        cmocka_unit_test(test_order),  cmocka_unit_test(test_plain_order),
        cmocka_unit_test(test_large), cmocka_unit_test(test_virtual),
    };

    return BN_TAP_RUN(tests);
}
