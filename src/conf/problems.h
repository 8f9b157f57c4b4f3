/* A list of what is wrong with files that people write, so that all of it
 * can be said in one go. The class of every entry is BN_ERR_USAGE.
 */
#ifndef BN_CONF_PROBLEMS_H
#define BN_CONF_PROBLEMS_H

#include <stddef.h>
#include <stdio.h>

/* Where something was written. line and column count from 1; line 0 is the
 * whole of 'file'. 'file' may also name an argument ("--set beta=x"). */
struct bn_place {
    const char *file;
    int line, column;
};

struct bn_problem {
    struct bn_place at; /* file is owned by the list */
    char *text;
};

/* A zeroed struct is an empty list. */
struct bn_problems {
    struct bn_problem *v;
    size_t n, cap;
    size_t dropped; /* found after BN_PROBLEMS_MAX */
};
enum { BN_PROBLEMS_MAX = 1000 };

/* Add one, unless it is there already with its place. 'at' is copied; a file
 * of NULL prints without a place. Control characters of the text become "?".
 */
void bn_problem_add(struct bn_problems *p, struct bn_place at,
                    const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Order the entries from 'first' on by place: files as they first appear,
 * arguments ("--...") last. */
void bn_problems_sort(struct bn_problems *p, size_t first);
/* One line each: "file:line:column: text". */
void bn_problems_print(const struct bn_problems *p, FILE *out);
void bn_problems_release(struct bn_problems *p);

#endif
