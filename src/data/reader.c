#include "config.h"
#include "data/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum layout { UNKNOWN, LINES, ARRAY, CSV };
/* What an array wants next. */
enum array_state { BEFORE, ELEMENT, COMMA, AFTER };

struct bn_reader {
    const struct bn_data_files *files;
    const char *const *name;
    size_t file; /* the one being read */
    struct bn_source *src;
    uint64_t before, bytes; /* disk bytes of files done; bytes unpacked */
    enum layout layout;
    enum array_state state;
    bool first;    /* element of an array: a closing bracket may come */
    bool ended;    /* the source has no more */
    bool skipping; /* in a line that is too long */
    uint64_t line, row; /* of the next record */
    char *carry;        /* bytes read that belong to the next chunk */
    size_t carry_len, carry_cap;
    struct bn_csv_head *head; /* [files], kept until the end */
};

void bn_chunk_release(struct bn_chunk *c)
{
    free(c->buf);
    free(c->rec);
    *c = (struct bn_chunk){0};
}

struct bn_reader *bn_reader_open(const struct bn_data_files *files,
                                 const char *const name[BN_COL_COUNT])
{
    struct bn_reader *r = BN_NEW(struct bn_reader);

    r->files = files;
    r->name = name;
    r->head = BN_NEWN(struct bn_csv_head, files->n);
    return r;
}

static const char *path(const struct bn_reader *r)
{
    return r->files->v[r->file].path;
}

static uint64_t count_lines(const char *s, size_t n)
{
    uint64_t lines = 0;

    for (size_t i = 0; i < n; i++)
        lines += s[i] == '\n';
    return lines;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static void add_record(struct bn_reader *r, struct bn_chunk *c, size_t at,
                       size_t len)
{
    bn_grow(&c->rec, &c->rec_cap, c->nrec + 1, sizeof(*c->rec));
    c->rec[c->nrec++] = (struct bn_record){at, len, r->line};
}

/* Each splitter adds the whole records of c->buf, '*used' bytes of it, and
 * moves line, row and state on. r->ended: nothing follows. */

static int split_lines(struct bn_reader *r, struct bn_chunk *c, size_t *used)
{
    size_t at = 0;

    while (at < c->len) {
        const char *nl = memchr(c->buf + at, '\n', c->len - at);
        size_t end = nl != NULL ? (size_t)(nl - c->buf) : c->len;
        size_t from = at;

        if (nl == NULL && !r->ended)
            break;
        while (from < end && is_space(c->buf[from]))
            from++;
        if (from < end)
            add_record(r, c, at, end - at);
        else if (c->nrec == 0)
            c->row++; /* a row number is a line number here */
        else
            add_record(r, c, at, 0);
        r->line++;
        r->row++;
        at = end + (nl != NULL);
    }
    *used = at;
    return 0;
}

static int split_csv(struct bn_reader *r, struct bn_chunk *c, size_t *used,
                     struct bn_err *err)
{
    struct bn_csv_head *h = &r->head[r->file];
    size_t at = 0;
    char why[200];

    while (at < c->len) {
        size_t next = 0;
        size_t len = bn_csv_record(c->buf + at, c->len - at, r->ended, &next);

        if (len == (size_t)-1) {
            if (r->ended)
                return bn_fail(err, BN_ERR_DATA, "%s:%llu: a quote opened in "
                               "this row is never closed", path(r),
                               (unsigned long long)r->line);
            break;
        }
        if (len > 0 && h->col == NULL) {
            const char *bad = bn_csv_head_parse(h, c->buf + at, len, r->name,
                                                why);
            if (bad != NULL)
                return bn_fail(err, BN_ERR_DATA, "%s:%llu: the header: %s",
                               path(r), (unsigned long long)r->line, bad);
        } else if (len > 0) {
            add_record(r, c, at, len);
            r->row++;
        }
        r->line += count_lines(c->buf + at, next);
        at += next;
    }
    c->head = h;
    *used = at;
    return 0;
}

/* One past the string whose quote is at s[i]; 0 if it does not end here. */
static size_t string_end(const char *s, size_t n, size_t i)
{
    for (i++;; i++) {
        const char *q = i < n ? memchr(s + i, '"', n - i) : NULL;
        size_t back = 0;

        if (q == NULL)
            return 0;
        i = (size_t)(q - s);
        while (s[i - 1 - back] == '\\')
            back++;
        if (back % 2 == 0)
            return i + 1;
    }
}

/* The length of the array's element at s[0..n): to its closing bracket, or
 * to what ends a scalar; 0 if its end is not in here. */
static size_t element_len(const char *s, size_t n)
{
    size_t depth = 0, i = 0;

    while (i < n) {
        char c = s[i];

        if (c == '"') {
            i = string_end(s, n, i);
            if (i == 0)
                return 0;
            continue;
        }
        if (depth == 0 && i > 0
            && (c == ',' || c == ']' || c == '}' || is_space(c)))
            return i;
        i++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && depth > 0 && --depth == 0)
            return i;
    }
    return 0;
}

static int array_fail(const struct bn_reader *r, const char *what,
                      struct bn_err *err)
{
    return bn_fail(err, BN_ERR_DATA, "%s:%llu: %s", path(r),
                   (unsigned long long)r->line, what);
}

static int split_array(struct bn_reader *r, struct bn_chunk *c, size_t *used,
                       struct bn_err *err)
{
    size_t at = 0;

    for (;;) {
        while (at < c->len && is_space(c->buf[at]))
            r->line += c->buf[at++] == '\n';
        *used = at;
        if (at == c->len)
            break;
        char ch = c->buf[at];
        if (r->state == AFTER)
            return array_fail(r, "text after the array", err);
        if (r->state == BEFORE) {
            r->state = ELEMENT;
            r->first = true;
            at++;
            continue;
        }
        if (ch == ']' && (r->state == COMMA || r->first)) {
            r->state = AFTER;
            at++;
            continue;
        }
        if (r->state == COMMA) {
            if (ch != ',')
                return array_fail(r, "no comma between the rows of the array",
                                  err);
            r->state = ELEMENT;
            r->first = false;
            at++;
            continue;
        }
        if (ch == ',' || ch == ']')
            return array_fail(r, "a row of the array is empty", err);
        size_t len = element_len(c->buf + at, c->len - at);
        if (len == 0)
            break;
        add_record(r, c, at, len);
        r->row++;
        r->line += count_lines(c->buf + at, len);
        r->state = COMMA;
        at += len;
    }
    if (r->ended && r->state != AFTER)
        return array_fail(r, "the array that ends the file here is not closed"
                          "; the file may be cut", err);
    return 0;
}

static int open_file(struct bn_reader *r, struct bn_err *err)
{
    r->src = bn_source_open(path(r), err);
    if (r->src == NULL)
        return -1;
    r->layout = r->files->v[r->file].kind == BN_FILE_CSV ? CSV : UNKNOWN;
    r->state = BEFORE;
    r->ended = r->skipping = false;
    r->line = r->row = 1;
    r->carry_len = 0;
    return 0;
}

static void close_file(struct bn_reader *r)
{
    r->before += bn_source_at(r->src);
    bn_source_close(r->src);
    r->src = NULL;
    r->file++;
}

/* Drop a byte order mark and tell lines from an array. */
static int sniff(struct bn_reader *r, struct bn_chunk *c, struct bn_err *err)
{
    size_t at = 0;

    if (c->len >= 2 && (memcmp(c->buf, "\xff\xfe", 2) == 0
                        || memcmp(c->buf, "\xfe\xff", 2) == 0))
        return bn_fail(err, BN_ERR_DATA, "'%s' is UTF-16; convert it to "
                       "UTF-8 (iconv -f UTF-16 -t UTF-8)", path(r));
    if (c->len >= 3 && memcmp(c->buf, "\xef\xbb\xbf", 3) == 0) {
        memmove(c->buf, c->buf + 3, c->len - 3);
        c->len -= 3;
    }
    if (r->layout == UNKNOWN) {
        while (at < c->len && is_space(c->buf[at]))
            at++;
        if (at < c->len || r->ended)
            r->layout = at < c->len && c->buf[at] == '[' ? ARRAY : LINES;
    }
    return 0;
}

/* Put what was carried over and 'want' fresh bytes into the chunk. */
static int fill(struct bn_reader *r, struct bn_chunk *c, size_t want,
                struct bn_err *err)
{
    bn_grow(&c->buf, &c->cap, c->len + want, 1);
    ssize_t n = bn_source_read(r->src, c->buf + c->len, want, err);

    if (n < 0)
        return -1;
    r->ended = (size_t)n < want;
    r->bytes += (uint64_t)n;
    c->len += (size_t)n;
    return 0;
}

/* The record in hand is longer than any may be. */
static int too_long(struct bn_reader *r, struct bn_chunk *c,
                    struct bn_err *err)
{
    if (r->layout != LINES)
        return array_fail(r, r->layout == CSV
                              ? "a row longer than 32 MiB; is a quote not "
                                "closed?"
                              : "a row of the array is longer than 32 MiB",
                          err);
    r->skipping = true;
    c->dropped = r->line;
    c->row = r->row;
    c->len = 0;
    return 1;
}

/* In a line that was given up: look for its end. */
static void skip_line(struct bn_reader *r, struct bn_chunk *c)
{
    const char *nl = memchr(c->buf, '\n', c->len);
    size_t n = nl != NULL ? (size_t)(nl - c->buf) + 1 : c->len;

    memmove(c->buf, c->buf + n, c->len - n);
    c->len -= n;
    if (nl != NULL) {
        r->skipping = false;
        r->line++;
        r->row++;
    }
}

static void carry_over(struct bn_reader *r, struct bn_chunk *c, size_t used)
{
    r->carry_len = c->len - used;
    bn_grow(&r->carry, &r->carry_cap, r->carry_len + 1, 1);
    memcpy(r->carry, c->buf + used, r->carry_len);
    c->len = used;
}

static int split(struct bn_reader *r, struct bn_chunk *c, size_t *used,
                 struct bn_err *err)
{
    *used = 0;
    switch (r->layout) {
    case LINES:
        return split_lines(r, c, used);
    case ARRAY:
        return split_array(r, c, used, err);
    case CSV:
        return split_csv(r, c, used, err);
    case UNKNOWN: /* nothing but white space so far */
        break;
    }
    return 0;
}

/* Chunks of one file: 1, 0 at its end, -1. */
static int next_of_file(struct bn_reader *r, struct bn_chunk *c,
                        struct bn_err *err)
{
    size_t used = 0;

    c->len = c->nrec = 0;
    c->dropped = 0;
    c->head = NULL;
    c->file = (uint32_t)r->file;
    bn_grow(&c->buf, &c->cap, r->carry_len + 1, 1);
    if (r->carry_len > 0)
        memcpy(c->buf, r->carry, r->carry_len);
    c->len = r->carry_len;
    r->carry_len = 0;
    for (;;) {
        bool begin = r->layout == UNKNOWN
                     || (r->layout == CSV && r->head[r->file].col == NULL);

        size_t want = c->len > BN_CHUNK ? c->len : BN_CHUNK;

        if (!r->ended && fill(r, c, want, err) < 0)
            return -1;
        if (r->skipping)
            skip_line(r, c);
        if (begin && sniff(r, c, err) < 0)
            return -1;
        c->row = r->row;
        if (split(r, c, &used, err) < 0)
            return -1;
        if (c->nrec > 0 || r->ended)
            break;
        if (c->len - used > BN_ROW_MAX)
            return too_long(r, c, err);
        memmove(c->buf, c->buf + used, c->len - used);
        c->len -= used;
    }
    carry_over(r, c, used);
    return c->nrec > 0;
}

int bn_reader_next(struct bn_reader *r, struct bn_chunk *c,
                   struct bn_err *err)
{
    while (r->file < r->files->n) {
        int rc;

        if (r->src == NULL && open_file(r, err) < 0)
            return -1;
        rc = r->ended && r->carry_len == 0 ? 0 : next_of_file(r, c, err);
        if (rc != 0)
            return rc;
        close_file(r);
    }
    return 0;
}

uint64_t bn_reader_at(const struct bn_reader *r)
{
    return r->before + (r->src != NULL ? bn_source_at(r->src) : 0);
}

uint64_t bn_reader_bytes(const struct bn_reader *r)
{
    return r->bytes;
}

void bn_reader_close(struct bn_reader *r)
{
    if (r == NULL)
        return;
    bn_source_close(r->src);
    for (size_t i = 0; i < r->files->n; i++)
        bn_csv_head_release(&r->head[i]);
    free(r->head);
    free(r->carry);
    free(r);
}
