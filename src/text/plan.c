/* Choosing how texts become words: once, when a tokenizer is opened.
 *
 * SentencePiece-style models have no words: they merge over a whole text. A
 * cut between two symbols is still exact where no merge can ever span it. If
 * no merge makes a token that has a space mark behind another character,
 * then none crosses the place between a character and a mark, and a text may
 * be cut there. The same holds around a character that no merge has.
 */
#include "config.h"
#include "text/tokenizer_impl.h"

#include <string.h>

enum { NMARK = sizeof(BN_MARK) - 1 };

/* True if 's' has a mark right behind something that is not a mark. */
static bool mark_inside(const char *s, size_t n)
{
    for (size_t i = NMARK; i + NMARK <= n; i++)
        if (memcmp(s + i, BN_MARK, NMARK) == 0
            && memcmp(s + i - NMARK, BN_MARK, NMARK) != 0)
            return true;
    /* The character before may be shorter than a mark. */
    for (size_t i = 1; i < NMARK && i + NMARK <= n; i++)
        if (memcmp(s + i, BN_MARK, NMARK) == 0)
            return true;
    return false;
}

static bool fallback_whole(const struct bn_bpe *b)
{
    for (int i = 0; i < 256; i++)
        if (b->fallback[i] < 0)
            return false;
    return b->byte_fallback;
}

static bool marks_proven(const struct bn_bpe *b)
{
    if (b->prefix != NULL || b->suffix != NULL || b->ignore_merges
        || bn_bpe_id(b, BN_MARK, NMARK) < 0)
        return false;
    /* Characters that vanish would let marks meet. */
    if (b->unk < 0 && !fallback_whole(b))
        return false;
    if (b->unk >= 0
        && bn_str_ends(b->blob + b->off[b->unk], BN_MARK))
        return false; /* an unknown character would look like a mark */
    for (uint32_t i = 0; i < b->nmerge; i++) {
        uint32_t id = b->made[i];

        if (mark_inside(b->blob + b->off[id], b->len[id]))
            return false;
    }
    return true;
}

/* A line break is one symbol that no merge knows. With all bytes to fall
 * back on there are no unknown characters that could be fused across it. */
static bool lines_proven(const struct bn_bpe *b)
{
    int32_t id = bn_bpe_id(b, "\n", 1);

    if (!fallback_whole(b))
        return false;
    if (id < 0)
        id = b->fallback['\n'];
    for (uint32_t i = 0; i <= b->pair_mask; i++) {
        uint64_t key = b->pairs[i] >> BN_BPE_RANK_BITS;

        if (b->pairs[i] != 0
            && ((int32_t)(key >> BN_BPE_ID_BITS) == id
                || (int32_t)(key & ((1 << BN_BPE_ID_BITS) - 1)) == id))
            return false;
    }
    return true;
}

/* True if normalizer and pre-tokenizer do no more than turn spaces to marks
 * and put a mark in front; then t->prepend... say which. */
static bool only_marks(struct bn_tokenizer *t)
{
    bool spaces = false;

    for (size_t i = 0; i < t->norm.n; i++) {
        const struct bn_norm_step *st = &t->norm.step[i];
        bool mark = st->content != NULL && strcmp(st->content, BN_MARK) == 0;

        if (st->kind == BN_NORM_PREPEND && mark && !t->prepend_plain)
            t->prepend_plain = true;
        else if (st->kind == BN_NORM_REPLACE && mark && st->pattern.re == NULL
                 && strcmp(st->pattern.text, " ") == 0)
            spaces = true;
        else
            return false;
    }
    for (size_t i = 0; i < t->pretok.n; i++) {
        const struct bn_pretok_step *st = &t->pretok.step[i];

        if (st->kind == BN_PRETOK_METASPACE
            && strcmp(st->pattern.text, BN_MARK) == 0) {
            /* A second one finds the mark of the first. */
            if (st->prepend > t->prepend)
                t->prepend = st->prepend;
            t->each |= st->split;
            spaces = true;
        } else if (st->kind == BN_PRETOK_SPLIT && spaces
                   && st->pattern.re == NULL && !st->invert
                   && strcmp(st->pattern.text, " ") == 0) {
            continue; /* finds none */
        } else {
            return false;
        }
    }
    return spaces;
}

static void plan_bytes(struct bn_tokenizer *t)
{
    const struct bn_pretok *p = &t->pretok;
    size_t i = 0;

    t->bytes = p->n > 0 && p->step[p->n - 1].kind == BN_PRETOK_BYTES
               && t->bpe.bytes_whole;
    if (!t->bytes)
        return;
    t->nstep = p->n - 1; /* the last is the model's own */
    t->scan_prefix = p->step[0].kind == BN_PRETOK_PREFIX;
    i += t->scan_prefix;
    if (i + 2 == p->n && p->step[i].kind == BN_PRETOK_SPLIT
        && p->step[i].scan != BN_SCAN_NONE) {
        t->plan = BN_PLAN_SCAN;
        t->scan = p->step[i].scan;
    }
}

void bn_tokenizer_plan(struct bn_tokenizer *t)
{
    t->plan = BN_PLAN_STEPS;
    t->nstep = t->pretok.n;
    plan_bytes(t);
    if (t->bytes)
        return;
    t->marks = marks_proven(&t->bpe);
    t->lines = t->marks && lines_proven(&t->bpe);
    if (t->marks && t->normal.n <= 1 && only_marks(t))
        t->plan = BN_PLAN_MARKS;
}
