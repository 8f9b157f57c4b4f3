#include "config.h"
#include "format/safetensors.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/bn-st-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int drop_dir(void **state)
{
    (void)state;
    return bn_remove_tree(dir, NULL);
}

/* A file of this header text and 'data' bytes of zeros. */
static char *file_of(const char *header, size_t data, size_t *len)
{
    uint64_t head = strlen(header);
    char *p = bn_calloc(8 + head + data, 1);

    memcpy(p, &head, 8);
    memcpy(p + 8, header, head);
    *len = 8 + head + data;
    return p;
}

#define T(dtype, shape, at)                                                   \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" at "}"

static void good_files_are_read(void **state)
{
    struct bn_tensors ts = {0};
    struct bn_err err = {0};
    size_t len;
    char *p = file_of("{\"__metadata__\":{\"format\":\"pt\"},\"b\":"
                      T("F32", "[2,3]", "[2,26]") ",\"a\":"
                      T("BF16", "[]", "[0,2]") ",\"e\":"
                      T("I64", "[0,5]", "[26,26]") "}   ",
                      26, &len);

    (void)state;
    assert_int_equal(bn_safetensors_parse(&ts, p, len, "mem", &err), 0);
    assert_int_equal(ts.n, 3);
    assert_string_equal(ts.item[0].name, "a");
    assert_int_equal(ts.item[0].ndim, 0);
    assert_int_equal(ts.item[0].count, 1);
    const struct bn_named *b = bn_tensors_find(&ts, "b");
    assert_non_null(b);
    assert_int_equal(b->count, 6);
    assert_int_equal(b->dims[1], 3);
    assert_ptr_equal(b->data, p + len - 24);
    assert_int_equal(bn_tensors_find(&ts, "e")->count, 0);
    assert_null(bn_tensors_find(&ts, "c"));
    assert_string_equal(json_string_value(json_object_get(ts.meta, "format")),
                        "pt");
    bn_tensors_close(&ts);
    free(p);
}

static void hostile_files_get_one_line(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *says;
    } bad[] = {
        {"[]", 0, "x: the header is not a JSON object"},
        {"{", 0, "x:1:1: invalid JSON: string or '}' expected near end of "
                 "file"},
        {"{} {}", 0, "x:1:4: invalid JSON: end of file expected near '{'"},
        {"{\"a\":1}", 0, "x: tensor 'a': must be an object of 'dtype', "
                         "'shape' and 'data_offsets'"},
        {"{\"a\":" T("F31", "[1]", "[0,4]") "}", 4,
         "x: tensor 'a': dtype 'F31' is not supported"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"a\":"
             T("F32", "[1]", "[4,8]") "}", 8,
         "x:1:57: invalid JSON: duplicate object key near '\"a\"'"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":"
             T("F32", "[1]", "[2,6]") "}", 6,
         "x: tensors 'a' and 'b' overlap"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":"
             T("F32", "[1]", "[8,12]") "}", 12,
         "x: bytes 4 to 8 before tensor 'b' belong to no tensor"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") "}", 5,
         "x: 1 bytes after the last tensor"},
        {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 7,
         "x: tensor 'a': data ends at byte 8 but the file has 7: it is cut "
         "short"},
        {"{\"a\":" T("F32", "[3]", "[0,8]") "}", 8,
         "x: tensor 'a': 8 bytes for F32 [3]"},
        {"{\"a\":" T("F32", "[-1]", "[0,4]") "}", 4,
         "x: tensor 'a': shape[0] must be an integer that is not negative"},
        {"{\"a\":" T("F32", "[NaN]", "[0,4]") "}", 4,
         "x:1:32: invalid JSON: invalid token near 'NaN'"},
        {"{\"a\":" T("F32", "[1.0]", "[0,4]") "}", 4,
         "x: tensor 'a': shape[0] must be an integer that is not negative"},
        {"{\"a\":" T("F32", "[\"1\"]", "[0,4]") "}", 4,
         "x: tensor 'a': shape[0] must be an integer that is not negative"},
        {"{\"a\":" T("F32", "[4611686018427387904,4]", "[0,4]") "}", 4,
         "x: tensor 'a': 4 bytes for F32 [4611686018427387904, 4]"},
        {"{\"a\":" T("F32", "[99999999999999999999]", "[0,4]") "}", 4,
         "x:1:49: invalid JSON: too big integer near "
         "'99999999999999999999'"},
        {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4,
         "x: tensor 'a': more than 8 dimensions"},
        {"{\"a\":" T("F32", "[1]", "[4,0]") "}", 4,
         "x: tensor 'a': data_offsets [4, 0] are no range"},
        {"{\"a\":" T("F32", "[1]", "[-4,0]") "}", 4,
         "x: tensor 'a': data_offsets [-4, 0] are no range"},
        {"{\"a\":" T("F32", "[1]", "[0]") "}", 4,
         "x: tensor 'a': 'data_offsets' must be two integers"},
        {"{\"a\":" T("F32", "[1]", "[0,1e1]") "}", 4,
         "x: tensor 'a': 'data_offsets' must be two integers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"offsets\":[0,4]}}", 4,
         "x: tensor 'a': 'data_offsets' must be two integers"},
        {"{\"__metadata__\":{\"a\":1}}", 0,
         "x: __metadata__ 'a' must be a string"},
        {"{\"__metadata__\":3}", 0,
         "x: '__metadata__' must be an object of strings"},
    };

    (void)state;
    for (size_t i = 0; i < BN_COUNT(bad); i++) {
        struct bn_tensors ts = {0};
        struct bn_err err = {0};
        size_t len;
        char *p = file_of(bad[i].header, bad[i].data, &len);

        assert_int_equal(bn_safetensors_parse(&ts, p, len, "x", &err), -1);
        assert_string_equal(err.text, bad[i].says);
        assert_int_equal(err.code, BN_ERR_DATA);
        assert_null(ts.item);
        free(p);
    }
}

static void hostile_lengths_are_refused(void **state)
{
    static const struct {
        uint64_t head;
        const char *says;
    } bad[] = {
        {(uint64_t)1 << 63, "x: header length 9223372036854775808 is above "
                            "100000000: no safetensors file"},
        {UINT64_MAX, "x: header length 18446744073709551615 is above "
                     "100000000: no safetensors file"},
        {100, "x: header of 100 bytes in a file of 10: it is cut short"},
        {3, "x: header of 3 bytes in a file of 10: it is cut short"},
    };
    struct bn_tensors ts = {0};
    struct bn_err err = {0};
    char p[10] = {0};

    (void)state;
    for (size_t i = 0; i < BN_COUNT(bad); i++) {
        memcpy(p, &bad[i].head, 8);
        memcpy(p + 8, "{}", 2);
        assert_int_equal(bn_safetensors_parse(&ts, p, 10, "x", &err), -1);
        assert_string_equal(err.text, bad[i].says);
    }
    assert_int_equal(bn_safetensors_parse(&ts, p, 7, "x", &err), -1);
    assert_string_equal(err.text, "x: 7 bytes are no safetensors file");
    /* nesting that would overflow a stack */
    size_t len;
    char *deep = bn_malloc(1000001);
    memset(deep, '[', 1000000);
    deep[1000000] = '\0';
    char *f = file_of(deep, 0, &len);
    assert_int_equal(bn_safetensors_parse(&ts, f, len, "x", &err), -1);
    assert_non_null(strstr(err.text, "maximum parsing depth reached"));
    free(f);
    free(deep);
}

static int read_ramp(void *arg, size_t index, int64_t first, int64_t n,
                     void *dst, struct bn_err *err)
{
    float *f = dst;

    if (arg != NULL)
        return bn_fail(err, BN_ERR_AGAIN, "the reader fails");
    for (int64_t i = 0; i < n; i++)
        f[i] = (float)(first + i) + 0.5f * (float)index;
    return 0;
}

static const uint16_t half[4] = {1, 2, 3, 4};
static const struct bn_st_entry entries[] = {
    {"z", BN_F32, 2, {1500, 1000}, NULL},
    {"h", BN_BF16, 1, {4}, half},
    {"a\"b", BN_F32, 1, {3}, NULL},
};

static void check_entries(const struct bn_tensors *ts)
{
    const struct bn_named *z = bn_tensors_find(ts, "z");
    const struct bn_named *a = bn_tensors_find(ts, "a\"b");
    float f;

    assert_int_equal(ts->n, 3);
    assert_int_equal(z->count, 1500000);
    for (int64_t i = 0; i < z->count; i += 49999) {
        memcpy(&f, (const char *)z->data + 4 * i, 4);
        assert_true(f == (float)i);
    }
    memcpy(&f, (const char *)a->data + 8, 4);
    assert_true(f == 3);
    assert_memory_equal(bn_tensors_find(ts, "h")->data, half, 8);
}

static void what_is_written_is_read(void **state)
{
    struct bn_tensors ts = {0};
    struct bn_err err = {0};
    char *path = bn_path_join(dir, "m.safetensors");

    (void)state;
    assert_int_equal(bn_safetensors_write(path, entries, 3, read_ramp, NULL,
                                          &err), 0);
    assert_int_equal(bn_safetensors_open(&ts, path, &err), 0);
    check_entries(&ts);
    /* header padded to 8 bytes; F32 by name, then BF16 */
    const char *first = bn_tensors_find(&ts, "a\"b")->data;
    assert_int_equal((uintptr_t)first % 8, 0);
    assert_ptr_equal(bn_tensors_find(&ts, "z")->data, first + 12);
    assert_ptr_equal(bn_tensors_find(&ts, "h")->data, first + 12 + 6000000);
    bn_tensors_close(&ts);
    /* a failed write leaves the old file and no other */
    assert_int_equal(bn_safetensors_write(path, entries, 3, read_ramp, dir,
                                          &err), -1);
    assert_string_equal(err.text, "the reader fails");
    assert_int_equal(bn_safetensors_open(&ts, path, &err), 0);
    bn_tensors_close(&ts);
    char *cmd = bn_asprintf("test \"$(ls %s)\" = m.safetensors", dir);
    assert_int_equal(system(cmd), 0);
    assert_int_equal(unlink(path), 0);
    free(cmd);
    free(path);
}

static void edit(const char *name, const char *text)
{
    char *path = bn_path_join(dir, name);

    assert_int_equal(bn_file_write(path, text, strlen(text), NULL), 0);
    free(path);
}

static void expect(const char *file, const char *says)
{
    struct bn_tensors ts = {0};
    struct bn_err err = {0};
    char *path = bn_path_join(dir, file), *want = bn_asprintf(says, dir);

    assert_int_equal(bn_safetensors_open(&ts, path, &err), -1);
    assert_string_equal(err.text, want);
    free(path);
    free(want);
}

#define INDEX "model.safetensors.index.json"
static void shards_agree_with_the_index(void **state)
{
    struct bn_tensors ts = {0};
    struct bn_err err = {0};

    (void)state;
    assert_int_equal(bn_safetensors_write_dir(dir, entries, 3, 100,
                                              read_ramp, NULL, &err), 0);
    assert_int_equal(bn_safetensors_open(&ts, dir, &err), 0);
    check_entries(&ts);
    assert_string_equal(bn_path_base(bn_tensors_find(&ts, "z")->file),
                        "model-00002-of-00003.safetensors");
    bn_tensors_close(&ts);
#define S(i) "\"model-0000" #i "-of-00003.safetensors\""
    edit(INDEX, "{\"weight_map\":{\"z\":" S(2) ",\"h\":" S(3) "}}");
    struct bn_tensors part = {0};
    assert_int_equal(bn_safetensors_open(&part, dir, &err), 0);
    bn_tensors_close(&part);
    edit(INDEX, "{\"weight_map\":{\"z\":" S(2) ",\"h\":" S(2) "}}");
    expect(INDEX, "%s/" INDEX ": tensor 'h' is not in shard "
                  "'model-00002-of-00003.safetensors'");
    edit(INDEX, "{\"weight_map\":{\"z\":" S(3) ",\"h\":" S(2) "}}");
    expect(INDEX, "%s/" INDEX ": tensor 'z' is in "
                  "'model-00002-of-00003.safetensors', not in shard "
                  "'model-00003-of-00003.safetensors'");
    edit(INDEX, "{\"weight_map\":{\"z\":" S(2) ",\"q\":" S(4) "}}");
    expect(INDEX, "%s/" INDEX ": shard 'model-00004-of-00003.safetensors', "
                  "which has 'q', is missing");
    edit(INDEX, "{\"weight_map\":{\"z\":\"../x\"}}");
    expect(INDEX, "%s/" INDEX ": the shard of 'z' must be a file name");
    edit(INDEX, "{}");
    expect(INDEX, "%s/" INDEX ": 'weight_map' is missing or empty");
    edit("model.safetensors", "");
    expect("", "'%s/' holds both model.safetensors and " INDEX ": name the "
               "one to read, or move the other away");
    char *gone = bn_path_join(dir, "model.safetensors");
    assert_int_equal(unlink(gone), 0);
    free(gone);
}

static void extra_tensor_of_a_shard_is_refused(void **state)
{
    static const struct bn_st_entry two[] = {
        {"z", BN_BF16, 1, {4}, half}, {"y", BN_BF16, 1, {4}, half}};
    char *path = bn_path_join(dir, "s.safetensors");

    (void)state;
    assert_int_equal(bn_safetensors_write(path, two, 2, NULL, NULL, NULL), 0);
    edit(INDEX, "{\"weight_map\":{\"z\":\"s.safetensors\"}}");
    expect(INDEX, "%s/" INDEX ": tensor 'y' of 's.safetensors' is not in the "
                  "index");
    free(path);
}

static void name_in_two_shards_is_refused(void **state)
{
    static const struct bn_st_entry a[] = {{"z", BN_BF16, 1, {4}, half},
                                           {"y", BN_BF16, 1, {4}, half}};
    char *p = bn_path_join(dir, "p.safetensors");
    char *q = bn_path_join(dir, "q.safetensors");

    (void)state;
    assert_int_equal(bn_safetensors_write(p, a, 2, NULL, NULL, NULL), 0);
    assert_int_equal(bn_safetensors_write(q, a, 1, NULL, NULL, NULL), 0);
    edit(INDEX, "{\"weight_map\":{\"z\":\"q.safetensors\","
                "\"y\":\"p.safetensors\"}}");
    struct bn_tensors ts = {0};
    struct bn_err err = {0};
    char *path = bn_path_join(dir, INDEX);
    assert_int_equal(bn_safetensors_open(&ts, path, &err), -1);
    assert_non_null(strstr(err.text, "tensor 'z' is twice there, in '"));
    free(path);
    free(p);
    free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files_are_read),
        cmocka_unit_test(hostile_files_get_one_line),
        cmocka_unit_test(hostile_lengths_are_refused),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, make_dir,
                                        drop_dir),
        cmocka_unit_test_setup_teardown(shards_agree_with_the_index,
                                        make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(extra_tensor_of_a_shard_is_refused,
                                        make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(name_in_two_shards_is_refused,
                                        make_dir, drop_dir),
    };

    return BN_TAP_RUN(tests);
}
