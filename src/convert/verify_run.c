#include "config.h"
#include "convert/verify_run.h"
#include "base/mem.h"
#include "ckpt/hf.h"
#include "convert/probe.h"
#include "convert/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char fixed_text[] =
    "Once upon a time, there was a little girl who lived in a small house "
    "near the park. One day she went outside to play with her dog. The sun "
    "was warm, and they ran and laughed until it was time to go home.";

enum { FEWEST = 8 }; /* tokens for an NLL to mean something */

struct run {
    const struct bn_verify *v;
    const struct bn_tensors *got;
    const struct bn_model_config *c;
    struct bn_ids ids;
    int n;
    bool words;         /* ids are of a text */
    float *src, *other; /* logits [n, vocab] */
    double nll;         /* of the folder */
    struct bn_err *err;
};

/* The text's ids, or arbitrary ones. */
static int choose_ids(struct run *r, const struct bn_tokenizer *t)
{
    const char *text = r->v->text != NULL ? r->v->text : fixed_text;
    int rc = 0;

    if (t != NULL) {
        struct bn_encoder *e = bn_encoder_create(t);

        rc = bn_encode(e, text, strlen(text), true, &r->ids, r->err);
        bn_encoder_destroy(e);
    }
    r->words = r->ids.n >= FEWEST;
    r->n = r->v->tokens;
    if (r->words && (size_t)r->n > r->ids.n)
        r->n = (int)r->ids.n;
    if (r->n > r->c->max_position)
        r->n = r->c->max_position;
    if (!r->words) {
        bn_grow(&r->ids.v, &r->ids.cap, (size_t)r->n, sizeof(*r->ids.v));
        for (int i = 0; i < r->n; i++)
            r->ids.v[i] = (int32_t)((uint32_t)i * 2654435761u >> 8)
                          % r->c->vocab_size;
    }
    return rc;
}

static int logits(const struct run *r, const struct bn_tensors *ts,
                  const struct bn_model_config *c,
                  const struct bn_probe_cut *cut, float *to)
{
    return bn_probe_logits(ts, c, cut, r->ids.v, r->n, to, r->err);
}

static double nll(const struct run *r, const float *x)
{
    return bn_probe_nll(x, r->c->vocab_size, r->ids.v, r->n);
}

/* Whether every value of the source is one of the folder's format too. */
static bool exact(const struct bn_verify *v)
{
    for (size_t i = 0; i < v->src->n; i++)
        if (v->src->item[i].dtype != v->dtype
            && !(v->dtype == BN_F32 && (v->src->item[i].dtype == BN_BF16
                                        || v->src->item[i].dtype == BN_F16)))
            return false;
    return true;
}

/* 'r->other' against 'r->src', the logits of 'what'. */
static int same_logits(struct run *r, const char *what, bool equal)
{
    size_t n = (size_t)r->n * (size_t)r->c->vocab_size;
    double kl = bn_probe_kl(r->src, r->other, r->c->vocab_size, r->n);

    if (isnan(kl) && r->v->flags & BN_CONVERT_ALLOW_NONFINITE) {
        bn_str_adds(r->v->report, "logits are not finite, which is "
                                  "allowed\n");
        return 0;
    }
    if (equal && memcmp(r->src, r->other, n * sizeof(float)) != 0)
        return bn_fail(r->err, BN_ERR_DATA, "logits of the new folder are "
                       "not those of %s", what);
    if (!(kl <= BN_MAX_KL))
        return bn_fail(r->err, BN_ERR_DATA, "the new folder does not compute "
                       "what %s does: mean KL %.3g nats over %d tokens "
                       "(limit %g), NLL %.3f against %.3f", what, kl, r->n,
                       BN_MAX_KL, nll(r, r->other), nll(r, r->src));
    if (equal)
        bn_str_addf(r->v->report, "logits of %d tokens are those of %s, bit "
                    "for bit\n", r->n, what);
    else
        bn_str_addf(r->v->report, "logits of %d tokens are those of %s: mean "
                    "KL %.2g nats, NLL %.4f against %.4f\n", r->n, what, kl,
                    nll(r, r->other), nll(r, r->src));
    return 0;
}

static int against_source(struct run *r)
{
    if (logits(r, r->v->src, r->v->c, NULL, r->src) < 0
        || logits(r, r->got, r->c, NULL, r->other) < 0)
        return -1;
    r->nll = nll(r, r->other);
    return same_logits(r, "the source", exact(r->v));
}

static int against_folder(struct run *r)
{
    const char *dir = r->v->reference;
    char *path = bn_path_join(dir, "config.json");
    struct bn_model_config c;
    struct bn_tensors ts = {0};
    int rc = -1;

    if (bn_model_config_load(&c, path, NULL, r->err) == 0
        && bn_safetensors_open(&ts, dir, r->err) == 0
        && bn_hf_check(&ts, dir, &c, NULL, r->err) == 0) {
        if (c.vocab_size != r->c->vocab_size)
            bn_fail(r->err, BN_ERR_DATA, "reference %s has %d rows of "
                    "embedding, the new folder %d", dir, c.vocab_size,
                    r->c->vocab_size);
        else if (logits(r, &ts, &c, NULL, r->src) == 0)
            rc = same_logits(r, dir, false);
    }
    bn_tensors_close(&ts);
    free(path);
    return rc;
}

/* The numbers of a JSON list; -1 if it is not one of 'n'. */
static int numbers(const json_t *list, size_t n, float *to)
{
    if (json_array_size(list) != n)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_array_get(list, i);

        if (!json_is_number(x))
            return -1;
        to[i] = (float)json_number_value(x);
    }
    return 0;
}

static int recorded_ids(struct run *r, const json_t *o)
{
    const json_t *list = json_object_get(o, "ids");

    r->n = (int)json_array_size(list);
    bn_grow(&r->ids.v, &r->ids.cap, (size_t)r->n + 1, sizeof(*r->ids.v));
    for (int i = 0; i < r->n; i++) {
        const json_t *x = json_array_get(list, (size_t)i);

        if (!json_is_integer(x) || json_integer_value(x) < 0
            || json_integer_value(x) >= r->c->vocab_size)
            r->n = 0;
        else
            r->ids.v[i] = (int32_t)json_integer_value(x);
    }
    if (r->n >= 2 && r->n <= r->c->max_position)
        return 0;
    return bn_fail(r->err, BN_ERR_DATA, "%s: 'ids' must be a list of 2 to %d "
                   "ids of the model", r->v->reference, r->c->max_position);
}

static int recorded(struct run *r, const json_t *o)
{
    const json_t *rows = json_object_get(o, "logits");
    const json_t *want = json_object_get(o, "nll");
    int vocab = r->c->vocab_size;

    if (rows == NULL && !json_is_number(want))
        return bn_fail(r->err, BN_ERR_DATA, "%s: needs 'logits' or 'nll'",
                       r->v->reference);
    if (logits(r, r->got, r->c, NULL, r->other) < 0)
        return -1;
    double got = nll(r, r->other), w = json_number_value(want);
    if (want != NULL && !(fabs(got - w) <= BN_MAX_KL))
        return bn_fail(r->err, BN_ERR_DATA, "NLL of %s is %.4f there, %.4f "
                       "for the new folder", r->v->reference, w, got);
    if (want != NULL)
        bn_str_addf(r->v->report, "NLL of %s is %.4f, %.4f for the new "
                    "folder\n", r->v->reference, w, got);
    if (rows == NULL)
        return 0;
    for (int i = 0; i < r->n; i++)
        if (json_array_size(rows) != (size_t)r->n
            || numbers(json_array_get(rows, (size_t)i), (size_t)vocab,
                       r->src + (size_t)i * (size_t)vocab) < 0)
            return bn_fail(r->err, BN_ERR_DATA, "%s: 'logits' must be a list "
                           "of %d lists of %d numbers", r->v->reference, r->n,
                           vocab);
    return same_logits(r, r->v->reference, false);
}

/* Has ids of its own: the run's buffers are made anew. */
static int against_record(struct run *r)
{
    struct run own = {.v = r->v, .got = r->got, .c = r->c, .err = r->err};
    json_t *o = bn_json_load(r->v->reference, r->err);
    int rc = -1;

    if (o != NULL && recorded_ids(&own, o) == 0) {
        size_t n = (size_t)own.n * (size_t)own.c->vocab_size;

        own.src = BN_NEWN(float, n);
        own.other = BN_NEWN(float, n);
        rc = recorded(&own, o);
        free(own.src);
        free(own.other);
    }
    bn_ids_release(&own.ids);
    json_decref(o);
    return rc;
}

/* The same weights, read in another way. */
static int one_wrong(struct run *r, const struct bn_probe_cut *cut,
                     const char *how, struct bn_str *line)
{
    if (logits(r, r->got, r->c, cut, r->src) < 0)
        return -1;
    double wrong = nll(r, r->src);
    if (!(wrong >= r->nll + BN_MIN_WORSE))
        return bn_fail(r->err, BN_ERR_DATA, "%s: NLL of the text is %.3f, "
                       "and %.3f with %s: the layout is wrong, or the model "
                       "is not trained (--allow-untrained)", r->v->where,
                       r->nll, wrong, how);
    bn_str_addf(line, "%s%s %.3f", line->len > 0 ? ", " : "", how, wrong);
    return 0;
}

static int wrong_cuts(struct run *r)
{
    size_t n = (size_t)(r->c->heads + 2 * r->c->kv_heads)
               * (size_t)r->c->head_dim;
    struct bn_probe_cut cut = {.swap_gate = true};
    int32_t *map = BN_NEWN(int32_t, n);
    struct bn_str line = {0};
    int rc = one_wrong(r, &cut, "gate and up swapped", &line);

    cut = (struct bn_probe_cut){.qkv = map};
    if (rc == 0 && bn_layout_other_pairs(r->v->l, r->c, map))
        rc = one_wrong(r, &cut, "heads in the other order for RoPE", &line);
    if (rc == 0 && bn_layout_other_fused(r->v->l, r->c, map))
        rc = one_wrong(r, &cut, "fused q, k, v in the other order", &line);
    if (rc == 0)
        bn_str_addf(r->v->report, "wrong readings are worse than NLL %.3f: "
                    "%s\n", r->nll, line.s);
    bn_str_release(&line);
    free(map);
    return rc;
}

/* Whether it predicts anything, and only when read as declared. */
static int makes_sense(struct run *r)
{
    double flat = log(r->c->vocab_size);

    if (!r->words) {
        bn_str_adds(r->v->report, "no tokenizer for the text: NLL and wrong "
                                  "readings were not checked\n");
        return 0;
    }
    if (isnan(r->nll) && r->v->flags & BN_CONVERT_ALLOW_NONFINITE)
        return 0; /* same_logits said so */
    if (r->v->flags & BN_CONVERT_ALLOW_UNTRAINED) {
        bn_str_addf(r->v->report, "NLL of the text is %.3f (ln of the "
                    "vocabulary: %.3f); an untrained model is allowed\n",
                    r->nll, flat);
        return 0;
    }
    if (!(r->nll < 0.8 * flat))
        return bn_fail(r->err, BN_ERR_DATA, "%s: NLL of the text is %.3f, "
                       "near ln of the vocabulary, %.3f: the model predicts "
                       "nothing: wrong layout or config, weights missing, or "
                       "not trained (--allow-untrained)", r->v->where, r->nll,
                       flat);
    return wrong_cuts(r);
}

int bn_verify_run(const struct bn_verify *v, const struct bn_tensors *got,
                  const struct bn_model_config *c,
                  const struct bn_tokenizer *t, struct bn_err *err)
{
    struct run r = {.v = v, .got = got, .c = c, .err = err};
    int rc = choose_ids(&r, t);
    size_t n = (size_t)(r.n > 0 ? r.n : 1) * (size_t)c->vocab_size;

    r.src = malloc(n * sizeof(float));
    r.other = malloc(n * sizeof(float));
    if (rc == 0 && (r.src == NULL || r.other == NULL))
        rc = bn_fail(err, BN_ERR_AGAIN, "no memory for %zu logits", n);
    if (rc == 0)
        rc = against_source(&r);
    if (rc == 0 && v->reference != NULL)
        rc = bn_is_dir(v->reference) ? against_folder(&r)
                                     : against_record(&r);
    if (rc == 0)
        rc = makes_sense(&r);
    free(r.src);
    free(r.other);
    bn_ids_release(&r.ids);
    return rc;
}
