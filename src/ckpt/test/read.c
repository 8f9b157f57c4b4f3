/* A checkpoint's state read back into memory that held something else. */
#include "config.h"
#include "base/tap.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "ckpt/ckpt.h"

enum { RANKS = 3 };

static const struct bn_model_config cfg = {
    .family = BN_LLAMA, .hidden_size = 6, .layers = 2, .vocab_size = 11,
    .intermediate_size = 10, .heads = 3, .kv_heads = 3, .head_dim = 2,
    .max_position = 16, .rms_eps = 1e-5, .init_std = 0.02,
    .rope = {.theta = 10000}, .bos = -1, .pad = -1, .dtype = -1};

static bool in_a_parameter(const struct bn_params *ps, size_t i)
{
    for (int k = 0; k < ps->n; k++)
        if (i >= ps->item[k].offset
            && i < ps->item[k].offset + ps->item[k].count)
            return true;
    return false;
}

/* What was written as element i of part k; nonsense where there is none. */
static float value(int k, size_t i)
{
    return (float)(k + 1) + (float)i * 0.25f;
}

static void save(const char *dir, const struct bn_params *ps)
{
    char *tmp = bn_ckpt_tmp(dir, 5);
    float *part[3];
    struct bn_ckpt_shard s = {.part = ps->part, .count = ps->elems};
    struct bn_err err;

    for (int k = 0; k < 3; k++) {
        part[k] = BN_NEWN(float, ps->elems);
        for (size_t i = 0; i < ps->elems; i++)
            part[k][i] = value(k, i);
    }
    const float *const data[3] = {part[0], part[1], part[2]};
    json_t *loop = json_pack("{s:i}", "step", 5);
    const struct bn_ckpt_of of = {.cfg = &cfg};
    assert_int_equal(bn_ckpt_begin(tmp, &err), 0);
    assert_int_equal(bn_ckpt_write_shard(tmp, &s, data, &err), 0);
    assert_int_equal(
        bn_ckpt_commit(tmp, dir, 5, &s, 1, &of, "", loop, &err), 0);
    json_decref(loop);
    for (int k = 0; k < 3; k++)
        free(part[k]);
    free(tmp);
}

static void read_range(const struct bn_ckpt *c, const struct bn_params *ps,
                       size_t begin, size_t count, int *padding)
{
    float *to[3];
    struct bn_err err;

    for (int k = 0; k < 3; k++) {
        to[k] = BN_NEWN(float, count);
        for (size_t i = 0; i < count; i++)
            to[k][i] = -99;
    }
    assert_int_equal(bn_ckpt_read_host(c, ps, begin, count, to, 3, &err), 0);
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < count; i++) {
            bool is = in_a_parameter(ps, begin + i);
            float want = is ? value(k, begin + i) : 0;

            *padding += !is;
            assert_memory_equal(&to[k][i], &want, sizeof(want));
        }
    for (int k = 0; k < 3; k++)
        free(to[k]);
}

static void test_padding(void **state)
{
    char dir[] = "/tmp/bn-read-XXXXXX";
    struct bn_part whole = bn_part_whole(&cfg);
    struct bn_params ps;
    struct bn_err err;
    int padding = 0;

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(bn_params_init(&ps, &cfg, &whole, &err), 0);
    save(dir, &ps);
    bn_params_pad(&ps, RANKS);
    char *path = bn_path_join(dir, "checkpoint-5");
    struct bn_ckpt *c = bn_ckpt_open(path, 1, 0, &err);
    assert_non_null(c);
    read_range(c, &ps, 0, ps.elems, &padding);
    assert_true(padding > 0);
    size_t part = ps.elems / RANKS;
    for (size_t r = 0; r < RANKS; r++)
        read_range(c, &ps, r * part, part, &padding);
    bn_ckpt_close(c);
    bn_params_release(&ps);
    free(path);
    assert_int_equal(bn_remove_tree(dir, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_padding)};

    return BN_TAP_RUN(tests);
}
