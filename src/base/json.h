/* jansson with errors that name file, line and column. Values are borrowed
 * from their parent unless a name says otherwise. For whole documents; the
 * data readers have a scanner of their own for rows.
 */
#ifndef BN_BASE_JSON_H
#define BN_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Parse text named 'name' in messages. Duplicate keys, NUL in keys and text
 * after the value are errors. Free with json_decref. */
json_t *bn_json_parse(const char *text, size_t len, const char *name,
                      struct bn_err *err);
/* Read and parse a file of at most 1 GiB. */
json_t *bn_json_load(const char *path, struct bn_err *err);

/* Members of an object. Absent (or null) leaves '*out' as it was and returns
 * 0; present and of the right type sets it and returns 1; else -1 with an
 * error naming 'where' and 'key'. Integers written 1e3 or 4.0 are accepted. */
int bn_json_int(const json_t *o, const char *where, const char *key,
                int64_t *out, struct bn_err *err);
int bn_json_num(const json_t *o, const char *where, const char *key,
                double *out, struct bn_err *err);
int bn_json_bool(const json_t *o, const char *where, const char *key,
                 bool *out, struct bn_err *err);
int bn_json_str(const json_t *o, const char *where, const char *key,
                const char **out, struct bn_err *err);

#endif
