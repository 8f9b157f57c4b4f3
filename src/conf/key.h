/* Inside src/conf: the table and how one value is read and written. */
#ifndef BN_CONF_KEY_H
#define BN_CONF_KEY_H

#include "base/str.h"
#include "conf/conf.h"

enum { BN_CONF_NKEYS = 108 };
/* Largest INT: what a double holds exactly. As 'max' it means no limit. */
#define BN_CONF_INT_MAX 9007199254740992.0

struct bn_conf_group {
    const char *name, *title;
};
extern const struct bn_conf_group bn_conf_groups[]; /* ends with NULL */

/* The field of key 'k'. */
static inline void *bn_conf_at(const struct bn_run *run,
                               const struct bn_conf_key *k)
{
    return (char *)run + k->offset;
}

/* Read 'y' into the field (which is zero or unset). -1 after adding a
 * problem at y->at; the field is then as it was. */
int bn_conf_read(const struct bn_conf_key *k, const struct bn_yaml *y,
                 void *field, struct bn_problems *p);
/* The same of a default in the table, which is right by a test. */
void bn_conf_read_default(const struct bn_conf_key *k, const char *text,
                          void *field);
/* Copy a value between the fields of two keys of one type. */
void bn_conf_copy(const struct bn_conf_key *k, const void *from, void *to);
/* Append the value as one line of YAML; "null" if it is unset. */
void bn_conf_write(const struct bn_conf_key *k, const void *field,
                   struct bn_str *out);
void bn_conf_release(const struct bn_conf_key *k, void *field);
/* What a key takes: "a number above 0, at most 1". */
void bn_conf_takes(const struct bn_conf_key *k, struct bn_str *out);

/* Where each value came from. */
struct bn_run_origin {
    struct bn_place at[BN_CONF_NKEYS]; /* file NULL: a default */
    bool bad[BN_CONF_NKEYS];           /* could not be read; for the rules */
    struct bn_place top; /* of the keys, for what is missing among them */
    char **file;                       /* owns the names in 'at' */
    size_t nfiles, file_cap;
    unsigned flags; /* enum bn_run_flags */
};
/* True if the value of 'name' was written by somebody. */
bool bn_run_written(const struct bn_run *run, const char *name);

/* A rule between keys: the keys whose values it looks at (the first that
 * somebody wrote gives the place), what it demands, and a test that says why
 * a run breaks it: true, with the reason added to 'why'. */
struct bn_rule {
    const char *name, *key[6], *text;
    bool (*broken)(const struct bn_run *r, struct bn_str *why);
};
extern const struct bn_rule bn_rules[];
extern const size_t bn_nrules;
/* Add a problem for every rule that 'run' breaks; rules over values that
 * could not be read are left out. */
void bn_run_rules(const struct bn_run *run, struct bn_problems *p);

/* If 'name' is a word of another tool, what to write here; else NULL. */
const char *bn_conf_foreign(const char *name);
/* Likewise of 'text' as the value of key 'name'. */
const char *bn_conf_foreign_value(const char *name, const char *text);

#endif
