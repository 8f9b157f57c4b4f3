#include "config.h"
#include "text/wordcache.h"
#include "base/hash.h"
#include "base/mem.h"

#include <stdlib.h>
#include <sys/mman.h>

enum {
    HUGE = 2 << 20,
    LOG_SLOTS = 17,          /* 8 MiB */
    SPILL = 1 << 20,         /* ids, and bytes of long words by fours */
    LONG = 255               /* in slot.len: see struct long_key */
};

#define FULL 255, 255, 255, 255, 255, 255, 255, 255
const unsigned char bn_word_mask[2 * BN_WORD_KEY] = {FULL, FULL, FULL, FULL};

/* What stands for a long word in slot.key. Its text lies in the spill area
 * before its ids. */
struct long_key {
    uint32_t at, len;
};

/* What stands for ids that lie elsewhere, in slot.ids. */
struct spilt {
    uint32_t at, n;
};

void bn_wordcache_init(struct bn_wordcache *c, bool wide)
{
    size_t slots = (size_t)1 << LOG_SLOTS;
    size_t bytes = slots * sizeof(struct bn_word_slot);
    size_t all = bytes + SPILL * sizeof(int32_t);

    _Static_assert(sizeof(struct bn_word_slot) == 64, "one cache line");
    *c = (struct bn_wordcache){.shift = 64 - LOG_SLOTS, .wide = wide};
    c->block = bn_calloc(all + HUGE, 1);
    char *p = (char *)c->block + HUGE - (uintptr_t)c->block % HUGE;
    /* Without huge pages it is only slower. */
    (void)madvise(p, all, MADV_HUGEPAGE);
    c->slot = (struct bn_word_slot *)(void *)p;
    c->spill = (int32_t *)(void *)(p + bytes);
}

void bn_wordcache_release(struct bn_wordcache *c)
{
    free(c->block);
    *c = (struct bn_wordcache){0};
}

static size_t long_index(const struct bn_wordcache *c, const char *w,
                         size_t len)
{
    return bn_hash_bytes(w, len).lo >> c->shift;
}

/* Room for n more ids; forgets everything when there is none. */
static uint32_t spill(struct bn_wordcache *c, size_t n)
{
    if (c->nspill + n > SPILL) {
        memset(c->slot, 0,
               ((size_t)1 << LOG_SLOTS) * sizeof(struct bn_word_slot));
        c->nspill = 0;
    }
    c->nspill += n;
    return (uint32_t)(c->nspill - n);
}

static void put_ids(const struct bn_wordcache *c, struct bn_word_slot *s,
                    const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t narrow = (uint16_t)ids[i];

        if (c->wide)
            memcpy(s->ids + 4 * i, &ids[i], 4);
        else
            memcpy(s->ids + 2 * i, &narrow, 2);
    }
    s->n = (uint8_t)n;
}

void bn_wordcache_put(struct bn_wordcache *c, size_t i, const char *w,
                      size_t len, const uint32_t *ids, size_t n)
{
    struct bn_word_slot s = {.len = (uint8_t)len};
    size_t words = len > BN_WORD_KEY ? (len + 3) / 4 : 0;
    size_t inside = BN_WORD_IDS / (c->wide ? 4u : 2u);

    if (words == 0 && n <= inside) {
        memcpy(s.key, w, len);
        put_ids(c, &s, ids, n);
    } else {
        uint32_t at = spill(c, words + n);
        struct spilt to = {at + (uint32_t)words, (uint32_t)n};

        memcpy(c->spill + to.at, ids, n * sizeof(*ids));
        memcpy(s.ids, &to, sizeof(to));
        s.n = BN_WORD_SPILT;
        if (words > 0) {
            struct long_key key = {at, (uint32_t)len};

            memcpy(c->spill + at, w, len);
            memcpy(s.key, &key, sizeof(key));
            s.len = LONG;
        } else {
            memcpy(s.key, w, len);
        }
    }
    if (words > 0)
        i = long_index(c, w, len);
    /* The older of the two moves to the second place. */
    if (c->slot[i].len != 0)
        c->slot[i ^ 1] = c->slot[i];
    c->slot[i] = s;
}

const int32_t *bn_wordcache_long(const struct bn_wordcache *c, const char *w,
                                 size_t len, size_t *n)
{
    size_t i = long_index(c, w, len);

    for (int k = 0; k < 2; k++, i ^= 1) {
        const struct bn_word_slot *s = &c->slot[i];
        struct long_key key;
        struct spilt to;

        if (s->len != LONG)
            continue;
        memcpy(&key, s->key, sizeof(key));
        if (key.len != len || memcmp(c->spill + key.at, w, len) != 0)
            continue;
        memcpy(&to, s->ids, sizeof(to));
        *n = to.n;
        return c->spill + to.at;
    }
    return NULL;
}
