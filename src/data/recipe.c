/* What the rows of a data set mean. */
#include "config.h"
#include "data/maker.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

const char *bn_shape_name(enum bn_shape s)
{
    static const char *const name[] = {
        "auto", "text", "prompt_completion", "alpaca", "messages", "sharegpt",
        "preference"};

    return name[s];
}

const char *bn_col_name(enum bn_col c)
{
    static const char *const name[BN_COL_COUNT] = {
        "text", "prompt", "completion", "chosen", "rejected", "messages",
        "conversations", "instruction", "input", "output", "system", "tools"};

    return name[c];
}

void bn_data_opts_init(struct bn_data_opts *o)
{
    *o = (struct bn_data_opts){
        .max_length = 1024,
        .completion_only_loss = BN_CHOICE_AUTO,
        .add_bos = BN_CHOICE_AUTO,
        .add_eos = true,
        .max_dropped_fraction = 0.05,
        .wait_seconds = 7200,
    };
}

/* What the tokenizer puts in front of text by itself. */
static int find_bos(struct bn_recipe *r, struct bn_err *err)
{
    struct bn_encoder *e;
    struct bn_ids with = {0}, without = {0};
    int rc = -1;

    if (r->o->add_bos == BN_CHOICE_NO)
        return 0;
    if (r->o->add_bos == BN_CHOICE_YES) {
        int32_t id = bn_tokenizer_bos(r->t);

        if (id < 0)
            return bn_fail(err, BN_ERR_USAGE, "add_bos: the tokenizer has no "
                           "bos_token");
        r->bos.v = bn_malloc(sizeof(id));
        r->bos.v[0] = id;
        r->bos.n = r->bos.cap = 1;
        return 0;
    }
    e = bn_encoder_create(r->t);
    if (bn_encode(e, "a", 1, true, &with, err) == 0
        && bn_encode(e, "a", 1, false, &without, err) == 0)
        rc = 0;
    size_t n = 0;
    while (rc == 0 && n + without.n <= with.n && without.n > 0
           && memcmp(with.v + n, without.v,
                     without.n * sizeof(*with.v)) != 0)
        n++;
    if (rc == 0 && (without.n == 0 || n + without.n > with.n))
        rc = bn_fail(err, BN_ERR_DATA, "the tokenizer's post-processor does "
                     "more than add tokens around a text; set add_bos to yes "
                     "or no");
    if (rc == 0) {
        r->bos = with;
        r->bos.n = n;
        with = (struct bn_ids){0};
    }
    bn_ids_release(&with);
    bn_ids_release(&without);
    bn_encoder_destroy(e);
    return rc;
}

int bn_recipe_init(struct bn_recipe *r, const struct bn_data_opts *o,
                   const struct bn_tokenizer *t, struct bn_err *err)
{
    const char *template = o->chat_template, *name = o->chat_template_name;

    *r = (struct bn_recipe){.o = o, .t = t, .eos = -1};
    for (int c = 0; c < BN_COL_COUNT; c++)
        r->name[c] = o->column[c] != NULL ? o->column[c] : bn_col_name(c);
    r->notes = bn_strdup("");
    if (find_bos(r, err) < 0)
        goto fail;
    if (o->add_eos)
        r->eos = bn_tokenizer_eos(t);
    if (template == NULL) {
        template = bn_tokenizer_chat_template(t);
        name = bn_tokenizer_chat_template_name(t);
    }
    if (template != NULL) {
        r->chat = bn_chat_create(template, name != NULL ? name
                                                        : "chat_template", err);
        if (r->chat == NULL)
            goto fail;
    }
    return 0;
fail:
    bn_recipe_release(r);
    return -1;
}

void bn_recipe_release(struct bn_recipe *r)
{
    bn_chat_destroy(r->chat);
    bn_ids_release(&r->bos);
    free(r->statement);
    free(r->notes);
    *r = (struct bn_recipe){0};
}

static bool has(const struct bn_row *row, enum bn_col c)
{
    return row->f[c].type != BN_FIELD_ABSENT;
}

static bool is(const struct bn_row *row, enum bn_col c, enum bn_field_type t)
{
    return row->f[c].type == t;
}

/* The first match wins: what holds most structure comes first. */
static enum bn_shape shape_of(const struct bn_row *row,
                              enum bn_data_task task)
{
    if (task == BN_DATA_PREFERENCE)
        return has(row, BN_COL_CHOSEN) && has(row, BN_COL_REJECTED)
                   ? BN_SHAPE_PREFERENCE
                   : BN_SHAPE_AUTO;
    if (is(row, BN_COL_MESSAGES, BN_FIELD_ARRAY))
        return BN_SHAPE_MESSAGES;
    if (is(row, BN_COL_CONVERSATIONS, BN_FIELD_ARRAY))
        return BN_SHAPE_SHAREGPT;
    if (has(row, BN_COL_PROMPT) && has(row, BN_COL_COMPLETION))
        return BN_SHAPE_PROMPT_COMPLETION;
    if (has(row, BN_COL_INSTRUCTION) && has(row, BN_COL_OUTPUT))
        return BN_SHAPE_ALPACA;
    if (is(row, BN_COL_TEXT, BN_FIELD_STRING))
        return BN_SHAPE_TEXT;
    return BN_SHAPE_AUTO;
}

/* An array whose first element is an object. */
static bool is_messages(const struct bn_field *f)
{
    size_t i = 1;

    if (f->type != BN_FIELD_ARRAY)
        return false;
    while (i < f->n && strchr(" \t\r\n", f->s[i]) != NULL)
        i++;
    return i < f->n && f->s[i] == '{';
}

static enum bn_form form_of(const struct bn_recipe *r,
                            const struct bn_row *row)
{
    switch (r->shape) {
    case BN_SHAPE_TEXT:
        return BN_FORM_TEXT;
    case BN_SHAPE_ALPACA:
        return r->chat != NULL ? BN_FORM_ALPACA_CHAT : BN_FORM_ALPACA;
    case BN_SHAPE_MESSAGES:
        return BN_FORM_MESSAGES;
    case BN_SHAPE_SHAREGPT:
        return BN_FORM_SHAREGPT;
    case BN_SHAPE_PREFERENCE:
        if (row->f[BN_COL_CHOSEN].type == BN_FIELD_ARRAY)
            return BN_FORM_PREF_CHAT;
        if (has(row, BN_COL_PROMPT))
            return BN_FORM_PREF_PLAIN;
        if (has(row, BN_COL_INSTRUCTION))
            return r->chat != NULL ? BN_FORM_PREF_ALPACA_CHAT
                                   : BN_FORM_PREF_ALPACA;
        return BN_FORM_PREF_TRANSCRIPT;
    default:
        return is_messages(&row->f[BN_COL_PROMPT])
                       || is_messages(&row->f[BN_COL_COMPLETION])
                   ? BN_FORM_CHAT_PAIR
                   : BN_FORM_PLAIN;
    }
}

static bool needs_chat(enum bn_form f)
{
    return f == BN_FORM_CHAT_PAIR || f == BN_FORM_ALPACA_CHAT
           || f == BN_FORM_MESSAGES || f == BN_FORM_SHAREGPT
           || f == BN_FORM_PREF_ALPACA_CHAT || f == BN_FORM_PREF_CHAT;
}

/* Options that make no sense for this form. */
static int check_opts(const struct bn_recipe *r, struct bn_err *err)
{
    bool whole = r->form == BN_FORM_TEXT || r->form == BN_FORM_MESSAGES
                 || r->form == BN_FORM_SHAREGPT;
    bool turns = r->form == BN_FORM_MESSAGES || r->form == BN_FORM_SHAREGPT;
    const char *name = bn_shape_name(r->shape);

    if (r->o->completion_only_loss == BN_CHOICE_YES && whole)
        return bn_fail(err, BN_ERR_USAGE, "completion_only_loss: rows of "
                       "shape '%s' have no prompt%s", name,
                       turns ? " column; assistant_only_loss does that" : "");
    if ((r->o->assistant_only_loss || r->o->last_turn_only) && !turns)
        return bn_fail(err, BN_ERR_USAGE, "%s: rows of shape '%s' are not "
                       "conversations", r->o->assistant_only_loss
                       ? "assistant_only_loss" : "last_turn_only", name);
    if (r->o->last_turn_only
        && r->o->completion_only_loss == BN_CHOICE_NO)
        return bn_fail(err, BN_ERR_USAGE, "last_turn_only and "
                       "completion_only_loss: no exclude each other");
    if (r->chat == NULL && needs_chat(r->form))
        return bn_fail(err, BN_ERR_DATA, "rows of messages need a chat "
                       "template, and the tokenizer has none; set "
                       "chat_template");
    const char *eos = bn_tokenizer_special(r->t, "eos_token");

    if (r->o->add_eos && r->eos < 0 && eos != NULL && !needs_chat(r->form))
        return bn_fail(err, BN_ERR_DATA, "add_eos: the tokenizer's eos_token "
                       "'%s' is not in its vocabulary; set add_eos: false or "
                       "name another in tokenizer_config.json", eos);
    if (r->o->add_eos && r->eos < 0 && !needs_chat(r->form))
        return bn_fail(err, BN_ERR_USAGE, "add_eos: the tokenizer has no "
                       "eos_token; set add_eos: false or name one in "
                       "tokenizer_config.json");
    return 0;
}

#define COL(c) (1u << BN_COL_##c)

/* The columns that a form reads, and how, for people. */
static const struct {
    unsigned cols;
    const char *text;
} about[] = {
    [BN_FORM_TEXT] = {COL(TEXT), "the text as it is"},
    [BN_FORM_PLAIN] = {COL(PROMPT) | COL(COMPLETION),
                       "completion after prompt, no template"},
    [BN_FORM_CHAT_PAIR] = {COL(PROMPT) | COL(COMPLETION) | COL(SYSTEM)
                               | COL(TOOLS),
                           "messages through the chat template"},
    [BN_FORM_ALPACA] = {COL(INSTRUCTION) | COL(INPUT) | COL(OUTPUT),
                        "Alpaca's text around instruction and input"},
    [BN_FORM_ALPACA_CHAT] = {COL(INSTRUCTION) | COL(INPUT) | COL(OUTPUT)
                                 | COL(SYSTEM) | COL(TOOLS),
                             "instruction and input as a user's turn through "
                             "the chat template"},
    [BN_FORM_MESSAGES] = {COL(MESSAGES) | COL(SYSTEM) | COL(TOOLS),
                          "messages through the chat template"},
    [BN_FORM_SHAREGPT] = {COL(CONVERSATIONS) | COL(SYSTEM) | COL(TOOLS),
                          "conversations through the chat template"},
    [BN_FORM_PREF_PLAIN] = {COL(PROMPT) | COL(CHOSEN) | COL(REJECTED),
                            "answers after prompt, no template"},
    [BN_FORM_PREF_TRANSCRIPT] = {COL(CHOSEN) | COL(REJECTED),
                                 "transcripts; the prompt is what they share "
                                 "up to the last 'Assistant:'"},
    [BN_FORM_PREF_ALPACA] = {COL(INSTRUCTION) | COL(INPUT) | COL(CHOSEN)
                                 | COL(REJECTED),
                             "Alpaca's text around instruction and input"},
    [BN_FORM_PREF_ALPACA_CHAT] = {COL(INSTRUCTION) | COL(INPUT) | COL(CHOSEN)
                                      | COL(REJECTED) | COL(SYSTEM)
                                      | COL(TOOLS),
                                  "instruction and input as a user's turn "
                                  "through the chat template"},
    [BN_FORM_PREF_CHAT] = {COL(PROMPT) | COL(CHOSEN) | COL(REJECTED)
                               | COL(SYSTEM) | COL(TOOLS),
                           "messages through the chat template"},
};

/* A name in 'columns' that nothing reads is a mistake: the rows would be taken
 * for what their other columns say. Columns that a row may lack are noted. */
static int check_columns(struct bn_recipe *r, const struct bn_row *row,
                         const char *keys, struct bn_err *err)
{
    const char *shape = bn_shape_name(r->shape);

    for (int c = 0; c < BN_COL_COUNT; c++) {
        bool used = about[r->form].cols & 1u << c;
        char *was = r->notes;

        if (strcmp(r->name[c], bn_col_name(c)) == 0 || (used && has(row, c)))
            continue;
        if (!used && has(row, c))
            return bn_fail(err, BN_ERR_USAGE, "columns.%s: rows of shape '%s' "
                           "do not read '%s'; leave it out or set "
                           "data_format", bn_col_name(c), shape, r->name[c]);
        if (!used)
            return bn_fail(err, BN_ERR_USAGE, "columns.%s: there is no '%s' "
                           "among the columns %s", bn_col_name(c), r->name[c],
                           keys);
        r->notes = bn_asprintf("%sthe first row has no '%s' (columns.%s)\n",
                               was, r->name[c], bn_col_name(c));
        free(was);
    }
    return 0;
}

static void state(struct bn_recipe *r, const struct bn_row *row)
{
    struct bn_str b = {0};
    const char *sep = " (";

    bn_str_addf(&b, "%s%s", bn_shape_name(r->shape),
                r->o->shape == BN_SHAPE_AUTO ? ", detected from columns" : "");
    for (int c = 0; c < BN_COL_COUNT; c++) {
        if (!has(row, c) || !(about[r->form].cols & 1u << c))
            continue;
        bn_str_addf(&b, "%s%s", sep, r->name[c]);
        sep = ", ";
    }
    bn_str_addf(&b, "%s: %s", *sep == ',' ? ")" : "", about[r->form].text);
    free(r->statement);
    r->statement = bn_str_take(&b);
}

bool bn_recipe_knows(const struct bn_recipe *r, const struct bn_row *row)
{
    return r->o->shape != BN_SHAPE_AUTO
           || shape_of(row, r->o->task) != BN_SHAPE_AUTO;
}

int bn_recipe_detect(struct bn_recipe *r, const struct bn_row *first,
                     const char *keys, struct bn_err *err)
{
    r->shape = r->o->shape != BN_SHAPE_AUTO ? r->o->shape
                                            : shape_of(first, r->o->task);
    if (r->shape == BN_SHAPE_AUTO)
        return bn_fail(err, BN_ERR_DATA, "no %s shape has the columns %s; "
                       "map them with 'columns' or fix 'data_format'",
                       r->o->task == BN_DATA_SFT ? "sft" : "preference", keys);
    if ((r->shape == BN_SHAPE_PREFERENCE)
        != (r->o->task == BN_DATA_PREFERENCE))
        return bn_fail(err, BN_ERR_USAGE, "data_format '%s' does not fit the "
                       "task", bn_shape_name(r->shape));
    r->form = form_of(r, first);
    if (check_opts(r, err) < 0 || check_columns(r, first, keys, err) < 0)
        return -1;
    state(r, first);
    return 0;
}
