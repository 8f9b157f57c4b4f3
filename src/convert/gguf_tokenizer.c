#include "config.h"
#include "convert/gguf_tokenizer.h"
#include "convert/spm_merges.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MARK "\xe2\x96\x81" /* U+2581, SentencePiece's space */

/* tokenizer.ggml.token_type */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };

/* How the words of a byte-level BPE are cut, by tokenizer.ggml.pre. */
enum cut { WORDS, DIGITS, REGEX };
struct pre {
    const char *name;
    enum cut cut;
    bool nfc;           /* normalise first */
    bool ignore_merges; /* a word that is a token is not merged */
    bool bos;           /* put before a text unless the file says */
    const char *regex;  /* of REGEX */
};

/* The expressions are what the tokenizer.json files of these models have. */
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define LINES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3                                                                \
    CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"                   \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES
#define QWEN2                                                                 \
    CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"                        \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define TEKKEN                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+|[^\\r\\n\\p{L}\\p{N}]?" UPPER  \
    "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" LINES

static const struct pre pres[] = {
    {"gpt-2", WORDS, false, false, false, NULL},
    {"smollm", DIGITS, false, false, false, NULL},
    {"starcoder", DIGITS, false, false, false, NULL},
    {"refact", DIGITS, false, false, false, NULL},
    {"llama-bpe", REGEX, false, true, true, LLAMA3},
    {"llama3", REGEX, false, true, true, LLAMA3},
    {"llama-v3", REGEX, false, true, true, LLAMA3},
    {"smaug-bpe", REGEX, false, false, false, LLAMA3},
    {"qwen2", REGEX, true, false, false, QWEN2},
    {"tekken", REGEX, false, true, true, TEKKEN},
};

struct tok {
    const char *where;
    const json_t *meta;
    json_t *list;  /* tokens */
    json_t *types; /* of tokens; NULL: all normal */
    const struct pre *pre; /* NULL: SentencePiece */
    struct bn_err *err;
};

static json_t *get(const struct tok *t, const char *key)
{
    char *full = bn_asprintf("tokenizer.%s", key);
    json_t *v = json_object_get(t->meta, full);

    free(full);
    return v;
}

static const char *token(const struct tok *t, size_t id)
{
    return json_string_value(json_array_get(t->list, id));
}

static int type_of(const struct tok *t, size_t id)
{
    return t->types == NULL
               ? NORMAL
               : (int)json_integer_value(json_array_get(t->types, id));
}

/* Whether text reaches this token by merging. */
static bool mergeable(const struct tok *t, size_t id)
{
    int type = type_of(t, id);

    return type == NORMAL || type == USER || type == UNUSED;
}

static int check_tokens(const struct tok *t)
{
    size_t i;
    json_t *v;

    json_array_foreach (t->list, i, v) {
        size_t n = json_string_length(v);
        int type = type_of(t, i);

        if (!json_is_string(v) || n != strlen(json_string_value(v))
            || bn_utf8_check(json_string_value(v), n) < n)
            return bn_fail(t->err, BN_ERR_DATA, "%s: token %zu is not text "
                           "in UTF-8", t->where, i);
        if (type < NORMAL || type > BYTE)
            return bn_fail(t->err, BN_ERR_DATA, "%s: token %zu ('%.40s') has "
                           "an unknown type, %d", t->where, i,
                           json_string_value(v), type);
    }
    return 0;
}

static int open_tokens(struct tok *t)
{
    t->list = get(t, "ggml.tokens");
    t->types = get(t, "ggml.token_type");
    if (!json_is_array(t->list) || json_array_size(t->list) == 0)
        return bn_fail(t->err, BN_ERR_DATA, "%s: metadata has no "
                       "'tokenizer.ggml.tokens'", t->where);
    if (t->types != NULL
        && json_array_size(t->types) != json_array_size(t->list))
        return bn_fail(t->err, BN_ERR_DATA, "%s: %zu tokens, but types of "
                       "%zu", t->where, json_array_size(t->list),
                       json_array_size(t->types));
    return check_tokens(t);
}

static int find_pre(struct tok *t)
{
    const char *name = json_string_value(get(t, "ggml.pre"));

    if (name == NULL)
        return bn_fail(t->err, BN_ERR_DATA, "%s: does not say how text is "
                       "cut into words (tokenizer.ggml.pre): give "
                       "--tokenizer", t->where);
    for (size_t i = 0; i < BN_COUNT(pres); i++)
        if (strcmp(pres[i].name, name) == 0) {
            t->pre = &pres[i];
            return 0;
        }
    return bn_fail(t->err, BN_ERR_DATA, "%s: pre-tokenizer '%.40s' is not "
                   "supported: give --tokenizer", t->where, name);
}

/* A token that metadata names by its id; NULL: none. */
static int named(const struct tok *t, const char *key, const char **text,
                 json_int_t *id)
{
    json_t *v = get(t, key);

    *text = NULL;
    *id = -1;
    if (v == NULL)
        return 0;
    *id = json_integer_value(v);
    if (!json_is_integer(v) || *id < 0
        || (size_t)*id >= json_array_size(t->list))
        return bn_fail(t->err, BN_ERR_DATA, "%s: 'tokenizer.%s' is no id of "
                       "its tokens", t->where, key);
    *text = token(t, (size_t)*id);
    return 0;
}

static json_t *vocab(const struct tok *t)
{
    json_t *o = json_object(), *v;
    size_t i;

    json_array_foreach (t->list, i, v) {
        const char *s = json_string_value(v);

        if (json_object_get(o, s) != NULL) {
            bn_fail(t->err, BN_ERR_DATA, "%s: token '%.40s' is twice there",
                    t->where, s);
            json_decref(o);
            return NULL;
        }
        json_object_set_new(o, s, json_integer((json_int_t)i));
    }
    return o;
}

/* "a b" with one space inside: as in the file, checked. */
static json_t *merges_given(const struct tok *t)
{
    json_t *list = get(t, "ggml.merges"), *v;
    size_t i;

    if (!json_is_array(list)) {
        bn_fail(t->err, BN_ERR_DATA, "%s: metadata has no "
                "'tokenizer.ggml.merges'", t->where);
        return NULL;
    }
    json_array_foreach (list, i, v) {
        const char *s = json_string_value(v);
        const char *space = s != NULL ? strchr(s, ' ') : NULL;

        if (space == NULL || space == s || space[1] == '\0'
            || strchr(space + 1, ' ') != NULL) {
            bn_fail(t->err, BN_ERR_DATA, "%s: merge %zu is not two tokens",
                    t->where, i);
            return NULL;
        }
    }
    return json_incref(list);
}

static json_t *merges_of_scores(const struct tok *t)
{
    json_t *scores = get(t, "ggml.scores");
    size_t n = json_array_size(t->list), used = 0;

    if (json_array_size(scores) != n) {
        bn_fail(t->err, BN_ERR_DATA, "%s: %zu tokens, but scores of %zu",
                t->where, n, json_array_size(scores));
        return NULL;
    }
    struct bn_spm_piece *p = BN_NEWN(struct bn_spm_piece, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(scores, i);

        if (!mergeable(t, i))
            continue;
        p[used++] = (struct bn_spm_piece){
            token(t, i), (int32_t)i,
            json_is_number(v) ? json_number_value(v) : -INFINITY};
    }
    json_t *list = bn_spm_merges(p, used);
    free(p);
    return list;
}

static json_t *model(const struct tok *t)
{
    json_t *v = vocab(t), *m, *unk = json_null();

    if (v == NULL)
        return NULL;
    m = t->pre != NULL ? merges_given(t) : merges_of_scores(t);
    if (m == NULL) {
        json_decref(v);
        return NULL;
    }
    for (size_t i = 0; t->pre == NULL && i < json_array_size(t->list); i++)
        if (type_of(t, i) == UNKNOWN)
            unk = json_string(token(t, i));
    return json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b, s:o, s:o}",
                     "type", "BPE", "dropout", "unk_token", unk,
                     "continuing_subword_prefix", "end_of_word_suffix",
                     "fuse_unk", t->pre == NULL, "byte_fallback",
                     t->pre == NULL, "ignore_merges",
                     t->pre != NULL && t->pre->ignore_merges, "vocab", v,
                     "merges", m);
}

static json_t *added(const struct tok *t)
{
    json_t *list = json_array();

    for (size_t i = 0; i < json_array_size(t->list); i++) {
        int type = type_of(t, i);

        if (type == UNKNOWN || type == CONTROL || type == USER)
            json_array_append_new(list, json_pack(
                "{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)i,
                "content", token(t, i), "single_word", 0, "lstrip", 0,
                "rstrip", 0, "normalized", 0, "special", type != USER));
    }
    return list;
}

static json_t *byte_level(bool regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel",
                     "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     regex);
}

static json_t *pre_tokenizer(const struct tok *t)
{
    if (t->pre == NULL)
        return json_null();
    if (t->pre->cut == WORDS)
        return byte_level(true);
    json_t *first =
        t->pre->cut == DIGITS
            ? json_pack("{s:s, s:b}", "type", "Digits", "individual_digits",
                        1)
            : json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split",
                        "pattern", "Regex", t->pre->regex, "behavior",
                        "Isolated", "invert", 0);
    return json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers",
                     first, byte_level(t->pre->cut == DIGITS));
}

/* Whether SentencePiece's text begins with a space that was not typed. */
static bool space_first(const struct tok *t)
{
    json_t *v = get(t, "ggml.add_space_prefix");

    return v == NULL || json_is_true(v);
}

static json_t *normalizer(const struct tok *t)
{
    if (t->pre != NULL)
        return t->pre->nfc ? json_pack("{s:s}", "type", "NFC") : json_null();
    json_t *replace = json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace",
                                "pattern", "String", " ", "content", MARK);
    if (!space_first(t))
        return replace;
    return json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence",
                     "normalizers", "type", "Prepend", "prepend", MARK,
                     replace);
}

static json_t *decoder(const struct tok *t)
{
    if (t->pre != NULL)
        return byte_level(true);
    json_t *list = json_pack(
        "[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern",
        "String", MARK, "content", " ", "type", "ByteFallback", "type",
        "Fuse");
    if (space_first(t))
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i}", "type",
                                              "Strip", "content", " ",
                                              "start", 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", list);
}

static bool wants(const struct tok *t, const char *key, bool usual)
{
    json_t *v = get(t, key);

    return v == NULL ? usual : json_is_true(v);
}

/* A special token of a TemplateProcessing: in the list and in the table. */
static void put_special(json_t *list, json_t *table, const char *text,
                        json_int_t id)
{
    json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "SpecialToken",
                                          "id", text, "type_id", 0));
    json_object_set_new(table, text,
                        json_pack("{s:s, s:[I], s:[s]}", "id", text, "ids",
                                  id, "tokens", text));
}

/* NULL: failed. */
static json_t *post_processor(const struct tok *t)
{
    bool bos = wants(t, "ggml.add_bos_token", t->pre == NULL || t->pre->bos);
    bool eos = wants(t, "ggml.add_eos_token", false);
    const char *b, *e;
    json_int_t bid, eid;

    if (named(t, "ggml.bos_token_id", &b, &bid) < 0
        || named(t, "ggml.eos_token_id", &e, &eid) < 0)
        return NULL;
    if ((bos && b == NULL) || (eos && e == NULL)) {
        bn_fail(t->err, BN_ERR_DATA, "%s: a text is to %s, but metadata has "
                "no '%s'", t->where, bos && b == NULL ? "begin with BOS"
                                                      : "end with EOS",
                bos && b == NULL ? "tokenizer.ggml.bos_token_id"
                                 : "tokenizer.ggml.eos_token_id");
        return NULL;
    }
    if (!bos && !eos)
        return t->pre != NULL ? byte_level(true) : json_null();
    json_t *one = json_array(), *two = json_array(), *table = json_object();
    for (int i = 0; i < 3; i++) { /* single: 0; pair: 1 and 2 */
        json_t *list = i == 0 ? one : two;

        if (bos)
            put_special(list, table, b, bid);
        json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "Sequence",
                                              "id", i < 2 ? "A" : "B",
                                              "type_id", i == 2));
        if (eos)
            put_special(list, table, e, eid);
    }
    json_t *p = json_pack("{s:s, s:o, s:o, s:o}", "type",
                          "TemplateProcessing", "single", one, "pair", two,
                          "special_tokens", table);
    return t->pre == NULL ? p
                          : json_pack("{s:s, s:[o, o]}", "type", "Sequence",
                                      "processors", byte_level(true), p);
}

static int names(const struct tok *t, json_t *o)
{
    static const char *const keys[][2] = {
        {"bos_token", "ggml.bos_token_id"},
        {"eos_token", "ggml.eos_token_id"},
        {"unk_token", "ggml.unknown_token_id"},
        {"pad_token", "ggml.padding_token_id"},
    };
    const char *text;
    json_int_t id;

    for (size_t i = 0; i < BN_COUNT(keys); i++) {
        if (named(t, keys[i][1], &text, &id) < 0)
            return -1;
        if (text != NULL)
            json_object_set_new(o, keys[i][0], json_string(text));
    }
    return 0;
}

static json_t *make_config(const struct tok *t)
{
    json_t *o = json_object(), *chat = get(t, "chat_template");

    json_object_set_new(o, "add_bos_token", json_boolean(wants(
        t, "ggml.add_bos_token", t->pre == NULL || t->pre->bos)));
    json_object_set_new(o, "add_eos_token", json_boolean(wants(
        t, "ggml.add_eos_token", false)));
    if (names(t, o) < 0) {
        json_decref(o);
        return NULL;
    }
    if (json_is_string(chat))
        json_object_set(o, "chat_template", chat);
    json_object_set_new(o, "clean_up_tokenization_spaces", json_false());
    json_object_set_new(o, "tokenizer_class",
                        json_string("PreTrainedTokenizerFast"));
    return o;
}

static json_t *make_tokenizer(const struct tok *t)
{
    json_t *post = post_processor(t);
    json_t *m = post != NULL ? model(t) : NULL;

    if (m == NULL) {
        json_decref(post);
        return NULL;
    }
    return json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "version", "1.0", "truncation", "padding",
                     "added_tokens", added(t), "normalizer", normalizer(t),
                     "pre_tokenizer", pre_tokenizer(t), "post_processor",
                     post, "decoder", decoder(t), "model", m);
}

int bn_tokenizer_of_gguf(const json_t *meta, const char *where,
                         json_t **tokenizer, json_t **config,
                         struct bn_err *err)
{
    struct tok t = {.where = where, .meta = meta, .err = err};
    const char *kind = json_string_value(get(&t, "ggml.model"));

    if (kind == NULL)
        return 0;
    bool bytes = strcmp(kind, "gpt2") == 0;
    if (!bytes && strcmp(kind, "llama") != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: tokenizer model '%.40s' is not "
                       "supported (gpt2 and llama are): give --tokenizer",
                       where, kind);
    if (open_tokens(&t) < 0 || (bytes && find_pre(&t) < 0))
        return -1;
    json_t *c = make_config(&t);
    json_t *k = c != NULL ? make_tokenizer(&t) : NULL;
    if (k == NULL) {
        json_decref(c);
        return -1;
    }
    *tokenizer = k;
    *config = c;
    return 0;
}
