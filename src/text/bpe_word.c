/* Words to symbols, and symbols to ids. */
#include "config.h"
#include "text/bpe.h"
#include "base/mem.h"
#include "base/str.h"

#include <string.h>

/* There is room for it. */
static inline void add_sym(struct bn_bpe_work *w, int32_t id)
{
    w->sym[w->n++] = (uint32_t)id;
}

/* The bytes of an unknown character as fallback tokens; false if one of them
 * has none. */
static bool add_fallback(const struct bn_bpe *b, struct bn_bpe_work *w,
                         const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (b->fallback[(unsigned char)s[i]] < 0)
            return false;
    for (size_t i = 0; i < n; i++)
        add_sym(w, b->fallback[(unsigned char)s[i]]);
    return true;
}

/* The text of the symbol at s[i..i+len) with prefix and suffix. */
static size_t dress(const struct bn_bpe *b, struct bn_bpe_work *w,
                    const char *s, size_t len, bool first, bool last)
{
    size_t np = b->prefix != NULL && !first ? strlen(b->prefix) : 0;
    size_t ns = b->suffix != NULL && last ? strlen(b->suffix) : 0;

    bn_grow(&w->text, &w->text_cap, np + len + ns, 1);
    if (np > 0)
        memcpy(w->text, b->prefix, np);
    memcpy(w->text + np, s, len);
    if (ns > 0)
        memcpy(w->text + np + len, b->suffix, ns);
    return np + len + ns;
}

/* The id of the character s[i..i+len) of a word of n bytes, -1 if it has none,
 * and its text as the vocabulary may have it. */
static int32_t find_char(const struct bn_bpe *b, struct bn_bpe_work *w,
                         const char *s, size_t n, size_t i, size_t len,
                         const char **text, size_t *m)
{
    uint32_t cp = 0;

    if (b->char_sym != NULL && len < 4) {
        *text = s + i;
        *m = len;
        bn_utf8_get(s + i, len, &cp);
        return b->char_sym[cp];
    }
    *m = dress(b, w, s + i, len, i == 0, i + len == n);
    *text = w->text;
    return bn_bpe_id(b, *text, *m);
}

/* Room for the symbols of n bytes of text: one a byte at most, each with
 * prefix and suffix, and an unknown token. */
static void make_room(const struct bn_bpe *b, struct bn_bpe_work *w, size_t n)
{
    size_t dressed = 1;

    dressed += b->prefix != NULL ? strlen(b->prefix) : 0;
    dressed += b->suffix != NULL ? strlen(b->suffix) : 0;
    bn_grow(&w->sym, &w->sym_cap, n * dressed + 1, sizeof(uint32_t));
}

/* Characters to symbols. As in the reference, an unknown token that waits to
 * be fused is put down before the next known character, not before bytes. */
static void symbols(const struct bn_bpe *b, struct bn_bpe_work *w,
                    const char *s, size_t n)
{
    bool pending = false;
    size_t len, m;
    const char *text;

    for (size_t i = 0; i < n; i += len) {
        unsigned char c = (unsigned char)s[i];

        len = 1;
        if (c < 0x80 && b->char_sym != NULL && !pending
            && b->char_sym[c] >= 0) {
            add_sym(w, b->char_sym[c]);
            continue;
        }
        while (i + len < n && ((unsigned char)s[i + len] & 0xc0) == 0x80)
            len++;
        int32_t id = find_char(b, w, s, n, i, len, &text, &m);

        if (id < 0 && b->byte_fallback && add_fallback(b, w, text, m))
            continue;
        if (pending && (id >= 0 || !b->fuse_unk)) {
            add_sym(w, b->unk);
            pending = false;
        }
        if (id >= 0)
            add_sym(w, id);
        else if (b->unk >= 0)
            pending = true;
    }
    if (pending)
        add_sym(w, b->unk);
}

void bn_bpe_word(const struct bn_bpe *b, struct bn_bpe_work *w, const char *s,
                 size_t n, bool bytes)
{
    w->n = 0;
    make_room(b, w, n);
    if (b->ignore_merges && n <= b->max_len) {
        struct bn_str name = {0};
        int32_t id;

        if (bytes)
            bn_byte_names(&name, s, n);
        id = bytes ? bn_bpe_id(b, name.s, name.len) : bn_bpe_id(b, s, n);
        bn_str_release(&name);
        if (id >= 0) {
            add_sym(w, id);
            return;
        }
    }
    if (!bytes) {
        symbols(b, w, s, n);
    } else {
        for (size_t i = 0; i < n; i++)
            w->sym[i] = (uint32_t)b->byte_sym[(unsigned char)s[i]];
        w->n = n;
    }
    bn_bpe_merge(b, w);
}
