#include "config.h"
#include "format/llama2c.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, SEQ, NFIELD };
static const char *const fields[NFIELD] = {
    "dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size",
    "max_seq_len"};

struct reader {
    struct bn_tensors *ts;
    const char *file;
    const char *p;
    size_t len, at;
    int64_t h[NFIELD];
    bool shared;
};

static int32_t int_at(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;

    return (int32_t)(u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16
                     | (uint32_t)u[3] << 24);
}

static int read_header(struct reader *r, int version, struct bn_err *err)
{
    const char *p = r->p + (version == 0 ? 0 : 8);

    for (int i = 0; i < NFIELD; i++)
        r->h[i] = int_at(p + 4 * i);
    r->shared = version == 0 ? r->h[VOCAB] > 0 : p[4 * NFIELD] != 0;
    if (version == 0 && r->h[VOCAB] < 0)
        r->h[VOCAB] = -r->h[VOCAB];
    r->at = version == 0 ? 4 * NFIELD : 256;
    for (int i = 0; i < NFIELD; i++)
        if (r->h[i] < 1 || r->h[i] > 1 << 24)
            return bn_fail(err, BN_ERR_DATA, "%s: no llama2.c file: %s is "
                           "%lld", r->file, fields[i], (long long)r->h[i]);
    if (r->h[LAYERS] > 1024 || r->h[DIM] % r->h[HEADS] != 0
        || r->h[HEADS] % r->h[KV_HEADS] != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: no llama2.c file: %lld layers, "
                       "dim %lld, %lld and %lld heads", r->file,
                       (long long)r->h[LAYERS], (long long)r->h[DIM],
                       (long long)r->h[HEADS], (long long)r->h[KV_HEADS]);
    r->ts->meta = json_object();
    for (int i = 0; i < NFIELD; i++)
        json_object_set_new(r->ts->meta, fields[i], json_integer(r->h[i]));
    json_object_set_new(r->ts->meta, "shared_classifier",
                        json_boolean(r->shared));
    return 0;
}

/* The next tensor; 'cols' 0: a vector. 'name' is taken. */
static int next(struct reader *r, char *name, int64_t rows, int64_t cols,
                struct bn_err *err)
{
    struct bn_named t = {.dtype = BN_F32, .ndim = cols > 0 ? 2 : 1,
                         .dims = {rows, cols}, .data = r->p + r->at,
                         .file = r->file};
    uint64_t bytes = (uint64_t)rows * (uint64_t)(cols > 0 ? cols : 1) * 4;

    t.name = bn_tensors_own_take(r->ts, name);
    if (bytes > r->len - r->at)
        return bn_fail(err, BN_ERR_DATA, "%s: ends in the middle of '%s': it "
                       "is cut short, or no llama2.c file", r->file, name);
    bn_tensors_add(r->ts, &t);
    r->at += bytes;
    return 0;
}

/* One kind of tensor of every layer. */
static int each_layer(struct reader *r, const char *name, int64_t rows,
                      int64_t cols, struct bn_err *err)
{
    for (int l = 0; l < (int)r->h[LAYERS]; l++)
        if (next(r, bn_asprintf("layers.%d.%s.weight", l, name), rows, cols,
                 err) < 0)
            return -1;
    return 0;
}

static int attention(struct reader *r, struct bn_err *err)
{
    int64_t dim = r->h[DIM], kv = dim / r->h[HEADS] * r->h[KV_HEADS];

    return each_layer(r, "attention.wq", dim, dim, err) < 0
                   || each_layer(r, "attention.wk", kv, dim, err) < 0
                   || each_layer(r, "attention.wv", kv, dim, err) < 0
                   || each_layer(r, "attention.wo", dim, dim, err) < 0
               ? -1
               : 0;
}

static int feed_forward(struct reader *r, struct bn_err *err)
{
    int64_t dim = r->h[DIM], hidden = r->h[HIDDEN];

    return each_layer(r, "feed_forward.w1", hidden, dim, err) < 0
                   || each_layer(r, "feed_forward.w2", dim, hidden, err) < 0
                   || each_layer(r, "feed_forward.w3", hidden, dim, err) < 0
               ? -1
               : 0;
}

static int one(struct reader *r, const char *name, int64_t rows,
               int64_t cols, struct bn_err *err)
{
    return next(r, bn_strdup(name), rows, cols, err);
}

static int version_0(struct reader *r, struct bn_err *err)
{
    int64_t dim = r->h[DIM], vocab = r->h[VOCAB];

    if (one(r, "tok_embeddings.weight", vocab, dim, err) < 0
        || each_layer(r, "attention_norm", dim, 0, err) < 0
        || attention(r, err) < 0
        || each_layer(r, "ffn_norm", dim, 0, err) < 0
        || feed_forward(r, err) < 0
        || one(r, "norm.weight", dim, 0, err) < 0)
        return -1;
    /* cosines and sines, [max_seq_len, head size / 2] each */
    uint64_t rope = (uint64_t)r->h[SEQ]
                    * (uint64_t)(r->h[DIM] / r->h[HEADS] / 2) * 8;
    if (rope > r->len - r->at)
        return bn_fail(err, BN_ERR_DATA, "%s: ends in the middle of the RoPE "
                       "table: it is cut short, or no llama2.c file",
                       r->file);
    r->at += rope;
    return r->shared ? 0 : one(r, "output.weight", vocab, dim, err);
}

static int version_1(struct reader *r, struct bn_err *err)
{
    int64_t dim = r->h[DIM], vocab = r->h[VOCAB];

    if (each_layer(r, "attention_norm", dim, 0, err) < 0
        || each_layer(r, "ffn_norm", dim, 0, err) < 0
        || one(r, "norm.weight", dim, 0, err) < 0
        || one(r, "tok_embeddings.weight", vocab, dim, err) < 0
        || attention(r, err) < 0 || feed_forward(r, err) < 0)
        return -1;
    return r->shared ? 0 : one(r, "output.weight", vocab, dim, err);
}

static int parse(struct bn_tensors *ts, const void *data, size_t len,
                 const char *name, struct bn_err *err)
{
    struct reader r = {.ts = ts, .p = data, .len = len};
    int version = 0;

    r.file = bn_tensors_own_take(ts, bn_strdup(name));
    if (len >= 8 && int_at(r.p) == 0x616b3432)
        version = int_at(r.p + 4);
    if (version != 0 && version != 1)
        return bn_fail(err, BN_ERR_DATA, "%s: llama2.c version %d is not "
                       "supported (known: 0 and 1)", name, version);
    if (len < (version == 0 ? 4 * NFIELD : 256))
        return bn_fail(err, BN_ERR_DATA, "%s: %zu bytes are no llama2.c file",
                       name, len);
    if (read_header(&r, version, err) < 0
        || (version == 0 ? version_0(&r, err) : version_1(&r, err)) < 0)
        return -1;
    if (r.at != len)
        return bn_fail(err, BN_ERR_DATA, "%s: %zu bytes after the last "
                       "tensor: no llama2.c file of version %d", name,
                       len - r.at, version);
    return bn_tensors_finish(ts, err);
}

int bn_llama2c_parse(struct bn_tensors *ts, const void *data, size_t len,
                     const char *name, struct bn_err *err)
{
    struct bn_tensors got = {0};

    if (parse(&got, data, len, name, err) < 0) {
        bn_tensors_close(&got);
        return -1;
    }
    *ts = got;
    return 0;
}

int bn_llama2c_open(struct bn_tensors *ts, const char *path,
                    struct bn_err *err)
{
    struct bn_tensors got = {0};
    struct bn_map m;

    if (bn_tensors_map(&got, path, &m, err) < 0
        || parse(&got, m.data, m.len, path, err) < 0) {
        bn_tensors_close(&got);
        return -1;
    }
    *ts = got;
    return 0;
}
