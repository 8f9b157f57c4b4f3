#include "config.h"
#include "text/decoder.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/bpe.h"
#include "text/normalizer.h"

#include <stdlib.h>
#include <string.h>

void bn_texts_release(struct bn_texts *t)
{
    bn_str_release(&t->buf);
    free(t->end);
    *t = (struct bn_texts){0};
}

/* End the text that was added to t->buf. */
static void close_text(struct bn_texts *t)
{
    bn_grow(&t->end, &t->cap, t->n + 1, sizeof(size_t));
    t->end[t->n++] = t->buf.len;
}

void bn_texts_add(struct bn_texts *t, const char *s, size_t n)
{
    bn_str_add(&t->buf, s, n);
    close_text(t);
}

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Bytes to text as Rust's from_utf8_lossy does: one U+FFFD for each maximal
 * part of a character. */
static void add_lossy(struct bn_str *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t good = bn_utf8_check(s + i, n - i), bad = 1;
        unsigned char c;

        bn_str_add(out, s + i, good);
        i += good;
        if (i == n)
            break;
        c = (unsigned char)s[i];
        /* A cut character: its lead and as many bytes as could follow. */
        size_t most = c >= 0xf0 && c <= 0xf4 ? 3 : c >= 0xe0 && c <= 0xef ? 2
                                                                          : 1;
        unsigned lo = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
        unsigned hi = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        while (c >= 0xe0 && c <= 0xf4 && bad < most && i + bad < n
               && (unsigned char)s[i + bad] >= (bad == 1 ? lo : 0x80)
               && (unsigned char)s[i + bad] <= (bad == 1 ? hi : 0xbf))
            bad++;
        bn_str_adds(out, replacement);
        i += bad;
    }
}

/* A token's characters as the bytes they stand for; its own bytes if one of
 * them stands for none. */
static void add_bytes(struct bn_str *out, const char *s, size_t n)
{
    size_t mark = out->len;

    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        int len = bn_utf8_get(s + i, n - i, &cp);
        int byte = len > 0 ? bn_char_byte(cp) : -1;

        if (byte < 0) {
            out->len = mark;
            bn_str_add(out, s, n);
            return;
        }
        bn_str_addc(out, (char)byte);
        i += (size_t)len;
    }
}

static int fallback_byte(const char *s, size_t n)
{
    int v = 0;

    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        const char *hex = "0123456789abcdef";
        const char *p = s[i] != '\0' ? strchr(hex, s[i] | 0x20) : NULL;

        if (p == NULL || (s[i] < '0' || (s[i] > '9' && s[i] < 'A')))
            return -1;
        v = v * 16 + (int)(p - hex);
    }
    return v;
}

static void flush_bytes(struct bn_str *run, struct bn_texts *out)
{
    if (run->len == 0)
        return;
    if (bn_utf8_check(run->s, run->len) == run->len)
        bn_texts_add(out, run->s, run->len);
    else
        for (size_t i = 0; i < run->len; i++)
            bn_texts_add(out, replacement, 3);
    bn_str_clear(run);
}

static void strip_text(const struct bn_decode_step *st, const char *s,
                       size_t n, struct bn_texts *out)
{
    size_t len = st->content_len;

    for (int64_t i = 0; i < st->start && n >= len; i++) {
        if (memcmp(s, st->content, len) != 0)
            break;
        s += len;
        n -= len;
    }
    for (int64_t i = 0; i < st->stop && n >= len; i++) {
        if (memcmp(s + n - len, st->content, len) != 0)
            break;
        n -= len;
    }
    bn_texts_add(out, s, n);
}

static void metaspace_text(const struct bn_decode_step *st, const char *s,
                           size_t n, bool first, struct bn_texts *out)
{
    for (size_t i = 0; i < n;) {
        if (n - i < st->pattern.len
            || memcmp(s + i, st->pattern.text, st->pattern.len) != 0) {
            bn_str_addc(&out->buf, s[i++]);
            continue;
        }
        if (!first || st->start == 0)
            bn_str_addc(&out->buf, ' ');
        i += st->pattern.len;
    }
    close_text(out);
}

/* BPEDecoder: the suffix becomes a space, at the very end nothing. */
static void suffix_text(const struct bn_decode_step *st, const char *s,
                        size_t n, bool last, struct bn_texts *out)
{
    for (size_t i = 0; i < n;) {
        if (st->content_len == 0 || n - i < st->content_len
            || memcmp(s + i, st->content, st->content_len) != 0) {
            bn_str_addc(&out->buf, s[i++]);
            continue;
        }
        if (!last)
            bn_str_addc(&out->buf, ' ');
        i += st->content_len;
    }
    close_text(out);
}

/* One step over all texts. 'bytes' gathers what steps fuse. */
static int run_step(const struct bn_decode_step *st, struct bn_matcher *m,
                    const struct bn_texts *in, struct bn_texts *out,
                    struct bn_str *bytes, struct bn_err *err)
{
    for (size_t i = 0, at = 0; i < in->n; at = in->end[i++]) {
        const char *s = in->buf.s != NULL ? in->buf.s + at : "";
        size_t n = in->end[i] - at;
        int byte;

        switch (st->kind) {
        case BN_DECODE_BYTES:
            add_bytes(bytes, s, n);
            break;
        case BN_DECODE_FUSE:
            bn_str_add(&out->buf, s, n);
            break;
        case BN_DECODE_FALLBACK:
            byte = fallback_byte(s, n);
            if (byte >= 0) {
                bn_str_addc(bytes, (char)byte);
                break;
            }
            flush_bytes(bytes, out);
            bn_texts_add(out, s, n);
            break;
        case BN_DECODE_REPLACE:
            if (bn_replace(&st->pattern, m, st->content, st->content_len, s,
                           n, &out->buf, err) < 0)
                return -1;
            close_text(out);
            break;
        case BN_DECODE_STRIP:
            strip_text(st, s, n, out);
            break;
        case BN_DECODE_METASPACE:
            metaspace_text(st, s, n, i == 0, out);
            break;
        case BN_DECODE_SUFFIX:
            suffix_text(st, s, n, i + 1 == in->n, out);
            break;
        }
    }
    if (st->kind == BN_DECODE_BYTES)
        add_lossy(&out->buf, bytes->s, bytes->len);
    if (st->kind == BN_DECODE_FALLBACK)
        flush_bytes(bytes, out);
    if (st->kind == BN_DECODE_BYTES || st->kind == BN_DECODE_FUSE)
        close_text(out);
    bn_str_clear(bytes);
    return 0;
}

static void join(const struct bn_texts *t, const char *sep,
                 struct bn_str *out)
{
    for (size_t i = 0, at = 0; i < t->n; at = t->end[i++]) {
        if (i > 0)
            bn_str_adds(out, sep);
        if (t->end[i] > at)
            bn_str_add(out, t->buf.s + at, t->end[i] - at);
    }
}

int bn_decoder_run(const struct bn_decoder *d, struct bn_texts *in,
                   struct bn_str *out, struct bn_err *err)
{
    struct bn_texts other = {0}, *from = in, *to = &other;
    struct bn_str bytes = {0};
    struct bn_matcher *m = bn_matcher_create();
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < d->n; i++) {
        struct bn_texts *was = from;

        bn_str_clear(&to->buf);
        to->n = 0;
        rc = run_step(&d->step[i], m, from, to, &bytes, err);
        from = to;
        to = was;
    }
    if (rc == 0)
        join(from, d->n == 0 ? " " : "", out);
    bn_matcher_destroy(m);
    bn_str_release(&bytes);
    bn_texts_release(&other);
    return rc;
}
