/* Reading JSON, one value a line, from files or standard input. */
#ifndef BN_CMD_LINES_H
#define BN_CMD_LINES_H

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"

/* Call f with every line's value (empty lines are left out) and an empty
 * 'out'; what it adds there is written to standard output. files: 'n' names,
 * "-" is standard input, none means that as well. Stops at the first
 * error, which then begins with "file:line: ". */
int bn_cmd_lines(const char *const *files, size_t n,
                 int (*f)(void *arg, const json_t *line, struct bn_str *out,
                          struct bn_err *err),
                 void *arg, struct bn_err *err);

#endif
