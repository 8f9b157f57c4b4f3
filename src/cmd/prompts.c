#include "config.h"
#include "cmd/prompts.h"

#include "base/mem.h"
#include "cmd/lines.h"

#include <stdlib.h>
#include <string.h>

void bn_prompts_init(struct bn_prompts *p, const struct bn_tokenizer *t,
                     int vocab, int max)
{
    *p = (struct bn_prompts){.t = t, .vocab = vocab, .max = max};
    p->enc = bn_encoder_create(t);
}

void bn_prompts_release(struct bn_prompts *p)
{
    for (size_t i = 0; i < p->n; i++) {
        bn_ids_release(&p->v[i]);
        if (p->reference != NULL)
            free(p->reference[i]);
    }
    free(p->v);
    free(p->reference);
    bn_encoder_destroy(p->enc);
    bn_chat_destroy(p->chat);
    bn_str_release(&p->text);
    *p = (struct bn_prompts){0};
}

/* Take the ids over if they can be a prompt. */
static int put(struct bn_prompts *p, struct bn_ids *ids, struct bn_err *err)
{
    if (ids->n == 0)
        return bn_fail(err, BN_ERR_DATA, "the prompt has no tokens, and the "
                       "tokenizer adds none at the start");
    if (ids->n > (size_t)p->max)
        return bn_fail(err, BN_ERR_DATA, "the prompt has %zu tokens; with an "
                       "answer of at least one token the model has room for "
                       "%d", ids->n, p->max);
    bn_grow(&p->v, &p->cap, p->n + 1, sizeof(*p->v));
    p->v[p->n++] = *ids;
    *ids = (struct bn_ids){0};
    return 0;
}

static int put_text(struct bn_prompts *p, const char *s, size_t len,
                    bool special, struct bn_err *err)
{
    struct bn_ids ids = {0};
    int rc = bn_encode(p->enc, s, len, special, &ids, err);

    if (rc == 0)
        rc = put(p, &ids, err);
    bn_ids_release(&ids);
    return rc;
}

static int put_ids(struct bn_prompts *p, const json_t *v, struct bn_err *err)
{
    struct bn_ids ids = {0};
    json_t *e;
    size_t i;
    int rc = 0;

    json_array_foreach((json_t *)(uintptr_t)v, i, e)
    {
        json_int_t id = json_integer_value(e);

        if (!json_is_integer(e) || id < 0 || id >= p->vocab) {
            rc = bn_fail(err, BN_ERR_DATA, "ids[%zu] is not an id of the "
                         "model: an integer below %d", i, p->vocab);
            break;
        }
        bn_grow(&ids.v, &ids.cap, ids.n + 1, sizeof(*ids.v));
        ids.v[ids.n++] = (int32_t)id;
    }
    if (rc == 0)
        rc = put(p, &ids, err);
    bn_ids_release(&ids);
    return rc;
}

static int open_chat(struct bn_prompts *p, struct bn_err *err)
{
    const char *own = bn_tokenizer_chat_template(p->t);

    if (p->chat != NULL)
        return 0;
    if (own == NULL)
        return bn_fail(err, BN_ERR_DATA, "the tokenizer has no chat template "
                       "(a chat_template.jinja in its folder would be one)");
    p->chat = bn_chat_create(own, bn_tokenizer_chat_template_name(p->t),
                             err);
    return p->chat != NULL ? 0 : -1;
}

/* The template writes special tokens itself. */
static int put_chat(struct bn_prompts *p, struct bn_chat_args *args,
                    struct bn_err *err)
{
    args->add_generation_prompt = true;
    args->bos_token = bn_tokenizer_special(p->t, "bos_token");
    args->eos_token = bn_tokenizer_special(p->t, "eos_token");
    args->pad_token = bn_tokenizer_special(p->t, "pad_token");
    args->unk_token = bn_tokenizer_special(p->t, "unk_token");
    bn_str_clear(&p->text);
    if (open_chat(p, err) < 0
        || bn_chat_render(p->chat, args, &p->text, NULL, NULL, err) < 0)
        return -1;
    return put_text(p, p->text.s != NULL ? p->text.s : "", p->text.len, false,
                    err);
}

int bn_prompts_add(struct bn_prompts *p, const char *text, bool chat,
                   struct bn_err *err)
{
    int rc;

    if (!chat)
        return put_text(p, text, strlen(text), true, err);
    json_t *m = json_pack("[{s:s, s:s}]", "role", "user", "content", text);
    if (m == NULL)
        return bn_fail(err, BN_ERR_DATA, "the prompt is not UTF-8");
    rc = put_chat(p, &(struct bn_chat_args){.messages = m}, err);
    json_decref(m);
    return rc;
}

static int put_messages(struct bn_prompts *p, const json_t *row,
                        struct bn_err *err)
{
    struct bn_chat_args args = {
        .messages = json_object_get(row, "messages"),
        .tools = json_object_get(row, "tools"),
        .extra = json_object_get(row, "chat_template_kwargs"),
    };

    if (json_is_null(args.tools))
        args.tools = NULL;
    if (json_is_null(args.extra))
        args.extra = NULL;
    if (!json_is_array(args.messages))
        return bn_fail(err, BN_ERR_DATA, "'messages' must be an array");
    if (args.tools != NULL && !json_is_array(args.tools))
        return bn_fail(err, BN_ERR_DATA, "'tools' must be an array");
    if (args.extra != NULL && !json_is_object(args.extra))
        return bn_fail(err, BN_ERR_DATA,
                       "'chat_template_kwargs' must be an object");
    return put_chat(p, &args, err);
}

/* What a row expects, kept for the prompt that it makes. */
static int put_reference(struct bn_prompts *p, const json_t *row,
                         struct bn_err *err)
{
    const char *key = p->reference_key;
    const char *s = json_string_value(json_object_get(row, key));

    if (s == NULL)
        return bn_fail(err, BN_ERR_DATA, "'%s' must be there and be text: it "
                       "is what the answer is compared with", key);
    bn_grow(&p->reference, &p->reference_cap, p->n + 1,
            sizeof(*p->reference));
    p->reference[p->n] = bn_strdup(s);
    return 0;
}

static int read_prompt(struct bn_prompts *p, const json_t *row,
                       struct bn_err *err)
{
    const json_t *prompt = json_object_get(row, "prompt");
    const json_t *ids = json_object_get(row, "ids");
    const json_t *messages = json_object_get(row, "messages");

    if ((prompt != NULL) + (ids != NULL) + (messages != NULL) != 1)
        return bn_fail(err, BN_ERR_DATA, "expected an object with one of "
                       "'prompt', 'messages' and 'ids'");
    if (messages != NULL)
        return put_messages(p, row, err);
    if (ids != NULL && !json_is_array(ids))
        return bn_fail(err, BN_ERR_DATA, "'ids' must be an array");
    if (ids != NULL)
        return put_ids(p, ids, err);
    if (!json_is_string(prompt))
        return bn_fail(err, BN_ERR_DATA, "'prompt' must be text");
    return put_text(p, json_string_value(prompt), json_string_length(prompt),
                    true, err);
}

static int read_row(void *arg, const json_t *row, struct bn_str *out,
                    struct bn_err *err)
{
    struct bn_prompts *p = arg;
    size_t n = p->n;

    (void)out;
    if (p->reference_key != NULL && put_reference(p, row, err) < 0)
        return -1;
    if (read_prompt(p, row, err) == 0)
        return 0;
    if (p->reference_key != NULL)
        free(p->reference[n]);
    return -1;
}

int bn_prompts_read(struct bn_prompts *p, const char *file,
                    struct bn_err *err)
{
    return bn_cmd_lines(&file, 1, read_row, p, err);
}

/* One prompt's ids; other ranks make room for them. */
static int share_ids(struct bn_ids *ids, struct bn_comm *world,
                     struct bn_err *err)
{
    int64_t n = (int64_t)ids->n;

    if (world->ops->bcast(world, &n, sizeof(n), 0, err) < 0)
        return -1;
    bn_grow(&ids->v, &ids->cap, (size_t)n, sizeof(*ids->v));
    ids->n = (size_t)n;
    return world->ops->bcast(world, ids->v, ids->n * sizeof(*ids->v), 0, err);
}

int bn_prompts_share(struct bn_prompts *p, struct bn_comm *world,
                     struct bn_err *err)
{
    int64_t n = (int64_t)p->n;

    if (world->ops->bcast(world, &n, sizeof(n), 0, err) < 0)
        return -1;
    bn_grow(&p->v, &p->cap, (size_t)n, sizeof(*p->v));
    for (; p->n < (size_t)n; p->n++)
        p->v[p->n] = (struct bn_ids){0};
    for (size_t i = 0; i < p->n; i++)
        if (share_ids(&p->v[i], world, err) < 0)
            return -1;
    return 0;
}
