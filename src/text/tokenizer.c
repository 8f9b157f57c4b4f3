/* Opening a tokenizer.json, and asking about its tokens. */
#include "config.h"
#include "text/tokenizer.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

void bn_ids_release(struct bn_ids *ids)
{
    free(ids->v);
    *ids = (struct bn_ids){0};
}

static int load_model(struct bn_tokenizer *t, const json_t *root,
                      struct bn_err *err)
{
    json_t *model = json_object_get(root, "model");
    const char *type = NULL;

    if (!json_is_object(model))
        return bn_fail(err, BN_ERR_DATA, "%s: has no 'model': not a "
                       "tokenizer.json", t->path);
    if (bn_json_str(model, t->path, "type", &type, err) < 0)
        return -1;
    /* Files from before types were written: a Unigram's vocabulary is an
     * array, a BPE has merges. */
    if (type == NULL)
        type = json_is_array(json_object_get(model, "vocab")) ? "Unigram"
               : json_object_get(model, "merges") != NULL     ? "BPE"
                                                              : "?";
    if (strcmp(type, "BPE") != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: model '%.40s' is not supported "
                       "(BPE is)", t->path, type);
    return bn_bpe_init(&t->bpe, model, t->path, err);
}

static const struct bn_added *find_added(const struct bn_tokenizer *t,
                                         const char *s, size_t n)
{
    for (size_t i = 0; i < t->nadded; i++)
        if (t->added[i].len == n && memcmp(t->added[i].content, s, n) == 0)
            return &t->added[i];
    return NULL;
}

static int parse_added(struct bn_tokenizer *t, const json_t *spec, size_t i,
                       struct bn_added *a, struct bn_err *err)
{
    json_t *content = json_object_get(spec, "content");
    char *where = bn_asprintf("%s: added_tokens[%zu]", t->path, i);
    int64_t id = -1;
    int rc = -1;

    *a = (struct bn_added){.normalized = true};
    if (bn_json_bool(spec, where, "special", &a->special, err) < 0)
        goto out;
    a->normalized = !a->special;
    if (!json_is_string(content)) {
        bn_fail(err, BN_ERR_DATA, "%s: needs a string 'content'", where);
        goto out;
    }
    if (bn_json_int(spec, where, "id", &id, err) < 0
        || bn_json_bool(spec, where, "single_word", &a->single_word, err) < 0
        || bn_json_bool(spec, where, "lstrip", &a->lstrip, err) < 0
        || bn_json_bool(spec, where, "rstrip", &a->rstrip, err) < 0
        || bn_json_bool(spec, where, "normalized", &a->normalized, err) < 0)
        goto out;
    if (id < 0 || id >= (int64_t)1 << BN_BPE_ID_BITS) {
        bn_fail(err, BN_ERR_DATA, "%s: 'id' must be an integer from 0 to %d",
                where, (1 << BN_BPE_ID_BITS) - 1);
        goto out;
    }
    a->id = (int32_t)id;
    a->len = json_string_length(content);
    a->content = bn_strndup(json_string_value(content), a->len);
    rc = 0;
out:
    free(where);
    return rc;
}

/* The reference gives ids by rule and ignores the file's: the model's id of
 * that text, else the next free one. */
static int32_t rule_id(const struct bn_tokenizer *t, const struct bn_added *a,
                       int32_t top)
{
    int32_t id = bn_bpe_id(&t->bpe, a->content, a->len);

    if (id >= 0)
        return id;
    return top >= t->bpe.ntoken ? top + 1 : t->bpe.ntoken;
}

static int load_added(struct bn_tokenizer *t, const json_t *root,
                      struct bn_err *err)
{
    json_t *list = json_object_get(root, "added_tokens"), *v;
    int32_t top = -1;
    size_t i;

    json_array_foreach (list, i, v) {
        struct bn_added a;

        if (parse_added(t, v, i, &a, err) < 0)
            return -1;
        if (a.len == 0 || find_added(t, a.content, a.len) != NULL) {
            bn_fail(err, BN_ERR_DATA, "%s: added_tokens[%zu]: '%.40s' is %s",
                    t->path, i, a.content, a.len == 0 ? "empty" : "repeated");
            free(a.content);
            return -1;
        }
        int32_t id = rule_id(t, &a, top);
        if (id != a.id)
            bn_warn("%s: added token '%s' has id %d there; by the rules of "
                    "the format it is %d", t->path, a.content, a.id, id);
        a.id = id;
        top = id > top ? id : top;
        bn_grow(&t->added, &t->added_cap, t->nadded + 1, sizeof(a));
        t->added[t->nadded++] = a;
    }
    return 0;
}

/* Texts by id, added tokens over the model's, and what to search for. */
static int index_tokens(struct bn_tokenizer *t, struct bn_err *err)
{
    struct bn_str buf[2] = {0};
    struct bn_matcher *m = bn_matcher_create();
    int rc = 0;

    t->nid = t->bpe.nid;
    for (size_t i = 0; i < t->nadded; i++)
        if (t->added[i].id >= t->nid)
            t->nid = t->added[i].id + 1;
    t->text = BN_NEWN(const char *, (size_t)t->nid);
    t->text_len = BN_NEWN(uint32_t, (size_t)t->nid);
    t->special = BN_NEWN(bool, (size_t)t->nid);
    t->shown = BN_NEWN(char *, (size_t)t->nid);
    for (int32_t i = 0; i < t->bpe.nid; i++)
        if (t->bpe.len[i] != UINT32_MAX) {
            t->text[i] = t->bpe.blob + t->bpe.off[i];
            t->text_len[i] = t->bpe.len[i];
        }
    bn_finder_init(&t->raw);
    bn_finder_init(&t->normal);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; rc == 0 && i < t->nadded; i++) {
            const struct bn_added *a = &t->added[i];
            const char *s = a->content;
            size_t n = a->len, cut;

            if (a->special != (pass == 0))
                continue; /* special ones come first */
            t->text[a->id] = a->content;
            t->text_len[a->id] = (uint32_t)a->len;
            t->special[a->id] |= a->special;
            if (a->normalized)
                rc = bn_normalize(&t->norm, m, s, n, buf, &s, &n, &cut, err);
            if (rc < 0)
                break;
            if (n != a->len || memcmp(s, a->content, n) != 0)
                t->shown[a->id] = bn_strndup(s, n);
            bn_finder_add(a->normalized ? &t->normal : &t->raw, s, n,
                          (int32_t)i);
        }
    bn_matcher_destroy(m);
    bn_str_release(&buf[0]);
    bn_str_release(&buf[1]);
    return rc;
}

static void note_ignored(const struct bn_tokenizer *t, const json_t *root)
{
    bool cut = json_is_object(json_object_get(root, "truncation"));
    bool pad = json_is_object(json_object_get(root, "padding"));

    if (cut || pad)
        bn_info("note: %s: its %s%s%s ignored: lengths are set by the run",
                t->path, cut ? "truncation" : "", cut && pad ? " and " : "",
                pad ? cut ? "padding are" : "padding is" : "is");
}

static void add_hash(struct bn_tokenizer *t, const char *text, size_t len)
{
    struct bn_hasher *h = bn_hasher_begin();
    char *names = json_dumps(t->names, JSON_SORT_KEYS);

    bn_hasher_add(h, text, len);
    bn_hasher_adds(h, names != NULL ? names : "");
    bn_hasher_adds(h, t->template != NULL ? t->template : "");
    t->hash = bn_hasher_end(h);
    free(names);
}

/* 'err' says that the file cannot be read. If it is absent and older formats
 * lie in its place: how to make it from them. */
static int say_other(const struct bn_tokenizer *t, const char *dir,
                     struct bn_err *err)
{
    static const char *const others[] = {"tokenizer.model", "spiece.model",
                                         "vocab.json"};
    bool there = bn_is_listed(t->path);

    for (size_t i = 0; i < BN_COUNT(others) && !there; i++) {
        char *path = bn_path_join(dir, others[i]);

        there = bn_exists(path);
        if (there)
            bn_fail(err, BN_ERR_DATA, "no '%s'; '%s' is of another format, "
                    "convert it once: python3 -c \"import transformers as t; "
                    "t.AutoTokenizer.from_pretrained('%s')"
                    ".save_pretrained('%s')\"", t->path, path, dir, dir);
        free(path);
    }
    return -1;
}

static int load(struct bn_tokenizer *t, const char *dir, struct bn_err *err)
{
    size_t len;
    char *text = bn_file_read(t->path, (size_t)1 << 30, &len, err);
    json_t *root = NULL;
    int rc = -1;

    if (text == NULL)
        return say_other(t, dir, err);
    root = bn_json_parse(text, len, t->path, err);
    if (root == NULL)
        goto out;
    if (load_model(t, root, err) < 0
        || bn_normalizer_init(&t->norm, json_object_get(root, "normalizer"),
                              t->path, err) < 0
        || bn_pretok_init(&t->pretok, json_object_get(root, "pre_tokenizer"),
                          t->path, err) < 0
        || bn_decoder_init(&t->decoder, json_object_get(root, "decoder"),
                           t->path, err) < 0
        || load_added(t, root, err) < 0 || index_tokens(t, err) < 0
        || bn_post_init(t, json_object_get(root, "post_processor"), err) < 0
        || bn_tokenizer_config(t, dir, err) < 0)
        goto out;
    note_ignored(t, root);
    add_hash(t, text, len);
    bn_tokenizer_plan(t);
    rc = 0;
out:
    json_decref(root);
    free(text);
    return rc;
}

struct bn_tokenizer *bn_tokenizer_open(const char *path, struct bn_err *err)
{
    struct bn_tokenizer *t = BN_NEW(struct bn_tokenizer);
    bool folder = bn_is_dir(path);
    char *dir = folder ? bn_strdup(path) : bn_path_dir(path);
    int rc;

    t->path = folder ? bn_path_join(path, "tokenizer.json")
                     : bn_strdup(path);
    rc = load(t, dir, err);
    free(dir);
    if (rc == 0)
        return t;
    bn_tokenizer_close(t);
    return NULL;
}

void bn_tokenizer_close(struct bn_tokenizer *t)
{
    if (t == NULL)
        return;
    bn_bpe_release(&t->bpe);
    bn_normalizer_release(&t->norm);
    bn_pretok_release(&t->pretok);
    bn_decoder_release(&t->decoder);
    for (size_t i = 0; i < t->nadded; i++)
        free(t->added[i].content);
    free(t->added);
    bn_finder_release(&t->raw);
    bn_finder_release(&t->normal);
    bn_ids_release(&t->before);
    bn_ids_release(&t->after);
    free(t->text);
    free(t->text_len);
    for (int32_t i = 0; t->shown != NULL && i < t->nid; i++)
        free(t->shown[i]);
    free(t->shown);
    free(t->special);
    json_decref(t->names);
    free(t->template);
    free(t->template_name);
    free(t->path);
    free(t);
}

int32_t bn_tokenizer_vocab_size(const struct bn_tokenizer *t)
{
    return t->nid;
}

int32_t bn_tokenizer_bos(const struct bn_tokenizer *t)
{
    return t->bos;
}

int32_t bn_tokenizer_eos(const struct bn_tokenizer *t)
{
    return t->eos;
}

int32_t bn_tokenizer_pad(const struct bn_tokenizer *t)
{
    return t->pad;
}

int32_t bn_tokenizer_id(const struct bn_tokenizer *t, const char *token)
{
    size_t n = strlen(token);
    const struct bn_added *a = find_added(t, token, n);

    return a != NULL ? a->id : bn_bpe_id(&t->bpe, token, n);
}

const char *bn_tokenizer_token(const struct bn_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->nid ? t->text[id] : NULL;
}

bool bn_tokenizer_is_special(const struct bn_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->nid && t->special[id];
}

struct bn_hash bn_tokenizer_hash(const struct bn_tokenizer *t)
{
    return t->hash;
}

const char *bn_tokenizer_chat_template(const struct bn_tokenizer *t)
{
    return t->template;
}

const char *bn_tokenizer_chat_template_name(const struct bn_tokenizer *t)
{
    return t->template_name;
}

const char *bn_tokenizer_special(const struct bn_tokenizer *t,
                                 const char *name)
{
    return json_string_value(json_object_get(t->names, name));
}

int bn_decode(const struct bn_tokenizer *t, const int32_t *ids, size_t n,
              bool skip_special, struct bn_str *out, struct bn_err *err)
{
    struct bn_texts tokens = {0};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (bn_tokenizer_token(t, ids[i]) == NULL)
            rc = bn_fail(err, BN_ERR_DATA, "id %d is not in the vocabulary "
                         "of %s (0 to %d)", ids[i], t->path, t->nid - 1);
        else if (t->shown[ids[i]] != NULL)
            bn_texts_add(&tokens, t->shown[ids[i]],
                         strlen(t->shown[ids[i]]));
        else if (!skip_special || !t->special[ids[i]])
            bn_texts_add(&tokens, t->text[ids[i]], t->text_len[ids[i]]);
    }
    if (rc == 0)
        rc = bn_decoder_run(&t->decoder, &tokens, out, err);
    bn_texts_release(&tokens);
    return rc;
}
