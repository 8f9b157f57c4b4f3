#include "config.h"
#include "base/tap.h"
#include "base/mem.h"
#include "mesh/split.h"


#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 50, MAX = 400 };

static void pair(struct bn_batch *b)
{
    static int32_t ids[3][64];
    struct bn_example ex[3];

    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 64; k++)
            ids[i][k] = (i * 64 + k) % VOCAB;
        ex[i] = (struct bn_example){.index = i, .ids = ids[i],
                                    .n = 5 + 7 * i, .chosen = ids[i] + 30,
                                    .nchosen = 1 + 9 * i,
                                    .rejected = ids[i] + 20,
                                    .nrejected = 6 - 2 * i};
    }
    assert_int_equal(bn_batch_build(b, 3, ex, 3, BN_BATCH_SCORE_PROMPT, NULL),
                     0);
}

/* What row i of a batch sees, as a bit a key row of the whole batch. */
static void visible(const struct bn_batch *b, int row, bool *sees)
{
    memset(sees, 0, MAX * sizeof(*sees));
    for (int s = 0; s < b->nseg; s++) {
        const struct bn_attn_seg *g = &b->seg[s];
        int i = row - g->q_start;

        if (i < 0 || i >= g->q_len)
            continue;
        for (int j = 0; j < g->p_len; j++)
            sees[g->p_start + j] = true;
        for (int j = 0; j <= g->q_off + i && j < g->k_len; j++)
            sees[g->k_start + j] = true;
    }
}

/* Every row is on exactly one rank, with its id, position, targets and keys.
 */
static void test_shares(void **state)
{
    struct bn_batch b;

    (void)state;
    pair(&b);
    for (int size = 1; size <= 9; size++) {
        int *owner = BN_NEWN(int, (size_t)b.ntok), scores = 0, rows = 0;

        for (int r = 0; r < size; r++) {
            struct bn_batch p;
            bool whole[MAX], part[MAX];

            assert_int_equal(bn_mesh_split(&p, &b, size, r, NULL), 0);
            assert_int_equal(p.nkv, b.ntok);
            assert_true(p.ntok <= p.pad_rows);
            assert_true(p.ntok <= bn_split_max_tokens(b.ntok, b.nseg, size));
            assert_true(p.nseg <= 2 * b.nseg);
            for (int i = 0; i < b.ntok; i++) {
                if (p.kv_row[i] / p.pad_rows != r)
                    continue;
                int at = p.kv_row[i] % p.pad_rows;

                owner[i]++;
                rows++;
                assert_int_equal(p.ids[at], b.ids[i]);
                assert_int_equal(p.pos[at], b.pos[i]);
                visible(&b, i, whole);
                visible(&p, at, part);
                assert_memory_equal(whole, part, sizeof(whole));
            }
            for (int e = 0; e < p.nscore; e++)
                assert_true(p.score[e].row < p.ntok);
            scores += p.nscore;
            assert_memory_equal(p.seq, b.seq,
                                (size_t)b.nseq * sizeof(*b.seq));
            bn_batch_release(&p);
        }
        for (int i = 0; i < b.ntok; i++)
            assert_int_equal(owner[i], 1);
        assert_int_equal(rows, b.ntok);
        assert_int_equal(scores, b.nscore);
        free(owner);
    }
    bn_batch_release(&b);
}

static long pairs(const struct bn_batch *b)
{
    long n = 0;

    for (int s = 0; s < b->nseg; s++)
        for (int i = 0; i < b->seg[s].q_len; i++)
            n += b->seg[s].p_len + b->seg[s].q_off + i + 1;
    return n;
}

/* One long segment: no rank computes 2% more than its share. */
static void test_balance(void **state)
{
    enum { N = 4096 };
    int32_t *ids = BN_NEWN(int32_t, N);
    uint8_t *mask = BN_NEWN(uint8_t, N);
    struct bn_example ex = {.ids = ids, .mask = mask, .n = N};
    struct bn_batch b;

    (void)state;
    mask[1] = 1;
    assert_int_equal(bn_batch_build(&b, 1, &ex, 1, 0, NULL), 0);
    for (int r = 0; r < 8; r++) {
        struct bn_batch p;

        assert_int_equal(bn_mesh_split(&p, &b, 8, r, NULL), 0);
        assert_true((double)pairs(&p) < 1.02 * (double)pairs(&b) / 8);
        bn_batch_release(&p);
    }
    bn_batch_release(&b);
    free(ids);
    free(mask);
}

static void test_refusals(void **state)
{
    struct bn_batch b, p, q = {0};
    struct bn_err err;

    (void)state;
    pair(&b);
    assert_int_equal(bn_mesh_split(&p, &b, 2, 1, NULL), 0);
    assert_int_equal(bn_mesh_split(&q, &p, 2, 0, &err), -1);
    assert_int_equal(err.code, BN_ERR_BUG);
    assert_string_equal(err.text, "a batch is split a second time");
    assert_int_equal(bn_mesh_split(&q, &b, 2, 2, &err), -1);
    b.seg[1].q_len--; /* a row that nobody would have */
    assert_int_equal(bn_mesh_split(&q, &b, 2, 0, &err), -1);
    assert_null(q.memory);
    bn_batch_release(&p);
    bn_batch_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_balance),
        cmocka_unit_test(test_refusals),
    };

    return BN_TAP_RUN(tests);
}
