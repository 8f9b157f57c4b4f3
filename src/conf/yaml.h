/* YAML as a tree that knows where each value was written.
 *
 * The plain part of YAML 1.1 that people use for settings: mappings,
 * sequences and scalars, anchors and aliases. An alias shares its target, so
 * memory is linear in the file; what a walk over the tree would see is
 * bounded by BN_YAML_NODES. Refused, each with its place: tags, merge keys
 * ("<<"), keys that are not scalars, duplicate keys, a second document, NUL
 * in a scalar. Typing is left to the reader: a scalar is its text and
 * whether it was quoted.
 */
#ifndef BN_CONF_YAML_H
#define BN_CONF_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/problems.h"

enum { BN_YAML_NODES = 1000000, BN_YAML_PAIRS = 10000, BN_YAML_DEPTH = 64 };
enum { BN_YAML_FILE_MAX = 64 << 20 };

enum bn_yaml_kind { BN_YAML_SCALAR, BN_YAML_LIST, BN_YAML_MAP };

struct bn_yaml {
    enum bn_yaml_kind kind;
    struct bn_place at;       /* of the value */
    const char *text;         /* scalar */
    bool quoted;              /* scalar in quotes or a block: never null */
    size_t n;                 /* items of a list, pairs of a map */
    struct bn_yaml **item;    /* [n] */
    struct bn_yaml **key;     /* map: [n] scalars */
};

struct bn_yaml_doc;

/* Parse. 'name' is the file in every place. A broken syntax adds a problem
 * and gives NULL. What is refused but leaves the rest readable (a duplicate
 * key, a merge key, a tag) adds a problem, and the tree comes without it, so
 * that a reader can say what else is wrong: look at p->n. An empty document
 * is an empty map. Free with bn_yaml_free; places and texts live as long as
 * the document. */
struct bn_yaml_doc *bn_yaml_parse(const char *text, size_t len,
                                  const char *name, struct bn_problems *p);
/* The same of an argument: places are 'name' without a line. */
struct bn_yaml_doc *bn_yaml_parse_arg(const char *text, const char *name,
                                      struct bn_problems *p);
/* Parse a file of at most BN_YAML_FILE_MAX bytes; "-" is standard
 * input. */
struct bn_yaml_doc *bn_yaml_load(const char *path, struct bn_problems *p);
/* A document that is the one plain scalar 'text', taken as it is; places
 * are 'name'. */
struct bn_yaml_doc *bn_yaml_scalar(const char *text, const char *name);
const struct bn_yaml *bn_yaml_root(const struct bn_yaml_doc *doc);
void bn_yaml_free(struct bn_yaml_doc *doc);

/* The value of 'key' in a map, or NULL. */
const struct bn_yaml *bn_yaml_get(const struct bn_yaml *map,
                                  const char *key);
/* True of null, Null, NULL, ~ and nothing at all, unquoted. */
bool bn_yaml_is_null(const struct bn_yaml *y);

#endif
