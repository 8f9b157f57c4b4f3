/* A checkpoint's state read back into memory that held something else. */
#include "config.h"
#include "base/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    struct bn_ckpt *c = bn_ckpt_open(path, &err);
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

/* --- Shards of several pieces, from one layout to others --------------------- */

static const struct bn_model_config large = {
    .family = BN_LLAMA, .hidden_size = 64, .layers = 2, .vocab_size = 9001,
    .intermediate_size = 96, .heads = 6, .kv_heads = 6, .head_dim = 8,
    .max_position = 16, .rms_eps = 1e-5, .init_std = 0.02,
    .rope = {.theta = 10000}, .bos = -1, .pad = -1, .dtype = -1};

/* In a row of the first layer's o, of which two tensor ranks hold half each:
 * behind the embedding, q, k and v. */
enum { CUT = 4501 * 64 + 3 * 24 * 64 + 16 * 24 + 15 };

/* 'tight': as it was before version 4. */
static struct bn_params table_of(int tp_size, int tp_rank, bool tight)
{
    struct bn_part part = bn_part_whole(&large);
    struct bn_params ps;
    struct bn_err err;

    part.tp_size = tp_size;
    part.tp_rank = tp_rank;
    part.tight = tight;
    assert_int_equal(bn_params_init(&ps, &large, &part, &err), 0);
    return ps;
}

static struct bn_params table(int tp_size, int tp_rank)
{
    return table_of(tp_size, tp_rank, false);
}

/* What element (row, col) of the whole tensor p is in array k: by its place
 * alone, exact in a float. */
static float truth(const struct bn_param *p, int k, size_t row, size_t col)
{
    uint64_t x = ((uint64_t)p->kind * 8 + (uint64_t)(p->layer + 1)) * 4
                 + (uint64_t)k;

    x = (x * 1000003 + row) * 1000003 + col;
    return (float)((x * 0x9e3779b97f4a7c15u) >> 44);
}

static void fill(const struct bn_params *ps, int k, float *flat)
{
    for (int i = 0; i < ps->n; i++) {
        const struct bn_param *p = &ps->item[i];

        for (int y = 0; y < p->rows; y++)
            for (int x = 0; x < p->cols; x++)
                flat[p->offset + (size_t)y * (size_t)p->cols + (size_t)x] =
                    truth(p, k, (size_t)(p->row0 + y), (size_t)(p->col0 + x));
    }
}

static void make_version_3(const char *dir)
{
    char *path = bn_path_join(dir, "checkpoint-5/manifest.json");
    struct bn_err err;
    json_t *m = bn_json_load(path, &err);

    assert_non_null(m);
    json_object_set_new(m, "version", json_integer(3));
    assert_int_equal(json_dump_file(m, path, 0), 0);
    json_decref(m);
    free(path);
}

/* Two tensor ranks, the state of each in two shards that are cut anywhere. */
static void save_large(const char *dir, bool tight)
{
    struct bn_ckpt_shard s[4];
    char *tmp = bn_ckpt_tmp(dir, 5);
    json_t *loop = json_pack("{s:i}", "step", 5);
    struct bn_err err;

    assert_int_equal(bn_ckpt_begin(tmp, &err), 0);
    for (int i = 0; i < 4; i++) {
        struct bn_params ps = table_of(2, i / 2, tight);
        size_t cut = CUT, count = i % 2 ? ps.elems - cut : cut;
        const float *data[3];
        float *flat[3];

        assert_true(ps.elems > cut + 3);
        for (int k = 0; k < 3; k++) {
            flat[k] = BN_NEWN(float, ps.elems);
            fill(&ps, k, flat[k]);
            data[k] = flat[k] + (i % 2 ? cut : 0);
        }
        s[i] = (struct bn_ckpt_shard){.part = ps.part, .dp = i % 2,
                                      .begin = i % 2 ? cut : 0,
                                      .count = count};
        assert_int_equal(bn_ckpt_write_shard(tmp, &s[i], data, &err), 0);
        for (int k = 0; k < 3; k++)
            free(flat[k]);
        bn_params_release(&ps);
    }
    const struct bn_ckpt_of of = {.cfg = &large};
    assert_int_equal(
        bn_ckpt_commit(tmp, dir, 5, s, 4, &of, "", loop, &err), 0);
    if (tight)
        make_version_3(dir);
    json_decref(loop);
    free(tmp);
}

/* The way to a device: what need not be copied is taken from the mapping. */
static void stage_range(const struct bn_ckpt *c, const struct bn_params *ps,
                        size_t begin, size_t n, float *const *want,
                        int checkers, struct bn_dev *dev)
{
    float *mem = BN_NEWN(float, 3 * n), *to[3];
    struct bn_err err;

    for (int borrowed = 0; borrowed < 2; borrowed++) {
        struct bn_ckpt_stage g;

        for (int k = 0; k < 3; k++) {
            to[k] = BN_NEWN(float, n + 1);
            memset(to[k], 0xee, (n + 1) * sizeof(float));
        }
        memset(mem, 0xdd, 3 * n * sizeof(float));
        assert_int_equal(bn_ckpt_stage(&g, c, ps, begin, n, checkers, 0,
                                       borrowed ? mem : NULL, &err), 0);
        const struct bn_ckpt_state out = {to[0], to[1], to[2]};
        assert_int_equal(bn_ckpt_place_stage(&g, &out, dev, &err), 0);
        bn_ckpt_unstage(&g);
        for (int k = 0; k < 3; k++) {
            assert_memory_equal(to[k], want[k] + begin, n * sizeof(float));
            assert_int_equal(((unsigned char *)(to[k] + n))[0], 0xee);
            free(to[k]);
        }
    }
    free(mem);
}

static void load_part(const struct bn_ckpt *c, int tp_size, int tp_rank,
                      int checkers, struct bn_dev *dev)
{
    struct bn_params ps = table(tp_size, tp_rank);
    size_t begin[] = {0, 1000, ps.elems / 2}, end[] = {ps.elems, 250001,
                                                       ps.elems - 3};
    float *want[3], *to[3];
    struct bn_err err;

    for (int k = 0; k < 3; k++) {
        to[k] = BN_NEWN(float, ps.elems);
        want[k] = BN_NEWN(float, ps.elems);
        fill(&ps, k, want[k]);
    }
    for (int i = 0; i < 3; i++) {
        size_t n = end[i] - begin[i];

        for (int k = 0; k < 3; k++)
            memset(to[k], 0xee, ps.elems * sizeof(float));
        assert_int_equal(bn_ckpt_load_host(c, &ps, begin[i], n, to, 3,
                                           checkers, 0, &err), 0);
        for (int k = 0; k < 3; k++) {
            assert_memory_equal(to[k], want[k] + begin[i], n * sizeof(float));
            if (n < ps.elems) /* and nothing behind it */
                assert_int_equal(((unsigned char *)(to[k] + n))[0], 0xee);
        }
        stage_range(c, &ps, begin[i], n, want, checkers, dev);
    }
    for (int k = 0; k < 3; k++) {
        free(to[k]);
        free(want[k]);
    }
    bn_params_release(&ps);
}

static void load_all(bool tight)
{
    char dir[] = "/tmp/bn-read-XXXXXX";
    struct bn_err err;

    assert_non_null(mkdtemp(dir));
    save_large(dir, tight);
    char *path = bn_path_join(dir, "checkpoint-5");
    struct bn_ckpt *c = bn_ckpt_open(path, &err);
    assert_non_null(c);
    struct bn_dev *dev = bn_dev_cpu(0, &err);
    assert_non_null(dev);
    for (int size = 1; size <= 3; size++)
        for (int rank = 0; rank < size; rank++)
            load_part(c, size, rank, rank % 2 ? 0 : 2, dev);
    bn_dev_destroy(dev);
    bn_ckpt_close(c);
    free(path);
    assert_int_equal(bn_remove_tree(dir, &err), 0);
}

static void test_layouts(void **state)
{
    (void)state;
    load_all(false);
}

static void test_layouts_before_version_4(void **state)
{
    (void)state;
    load_all(true);
}

/* Flip one bit of byte 'at' of a shard. */
static void flip(const char *file, long at)
{
    FILE *f = fopen(file, "r+b");

    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    fputc(c ^ 4, f);
    assert_int_equal(fclose(f), 0);
}

static void test_damage(void **state)
{
    char dir[] = "/tmp/bn-read-XXXXXX";
    struct bn_params ps = table(2, 1);
    struct bn_err err;
    float *to[3];

    (void)state;
    assert_non_null(mkdtemp(dir));
    save_large(dir, false);
    char *path = bn_path_join(dir, "checkpoint-5");
    char *file = bn_path_join(path, "state-pp0-tp1-dp0.bin");
    struct bn_ckpt *c = bn_ckpt_open(path, &err);
    assert_non_null(c);
    for (int k = 0; k < 3; k++)
        to[k] = BN_NEWN(float, ps.elems);
    /* the first and the last byte, and around the edges of a piece */
    const long at[] = {0, (1 << 20) - 1, 1 << 20, 12 * CUT - 1};
    for (size_t i = 0; i < BN_COUNT(at); i++) {
        flip(file, at[i]);
        for (int how = 0; how < 3; how++) {
            struct bn_ckpt_stage g;

            err.text[0] = '\0';
            int rc = how == 0   ? bn_ckpt_check(c, 1, 0, &err)
                     : how == 1 ? bn_ckpt_load_host(c, &ps, 0, ps.elems, to, 3,
                                                    1, 0, &err)
                                : bn_ckpt_stage(&g, c, &ps, 0, ps.elems, 1, 0,
                                                NULL, &err);

            assert_int_equal(rc, -1);
            assert_int_equal(err.code, BN_ERR_DATA);
            assert_non_null(strstr(err.text, "state-pp0-tp1-dp0.bin"));
            assert_non_null(strstr(err.text, "is not what was written"));
        }
        /* it falls to checker 0 of 2, not to 1 */
        assert_int_equal(bn_ckpt_check(c, 2, 0, &err), -1);
        assert_int_equal(bn_ckpt_check(c, 2, 1, &err), 0);
        flip(file, at[i]);
    }
    assert_int_equal(bn_ckpt_check(c, 1, 0, &err), 0);
    /* cut while it is open: an error, no signal; even behind the checks */
    struct bn_dev *dev = bn_dev_cpu(0, &err);
    struct bn_ckpt_stage g;
    const struct bn_ckpt_state out = {to[0], to[1], to[2]};
    assert_int_equal(bn_ckpt_stage(&g, c, &ps, 0, ps.elems, 1, 0, NULL, &err),
                     0);
    assert_int_equal(truncate(file, 5 << 19), 0);
    assert_int_equal(bn_ckpt_place_stage(&g, &out, dev, &err), -1);
    assert_non_null(strstr(err.text, "again"));
    bn_ckpt_unstage(&g);
    bn_dev_destroy(dev);
    assert_int_equal(bn_ckpt_check(c, 1, 0, &err), -1);
    assert_non_null(strstr(err.text, "cannot read"));
    assert_int_equal(bn_ckpt_load_host(c, &ps, 0, ps.elems, to, 3, 1, 0,
                                       &err), -1);
    assert_non_null(strstr(err.text, "cannot read"));
    bn_ckpt_close(c);
    assert_null(bn_ckpt_open(path, &err));
    assert_non_null(strstr(err.text, "the manifest says"));
    for (int k = 0; k < 3; k++)
        free(to[k]);
    bn_params_release(&ps);
    free(path);
    free(file);
    assert_int_equal(bn_remove_tree(dir, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_layouts_before_version_4),
        cmocka_unit_test(test_damage),
    };

    return BN_TAP_RUN(tests);
}
