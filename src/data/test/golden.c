/* The ids and masks that the reference library gives for real texts. */
#include "config.h"
#include "data/test/util.h"

#include "base/json.h"

static void add_field(struct bn_str *b, const char *key, const json_t *v)
{
    char *s = json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

    bn_str_addf(b, "%s\"%s\": %s", b->s[b->len - 1] == '{' ? "" : ", ", key,
                s);
    free(s);
}

/* [[q, a], [q, a]] as two lists of strings, or as two strings. */
static void add_turns(struct bn_str *b, const json_t *turns)
{
    const char *key[2] = {"prompt", "completion"};

    for (int k = 0; k < 2; k++) {
        json_t *list = json_array(), *turn;
        size_t i;

        json_array_foreach(turns, i, turn)
            json_array_append(list, json_array_get(turn, (size_t)k));
        add_field(b, key[k], json_array_size(list) == 1
                                 ? json_array_get(list, 0) : list);
        json_decref(list);
    }
}

static void same_ids(const int32_t *ids, int n, const json_t *want)
{
    assert_int_equal(n, json_array_size(want));
    for (int i = 0; i < n; i++)
        assert_int_equal(ids[i], json_integer_value(json_array_get(
            want, (size_t)i)));
}

static void same(const struct bn_example *ex, const json_t *item)
{
    const json_t *mask = json_object_get(item, "mask");

    if (mask == NULL) {
        same_ids(ex->ids, ex->n, json_object_get(item, "prompt"));
        same_ids(ex->chosen, ex->nchosen, json_object_get(item, "chosen"));
        same_ids(ex->rejected, ex->nrejected,
                 json_object_get(item, "rejected"));
        return;
    }
    same_ids(ex->ids, ex->n, json_object_get(item, "ids"));
    for (int i = 0; i < ex->n; i++)
        assert_int_equal(ex->mask[i], json_integer_value(json_array_get(
            mask, (size_t)i)));
}

static json_t *items_of(const char *name)
{
    char *path = test_shared(name);
    struct bn_err err;
    json_t *o, *step, *micro, *item, *all = json_array();
    size_t i, j, k;

    if (path == NULL) {
        json_decref(all);
        return NULL;
    }
    o = bn_json_load(path, &err);
    assert_non_null(o);
    json_array_foreach(json_object_get(o, "data"), i, step)
        json_array_foreach(json_object_get(step, "micro"), j, micro)
            json_array_foreach(micro, k, item)
                json_array_append(all, item);
    json_decref(o);
    free(path);
    return all;
}

static void check(const char *golden, enum bn_data_task task, int max)
{
    json_t *all = items_of(golden), *item;
    char *model = test_shared("inputs/models/stories260K-hf");
    struct bn_str b = {0};
    struct bn_tokens *train, *eval;
    struct bn_err err;
    size_t i;

    if (all == NULL || model == NULL) {
        print_message("# SKIP: no %s\n", golden);
        skip();
    }
    json_array_foreach(all, i, item) {
        bn_str_addc(&b, '{');
        if (task == BN_DATA_SFT) {
            add_turns(&b, json_object_get(item, "text"));
        } else {
            add_field(&b, "prompt", json_object_get(item, "prompt_text"));
            add_field(&b, "chosen", json_object_get(item, "chosen_text"));
            add_field(&b, "rejected", json_object_get(item, "rejected_text"));
        }
        bn_str_adds(&b, "}\n");
    }
    char *file = test_file(task ? "orpo.jsonl" : "sft.jsonl", b.s, b.len);
    struct bn_data_opts o;
    bn_data_opts_init(&o);
    o.files = (const char *const *)&file;
    o.nfiles = 1;
    o.task = task;
    o.max_length = max;
    o.cache_dir = test_dir;
    o.quiet = true;
    struct bn_tokenizer *t = bn_tokenizer_open(model, &err);
    assert_non_null(t);
    if (bn_tokens_make(&train, &eval, &o, t, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(bn_tokens_count(train), json_array_size(all));
    json_array_foreach(all, i, item) {
        struct bn_example ex;

        bn_tokens_get(train, i, &ex);
        same(&ex, item);
    }
    bn_tokens_close(train);
    bn_tokenizer_close(t);
    bn_str_release(&b);
    json_decref(all);
    free(file);
    free(model);
}

static void test_sft(void **state)
{
    (void)state;
    check("golden/sft-stories260K.json", BN_DATA_SFT, 128);
}

static void test_orpo(void **state)
{
    (void)state;
    check("golden/orpo-stories260K.json", BN_DATA_PREFERENCE, 160);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sft),
        cmocka_unit_test(test_orpo),
    };

    test_begin();
    int rc = BN_TAP_RUN(tests);
    test_end();
    return rc;
}
