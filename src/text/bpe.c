/* Reading a BPE model: vocabulary, merges, options. */
#include "config.h"
#include "text/bpe_impl.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/simd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash_text(const char *s, size_t n)
{
    return (uint32_t)bn_hash_bytes(s, n).lo;
}

int32_t bn_bpe_id(const struct bn_bpe *b, const char *s, size_t n)
{
    if (n > b->max_len)
        return -1;
    for (uint32_t i = hash_text(s, n) & b->map_mask;;
         i = (i + 1) & b->map_mask) {
        uint32_t v = b->map[i];

        if (v == 0)
            return -1;
        if (b->len[v - 1] == n && memcmp(b->blob + b->off[v - 1], s, n) == 0)
            return (int32_t)(v - 1);
    }
}

static uint32_t table_size(size_t n)
{
    uint32_t size = 16;

    while (size < 2 * n)
        size *= 2;
    return size;
}

static int put_token(struct bn_bpe *b, const char *key, size_t n,
                     int64_t id, size_t *used, const char *where,
                     struct bn_err *err)
{
    if (b->len[id] != UINT32_MAX)
        return bn_fail(err, BN_ERR_DATA, "%s: model.vocab: '%.40s' and "
                       "'%.40s' have the same id %lld", where,
                       b->blob + b->off[id], key, (long long)id);
    b->off[id] = (uint32_t)*used;
    b->len[id] = (uint32_t)n;
    memcpy(b->blob + *used, key, n + 1);
    *used += n + 1;
    if (n > b->max_len)
        b->max_len = (uint32_t)n;

    uint32_t i = hash_text(key, n) & b->map_mask;
    while (b->map[i] != 0)
        i = (i + 1) & b->map_mask;
    b->map[i] = (uint32_t)id + 1;
    b->ntoken++;
    return 0;
}

/* Sizes of the vocabulary, and that every id is a sane integer. */
static int measure_vocab(json_t *vocab, const char *where, size_t *bytes,
                         int64_t *top, struct bn_err *err)
{
    const char *key;
    json_t *v;

    json_object_foreach (vocab, key, v) {
        int64_t id = json_is_integer(v) ? json_integer_value(v) : -1;

        if (id < 0 || id >= (int64_t)1 << BN_BPE_ID_BITS)
            return bn_fail(err, BN_ERR_DATA, "%s: model.vocab: the id of "
                           "'%.40s' must be an integer from 0 to %d", where,
                           key, (1 << BN_BPE_ID_BITS) - 1);
        *bytes += strlen(key) + 1;
        if (id > *top)
            *top = id;
    }
    if (*bytes >= UINT32_MAX)
        return bn_fail(err, BN_ERR_DATA, "%s: model.vocab: more than 4 GiB "
                       "of token text", where);
    return 0;
}

static int load_vocab(struct bn_bpe *b, const json_t *model,
                      const char *where, struct bn_err *err)
{
    json_t *vocab = json_object_get(model, "vocab");
    size_t bytes = 0, used = 0;
    int64_t top = -1;
    const char *key;
    json_t *v;

    if (!json_is_object(vocab))
        return bn_fail(err, BN_ERR_DATA, "%s: model.vocab must be an object "
                       "of token: id", where);
    if (json_object_size(vocab) == 0)
        return bn_fail(err, BN_ERR_DATA, "%s: model.vocab is empty", where);
    if (measure_vocab(vocab, where, &bytes, &top, err) < 0)
        return -1;
    b->nid = (int32_t)top + 1;
    b->blob = bn_malloc(bytes);
    b->off = BN_NEWN(uint32_t, (size_t)b->nid);
    b->len = bn_malloc((size_t)b->nid * sizeof(uint32_t));
    memset(b->len, 0xff, (size_t)b->nid * sizeof(uint32_t));
    b->map_mask = table_size(json_object_size(vocab)) - 1;
    b->map = BN_NEWN(uint32_t, (size_t)b->map_mask + 1);
    json_object_foreach (vocab, key, v)
        if (put_token(b, key, strlen(key), json_integer_value(v), &used,
                      where, err) < 0)
            return -1;
    return 0;
}

/* The two halves of merge number i: "a b" or ["a", "b"]. 'cut' is where the
 * first ends in a string. */
static int split_merge(const json_t *m, const char *half[2], size_t len[2])
{
    if (json_is_string(m)) {
        const char *s = json_string_value(m);
        const char *sp = strchr(s, ' ');

        if (sp == NULL || strchr(sp + 1, ' ') != NULL)
            return -1;
        half[0] = s;
        len[0] = (size_t)(sp - s);
        half[1] = sp + 1;
        len[1] = json_string_length(m) - len[0] - 1;
        return 0;
    }
    if (!json_is_array(m) || json_array_size(m) != 2)
        return -1;
    for (size_t i = 0; i < 2; i++) {
        json_t *h = json_array_get(m, i);

        if (!json_is_string(h))
            return -1;
        half[i] = json_string_value(h);
        len[i] = json_string_length(h);
    }
    return 0;
}

static void put_pair(struct bn_bpe *b, uint32_t left, uint32_t right,
                     uint32_t rank)
{
    uint64_t key = (uint64_t)left << BN_BPE_ID_BITS | right;
    uint32_t i = bn_bpe_hash(left, right) & b->pair_mask;

    /* The last of equal merges counts. */
    while (b->pairs[i] != 0 && b->pairs[i] >> BN_BPE_RANK_BITS != key)
        i = (i + 1) & b->pair_mask;
    b->pairs[i] = key << BN_BPE_RANK_BITS | (rank + 1);
    uint32_t bit = bn_bpe_hash(left, right) >> b->maybe_shift;
    b->maybe[bit / 64] |= (uint64_t)1 << bit % 64;
}

static int add_merge(struct bn_bpe *b, const json_t *m, uint32_t rank,
                     struct bn_str *made, const char *where,
                     struct bn_err *err)
{
    const char *half[2];
    size_t len[2], cut = b->prefix != NULL ? strlen(b->prefix) : 0;
    int32_t id[2], to;

    if (split_merge(m, half, len) < 0)
        return bn_fail(err, BN_ERR_DATA, "%s: model.merges[%u] must be two "
                       "tokens, \"a b\" or [\"a\", \"b\"]", where, rank);
    for (int i = 0; i < 2; i++) {
        id[i] = bn_bpe_id(b, half[i], len[i]);
        if (id[i] < 0)
            return bn_fail(err, BN_ERR_DATA, "%s: model.merges[%u]: '%.40s' "
                           "is not in the vocabulary", where, rank, half[i]);
    }
    if (len[1] < cut)
        return bn_fail(err, BN_ERR_DATA, "%s: model.merges[%u]: '%.40s' is "
                       "shorter than continuing_subword_prefix", where, rank,
                       half[1]);
    bn_str_clear(made);
    bn_str_add(made, half[0], len[0]);
    bn_str_add(made, half[1] + cut, len[1] - cut);
    to = bn_bpe_id(b, made->s, made->len);
    if (to < 0)
        return bn_fail(err, BN_ERR_DATA, "%s: model.merges[%u] makes '%.40s', "
                       "which is not in the vocabulary", where, rank,
                       made->s);
    b->made[rank] = (uint32_t)to;
    put_pair(b, (uint32_t)id[0], (uint32_t)id[1], rank);
    return 0;
}

static int load_merges(struct bn_bpe *b, const json_t *model,
                       const char *where, struct bn_err *err)
{
    json_t *merges = json_object_get(model, "merges");
    struct bn_str made = {0};
    size_t n = json_array_size(merges);
    int rc = 0;

    if (!json_is_array(merges))
        return bn_fail(err, BN_ERR_DATA, "%s: model.merges must be an array",
                       where);
    if (n >= (1u << BN_BPE_RANK_BITS) - 1)
        return bn_fail(err, BN_ERR_DATA, "%s: model.merges has %zu merges, "
                       "more than %d", where, n, (1 << BN_BPE_RANK_BITS) - 2);
    b->nmerge = (uint32_t)n;
    b->made = BN_NEWN(uint32_t, n + 1);
    b->pair_mask = table_size(n) - 1;
    b->pairs = BN_NEWN(uint64_t, (size_t)b->pair_mask + 1);
    /* Eight bits or more for each place of the table. */
    b->maybe_shift = 32 - 3 - __builtin_ctz(b->pair_mask + 1);
    b->maybe = BN_NEWN(uint64_t, ((size_t)1 << (32 - b->maybe_shift)) / 64);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = add_merge(b, json_array_get(merges, i), i, &made, where, err);
    bn_str_release(&made);
    return rc;
}

/* A string option; "" counts as none. */
static int option_text(const json_t *model, const char *where,
                       const char *key, char **out, struct bn_err *err)
{
    const char *s = NULL;

    if (bn_json_str(model, where, key, &s, err) < 0)
        return -1;
    *out = s != NULL && *s != '\0' ? bn_strdup(s) : NULL;
    return 0;
}

static int load_options(struct bn_bpe *b, const json_t *model,
                        const char *where, struct bn_err *err)
{
    double dropout = 0;

    if (bn_json_bool(model, where, "byte_fallback", &b->byte_fallback, err) < 0
        || bn_json_bool(model, where, "fuse_unk", &b->fuse_unk, err) < 0
        || bn_json_bool(model, where, "ignore_merges", &b->ignore_merges, err)
               < 0
        || bn_json_num(model, where, "dropout", &dropout, err) < 0
        || option_text(model, where, "continuing_subword_prefix", &b->prefix,
                       err) < 0
        || option_text(model, where, "end_of_word_suffix", &b->suffix, err)
               < 0)
        return -1;
    if (dropout != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: model.dropout is %g: ids that "
                       "depend on chance are not supported", where, dropout);
    return 0;
}

static int load_unk(struct bn_bpe *b, const json_t *model, const char *where,
                    struct bn_err *err)
{
    const char *unk = NULL;

    b->unk = -1;
    if (bn_json_str(model, where, "unk_token", &unk, err) < 0)
        return -1;
    if (unk == NULL)
        return 0;
    b->unk = bn_bpe_id(b, unk, strlen(unk));
    if (b->unk < 0)
        return bn_fail(err, BN_ERR_DATA, "%s: model.unk_token '%.40s' is not "
                       "in the vocabulary", where, unk);
    return 0;
}

static void load_bytes(struct bn_bpe *b)
{
    b->bytes_whole = b->prefix == NULL && b->suffix == NULL;
    for (int i = 0; i < 256; i++) {
        char name[8];
        int n = bn_utf8_put(name, bn_byte_char((uint8_t)i));

        b->byte_sym[i] = bn_bpe_id(b, name, (size_t)n);
        b->bytes_whole &= b->byte_sym[i] >= 0;
        n = snprintf(name, sizeof(name), "<0x%02X>", (unsigned)i);
        b->fallback[i] = bn_bpe_id(b, name, (size_t)n);
    }
}

static void load_chars(struct bn_bpe *b)
{
    if (b->prefix != NULL || b->suffix != NULL)
        return;
    b->char_sym = bn_malloc(65536 * sizeof(int32_t));
    for (uint32_t cp = 0; cp < 65536; cp++) {
        char c[4];

        b->char_sym[cp] = bn_bpe_id(b, c, (size_t)bn_utf8_put(c, cp));
    }
}

int bn_bpe_init(struct bn_bpe *b, const json_t *model, const char *where,
                struct bn_err *err)
{
    *b = (struct bn_bpe){.v3 = bn_has_v3()};
    if (load_options(b, model, where, err) < 0
        || load_vocab(b, model, where, err) < 0
        || load_merges(b, model, where, err) < 0
        || load_unk(b, model, where, err) < 0) {
        bn_bpe_release(b);
        return -1;
    }
    load_bytes(b);
    load_chars(b);
    bn_bpe_seam_init(b);
    return 0;
}

void bn_bpe_release(struct bn_bpe *b)
{
    free(b->blob);
    free(b->off);
    free(b->len);
    free(b->map);
    free(b->pairs);
    free(b->maybe);
    free(b->kind);
    free(b->seam);
    free(b->step);
    free(b->char_sym);
    free(b->made);
    free(b->prefix);
    free(b->suffix);
    *b = (struct bn_bpe){0};
}
