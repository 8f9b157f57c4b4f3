/* What lies on disk after a save: the bytes, and their checksum as the format's
 * document has it, by libxxhash alone; and checksums of former versions. */
#include "config.h"
#include "base/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "ckpt/ckpt.h"

enum { MIB = 1 << 20, NONE = -1 };

static const struct bn_model_config cfg = {
    .family = BN_LLAMA, .hidden_size = 64, .layers = 1, .vocab_size = 17003,
    .intermediate_size = 96, .heads = 8, .kv_heads = 8, .head_dim = 8,
    .max_position = 16, .rms_eps = 1e-5, .init_std = 0.02, .tie_embeddings = true,
    .rope = {.theta = 10000}, .bos = -1, .pad = -1, .dtype = -1};

static void assert_file(const char *path, const char *data, size_t n)
{
    size_t got;
    struct bn_err err;
    char *text = bn_file_read(path, (size_t)1 << 30, &got, &err);

    assert_non_null(text);
    assert_int_equal(got, n);
    assert_memory_equal(text, data, n);
    free(text);
}

static void hex(XXH128_hash_t h, char out[BN_HASH_HEX])
{
    snprintf(out, BN_HASH_HEX, "%016llx%016llx", (unsigned long long)h.high64,
             (unsigned long long)h.low64);
}

/* Of the list of the pieces' own, as xxhsum would print them. */
static void of_pieces(const char *data, size_t n, char out[BN_HASH_HEX])
{
    XXH128_canonical_t *list = BN_NEWN(XXH128_canonical_t, n / MIB + 1);
    size_t pieces = 0;

    for (size_t at = 0; at < n; at += MIB)
        XXH128_canonicalFromHash(
            &list[pieces++],
            XXH3_128bits(data + at, n - at < MIB ? n - at : MIB));
    hex(XXH3_128bits(list, pieces * sizeof(*list)), out);
    free(list);
}

/* Three arrays of 'count' in memory from 'shift' bytes behind a page on, each
 * 'gap' bytes behind the other; the file's bytes at '*data' are malloc'ed. */
static void write_one(const char *dir, size_t count, size_t shift, size_t gap,
                      struct bn_ckpt_shard *s, char **data)
{
    size_t bytes = count * sizeof(float);
    char *mem = aligned_alloc(4096, (3 * (bytes + gap) + shift + 8191)
                                        / 4096 * 4096);
    const float *part[3];
    struct bn_err err;

    assert_non_null(mem);
    *data = bn_malloc(3 * bytes + 1);
    for (size_t k = 0; k < 3; k++) {
        char *at = mem + shift + k * (bytes + gap);

        for (size_t i = 0; i < count; i++)
            ((float *)(void *)at)[i] = (float)((i * 2654435761u + k) % 65521);
        memcpy(*data + k * bytes, at, bytes);
        part[k] = (const float *)(const void *)at;
    }
    *s = (struct bn_ckpt_shard){.count = count};
    assert_int_equal(bn_ckpt_write_shard(dir, s, part, &err), 0);
    free(mem);
}

/* Blocks that can go to the disk directly, whole and with a rest, and some that
 * cannot; pieces that lie in two arrays or in all three. */
static void test_bytes(void **state)
{
    static const size_t count[] = {1, 64, 4096 / 12 * 64, 87380, 1024 * 1024,
                                   1500001};
    static const size_t shift[] = {0, 0, 64}, gap[] = {0, 128, 0};
    char dir[] = "/tmp/bn-shard-XXXXXX", want[BN_HASH_HEX], is[BN_HASH_HEX];
    struct bn_ckpt_shard s;
    struct bn_err err;
    char *data;

    (void)state;
    assert_non_null(mkdtemp(dir));
    char *path = bn_path_join(dir, "state-pp0-tp0-dp0.bin");
    for (size_t i = 0; i < BN_COUNT(count); i++)
        for (size_t j = 0; j < BN_COUNT(shift); j++) {
            write_one(dir, count[i], shift[j], gap[j], &s, &data);
            assert_int_equal(s.bytes, 12 * count[i]);
            assert_file(path, data, s.bytes);
            of_pieces(data, s.bytes, want);
            assert_true(s.tree);
            assert_string_equal(bn_hash_hex(s.hash, is), want);
            free(data);
            assert_int_equal(unlink(path), 0);
        }
    free(path);
    assert_int_equal(bn_remove_tree(dir, &err), 0);
}

/* A checkpoint of one shard; returns its folder and the shard's bytes. */
static char *save(const char *dir, char **data, size_t *bytes)
{
    struct bn_part whole = bn_part_whole(&cfg);
    const struct bn_ckpt_of of = {.cfg = &cfg};
    char *tmp = bn_ckpt_tmp(dir, 5);
    json_t *loop = json_pack("{s:i}", "step", 5);
    struct bn_ckpt_shard s;
    struct bn_params ps;
    struct bn_err err;

    assert_int_equal(bn_params_init(&ps, &cfg, &whole, &err), 0);
    assert_int_equal(bn_ckpt_begin(tmp, &err), 0);
    write_one(tmp, ps.elems, 0, 0, &s, data);
    s.part = whole;
    *bytes = s.bytes;
    assert_int_equal(bn_ckpt_commit(tmp, dir, 5, &s, 1, &of, "", loop, &err),
                     0);
    bn_params_release(&ps);
    json_decref(loop);
    free(tmp);
    return bn_path_join(dir, "checkpoint-5");
}

/* Make the manifest one of that version, with its key of the checksum. */
static void set_version(const char *folder, int version, const char *key,
                        const char *sum)
{
    char *path = bn_path_join(folder, "manifest.json");
    struct bn_err err;
    json_t *m = bn_json_load(path, &err), *shard;

    assert_non_null(m);
    shard = json_array_get(json_object_get(m, "shards"), 0);
    json_object_del(shard, "xxh3_128");
    json_object_del(shard, "xxh3_128_tree");
    json_object_set_new(shard, key, json_string(sum));
    json_object_set_new(m, "version", json_integer(version));
    assert_int_equal(json_dump_file(m, path, 0), 0);
    json_decref(m);
    free(path);
}

/* Open and check; the error's text must have 'why' in it. */
static void check(const char *folder, const char *why)
{
    struct bn_err err = {0};
    struct bn_ckpt *c = bn_ckpt_open(folder, &err);
    int rc = c != NULL ? bn_ckpt_check(c, 1, 0, &err) : NONE;

    assert_int_equal(rc, why != NULL ? -1 : 0);
    if (why != NULL)
        assert_non_null(strstr(err.text, why));
    bn_ckpt_close(c);
}

static void test_versions(void **state)
{
    static const char torn[] = "is not what was written";
    char dir[] = "/tmp/bn-shard-XXXXXX", whole[BN_HASH_HEX], tree[BN_HASH_HEX];
    struct bn_err err;
    size_t bytes;
    char *data;

    (void)state;
    assert_non_null(mkdtemp(dir));
    char *folder = save(dir, &data, &bytes);
    assert_true(bytes > 3 * MIB);
    hex(XXH3_128bits(data, bytes), whole);
    of_pieces(data, bytes, tree);
    check(folder, NULL);
    set_version(folder, 1, "xxh3_128", whole);
    check(folder, NULL);
    set_version(folder, 1, "xxh3_128", tree);
    check(folder, torn);
    set_version(folder, 1, "xxh3_128_tree", tree);
    check(folder, "entry is not valid");
    set_version(folder, 3, "xxh3_128_tree", whole);
    check(folder, torn);
    set_version(folder, 3, "xxh3_128", whole);
    check(folder, "entry is not valid");
    set_version(folder, 5, "xxh3_128_tree", tree);
    check(folder, "version 5 is not known here (1 to 4 are)");
    set_version(folder, 3, "xxh3_128_tree", tree);
    check(folder, NULL);
    free(folder);
    free(data);
    assert_int_equal(bn_remove_tree(dir, &err), 0);
}

/* --- Runs ------------------------------------------------------------------- */

enum { SPAN = 40 };

static size_t random_below(uint64_t *x, size_t n)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(*x >> 33) % n;
}

/* The walk against a table with a mark for each element. */
static void walk(const struct bn_ckpt_runs *r, const float *base, size_t from,
                 size_t end)
{
    for (int k = 0; k < 3; k++) {
        struct bn_ckpt_run part = {.k = k, .at = from};
        size_t at = from, index = 0;

        while (bn_ckpt_runs_next(r, end, &part, &index)) {
            assert_int_equal(part.at, at);
            assert_true(part.n > 0 && part.k == k);
            for (size_t i = part.at; i < part.at + part.n; i++) {
                bool covered = false;

                for (size_t j = 0; j < r->n; j++)
                    covered |= r->run[j].k == k && i >= r->run[j].at
                               && i < r->run[j].at + r->run[j].n;
                assert_int_equal(part.from != NULL, covered);
                if (covered)
                    assert_ptr_equal(part.from + (i - part.at),
                                     base + k * SPAN + i);
            }
            at += part.n;
        }
        assert_int_equal(at, end);
    }
}

static void test_runs(void **state)
{
    static const float base[3 * SPAN];
    uint64_t x = 7;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct bn_ckpt_runs r = {0};
        size_t n = random_below(&x, 9);

        for (size_t i = 0; i < n; i++) {
            struct bn_ckpt_run run = {.k = (int)random_below(&x, 3),
                                      .at = random_below(&x, SPAN - 1)};

            run.n = 1 + random_below(&x, SPAN - run.at);
            run.from = base + run.k * SPAN + run.at;
            bn_ckpt_runs_add(&r, &run);
        }
        bn_ckpt_runs_sort(&r);
        walk(&r, base, random_below(&x, SPAN), SPAN);
        bn_ckpt_runs_release(&r);
    }
    /* what goes on where the last one ended is one with it */
    struct bn_ckpt_runs r = {0};
    bn_ckpt_runs_add(&r, &(struct bn_ckpt_run){1, 2, 3, base + 2});
    bn_ckpt_runs_add(&r, &(struct bn_ckpt_run){1, 5, 3, base + 5});
    assert_int_equal(r.n, 1);
    bn_ckpt_runs_add(&r, &(struct bn_ckpt_run){1, 8, 3, base + 9});
    bn_ckpt_runs_add(&r, &(struct bn_ckpt_run){2, 11, 3, base + 12});
    assert_int_equal(r.n, 3);
    bn_ckpt_runs_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_versions),
                                       cmocka_unit_test(test_runs)};

    return BN_TAP_RUN(tests);
}
