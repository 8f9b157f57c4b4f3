/* One row of a data file as named fields, before it means anything.
 *
 * Rows come from JSON objects or CSV records. Both scanners are strict and
 * look at every byte; strings that need no unescaping are borrowed from the
 * row.
 */
#ifndef BN_DATA_ROW_H
#define BN_DATA_ROW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "data/data.h"

enum bn_field_type {
    BN_FIELD_ABSENT, /* or null */
    BN_FIELD_STRING, /* s[0..n): unescaped UTF-8, NUL allowed */
    BN_FIELD_ARRAY,  /* s[0..n): its JSON text */
    BN_FIELD_OBJECT, /* s[0..n): its JSON text */
    BN_FIELD_OTHER,  /* a number, true or false: its JSON text */
};

struct bn_field {
    enum bn_field_type type;
    const char *s;
    size_t n;
};

struct bn_row {
    struct bn_field f[BN_COL_COUNT];
};

enum { BN_ROW_DEPTH = 64 }; /* nesting of a row's JSON */

/* Scan one JSON object. name[c] is the key of column c; two columns may have
 * one key. 'scratch' (cleared first) holds unescaped strings and must
 * outlive the use of 'row', as must 's'. All of 's' must be one well-formed
 * object in UTF-8 but for white space around it; a wanted key that comes
 * twice, a lone surrogate and nesting beyond BN_ROW_DEPTH are errors.
 * Returns NULL, or what is wrong (static or in 'why', which has 200 bytes).
 */
const char *bn_row_json(const char *s, size_t n,
                        const char *const name[BN_COL_COUNT],
                        struct bn_row *row, struct bn_str *scratch,
                        char *why);

/* Append the keys of a JSON object as "'a', 'b', 'c'". Returns as above. */
const char *bn_row_keys(const char *s, size_t n, struct bn_str *out,
                        char *why);

/* Which columns a CSV header names: col[i] has bit c set where field i is
 * column c. */
struct bn_csv_head {
    unsigned *col;
    size_t n;
    char *names; /* "'Q', 'A'": for messages */
};
void bn_csv_head_release(struct bn_csv_head *h);
/* Parse a header record. A wanted name that comes twice is an error. */
const char *bn_csv_head_parse(struct bn_csv_head *h, const char *s, size_t n,
                              const char *const name[BN_COL_COUNT],
                              char *why);
/* Split one CSV record (RFC 4180; without its line end) into fields by the
 * header; the number of fields must be the header's. An empty field is an
 * empty string. */
const char *bn_row_csv(const char *s, size_t n, const struct bn_csv_head *h,
                       struct bn_row *row, struct bn_str *scratch, char *why);

/* The length of the CSV record at s[0..n), up to but without its line end;
 * '*next' is where the next one begins. Returns (size_t)-1 if the record is
 * not closed within n; 'last' says that nothing follows s[n). */
size_t bn_csv_record(const char *s, size_t n, bool last, size_t *next);

#endif
