/* Continuous batching: who is in which slot, and what a step is made of. */
#include "config.h"
#include "train/gen.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/signal.h"
#include "model/decode.h"
#include "train/gen_text.h"

#include <stdlib.h>

/* Prompt tokens of one step: enough for an efficient product, few enough that
 * answers under way do not wait long. */
enum { PROMPT_TOKENS = 512 };

/* A row in its slot. */
struct seat {
    bool busy;
    size_t row;
    struct bn_ids ids; /* prompt and answer */
    size_t prompt, fed;
    int limit; /* tokens it may come to */
    size_t shown; /* bytes of its text that the sink has */
    struct bn_gen_text text;
};

struct run {
    struct bn_generator *g;
    const struct bn_gen_conf *c;
    const struct bn_gen_sink *sink;
    struct bn_gen_stats *stats;
    struct bn_arena work;
    struct bn_decode decode;
    int slots;
    struct seat *seat;    /* [slots] */
    struct bn_feed *feed; /* [slots] */
    int nfeed;
    struct bn_draw *draw; /* [slots] of those that are to speak, */
    int32_t *token;       /* and what they say */
};

const char *bn_gen_reason_name(enum bn_gen_reason r)
{
    static const char *const names[] = {
        [BN_GEN_EOS] = "eos",
        [BN_GEN_STOP] = "stop",
        [BN_GEN_LENGTH] = "length",
        [BN_GEN_CONTEXT] = "context",
    };

    return names[r];
}

int bn_gen_limit(const struct bn_generator *g, const struct bn_gen_conf *c,
                 size_t n)
{
    int room = g->cfg.max_position - (int)n;

    return (int)n + (c->max_new_tokens < room ? c->max_new_tokens : room);
}

static void put_id(struct bn_ids *l, int32_t id)
{
    bn_grow(&l->v, &l->cap, l->n + 1, sizeof(*l->v));
    l->v[l->n++] = id;
}

static int sit_down(struct run *r, int slot, const struct bn_ids *prompt,
                    size_t row, struct bn_err *err)
{
    struct seat *s = &r->seat[slot];

    s->busy = true;
    s->row = row;
    s->ids.n = 0;
    for (size_t i = 0; i < prompt->n; i++)
        put_id(&s->ids, prompt->v[i]);
    s->prompt = prompt->n;
    s->fed = s->shown = 0;
    s->limit = bn_gen_limit(r->g, r->c, prompt->n);
    bn_decode_cut(&r->decode, slot, 0);
    r->stats->prompt_tokens += prompt->n;
    return bn_gen_text_begin(&s->text, prompt->v, prompt->n, err);
}

/* What every busy slot is fed: the token that it said last, or as much of its
 * prompt as the step has room for. */
static void plan_step(struct run *r)
{
    size_t room = PROMPT_TOKENS;

    r->nfeed = 0;
    for (int i = 0; i < r->slots; i++) {
        struct seat *s = &r->seat[i];
        size_t n = s->ids.n - s->fed;

        if (!s->busy)
            continue;
        if (s->fed < s->prompt) {
            n = n < room ? n : room;
            room -= n;
        }
        if (n == 0)
            continue;
        r->feed[r->nfeed++] = (struct bn_feed){
            .slot = i,
            .ids = s->ids.v + s->fed,
            .n = (int)n,
            .want = s->fed + n == s->ids.n,
        };
        s->fed += n;
    }
}

static bool is_stop_id(const struct bn_gen_conf *c, int32_t id)
{
    for (size_t i = 0; i < c->nstop_id; i++)
        if (c->stop_id[i] == id)
            return true;
    return false;
}

/* Text that became certain. */
static int show(struct run *r, struct seat *s, struct bn_err *err)
{
    size_t from = s->shown;

    if (r->sink->text == NULL || s->text.ready <= from)
        return 0;
    s->shown = s->text.ready;
    return r->sink->text(r->sink->arg, s->row, s->text.text.s + from,
                         s->shown - from, err);
}

/* Whether the answer ends with its last token. */
static bool is_over(const struct run *r, const struct seat *s,
                    struct bn_gen_answer *a)
{
    size_t n = s->ids.n - s->prompt;

    a->stop = -1;
    if (s->text.found >= 0) {
        a->reason = BN_GEN_STOP;
        a->stop = s->text.found;
    } else if (is_stop_id(r->c, s->ids.v[s->ids.n - 1])) {
        a->reason = BN_GEN_EOS;
        a->stop = s->ids.v[s->ids.n - 1];
    } else if (n == (size_t)r->c->max_new_tokens) {
        a->reason = BN_GEN_LENGTH;
    } else if (s->ids.n == (size_t)s->limit) {
        a->reason = BN_GEN_CONTEXT;
    } else {
        return false;
    }
    return true;
}

static int leave(struct run *r, struct seat *s, struct bn_gen_answer *a,
                 struct bn_err *err)
{
    if (bn_gen_text_end(&s->text, err) < 0)
        return -1;
    if (s->text.found >= 0) { /* in what had waited */
        a->reason = BN_GEN_STOP;
        a->stop = s->text.found;
    }
    if (show(r, s, err) < 0)
        return -1;
    a->row = s->row;
    a->ids = s->ids.v + s->prompt;
    a->n = s->ids.n - s->prompt;
    a->prompt_tokens = s->prompt;
    a->text = s->text.text.s != NULL ? s->text.text.s : "";
    a->len = s->text.text.len;
    s->busy = false;
    return r->sink->done(r->sink->arg, a, err);
}

/* A seat says its next token: -1 where its logits had none. */
static int speak(struct run *r, struct seat *s, int32_t id,
                 struct bn_err *err)
{
    struct bn_gen_answer a = {0};

    if (id < 0)
        return bn_fail(err, BN_ERR_NUMERIC, "row %zu, new token %zu: logits "
                       "are not finite", s->row + 1,
                       s->ids.n - s->prompt + 1);
    put_id(&s->ids, id);
    r->stats->new_tokens++;
    /* Of an id that ends it nothing is said, special or not. */
    if (!is_stop_id(r->c, id) && bn_gen_text_add(&s->text, id, err) < 0)
        return bn_err_prefix(err, "row %zu", s->row + 1);
    if (is_over(r, s, &a))
        return leave(r, s, &a, err);
    return show(r, s, err);
}

/* Draw for those fed to their end; what a row draws depends on the seed, its
 * number and its length alone. */
static int draw(struct run *r, struct bn_err *err)
{
    int n = 0;

    for (int i = 0; i < r->nfeed; i++) {
        const struct seat *s = &r->seat[r->feed[i].slot];

        if (r->feed[i].want)
            r->draw[n++] = (struct bn_draw){
                s->ids.v, (int)s->ids.n,
                bn_rng_uniform(r->c->seed, s->row, s->ids.n - s->prompt)};
    }
    return bn_decode_draw(&r->decode, &r->c->sample, r->draw, r->token, err);
}

static int step(struct run *r, struct bn_err *err)
{
    const int32_t *token = r->token;

    plan_step(r);
    if (bn_decode_step(&r->decode, r->feed, r->nfeed, NULL, err) < 0
        || draw(r, err) < 0)
        return -1;
    r->stats->steps++;
    for (int i = 0; i < r->nfeed; i++)
        if (r->feed[i].want
            && speak(r, &r->seat[r->feed[i].slot], *token++, err) < 0)
            return -1;
    return 0;
}

/* Before every step: no rank goes on where one has failed or is to stop. */
static int agree(struct run *r, int rc, struct bn_err *err)
{
    if (rc == 0 && bn_stop_signal() != 0)
        rc = bn_fail(err, BN_ERR_AGAIN, "stopped by signal %d",
                     bn_stop_signal());
    if (r->g->world->size == 1)
        return rc;
    return bn_comm_agree(r->g->world, rc < 0 ? err->code : 0, err);
}

static int answer_all(struct run *r, const struct bn_ids *prompts, size_t n,
                      struct bn_err *err)
{
    size_t next = 0;
    int rc = 0;

    for (;;) {
        int busy = 0;

        for (int i = 0; i < r->slots; i++) {
            if (!r->seat[i].busy && next < n) {
                if (rc == 0
                    && sit_down(r, i, &prompts[next], next, err) < 0)
                    rc = -1;
                next++;
            }
            busy += r->seat[i].busy;
        }
        if (busy == 0 && r->g->world->size == 1)
            return rc;
        if (agree(r, rc, err) < 0)
            return -1;
        if (busy == 0)
            return 0;
        rc = step(r, err);
    }
}

static int lay_out(struct run *r, const struct bn_ids *prompts, size_t n,
                   struct bn_err *err)
{
    struct bn_decode_size size = {.slots = r->slots};
    struct bn_dev *dev = r->g->dev;

    for (size_t i = 0; i < n; i++) {
        int limit = bn_gen_limit(r->g, r->c, prompts[i].n);

        size.capacity = limit > size.capacity ? limit : size.capacity;
    }
    size.max_tokens = r->slots + PROMPT_TOKENS;
    size_t bytes = bn_decode_bytes(r->g->model, &size);
    if (dev->op.arena_init(dev, &r->work, "keys and values", bytes, err) < 0
        || bn_decode_init(&r->decode, r->g->model, &size, &r->work, err) < 0)
        return -1;
    r->feed = BN_NEWN(struct bn_feed, (size_t)r->slots);
    r->draw = BN_NEWN(struct bn_draw, (size_t)r->slots);
    r->token = BN_NEWN(int32_t, (size_t)r->slots);
    return 0;
}

static void clean_up(struct run *r)
{
    for (int i = 0; i < r->slots; i++) {
        bn_gen_text_release(&r->seat[i].text);
        bn_ids_release(&r->seat[i].ids);
    }
    free(r->seat);
    free(r->feed);
    free(r->draw);
    free(r->token);
    bn_decode_release(&r->decode);
    r->g->dev->op.arena_release(r->g->dev, &r->work);
}

int bn_generate(struct bn_generator *g, const struct bn_gen_conf *c,
                const struct bn_ids *prompts, size_t n,
                const struct bn_gen_sink *sink, struct bn_gen_stats *stats,
                struct bn_err *err)
{
    struct run r = {.g = g, .c = c, .sink = sink, .stats = stats};
    double begin = bn_now();

    *stats = (struct bn_gen_stats){0};
    if (n == 0)
        return 0;
    r.slots = (size_t)c->batch_size < n ? c->batch_size : (int)n;
    r.seat = BN_NEWN(struct seat, (size_t)r.slots);
    for (int i = 0; i < r.slots; i++) {
        r.seat[i].text.t = g->tokenizer;
        r.seat[i].text.stop = c->stop;
        r.seat[i].text.nstop = c->nstop;
    }
    int rc = lay_out(&r, prompts, n, err);
    if (rc == 0)
        rc = answer_all(&r, prompts, n, err);
    clean_up(&r);
    stats->seconds = bn_now() - begin;
    return rc;
}
