/* Pickles as data. A pickle is a program for a stack machine whose calls can
 * run anything; this reader runs nothing. It builds a tree in which names of
 * Python objects, calls of them and persistent ids are nodes like others,
 * for the caller to interpret the few it knows and refuse the rest.
 */
#ifndef BN_FORMAT_PICKLE_H
#define BN_FORMAT_PICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum bn_pk_kind {
    BN_PK_NONE,
    BN_PK_BOOL,  /* i */
    BN_PK_INT,   /* i */
    BN_PK_FLOAT, /* f */
    BN_PK_STR,   /* s, len; NUL-terminated */
    BN_PK_BYTES, /* s, len */
    BN_PK_LIST,  /* item, n */
    BN_PK_TUPLE,
    BN_PK_DICT,   /* item: key, value, key, value, ... */
    BN_PK_GLOBAL, /* s: "module.name" */
    BN_PK_CALL,   /* item[0] the callee, a GLOBAL; item[1] its arguments, a
                   * TUPLE */
    BN_PK_PERSID, /* item[0] */
};

struct bn_pk {
    enum bn_pk_kind kind;
    int64_t i;
    double f;
    char *s;
    size_t len;
    struct bn_pk **item; /* borrowed; a node may be in several places and,
                          * in a hostile pickle, inside itself */
    size_t n, cap;
};

/* Everything a pickle made; nodes live until it is released. */
struct bn_pickle {
    struct bn_pk **node;
    size_t n, cap;
    struct bn_pk *root;
};

/* Read protocols 2 to 5. An object's state (BUILD) is read and dropped: it
 * can only be attributes. collections.OrderedDict called with no argument
 * is a DICT. Opcodes that nothing here needs are refused by name or number.
 * Work and memory grow with 'len' only. 'name' is for messages.
 */
int bn_pickle_read(struct bn_pickle *pk, const void *data, size_t len,
                   const char *name, struct bn_err *err);
void bn_pickle_release(struct bn_pickle *pk);

#endif
