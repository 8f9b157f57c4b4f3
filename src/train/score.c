#include "config.h"
#include "train/score.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 3 };
static const char *const part_names[PARTS] = {"prompt", "chosen", "rejected"};

struct row {
    bool pair;
    struct bn_ids part[PARTS]; /* one sequence: part 0 alone */
    uint8_t *mask;
};

struct scorer {
    struct bn_session s;
    struct bn_encoder *enc;
    const char *file;
    long line;
    struct bn_str out;
};

static int bad(const struct scorer *x, struct bn_err *err, const char *what)
{
    return bn_fail(err, BN_ERR_DATA, "%s:%ld: %s", x->file, x->line, what);
}

static int read_ids(struct scorer *x, const json_t *v, struct bn_ids *ids,
                    struct bn_err *err)
{
    json_t *e;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)v, i, e)
    {
        json_int_t id = json_integer_value(e);

        if (!json_is_integer(e))
            return bn_fail(err, BN_ERR_DATA, "%s:%ld: id %zu is not an "
                           "integer", x->file, x->line, i + 1);
        if (id < 0 || id >= x->s.cfg.vocab_size)
            return bn_fail(err, BN_ERR_DATA, "%s:%ld: id %zu is %lld, not in "
                           "the model's vocabulary of %d", x->file, x->line,
                           i + 1, (long long)id, x->s.cfg.vocab_size);
        bn_grow(&ids->v, &ids->cap, ids->n + 1, sizeof(*ids->v));
        ids->v[ids->n++] = (int32_t)id;
    }
    return 0;
}

/* Text or an array of ids. */
static int read_part(struct scorer *x, const json_t *v, bool special,
                     struct bn_ids *ids, struct bn_err *err)
{
    if (json_is_array(v))
        return read_ids(x, v, ids, err);
    if (!json_is_string(v))
        return bad(x, err, "expected text or an array of ids");
    if (bn_encode(x->enc, json_string_value(v), json_string_length(v),
                  special, ids, err) < 0)
        return bn_err_prefix(err, "%s:%ld", x->file, x->line);
    return 0;
}

static int read_mask(struct scorer *x, const json_t *v, struct row *r,
                     struct bn_err *err)
{
    size_t n = r->part[0].n;

    r->mask = bn_malloc(n);
    memset(r->mask, 1, n);
    if (v != NULL && !json_is_array(v))
        return bad(x, err, "mask is not an array");
    if (v != NULL && json_array_size(v) != n)
        return bad(x, err, "mask and ids differ in length");
    for (size_t i = 0; v != NULL && i < n; i++)
        r->mask[i] = json_integer_value(json_array_get(v, i)) != 0;
    r->mask[0] = 0;
    if (memchr(r->mask, 1, n) == NULL)
        return bad(x, err, "nothing to score: a sequence needs two tokens");
    return 0;
}

static int read_row(struct scorer *x, const json_t *o, struct row *r,
                    struct bn_err *err)
{
    const json_t *v = json_object_get(o, "ids");

    if (v == NULL)
        v = json_object_get(o, "text");
    if (v != NULL) {
        if (read_part(x, v, true, &r->part[0], err) < 0)
            return -1;
        if (r->part[0].n < 2)
            return bad(x, err, "nothing to score: a sequence needs two tokens");
        return read_mask(x, json_object_get(o, "mask"), r, err);
    }
    r->pair = true;
    for (int k = 0; k < PARTS; k++) {
        v = json_object_get(o, part_names[k]);
        if (v == NULL)
            return bad(x, err, "expected 'ids', 'text', or 'prompt', 'chosen'"
                               " and 'rejected'");
        if (read_part(x, v, k == 0, &r->part[k], err) < 0)
            return -1;
        if (r->part[k].n == 0)
            return bad(x, err, "a part of the pair is empty");
    }
    return 0;
}

static void release_row(struct row *r)
{
    for (int k = 0; k < PARTS; k++)
        bn_ids_release(&r->part[k]);
    free(r->mask);
}

/* One object: the targets of sequence 'seq' in order. */
static void put_seq(struct bn_str *out, const struct bn_batch *b,
                    const float *logp, int seq)
{
    double sum = 0;
    int n = 0;

    bn_str_adds(out, "\"targets\":[");
    for (int e = 0; e < b->nscore; e++)
        if (b->score[e].seq == seq)
            bn_str_addf(out, "%s%d", n++ > 0 ? "," : "", b->score[e].target);
    bn_str_adds(out, "],\"logp\":[");
    n = 0;
    for (int e = 0; e < b->nscore; e++)
        if (b->score[e].seq == seq) {
            bn_str_addf(out, "%s%.9g", n++ > 0 ? "," : "", (double)logp[e]);
            sum += (double)logp[e];
        }
    bn_str_addf(out, "],\"sum\":%.12g,\"count\":%d", sum, n);
}

static int score_batch(struct scorer *x, const struct bn_batch *b, bool pair,
                       struct bn_err *err)
{
    struct bn_trainer *t = x->s.trainer;
    float *logp = BN_NEWN(float, (size_t)b->nscore);
    struct bn_head_job job = {.score_logp = logp};
    int rc = bn_model_forward(t->model, &t->acts[0], b, err);

    if (rc == 0)
        rc = bn_head_run(t->model, &t->head, b, t->acts[0].y_f, NULL, &job, err);
    if (rc == 0) {
        bn_str_addf(&x->out, "{\"row\":%ld,", x->line);
        if (!pair)
            put_seq(&x->out, b, logp, 0);
        for (int k = 0; pair && k < PARTS; k++) {
            bn_str_addf(&x->out, "%s\"%s\":{", k > 0 ? "," : "",
                        part_names[k]);
            put_seq(&x->out, b, logp, k);
            bn_str_addc(&x->out, '}');
        }
        bn_str_adds(&x->out, "}\n");
    }
    free(logp);
    return rc;
}

static int score_row(struct scorer *x, const struct row *r,
                     struct bn_err *err)
{
    struct bn_example ex = {
        .ids = r->part[0].v,
        .n = (int32_t)r->part[0].n,
        .mask = r->mask,
        .chosen = r->part[1].v,
        .nchosen = (int32_t)r->part[1].n,
        .rejected = r->part[2].v,
        .nrejected = (int32_t)r->part[2].n,
    };
    int n = ex.n + ex.nchosen + ex.nrejected;
    struct bn_batch b;
    int rc;

    if (n > x->s.trainer->sizes.shape.max_tokens)
        return bn_fail(err, BN_ERR_DATA, "%s:%ld: %d tokens, more than the %d "
                       "that max_length allows for", x->file, x->line, n,
                       x->s.trainer->sizes.shape.max_tokens);
    if (bn_batch_build(&b, r->pair ? 3 : 1, &ex, 1, BN_BATCH_SCORE_PROMPT,
                       err) < 0)
        return -1;
    rc = score_batch(x, &b, r->pair, err);
    if (rc < 0 && err->code == BN_ERR_NUMERIC)
        bn_err_prefix(err, "%s:%ld", x->file, x->line);
    bn_batch_release(&b);
    return rc;
}

static int score_line(struct scorer *x, const char *text, size_t len,
                      struct bn_err *err)
{
    char where[512];
    struct row r = {0};
    int rc = -1;

    snprintf(where, sizeof(where), "%s line %ld", x->file, x->line);
    json_t *o = bn_json_parse(text, len, where, err);
    if (o != NULL && !json_is_object(o))
        bad(x, err, "expected an object");
    else if (o != NULL && read_row(x, o, &r, err) == 0)
        rc = score_row(x, &r, err);
    release_row(&r);
    json_decref(o);
    return rc;
}

static int score_file(struct scorer *x, struct bn_err *err)
{
    struct bn_map map;
    int rc = 0;

    if (bn_map_open(&map, x->file, err) < 0)
        return -1;
    for (size_t at = 0; rc == 0 && at < map.len;) {
        const char *line = map.data + at;
        const char *nl = memchr(line, '\n', map.len - at);
        size_t len = nl != NULL ? (size_t)(nl - line) : map.len - at;

        x->line++;
        if (len > 0)
            rc = score_line(x, line, len, err);
        at += len + 1;
    }
    if (rc == 0 && x->out.len == 0)
        rc = bn_fail(err, BN_ERR_DATA, "%s: no row to score", x->file);
    bn_map_close(&map);
    return rc;
}

int bn_score_run(const struct bn_run *run, const char *in, const char *out,
                 struct bn_err *err)
{
    struct scorer x = {.file = in};
    int max = (int)run->data.max_length;
    /* A pair holds its prompt once and two answers. */
    int rc = bn_session_open(&x.s, run, BN_SESSION_ALONE, 2 * max, err);

    if (rc < 0)
        return -1;
    x.enc = bn_encoder_create(x.s.tokenizer);
    rc = score_file(&x, err);
    if (rc == 0 && out != NULL)
        rc = bn_file_write(out, x.out.s != NULL ? x.out.s : "", x.out.len,
                           err);
    else if (rc == 0 && x.out.len > 0)
        fwrite(x.out.s, 1, x.out.len, stdout);
    bn_encoder_destroy(x.enc);
    bn_str_release(&x.out);
    bn_session_close(&x.s, rc < 0);
    return rc;
}
