#include "config.h"
#include "format/torch.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tap.h"

#include <stdlib.h>
#include <string.h>

static char *path;

static void floats(const struct bn_tensors *ts, const char *name,
                   enum bn_dtype dtype, int ndim, const int64_t *dims,
                   const void *want)
{
    const struct bn_named *t = bn_tensors_find(ts, name);

    if (t == NULL)
        fail_msg("no %s", name);
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->ndim, ndim);
    assert_memory_equal(t->dims, dims, (size_t)ndim * sizeof(*dims));
    assert_memory_equal(t->data, want,
                        (size_t)t->count * bn_dtype_size(dtype));
}

#define CHECK(name, dtype, ndim, dims, type, ...)                             \
    floats(&ts, name, dtype, ndim, (const int64_t[8])dims,                    \
           (const type[]){__VA_ARGS__})
#define DIMS(...) {__VA_ARGS__}

/* t/data/torch.pt was written by torch.save of PyTorch 1.13:
 * base = arange (24).reshape (4, 6) / 8; view = base[1:3, 2:5]; t its
 * transpose; model = the state of a Linear (3, 2), param its weight. */
static void what_torch_saved_is_read(void **state)
{
    struct bn_tensors ts;
    struct bn_err err = {0};
    float base[24], turned[24];

    (void)state;
    for (int i = 0; i < 24; i++) {
        base[i] = (float)i / 8;
        turned[i % 6 * 4 + i / 6] = base[i];
    }
    if (bn_torch_open(&ts, path, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(ts.n, 17);
    floats(&ts, "base", BN_F32, 2, (const int64_t[]){4, 6}, base);
    floats(&ts, "t", BN_F32, 2, (const int64_t[]){6, 4}, turned);
    CHECK("view", BN_F32, 2, DIMS(2, 3), float, 1, 1.125, 1.25, 1.75, 1.875,
          2);
    CHECK("model.weight", BN_F32, 2, DIMS(2, 3), float, 0, 1, 2, 3, 4, 5);
    CHECK("model.bias", BN_F32, 1, DIMS(2), float, -1.5, -1.5);
    assert_ptr_equal(bn_tensors_find(&ts, "param")->data,
                     bn_tensors_find(&ts, "model.weight")->data);
    CHECK("bf16", BN_BF16, 1, DIMS(3), uint16_t, 0x3f80, 0xc020, 0x4050);
    CHECK("f16", BN_F16, 1, DIMS(1), uint16_t, 0x3800);
    CHECK("f64", BN_F64, 0, DIMS(0), double, 2.25);
    CHECK("i64", BN_I64, 2, DIMS(1, 2), int64_t, 1, -((int64_t)1 << 40));
    CHECK("i32", BN_I32, 1, DIMS(1), int32_t, -70000);
    CHECK("i16", BN_I16, 1, DIMS(1), int16_t, -300);
    CHECK("i8", BN_I8, 1, DIMS(1), signed char, -3);
    CHECK("u8", BN_U8, 1, DIMS(2), unsigned char, 7, 255);
    CHECK("bool", BN_BOOL, 1, DIMS(2), unsigned char, 1, 0);
    CHECK("empty", BN_F32, 2, DIMS(0, 3), float, 0);
    CHECK("list.2", BN_F32, 1, DIMS(2), float, 1, 1);
    json_t *want = json_pack(
        "{s:i, s:f, s:I, s:s, s:n, s:b, s:i, s:i, s:s, s:s, s:s}", "step", 12,
        "lr", 0.5, "big", (json_int_t)-((int64_t)1 << 40), "name",
        "b\xc3\xa9", "none", "flag", 1, "list.0", 1, "list.1.0", 2,
        "list.1.1", "x", "dtype", "torch.float16", "3", "three");
    assert_true(json_equal(ts.meta, want));
    json_decref(want);
    bn_tensors_close(&ts);
}

/* A zip of stored entries, written field by field. */
struct zip {
    struct bn_str body, dir;
    int n;
};

static void put(struct bn_str *s, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        bn_str_addc(s, i < 8 ? (char)(v >> 8 * i) : 0);
}

static void add(struct zip *z, const char *name, const void *data, size_t len,
                int method)
{
    size_t at = z->body.len;

    put(&z->body, 0x04034b50, 4);
    put(&z->body, 0, 22);
    put(&z->body, strlen(name), 2);
    put(&z->body, 0, 2);
    bn_str_adds(&z->body, name);
    bn_str_add(&z->body, data, len);
    put(&z->dir, 0x02014b50, 4);
    put(&z->dir, 0, 6);
    put(&z->dir, (uint64_t)method, 2);
    put(&z->dir, 0, 8);
    put(&z->dir, len, 4);
    put(&z->dir, len, 4);
    put(&z->dir, strlen(name), 2);
    put(&z->dir, 0, 12);
    put(&z->dir, at, 4);
    bn_str_adds(&z->dir, name);
    z->n++;
}

static void finish(struct zip *z)
{
    size_t at = z->body.len;

    bn_str_add(&z->body, z->dir.s, z->dir.len);
    put(&z->body, 0x06054b50, 4);
    put(&z->body, 0, 4);
    put(&z->body, (uint64_t)z->n, 2);
    put(&z->body, (uint64_t)z->n, 2);
    put(&z->body, z->dir.len, 4);
    put(&z->body, at, 4);
    put(&z->body, 0, 2);
}

/* What reading an archive of this pickle, and 16 bytes of data/0, says. */
static char *reading(const char *pickle, size_t len)
{
    static struct bn_err err;
    struct bn_tensors ts = {0};
    struct zip z = {0};

    add(&z, "a/data.pkl", pickle, len, 0);
    add(&z, "a/data/0", "0123456789abcdef", 16, 0);
    finish(&z);
    char *exact = bn_malloc(z.body.len);
    memcpy(exact, z.body.s, z.body.len);
    err.text[0] = '\0';
    int rc = bn_torch_parse(&ts, exact, z.body.len, "x", &err);
    bn_tensors_close(&ts);
    free(exact);
    bn_str_release(&z.body);
    bn_str_release(&z.dir);
    return rc < 0 ? err.text : bn_strdup("read");
}

#define SAYS(pickle, want)                                                    \
    do {                                                                      \
        char *got = reading(pickle, sizeof(pickle) - 1);                      \
        assert_string_equal(got, want);                                       \
        if (strcmp(got, "read") == 0)                                         \
            free(got);                                                        \
    } while (0)

#define STR(n, s) "X" n "\0\0\0" s
/* A tensor of shape 'size' and strides 'stride' over 16 bytes of floats */
#define STORAGE(class)                                                        \
    "(" STR("\7", "storage") "c" class STR("\1", "0") STR("\3", "cpu")        \
        "K\4tQ"
#define TENSOR(class, offset, size, stride)                                   \
    "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE(class) offset size stride  \
        "\x89" "ccollections\nOrderedDict\n)RtR"
#define FLOATS "torch\nFloatStorage\n"

static void code_is_never_run(void **state)
{
    (void)state;
    SAYS("\x80\2cos\nsystem\n" STR("\x0e", "touch /tmp/bad") "\x85R.",
         "x: 'the whole' is made by 'os.system', which is not allowed");
    SAYS("\x80\2}" STR("\1", "k") "c__builtin__\neval\n" STR("\3", "1+1")
         "\x85Rs.",
         "x: 'k' is made by '__builtin__.eval', which is not allowed");
    /* protocol 4 spelling */
    SAYS("\x80\4\x8c\2os\x8c\6system\x93\x8c\2id\x85R.",
         "x: 'the whole' is made by 'os.system', which is not allowed");
    SAYS("\x80\2cargparse\nNamespace\n)\x81}b.",
         "x: 'the whole' is made by 'argparse.Namespace', which is not "
         "allowed");
    /* a call of what a call gave */
    SAYS("\x80\2cbuiltins\ngetattr\n(cos\nX\6\0\0\0systemtR)R.",
         "x: damaged pickle: it is cut short");
    SAYS("\x80\2cbuiltins\nX\n)R)R.",
         "x: damaged pickle: something that is no function is called");
    SAYS("\x80\2cos\nsystem\n.", "x: 'the whole' is 'os.system', which is not "
                                 "allowed");
    SAYS("\x80\2(ios\nsystem\n.",
         "x: pickle instruction 0x69 is not allowed"); /* INST */
    SAYS("\x80\2(cos\nsystem\no.",
         "x: pickle instruction 0x6f is not allowed"); /* OBJ */
    SAYS("\x80\2\x82\1.",
         "x: pickle instruction 0x82 is not allowed"); /* EXT1 */
    /* state of an object is dropped, not applied */
    SAYS("\x80\2}}" STR("\5", "hooks") "cos\nsystem\nsb.", "read");
}

static void broken_pickles_get_one_line(void **state)
{
    (void)state;
    SAYS("", "x: damaged pickle: it is cut short");
    SAYS("\x80\2.", "x: damaged pickle: nothing on the stack");
    SAYS("\x80\2X\xff\xff\xff\xff.", "x: damaged pickle: it is cut short");
    SAYS("\x80\2\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
         "x: damaged pickle: it is cut short");
    SAYS("\x80\2t.", "x: damaged pickle: no mark on the stack");
    SAYS("\x80\2N(0.", "x: damaged pickle: nothing on the stack");
    SAYS("\x80\2h\0.", "x: damaged pickle: memo index");
    SAYS("\x80\2Nr\xff\xff\xff\x7f.", "x: damaged pickle: memo index");
    SAYS("\x80\2}(Nu.", "x: damaged pickle: a key without a value");
    SAYS("\x80\2](NNu.", "x: damaged pickle: an object of the wrong kind is "
                        "filled");
    SAYS("\x80\2}NNs.", "x: the whole: a key is neither text nor a number");
    SAYS("\x80\2\x8a\x09\1\1\1\1\1\1\1\1\1.",
         "x: damaged pickle: an integer above 64 bits");
    /* a list in itself, and doubling lists */
    SAYS("\x80\2]q\0h\0a.", "x: 0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0."
                            "0.0.0.0.0.0.0.0.0.0.0: too many or too deep "
                            "containers");
    struct bn_str s = {0};
    bn_str_adds(&s, "\x80\2N");
    for (int i = 0; i < 30; i++)
        bn_str_add(&s, "q\0h\0\x86", 5); /* (x, x) */
    bn_str_addc(&s, '.');
    assert_non_null(strstr(reading(s.s, s.len), "too many or too deep"));
    bn_str_release(&s);
}

static void tensors_stay_in_their_storage(void **state)
{
    (void)state;
    SAYS(TENSOR(FLOATS, "K\0", "K\4\x85", "K\1\x85") ".", "read");
    SAYS(TENSOR(FLOATS, "K\1", "K\4\x85", "K\1\x85") ".",
         "x: the whole: it reaches beyond its storage");
    SAYS(TENSOR(FLOATS, "K\0", "K\5\x85", "K\1\x85") ".",
         "x: the whole: it reaches beyond its storage");
    SAYS(TENSOR(FLOATS, "K\0", "K\2\x85", "K\4\x85") ".",
         "x: the whole: it reaches beyond its storage");
    SAYS(TENSOR(FLOATS, "J\xff\xff\xff\xff", "K\2\x85", "K\1\x85") ".",
         "x: the whole: it reaches beyond its storage");
    SAYS(TENSOR(FLOATS, "K\0", "J\xff\xff\xff\xff\x85", "K\1\x85") ".",
         "x: the whole: its shape is impossible");
    SAYS(TENSOR(FLOATS, "K\0", "K\4\x85", "J\xff\xff\xff\xff\x85") ".",
         "x: the whole: its shape is not understood");
    SAYS(TENSOR(FLOATS, "K\0",
                "\x8a\x08\0\0\0\0\0\0\0\x20\x8a\x08\0\0\0\0\0\0\0\x20\x86",
                "K\1K\1\x86") ".",
         "x: the whole: its shape is impossible");
    SAYS(TENSOR(FLOATS, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "K\2\x85",
                "K\1\x85") ".",
         "x: the whole: it reaches beyond its storage");
    SAYS(TENSOR(FLOATS, "K\0", "M\0\1\x85", "K\0\x85") ".",
         "x: the whole: it repeats elements of its storage, which is not "
         "supported");
    SAYS(TENSOR("torch\nComplexFloatStorage\n", "K\0", "K\1\x85", "K\1\x85")
         ".",
         "x: the whole: storage class 'torch.ComplexFloatStorage' is not "
         "supported");
    SAYS(STORAGE(FLOATS) ".", "x: the whole: a storage outside a tensor");
}

static void broken_archives_get_one_line(void **state)
{
    struct bn_tensors ts = {0};
    struct bn_err err = {0};
    struct zip z = {0};

    (void)state;
    assert_int_equal(bn_torch_parse(&ts, "\x80\2\x8a\x0a", 4, "x", &err),
                     -1);
    assert_string_equal(err.text, "x: a torch file older than 1.6: load and "
                                  "save it with a newer PyTorch");
    add(&z, "a/data.pkl", "N.", 2, 8);
    finish(&z);
    assert_int_equal(bn_torch_parse(&ts, z.body.s, z.body.len, "x", &err),
                     -1);
    assert_string_equal(err.text, "x: 'a/data.pkl' is compressed or "
                                  "encrypted, which is not supported");
    bn_str_release(&z.body);
    bn_str_release(&z.dir);
    z.n = 0;
    add(&z, "a/data.pkl", "N.", 2, 0);
    add(&z, "a/data.pkl", "N.", 2, 0);
    finish(&z);
    assert_int_equal(bn_torch_parse(&ts, z.body.s, z.body.len, "x", &err),
                     -1);
    assert_string_equal(err.text, "x: 'a/data.pkl' is twice there");
    bn_str_release(&z.body);
    bn_str_release(&z.dir);
    z.n = 0;
    add(&z, "a/data.pkl", "N.", 2, 0);
    add(&z, "a/byteorder", "big", 3, 0);
    finish(&z);
    assert_int_equal(bn_torch_parse(&ts, z.body.s, z.body.len, "x", &err),
                     -1);
    assert_string_equal(err.text, "x: not little-endian, which is not "
                                  "supported");
    bn_str_release(&z.body);
    bn_str_release(&z.dir);
}

/* No cut and no changed byte may do worse than an error. */
static void damage_never_crashes(void **state)
{
    struct bn_tensors ts = {0};
    struct bn_err err = {0};
    size_t len;
    char *all = bn_file_read(path, 1 << 20, &len, NULL);

    (void)state;
    for (size_t n = 0; n < len; n++) {
        char *cut = bn_malloc(n);

        memcpy(cut, all, n);
        assert_int_equal(bn_torch_parse(&ts, cut, n, "x", &err), -1);
        free(cut);
    }
    char *copy = bn_malloc(len);
    for (size_t i = 0; i < len; i++) {
        static const unsigned char flips[] = {0x01, 0x80, 0xff};

        for (size_t k = 0; k < sizeof(flips); k++) {
            memcpy(copy, all, len);
            copy[i] = (char)(copy[i] ^ flips[k]);
            if (bn_torch_parse(&ts, copy, len, "x", &err) == 0)
                bn_tensors_close(&ts);
        }
    }
    free(copy);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_torch_saved_is_read),
        cmocka_unit_test(code_is_never_run),
        cmocka_unit_test(broken_pickles_get_one_line),
        cmocka_unit_test(tensors_stay_in_their_storage),
        cmocka_unit_test(broken_archives_get_one_line),
        cmocka_unit_test(damage_never_crashes),
    };

    path = bn_asprintf("%s/t/data/torch.pt", getenv("BN_SRCDIR"));
    int rc = BN_TAP_RUN(tests);
    free(path);
    return rc;
}
