/* CSV as RFC 4180 has it: fields with commas, quotes (doubled) or line ends
 * are quoted; a quote inside an unquoted field is an error. */
#include "config.h"
#include "data/row.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/simd.h"

size_t bn_csv_record(const char *s, size_t n, bool last, size_t *next)
{
    size_t i = 0;

    for (;;) {
        /* at the beginning of a field */
        if (i < n && s[i] == '"') {
            for (i++;;) {
                const char *q = i < n ? memchr(s + i, '"', n - i) : NULL;

                if (q == NULL)
                    return (size_t)-1;
                i = (size_t)(q - s) + 1;
                if (i == n && !last)
                    return (size_t)-1; /* perhaps half of a doubled one */
                if (i == n || s[i] != '"')
                    break;
                i++;
            }
        }
        while (i < n && s[i] != ',' && s[i] != '\n')
            i++;
        if (i == n || s[i] == '\n')
            break;
        i++;
    }
    if (i == n && !last)
        return (size_t)-1;
    *next = i < n ? i + 1 : n;
    if (i > 0 && s[i - 1] == '\r')
        i--;
    return i;
}

/* The field at s[*at..n); '*at' moves behind it and its comma. 'more' says
 * whether a comma was there. */
static const char *field(const char *s, size_t n, size_t *at, bool *more,
                         struct bn_field *f, struct bn_str *b)
{
    size_t i = *at, mark = b->len;

    *more = false;
    if (i < n && s[i] == '"') {
        size_t from = ++i;

        for (;;) {
            const char *q = memchr(s + i, '"', n - i);

            if (q == NULL)
                return "a quote that is not closed";
            i = (size_t)(q - s);
            if (i + 1 == n || s[i + 1] != '"')
                break;
            memcpy(b->s + b->len, s + from, i + 1 - from);
            b->len += i + 1 - from;
            i += 2;
            from = i;
        }
        if (b->len == mark) {
            *f = (struct bn_field){BN_FIELD_STRING, s + from, i - from};
        } else {
            memcpy(b->s + b->len, s + from, i - from);
            b->len += i - from;
            *f = (struct bn_field){BN_FIELD_STRING, b->s + mark,
                                   b->len - mark};
        }
        i++;
        if (i < n && s[i] != ',')
            return "text after a closing quote";
    } else {
        while (i < n && s[i] != ',') {
            if (s[i] == '"')
                return "a quote inside a field that is not quoted";
            i++;
        }
        *f = (struct bn_field){BN_FIELD_STRING, s + *at, i - *at};
    }
    *more = i < n;
    *at = i + *more;
    return NULL;
}

static const char *begin(const char *s, size_t n, struct bn_str *scratch,
                         char *why)
{
    size_t bad = bn_text_check(s, n);

    bn_str_clear(scratch);
    bn_grow(&scratch->s, &scratch->cap, n + 8, 1);
    if (bad == n)
        return NULL;
    snprintf(why, 200, "not UTF-8 at byte %zu of the row", bad + 1);
    return why;
}

void bn_csv_head_release(struct bn_csv_head *h)
{
    free(h->col);
    free(h->names);
    *h = (struct bn_csv_head){0};
}

const char *bn_csv_head_parse(struct bn_csv_head *h, const char *s, size_t n,
                              const char *const name[BN_COL_COUNT], char *why)
{
    struct bn_csv_head got = {0};
    struct bn_str scratch = {0}, names = {0};
    size_t at = 0, cap = 0;
    bool more = true;
    unsigned all = 0;
    const char *bad = begin(s, n, &scratch, why);

    while (bad == NULL && more) {
        struct bn_field f;

        bad = field(s, n, &at, &more, &f, &scratch);
        if (bad != NULL)
            break;
        bn_grow(&got.col, &cap, got.n + 1, sizeof(*got.col));
        got.col[got.n] = 0;
        bn_str_adds(&names, got.n > 0 ? ", '" : "'");
        bn_str_add(&names, f.s, f.n);
        bn_str_addc(&names, '\'');
        for (int c = 0; c < BN_COL_COUNT; c++) {
            if (strlen(name[c]) == f.n && memcmp(name[c], f.s, f.n) == 0)
                got.col[got.n] |= 1u << c;
        }
        if (all & got.col[got.n])
            bad = "a column for the second time";
        all |= got.col[got.n++];
    }
    bn_str_release(&scratch);
    got.names = bn_str_take(&names);
    if (bad != NULL)
        bn_csv_head_release(&got);
    else
        *h = got;
    return bad;
}

const char *bn_row_csv(const char *s, size_t n, const struct bn_csv_head *h,
                       struct bn_row *row, struct bn_str *scratch, char *why)
{
    size_t at = 0, count = 0;
    bool more = true;
    const char *bad = begin(s, n, scratch, why);

    *row = (struct bn_row){0};
    while (bad == NULL && more) {
        struct bn_field f;

        bad = field(s, n, &at, &more, &f, scratch);
        if (bad == NULL && count < h->n && h->col[count] != 0) {
            for (int c = 0; c < BN_COL_COUNT; c++) {
                if (h->col[count] & 1u << c)
                    row->f[c] = f;
            }
        }
        count++;
    }
    if (bad == NULL && count != h->n) {
        snprintf(why, 200, "%zu fields where the header has %zu", count,
                 h->n);
        bad = why;
    }
    return bad;
}
