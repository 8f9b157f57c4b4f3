/* Rows that go through the chat template. */
#include "config.h"
#include "data/maker_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static enum bn_drop load(struct bn_maker *m, const struct bn_row *row,
                         enum bn_col c, json_t **out)
{
    const struct bn_field *f = &row->f[c];
    json_error_t e;

    *out = NULL;
    if (f->type == BN_FIELD_ABSENT)
        return BN_KEPT;
    if (f->type != BN_FIELD_ARRAY)
        return bn_maker_bad(m, "'%s' is not a list", m->r->name[c]);
    *out = json_loadb(f->s, f->n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES,
                      &e);
    return *out != NULL ? BN_KEPT
                        : bn_maker_bad(m, "'%s': %s", m->r->name[c], e.text);
}

static const char *role_of(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));

    return role != NULL ? role : "";
}

static enum bn_drop load_messages(struct bn_maker *m,
                                  const struct bn_row *row, enum bn_col c,
                                  json_t **out)
{
    size_t i;
    json_t *one;

    if (load(m, row, c, out) != BN_KEPT)
        return BN_DROP_BAD_ROW;
    if (*out == NULL)
        return bn_maker_bad(m, "no '%s'", m->r->name[c]);
    if (json_array_size(*out) == 0)
        return bn_maker_bad(m, "'%s' is empty", m->r->name[c]);
    json_array_foreach(*out, i, one) {
        if (*role_of(one) == '\0')
            return bn_maker_bad(m, "message %zu of '%s' has no role", i + 1,
                                m->r->name[c]);
    }
    return BN_KEPT;
}

static json_t *message(const char *role, const char *s, size_t n)
{
    return json_pack("{s:s,s:s%}", "role", role, "content", s, n);
}

/* Put the system column in front, unless a system message is there. */
static void add_system(const struct bn_row *row, json_t *messages)
{
    const struct bn_field *f = &row->f[BN_COL_SYSTEM];

    if (f->type == BN_FIELD_STRING && f->n > 0
        && strcmp(role_of(json_array_get(messages, 0)), "system") != 0)
        json_array_insert_new(messages, 0, message("system", f->s, f->n));
}

/* ShareGPT's {from, value} as {role, content}. */
static enum bn_drop from_sharegpt(struct bn_maker *m, const json_t *in,
                                  json_t **out)
{
    static const char *const role[][2] = {
        {"human", "user"}, {"user", "user"}, {"gpt", "assistant"},
        {"assistant", "assistant"}, {"system", "system"}, {"tool", "tool"},
        {"observation", "tool"}};
    size_t i, k;
    json_t *one;

    *out = json_array();
    json_array_foreach(in, i, one) {
        const char *from = json_string_value(json_object_get(one, "from"));
        json_t *value = json_object_get(one, "value");

        if (from == NULL || !json_is_string(value))
            return bn_maker_bad(m, "turn %zu has no 'from' or no 'value'",
                                i + 1);
        for (k = 0; k < BN_COUNT(role); k++) {
            if (strcmp(from, role[k][0]) == 0)
                break;
        }
        if (k == BN_COUNT(role))
            return bn_maker_bad(m, "turn %zu is from '%s'; known are human, "
                                "gpt, system and tool", i + 1, from);
        json_array_append_new(*out, message(role[k][1],
                                            json_string_value(value),
                                            json_string_length(value)));
    }
    return json_array_size(*out) > 0 ? BN_KEPT
                                     : bn_maker_bad(m, "no turn");
}

static struct bn_chat_args chat_args(const struct bn_maker *m,
                                     const json_t *messages,
                                     const json_t *tools)
{
    const struct bn_tokenizer *t = m->r->t;

    return (struct bn_chat_args){
        .messages = messages,
        .tools = tools,
        .bos_token = bn_tokenizer_special(t, "bos_token"),
        .eos_token = bn_tokenizer_special(t, "eos_token"),
        .pad_token = bn_tokenizer_special(t, "pad_token"),
        .unk_token = bn_tokenizer_special(t, "unk_token"),
    };
}

/* text[i] = the messages rendered. */
static enum bn_drop render(struct bn_maker *m, int i, const json_t *messages,
                           const json_t *tools, bool prompt,
                           struct bn_text *t)
{
    struct bn_chat_args a = chat_args(m, messages, tools);

    a.add_generation_prompt = prompt;
    bn_str_clear(&m->text[i]);
    if (bn_chat_render(m->r->chat, &a, &m->text[i], NULL, NULL, &m->err) < 0)
        return bn_maker_bad(m, "%s", m->err.text);
    *t = (struct bn_text){m->text[i].len > 0 ? m->text[i].s : "",
                          m->text[i].len};
    return BN_KEPT;
}

/* Mask the spans of text[0], whose tokens are x->ids. Encoded piece by piece
 * the text has mostly the same tokens, as special ones stand at the bounds;
 * where it has not, a bound lies where the tokens of the text up to it part
 * from those of the whole. */
static enum bn_drop mask_spans(struct bn_maker *m, struct bn_made *x,
                               const struct bn_span *span, size_t n)
{
    const struct bn_str *t = &m->text[0];
    size_t *bound = BN_NEWN(size_t, 2 * n + 1);
    size_t at = 0;
    bool ok = true;

    m->part.n = 0;
    for (size_t i = 0; ok && i <= 2 * n; i++) {
        size_t end = i == 2 * n ? t->len
                     : i % 2 == 0 ? span[i / 2].begin : span[i / 2].end;

        ok = bn_encode(m->enc, t->s + at, end - at, false, &m->part, &m->err)
             == 0;
        bound[i] = m->part.n;
        at = end;
    }
    if (ok && (m->part.n != x->ids.n
               || bn_ids_shared(&m->part, &x->ids) != x->ids.n)) {
        for (size_t i = 0; ok && i < 2 * n; i++) {
            size_t end = i % 2 == 0 ? span[i / 2].begin : span[i / 2].end;

            ok = bn_maker_encode(m, t->s, end, &m->part);
            bound[i] = bn_ids_shared(&m->part, &x->ids);
        }
    }
    bn_made_mask(x, 0, 0);
    for (size_t i = 0; ok && i < n; i++) {
        if (bound[2 * i] < bound[2 * i + 1])
            memset(x->mask + bound[2 * i], 1, bound[2 * i + 1] - bound[2 * i]);
    }
    free(bound);
    return ok ? BN_KEPT : bn_maker_bad(m, "%s", m->err.text);
}

/* prompt + each of n answers (lists of messages). */
static enum bn_drop answers(struct bn_maker *m, struct bn_made *x,
                            json_t *prompt, json_t *const *answer, int n,
                            const json_t *tools)
{
    struct bn_text p, whole[2];

    if (n == 2 && json_equal(answer[0], answer[1]))
        return BN_DROP_EQUAL;
    if (render(m, 2, prompt, tools, true, &p) != BN_KEPT)
        return BN_DROP_BAD_ROW;
    for (int i = 0; i < n; i++) {
        json_t *all = json_copy(prompt);
        const char *s = json_string_value(
            json_object_get(json_array_get(answer[i], 0), "content"));
        bool empty = s != NULL && *s == '\0';

        json_array_extend(all, answer[i]);
        enum bn_drop drop = render(m, i, all, tools, false, &whole[i]);
        json_decref(all);
        if (drop != BN_KEPT)
            return drop;
        if (empty)
            return BN_DROP_NO_ANSWER;
    }
    return bn_maker_answers(m, x, p, whole, n, true);
}

/* The last turn of the assistant after all before it: what comes after it
 * is left out. */
static enum bn_drop last_turn(struct bn_maker *m, struct bn_made *x,
                              const json_t *messages, const json_t *tools)
{
    json_t *prompt = json_array(), *answer = json_array();
    size_t n = json_array_size(messages);
    enum bn_drop drop = BN_DROP_NO_TARGET;

    while (n > 0 && strcmp(role_of(json_array_get(messages, n - 1)),
                           "assistant") != 0)
        n--;
    for (size_t i = 0; i + 1 < n; i++)
        json_array_append(prompt, json_array_get(messages, i));
    if (n > 0) {
        json_array_append(answer, json_array_get(messages, n - 1));
        drop = answers(m, x, prompt, &answer, 1, tools);
    }
    json_decref(prompt);
    json_decref(answer);
    return drop;
}

static enum bn_drop dialogue(struct bn_maker *m, struct bn_made *x,
                             const json_t *messages, const json_t *tools)
{
    const struct bn_data_opts *o = m->r->o;
    struct bn_chat_args a = chat_args(m, messages, tools);
    struct bn_span *span = NULL;
    size_t n = 0, from = 0;
    bool some = o->assistant_only_loss || o->last_turn_only;
    int32_t bos = bn_tokenizer_bos(m->r->t);
    enum bn_drop drop;
    int rc;

    bn_str_clear(&m->text[0]);
    rc = bn_chat_render(m->r->chat, &a, &m->text[0], some ? &span : NULL,
                        some ? &n : NULL, &m->err);
    if (rc == 0 && o->last_turn_only && n == 0)
        return last_turn(m, x, messages, tools);
    if (rc == 0 && some && n == 0) { /* no generation blocks */
        free(span);
        span = NULL;
        bn_str_clear(&m->text[0]);
        rc = bn_chat_assistant_spans(m->r->chat, &a, &m->text[0], &span, &n,
                                     &m->err);
    }
    if (rc < 0)
        return bn_maker_bad(m, "%s", m->err.text);
    const struct bn_str *t = &m->text[0];
    drop = BN_DROP_BAD_ROW;
    if (!bn_maker_encode(m, t->len > 0 ? t->s : "", t->len, &x->ids))
        goto out;
    drop = BN_DROP_TWO_BOS;
    if (bos >= 0 && x->ids.n > 1 && x->ids.v[0] == bos && x->ids.v[1] == bos)
        goto out;
    drop = BN_DROP_NO_TARGET;
    if (x->ids.n == 0 || (some && n == 0))
        goto out;
    drop = BN_KEPT;
    if (o->last_turn_only && n > 0)
        from = n - 1;
    if (some)
        drop = mask_spans(m, x, span + from, n - from);
    else
        bn_made_mask(x, 0, 1);
    if (drop == BN_KEPT)
        drop = bn_maker_finish(m, x, 0);
out:
    free(span);
    return drop;
}

/* Take what two lists of messages share off their fronts: everything before
 * the last assistant turn. */
static enum bn_drop split_shared(struct bn_maker *m, json_t *w, json_t *l,
                                 json_t **prompt)
{
    size_t n = json_array_size(w);
    json_t *a = json_array_get(w, n - 1);
    json_t *b = json_array_get(l, json_array_size(l) - 1);

    if (strcmp(role_of(a), "assistant") != 0
        || strcmp(role_of(b), "assistant") != 0)
        return bn_maker_bad(m, "chosen and rejected do not end with a turn of "
                            "the assistant");
    *prompt = json_array();
    for (size_t i = 0; i + 1 < n; i++) {
        json_t *one = json_array_get(w, 0);

        if (n != json_array_size(l) + i
            || !json_equal(one, json_array_get(l, 0)))
            return bn_maker_bad(m, "chosen and rejected differ before the "
                                "last turn");
        json_array_append(*prompt, one);
        json_array_remove(w, 0);
        json_array_remove(l, 0);
    }
    return json_array_size(l) == 1
               ? BN_KEPT
               : bn_maker_bad(m, "chosen and rejected differ before the last "
                              "turn");
}

static bool begins_with(const json_t *list, const json_t *prefix)
{
    size_t i;
    json_t *one;

    if (json_array_size(list) <= json_array_size(prefix))
        return false;
    json_array_foreach(prefix, i, one) {
        if (!json_equal(one, json_array_get(list, i)))
            return false;
    }
    return true;
}

/* The prompt column of a pair of message lists: messages, a user's turn as a
 * string, or nothing, where the lists hold it themselves. */
static enum bn_drop pair_prompt(struct bn_maker *m, const struct bn_row *row,
                                json_t *w, json_t *l, json_t **prompt)
{
    const struct bn_field *f = &row->f[BN_COL_PROMPT];
    bool own = strcmp(role_of(json_array_get(w, 0)), "assistant") != 0;

    if (f->type == BN_FIELD_ARRAY) {
        if (load_messages(m, row, BN_COL_PROMPT, prompt) != BN_KEPT)
            return BN_DROP_BAD_ROW;
        if (!begins_with(w, *prompt) || !begins_with(l, *prompt))
            return BN_KEPT;
        json_decref(*prompt); /* repeated in the lists */
        *prompt = NULL;
        return split_shared(m, w, l, prompt);
    }
    if (own || json_array_size(w) > 1)
        return split_shared(m, w, l, prompt);
    if (f->type != BN_FIELD_STRING)
        return bn_maker_bad(m, "no '%s' and none in '%s'",
                            m->r->name[BN_COL_PROMPT],
                            m->r->name[BN_COL_CHOSEN]);
    *prompt = json_array();
    json_array_append_new(*prompt, message("user", f->s, f->n));
    return BN_KEPT;
}

static enum bn_drop pref_row(struct bn_maker *m, const struct bn_row *row,
                             const json_t *tools, struct bn_made *x)
{
    json_t *list[2] = {NULL, NULL}, *prompt = NULL;
    enum bn_drop drop = load_messages(m, row, BN_COL_CHOSEN, &list[0]);

    if (drop == BN_KEPT)
        drop = load_messages(m, row, BN_COL_REJECTED, &list[1]);
    if (drop == BN_KEPT)
        drop = pair_prompt(m, row, list[0], list[1], &prompt);
    for (int i = 0; drop == BN_KEPT && i < 2; i++) {
        if (json_array_size(list[i]) != 1
            || strcmp(role_of(json_array_get(list[i], 0)), "assistant") != 0)
            drop = bn_maker_bad(m, "after the prompt there is not one turn of "
                                "the assistant");
    }
    if (drop == BN_KEPT) {
        add_system(row, prompt);
        drop = answers(m, x, prompt, list, 2, tools);
    }
    json_decref(prompt);
    json_decref(list[0]);
    json_decref(list[1]);
    return drop;
}

static enum bn_drop pair_row(struct bn_maker *m, const struct bn_row *row,
                             const json_t *tools, struct bn_made *x)
{
    json_t *prompt = NULL, *answer = NULL;
    enum bn_drop drop = load_messages(m, row, BN_COL_PROMPT, &prompt);

    if (drop == BN_KEPT)
        drop = load_messages(m, row, BN_COL_COMPLETION, &answer);
    if (drop == BN_KEPT) {
        add_system(row, prompt);
        drop = answers(m, x, prompt, &answer, 1, tools);
    }
    json_decref(prompt);
    json_decref(answer);
    return drop;
}

static enum bn_drop answer_of(struct bn_maker *m, const struct bn_row *row,
                              enum bn_col c, json_t **out)
{
    const struct bn_field *f = &row->f[c];

    if (f->type != BN_FIELD_STRING)
        return bn_maker_bad(m, "'%s' is %s", m->r->name[c],
                            f->type == BN_FIELD_ABSENT ? "missing"
                                                       : "not a string");
    *out = json_array();
    json_array_append_new(*out, message("assistant", f->s, f->n));
    return BN_KEPT;
}

/* instruction and input as one user's turn. */
static enum bn_drop alpaca_row(struct bn_maker *m, const struct bn_row *row,
                               const json_t *tools, struct bn_made *x)
{
    const struct bn_field *what = &row->f[BN_COL_INSTRUCTION];
    const struct bn_field *input = &row->f[BN_COL_INPUT];
    bool pair = m->r->form == BN_FORM_PREF_ALPACA_CHAT;
    json_t *prompt = NULL, *answer[2] = {NULL, NULL};
    enum bn_drop drop;

    if (what->type != BN_FIELD_STRING
        || (input->type != BN_FIELD_STRING && input->type != BN_FIELD_ABSENT))
        return bn_maker_bad(m, "'%s' or '%s' is not a string",
                            m->r->name[BN_COL_INSTRUCTION],
                            m->r->name[BN_COL_INPUT]);
    bn_str_clear(&m->text[0]);
    bn_str_add(&m->text[0], what->s, what->n);
    if (input->n > 0) {
        bn_str_addc(&m->text[0], '\n');
        bn_str_add(&m->text[0], input->s, input->n);
    }
    prompt = json_array();
    json_array_append_new(prompt, message("user", m->text[0].s,
                                          m->text[0].len));
    add_system(row, prompt);
    drop = answer_of(m, row, pair ? BN_COL_CHOSEN : BN_COL_OUTPUT,
                     &answer[0]);
    if (drop == BN_KEPT && pair)
        drop = answer_of(m, row, BN_COL_REJECTED, &answer[1]);
    if (drop == BN_KEPT)
        drop = answers(m, x, prompt, answer, pair ? 2 : 1, tools);
    json_decref(prompt);
    json_decref(answer[0]);
    json_decref(answer[1]);
    return drop;
}

static enum bn_drop messages_row(struct bn_maker *m, const struct bn_row *row,
                                 const json_t *tools, struct bn_made *x)
{
    json_t *list = NULL, *turns = NULL;
    enum bn_drop drop;

    if (m->r->form == BN_FORM_SHAREGPT) {
        drop = load(m, row, BN_COL_CONVERSATIONS, &turns);
        if (drop == BN_KEPT)
            drop = from_sharegpt(m, turns, &list);
    } else {
        drop = load_messages(m, row, BN_COL_MESSAGES, &list);
    }
    if (drop == BN_KEPT) {
        add_system(row, list);
        drop = dialogue(m, x, list, tools);
    }
    json_decref(list);
    json_decref(turns);
    return drop;
}

enum bn_drop bn_maker_chat(struct bn_maker *m, const struct bn_row *row,
                           struct bn_made *x)
{
    json_t *tools;
    enum bn_drop drop = load(m, row, BN_COL_TOOLS, &tools);

    if (drop == BN_KEPT) {
        switch (m->r->form) {
        case BN_FORM_PREF_CHAT:
            drop = pref_row(m, row, tools, x);
            break;
        case BN_FORM_CHAT_PAIR:
            drop = pair_row(m, row, tools, x);
            break;
        case BN_FORM_ALPACA_CHAT:
        case BN_FORM_PREF_ALPACA_CHAT:
            drop = alpaca_row(m, row, tools, x);
            break;
        default:
            drop = messages_row(m, row, tools, x);
        }
    }
    json_decref(tools);
    return drop;
}
