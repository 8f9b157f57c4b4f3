/* Batch scripts from templates with @KEY@ holes, so that no value of a
 * configuration can end a word, add a directive or run a command.
 *
 * A template is a bash script. One comment line "# keys: A B C" before the
 * first command declares its holes; a hole is @KEY@, of capitals, digits and
 * underscores. Declared keys and used keys are the same set. A hole may not
 * stand inside quotes (its value brings its own) nor in a comment.
 */
#ifndef BN_SWEEP_TEMPLATE_H
#define BN_SWEEP_TEMPLATE_H

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

enum bn_hole_kind {
    BN_HOLE_WORD,  /* quoted so that it is part of one word */
    BN_HOLE_BLOCK, /* whole lines made by this program; alone on its line */
};

struct bn_hole {
    const char *key;
    enum bn_hole_kind kind;
    const char *value;
};

/* Append the script to 'out'. 'name' is the template's path for messages,
 * which carry the line. Class usage for any fault of template or value:
 * a hole that is not in 'holes', undeclared or declared and unused, inside
 * quotes or in a comment; a value that cannot be quoted where it stands.
 * 'out' is as it was after failure. */
int bn_template_expand(const char *text, const char *name,
                       const struct bn_hole *holes, size_t n,
                       struct bn_str *out, struct bn_err *err);

/* Append 'value' as (part of) one shell word. Refused: control characters. */
int bn_quote_shell(struct bn_str *out, const char *value,
                   struct bn_err *err);
/* The same for an #SBATCH line, which knows single quotes but no escapes:
 * also refused are ' and \. */
int bn_quote_sbatch(struct bn_str *out, const char *value,
                    struct bn_err *err);

/* One option of an #SBATCH line: "--time=5" or "-t 5" is {"time", "5"} and
 * {"t", "5"}; "--requeue" has the value NULL. */
struct bn_directive {
    char *name, *value;
};
struct bn_directives {
    struct bn_directive *v;
    size_t n, cap;
};

/* Read the directives of a script back the way sbatch does: comment lines
 * before the first command, words with quotes, to a # that begins a word. */
int bn_directives_read(struct bn_directives *d, const char *script,
                       struct bn_err *err);
/* The value of the last directive 'name' ("" if it has none), or NULL. */
const char *bn_directives_get(const struct bn_directives *d,
                              const char *name);
void bn_directives_release(struct bn_directives *d);

/* Run "bash -n" over each of 'n' script files on all CPUs. The error names
 * the first script that bash refuses, and bash's reason. */
int bn_scripts_parse(const char *const *paths, size_t n, struct bn_err *err);

#endif
