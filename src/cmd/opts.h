/* Options of a command line as a table, which parses and is the help. */
#ifndef BN_CMD_OPTS_H
#define BN_CMD_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "conf/conf.h"

/* Strings are borrowed from argv. */
struct bn_opt_list {
    const char **v; /* malloc'ed */
    size_t n, cap;
};

/* What 'out' points to: bool, const char *, int64_t, double, struct
 * bn_opt_list. */
enum bn_opt_type {
    BN_OPT_FLAG,
    BN_OPT_STR,
    BN_OPT_INT,
    BN_OPT_NUM,
    BN_OPT_LIST
};

struct bn_opt {
    const char *name; /* without "--"; NULL ends a table */
    enum bn_opt_type type;
    void *out;
    const char *arg; /* its name in the help; NULL for a flag. "A|B|C": one
                      * of these words. DIR, FOLDER and FILE are paths. */
    const char *help;
};

/* A word that says what a command is to do: `burnish ckpt ls`. */
struct bn_verb {
    const char *name; /* NULL ends a table */
    const char *help;
};

/* Parse argv[1..]: "--name", "--name VALUE", "--name=VALUE"; "--" ends the
 * options; "-" and words are operands, in any order. Operands are added to
 * 'operands'. An error (class usage) names the option and the nearest one
 * known. A flag, string or integer given twice: the last counts. */
int bn_opts_parse(const struct bn_opt *opts, int argc, char **argv,
                  struct bn_opt_list *operands, struct bn_err *err);
void bn_opt_list_add(struct bn_opt_list *l, const char *s);
void bn_opt_list_release(struct bn_opt_list *l);
/* One or two lines each, indented. Completion and manual pages are made of
 * what these two and the usage lines print (doc/help.awk). */
void bn_opts_help(const struct bn_opt *opts, FILE *out);
void bn_verbs_help(const struct bn_verb *verbs, FILE *out);

/* The index of the verb that operand 0 is; -1 after an error (class usage)
 * that names the nearest one, or all if there is no operand. */
int bn_verb_find(const struct bn_verb *verbs,
                 const struct bn_opt_list *operands, struct bn_err *err);

/* What every command that reads a run file takes. */
struct bn_run_args {
    struct bn_opt_list sets; /* --set KEY=VALUE */
    bool print_config;       /* --print-config */
    bool help_keys;          /* --help-keys */
};
#define BN_RUN_OPTS(args)                                                     \
    {"set", BN_OPT_LIST, &(args)->sets, "KEY=VALUE",                          \
     "override a key of the run file; may be repeated"},                      \
    {"print-config", BN_OPT_FLAG, &(args)->print_config, NULL,                \
     "print every value in force and where it came from, and exit"},          \
    {"help-keys", BN_OPT_FLAG, &(args)->help_keys, NULL,                      \
     "list the keys of a run file, and exit"}

/* Load the run file, print its problems on standard error, or do what
 * --help-keys and --print-config ask for. NULL when the command is to end
 * with '*status'. */
struct bn_run *bn_run_args_load(const struct bn_run_args *args,
                                const char *path, unsigned flags,
                                int *status);

#endif
