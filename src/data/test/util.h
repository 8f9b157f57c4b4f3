/* What the tests of src/data share: a directory of their own, files in it,
 * token sets made of them. */
#ifndef BN_DATA_TEST_UTIL_H
#define BN_DATA_TEST_UTIL_H

#include "base/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/data.h"

static char test_dir[] = "/tmp/bn-data-XXXXXX";

static inline void test_begin(void)
{
    if (mkdtemp(test_dir) == NULL)
        abort();
}

static inline void test_end(void)
{
    bn_remove_tree(test_dir, NULL);
}

/* Write a file of the test's directory; its path, malloc'ed. */
static inline char *test_file(const char *name, const char *data, size_t len)
{
    struct bn_err err;
    char *path = bn_path_join(test_dir, name);

    if (bn_file_write(path, data, len, &err) < 0)
        fail_msg("%s", err.text);
    return path;
}

/* A file of BN_SHARED (../shared of the source), malloc'ed; NULL if it is
 * not there. */
static inline char *test_shared(const char *name)
{
    const char *dir = getenv("BN_SHARED"), *src = getenv("BN_SRCDIR");
    char *path = dir != NULL ? bn_path_join(dir, name)
                             : bn_asprintf("%s/../shared/%s",
                                           src != NULL ? src : ".", name);

    if (!bn_exists(path)) {
        free(path);
        return NULL;
    }
    return path;
}

/* A tokenizer whose ids are bytes + 3 after <unk> <s> </s> and one merge,
 * "ab": small enough to compute by hand. add_bos: the post-processor puts
 * <s> in front. 'config' is added to tokenizer_config.json. */
static inline struct bn_tokenizer *test_tokenizer(bool add_bos,
                                                  const char *config)
{
    struct bn_str b = {0};
    struct bn_err err;
    char *dir = bn_path_join(test_dir, add_bos ? "tok-bos" : "tok");

    bn_str_adds(&b, "{\"version\":\"1.0\",\"added_tokens\":[");
    const char *special[] = {"<unk>", "<s>", "</s>"};
    for (int i = 0; i < 3; i++)
        bn_str_addf(&b, "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false"
                    ",\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
                    "\"special\":true}", i ? "," : "", i, special[i]);
    bn_str_adds(&b, "],\"normalizer\":null,\"pre_tokenizer\":null,");
    if (add_bos)
        bn_str_adds(&b, "\"post_processor\":{\"type\":\"TemplateProcessing\","
                    "\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\""
                    ":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
                    "\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
                    "{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}],"
                    "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],"
                    "\"tokens\":[\"<s>\"]}}},");
    else
        bn_str_adds(&b, "\"post_processor\":null,");
    bn_str_adds(&b, "\"decoder\":{\"type\":\"ByteFallback\"},\"model\":{"
                "\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":"
                "true,\"fuse_unk\":true,\"vocab\":{\"<unk>\":0,\"<s>\":1,"
                "\"</s>\":2");
    for (int i = 0; i < 256; i++)
        bn_str_addf(&b, ",\"<0x%02X>\":%d", i, 3 + i);
    bn_str_adds(&b, ",\"a\":259,\"b\":260,\"ab\":261},\"merges\":[\"a b\"]}}");
    bn_mkdirs(dir, NULL);
    char *path = bn_path_join(dir, "tokenizer.json");
    if (bn_file_write(path, b.s, b.len, &err) < 0)
        fail_msg("%s", err.text);
    free(path);
    bn_str_clear(&b);
    bn_str_addf(&b, "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"unk_token"
                "\":\"<unk>\"%s%s}", *config ? "," : "", config);
    path = bn_path_join(dir, "tokenizer_config.json");
    bn_file_write(path, b.s, b.len, NULL);
    free(path);
    struct bn_tokenizer *t = bn_tokenizer_open(dir, &err);
    if (t == NULL)
        fail_msg("%s", err.text);
    bn_str_release(&b);
    free(dir);
    return t;
}

#endif
