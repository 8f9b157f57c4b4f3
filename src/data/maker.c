/* Plain text to tokens; the rules of boundary and length. */
#include "config.h"
#include "data/maker_impl.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct bn_maker *bn_maker_create(const struct bn_recipe *r)
{
    struct bn_maker *m = BN_NEW(struct bn_maker);

    m->r = r;
    m->enc = bn_encoder_create(r->t);
    return m;
}

void bn_maker_destroy(struct bn_maker *m)
{
    if (m == NULL)
        return;
    bn_encoder_destroy(m->enc);
    bn_ids_release(&m->full[0]);
    bn_ids_release(&m->full[1]);
    bn_ids_release(&m->part);
    for (int i = 0; i < 3; i++)
        bn_str_release(&m->text[i]);
    free(m);
}

void bn_made_release(struct bn_made *x)
{
    bn_ids_release(&x->ids);
    bn_ids_release(&x->chosen);
    bn_ids_release(&x->rejected);
    free(x->mask);
    *x = (struct bn_made){0};
}

const char *bn_maker_why(const struct bn_maker *m)
{
    return m->why;
}

enum bn_drop bn_maker_bad(struct bn_maker *m, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(m->why, sizeof(m->why), fmt, ap);
    va_end(ap);
    return BN_DROP_BAD_ROW;
}

bool bn_maker_encode(struct bn_maker *m, const char *s, size_t n,
                     struct bn_ids *ids)
{
    ids->n = 0;
    if (bn_encode(m->enc, s, n, false, ids, &m->err) == 0)
        return true;
    bn_maker_bad(m, "%s", m->err.text);
    return false;
}

void bn_ids_add(struct bn_ids *to, const int32_t *v, size_t n)
{
    bn_grow(&to->v, &to->cap, to->n + n, sizeof(*to->v));
    if (n > 0)
        memcpy(to->v + to->n, v, n * sizeof(*v));
    to->n += n;
}

size_t bn_ids_shared(const struct bn_ids *a, const struct bn_ids *b)
{
    size_t n = a->n < b->n ? a->n : b->n, i = 0;

    while (i < n && a->v[i] == b->v[i])
        i++;
    return i;
}

void bn_made_mask(struct bn_made *x, size_t from, uint8_t value)
{
    if (from >= x->ids.n)
        return;
    bn_grow(&x->mask, &x->mask_cap, x->ids.n, 1);
    memset(x->mask + from, value, x->ids.n - from);
}

/* Tokens at the front that a cut keeps: BOS. */
static size_t lead(const struct bn_maker *m, const struct bn_ids *ids,
                   bool chat)
{
    if (!chat)
        return m->r->bos.n;
    return ids->n > 0 && ids->v[0] == bn_tokenizer_bos(m->r->t);
}

static void cut_prompt(struct bn_maker *m, struct bn_made *x, bool chat)
{
    size_t max = (size_t)m->r->o->max_prompt_length;
    size_t keep = lead(m, &x->ids, chat);

    if (max == 0 || x->ids.n <= max)
        return;
    if (keep > max)
        keep = max;
    if (!m->r->o->keep_start)
        memmove(x->ids.v + keep, x->ids.v + x->ids.n - (max - keep),
                (max - keep) * sizeof(*x->ids.v));
    x->ids.n = max;
    x->cut = true;
}

static void cut_to(struct bn_made *x, struct bn_ids *ids, size_t max)
{
    if (ids->n > max) {
        ids->n = max;
        x->cut = true;
    }
}

static void add_eos(const struct bn_maker *m, struct bn_ids *ids)
{
    int32_t eos = m->r->eos;

    if (eos >= 0 && (ids->n == 0 || ids->v[ids->n - 1] != eos))
        bn_ids_add(ids, &eos, 1);
}

static bool two_bos(const struct bn_maker *m, const struct bn_ids *text,
                    bool chat)
{
    int32_t bos = bn_tokenizer_bos(m->r->t);

    if (!chat)
        return m->r->bos.n > 0 && text->n > 0
               && text->v[0] == m->r->bos.v[m->r->bos.n - 1];
    return bos >= 0 && text->n > 1 && text->v[0] == bos && text->v[1] == bos;
}

enum bn_drop bn_maker_finish(struct bn_maker *m, struct bn_made *x,
                             size_t nprompt)
{
    size_t max = (size_t)m->r->o->max_length;

    if (max > 0 && nprompt >= max)
        return BN_DROP_OVER_LONG;
    if (max > 0)
        cut_to(x, &x->ids, max);
    if (x->ids.n > 0)
        x->mask[0] = 0;
    return x->ids.n > 0 && memchr(x->mask, 1, x->ids.n) != NULL
               ? BN_KEPT
               : BN_DROP_NO_TARGET;
}

/* The limits of a pair whose whole answers are known. */
static enum bn_drop finish_pair(struct bn_maker *m, struct bn_made *x,
                                bool chat)
{
    size_t max = (size_t)m->r->o->max_length;

    if (x->ids.n == 0)
        return BN_DROP_EMPTY_PROMPT;
    cut_prompt(m, x, chat);
    if (max > 0 && x->ids.n >= max)
        return BN_DROP_OVER_LONG;
    if (max > 0) {
        cut_to(x, &x->chosen, max - x->ids.n);
        cut_to(x, &x->rejected, max - x->ids.n);
    }
    if (x->chosen.n == x->rejected.n
        && bn_ids_shared(&x->chosen, &x->rejected) == x->chosen.n)
        return BN_DROP_EQUAL;
    return BN_KEPT;
}

enum bn_drop bn_maker_answers(struct bn_maker *m, struct bn_made *x,
                              struct bn_text prompt,
                              const struct bn_text *whole, int n, bool chat)
{
    struct bn_ids *answer[2] = {&x->chosen, &x->rejected};
    size_t shared;

    if (!bn_maker_encode(m, prompt.s, prompt.n, &m->part))
        return BN_DROP_BAD_ROW;
    shared = m->part.n;
    for (int i = 0; i < n; i++) {
        if (!bn_maker_encode(m, whole[i].s, whole[i].n, &m->full[i]))
            return BN_DROP_BAD_ROW;
        size_t k = bn_ids_shared(&m->part, &m->full[i]);
        shared = k < shared ? k : shared;
    }
    if (two_bos(m, &m->full[0], chat))
        return BN_DROP_TWO_BOS;
    x->ids.n = 0;
    if (!chat)
        bn_ids_add(&x->ids, m->r->bos.v, m->r->bos.n);
    bn_ids_add(&x->ids, m->full[0].v, shared);
    for (int i = 0; i < n; i++) {
        answer[i]->n = 0;
        if (m->full[i].n == shared)
            return BN_DROP_NO_ANSWER;
        bn_ids_add(answer[i], m->full[i].v + shared, m->full[i].n - shared);
        if (!chat)
            add_eos(m, answer[i]);
    }
    if (n == 2)
        return finish_pair(m, x, chat);
    cut_prompt(m, x, chat);
    size_t nprompt = x->ids.n;
    bn_made_mask(x, 0, m->r->o->completion_only_loss == BN_CHOICE_NO);
    bn_ids_add(&x->ids, x->chosen.v, x->chosen.n);
    bn_made_mask(x, nprompt, 1);
    return bn_maker_finish(m, x, nprompt);
}

static enum bn_drop want_string(struct bn_maker *m, const struct bn_row *row,
                                enum bn_col c, struct bn_text *t)
{
    const struct bn_field *f = &row->f[c];

    if (f->type == BN_FIELD_ABSENT)
        return bn_maker_bad(m, "no '%s'", m->r->name[c]);
    if (f->type != BN_FIELD_STRING)
        return bn_maker_bad(m, "'%s' is not a string", m->r->name[c]);
    *t = (struct bn_text){f->s, f->n};
    return BN_KEPT;
}

/* text[i] = prompt + answer. */
static struct bn_text join(struct bn_maker *m, int i, struct bn_text prompt,
                           struct bn_text answer)
{
    struct bn_str *b = &m->text[i];

    bn_str_clear(b);
    bn_str_add(b, prompt.s, prompt.n);
    bn_str_add(b, answer.s, answer.n);
    return (struct bn_text){b->s, b->len};
}

static enum bn_drop text_row(struct bn_maker *m, const struct bn_row *row,
                             struct bn_made *x)
{
    struct bn_text t = {0};

    if (want_string(m, row, BN_COL_TEXT, &t) != BN_KEPT)
        return BN_DROP_BAD_ROW;
    if (t.n == 0)
        return BN_DROP_NO_TARGET;
    x->ids.n = 0;
    bn_ids_add(&x->ids, m->r->bos.v, m->r->bos.n);
    if (bn_encode(m->enc, t.s, t.n, false, &x->ids, &m->err) < 0)
        return bn_maker_bad(m, "%s", m->err.text);
    struct bn_ids own = {x->ids.v + m->r->bos.n, x->ids.n - m->r->bos.n, 0};
    if (two_bos(m, &own, false))
        return BN_DROP_TWO_BOS;
    add_eos(m, &x->ids);
    bn_made_mask(x, 0, 1);
    return bn_maker_finish(m, x, 0);
}

/* One turn of several, encoded by itself; BOS only in front of the first. */
static enum bn_drop add_turn(struct bn_maker *m, struct bn_made *x,
                             struct bn_text prompt, struct bn_text answer)
{
    struct bn_text whole = join(m, 0, prompt, answer);
    size_t shared, from;

    if (!bn_maker_encode(m, prompt.s, prompt.n, &m->part)
        || !bn_maker_encode(m, whole.s, whole.n, &m->full[0]))
        return BN_DROP_BAD_ROW;
    if (x->ids.n == 0) {
        if (two_bos(m, &m->full[0], false))
            return BN_DROP_TWO_BOS;
        bn_ids_add(&x->ids, m->r->bos.v, m->r->bos.n);
        bn_made_mask(x, 0, 0);
    }
    shared = bn_ids_shared(&m->part, &m->full[0]);
    from = x->ids.n;
    bn_ids_add(&x->ids, m->full[0].v, shared);
    bn_made_mask(x, from, m->r->o->completion_only_loss == BN_CHOICE_NO);
    from = x->ids.n;
    bn_ids_add(&x->ids, m->full[0].v + shared, m->full[0].n - shared);
    add_eos(m, &x->ids);
    bn_made_mask(x, from, 1);
    return BN_KEPT;
}

/* prompt and completion are lists of strings: the turns of a dialogue. */
static enum bn_drop turns_row(struct bn_maker *m, const struct bn_row *row,
                              struct bn_made *x)
{
    const struct bn_field *p = &row->f[BN_COL_PROMPT];
    const struct bn_field *c = &row->f[BN_COL_COMPLETION];
    json_t *a = json_loadb(p->s, p->n, JSON_ALLOW_NUL, NULL);
    json_t *b = json_loadb(c->s, c->n, JSON_ALLOW_NUL, NULL);
    enum bn_drop drop = BN_KEPT;
    size_t n = json_array_size(a);

    if (!json_is_array(a) || !json_is_array(b) || n != json_array_size(b))
        drop = bn_maker_bad(m, "'%s' and '%s' are not lists of one length",
                            m->r->name[BN_COL_PROMPT],
                            m->r->name[BN_COL_COMPLETION]);
    x->ids.n = 0;
    for (size_t i = 0; drop == BN_KEPT && i < n; i++) {
        json_t *q = json_array_get(a, i), *r = json_array_get(b, i);

        if (!json_is_string(q) || !json_is_string(r)) {
            drop = bn_maker_bad(m, "a turn is not a string");
            break;
        }
        struct bn_text prompt = {json_string_value(q), json_string_length(q)};
        struct bn_text answer = {json_string_value(r), json_string_length(r)};
        drop = answer.n == 0 ? BN_DROP_NO_ANSWER
                             : add_turn(m, x, prompt, answer);
    }
    json_decref(a);
    json_decref(b);
    if (drop == BN_KEPT && n == 0)
        drop = BN_DROP_NO_TARGET;
    return drop == BN_KEPT ? bn_maker_finish(m, x, 0) : drop;
}

static enum bn_drop plain_row(struct bn_maker *m, const struct bn_row *row,
                              struct bn_made *x)
{
    struct bn_text prompt = {0}, answer = {0}, whole;

    if (row->f[BN_COL_PROMPT].type == BN_FIELD_ARRAY)
        return turns_row(m, row, x);
    if (want_string(m, row, BN_COL_PROMPT, &prompt) != BN_KEPT
        || want_string(m, row, BN_COL_COMPLETION, &answer) != BN_KEPT)
        return BN_DROP_BAD_ROW;
    if (answer.n == 0)
        return BN_DROP_NO_ANSWER;
    whole = join(m, 0, prompt, answer);
    return bn_maker_answers(m, x, prompt, &whole, 1, false);
}

static enum bn_drop pair_of(struct bn_maker *m, struct bn_made *x,
                            struct bn_text prompt, struct bn_text chosen,
                            struct bn_text rejected)
{
    if (chosen.n == 0 || rejected.n == 0)
        return BN_DROP_NO_ANSWER;
    if (chosen.n == rejected.n && memcmp(chosen.s, rejected.s, chosen.n) == 0)
        return BN_DROP_EQUAL;
    struct bn_text whole[2] = {join(m, 0, prompt, chosen),
                               join(m, 1, prompt, rejected)};
    return bn_maker_answers(m, x, prompt, whole, 2, false);
}

static enum bn_drop pref_row(struct bn_maker *m, const struct bn_row *row,
                             struct bn_made *x)
{
    struct bn_text p = {0}, w = {0}, l = {0};

    if (want_string(m, row, BN_COL_PROMPT, &p) != BN_KEPT
        || want_string(m, row, BN_COL_CHOSEN, &w) != BN_KEPT
        || want_string(m, row, BN_COL_REJECTED, &l) != BN_KEPT)
        return BN_DROP_BAD_ROW;
    return pair_of(m, x, p, w, l);
}

/* One past the last "Assistant:" that begins a line; 0 if there is none. */
static size_t last_turn(struct bn_text t)
{
    static const char mark[] = "Assistant:";
    size_t len = sizeof(mark) - 1;

    for (size_t i = t.n >= len ? t.n - len + 1 : 0; i-- > 0;) {
        if (memcmp(t.s + i, mark, len) == 0 && (i == 0 || t.s[i - 1] == '\n'))
            return i + len;
    }
    return 0;
}

static enum bn_drop transcript_row(struct bn_maker *m,
                                   const struct bn_row *row,
                                   struct bn_made *x)
{
    struct bn_text w = {0}, l = {0};

    if (want_string(m, row, BN_COL_CHOSEN, &w) != BN_KEPT
        || want_string(m, row, BN_COL_REJECTED, &l) != BN_KEPT)
        return BN_DROP_BAD_ROW;
    size_t at = last_turn(w);
    if (at == 0 || last_turn(l) == 0)
        return bn_maker_bad(m, "a transcript without a line that begins with "
                            "'Assistant:'");
    if (last_turn(l) != at || memcmp(w.s, l.s, at) != 0)
        return bn_maker_bad(m, "the transcripts differ before the last "
                            "'Assistant:'");
    return pair_of(m, x, (struct bn_text){w.s, at},
                   (struct bn_text){w.s + at, w.n - at},
                   (struct bn_text){l.s + at, l.n - at});
}

/* The prompt of Stanford Alpaca, into text[2]. */
static enum bn_drop alpaca_prompt(struct bn_maker *m,
                                  const struct bn_row *row,
                                  struct bn_text *prompt)
{
    struct bn_str *b = &m->text[2];
    struct bn_text what = {0}, input = {0};

    if (want_string(m, row, BN_COL_INSTRUCTION, &what) != BN_KEPT
        || (row->f[BN_COL_INPUT].type != BN_FIELD_ABSENT
            && want_string(m, row, BN_COL_INPUT, &input) != BN_KEPT))
        return BN_DROP_BAD_ROW;
    bn_str_clear(b);
    bn_str_addf(b, "Below is an instruction that describes a task%s. Write a "
                "response that appropriately completes the request.\n\n"
                "### Instruction:\n", input.n > 0
                ? ", paired with an input that provides further context" : "");
    bn_str_add(b, what.s, what.n);
    if (input.n > 0) {
        bn_str_adds(b, "\n\n### Input:\n");
        bn_str_add(b, input.s, input.n);
    }
    bn_str_adds(b, "\n\n### Response:\n");
    *prompt = (struct bn_text){b->s, b->len};
    return BN_KEPT;
}

static enum bn_drop alpaca_row(struct bn_maker *m, const struct bn_row *row,
                               struct bn_made *x)
{
    struct bn_text prompt = {0}, answer = {0}, whole;

    if (alpaca_prompt(m, row, &prompt) != BN_KEPT
        || want_string(m, row, BN_COL_OUTPUT, &answer) != BN_KEPT)
        return BN_DROP_BAD_ROW;
    if (answer.n == 0)
        return BN_DROP_NO_ANSWER;
    whole = join(m, 0, prompt, answer);
    return bn_maker_answers(m, x, prompt, &whole, 1, false);
}

static enum bn_drop pref_alpaca_row(struct bn_maker *m,
                                    const struct bn_row *row,
                                    struct bn_made *x)
{
    struct bn_text prompt = {0}, w = {0}, l = {0};

    if (alpaca_prompt(m, row, &prompt) != BN_KEPT
        || want_string(m, row, BN_COL_CHOSEN, &w) != BN_KEPT
        || want_string(m, row, BN_COL_REJECTED, &l) != BN_KEPT)
        return BN_DROP_BAD_ROW;
    return pair_of(m, x, prompt, w, l);
}

enum bn_drop bn_maker_row(struct bn_maker *m, const struct bn_row *row,
                          struct bn_made *x)
{
    x->cut = false;
    switch (m->r->form) {
    case BN_FORM_TEXT:
        return text_row(m, row, x);
    case BN_FORM_PLAIN:
        return plain_row(m, row, x);
    case BN_FORM_ALPACA:
        return alpaca_row(m, row, x);
    case BN_FORM_PREF_PLAIN:
        return pref_row(m, row, x);
    case BN_FORM_PREF_TRANSCRIPT:
        return transcript_row(m, row, x);
    case BN_FORM_PREF_ALPACA:
        return pref_alpaca_row(m, row, x);
    default:
        return bn_maker_chat(m, row, x);
    }
}
