/* The parser's parts: statements (jinja_parse.c), operators (jinja_expr.c),
 * what they apply to (jinja_primary.c). Functions that make a node return
 * NULL on an error, which is then in p->err.
 */
#ifndef BN_TEXT_JINJA_PARSE_H
#define BN_TEXT_JINJA_PARSE_H

#include "text/jinja.h"

struct jparser {
    struct bn_chat *c;
    struct jtok *tok;
    size_t i, n;
    struct bn_err *err;
    int depth, loops;
    bool in_generation;
    size_t uses[3]; /* times caller, varargs, kwargs were named so far */
};
int jp_fail(struct jparser *p, uint32_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
struct jnode *jp_node(struct jparser *p, enum jnode_kind kind, uint32_t at);
bool jp_is_op(const struct jparser *p, enum jop op);
bool jp_is_name(const struct jparser *p, const char *name);
bool jp_skip_op(struct jparser *p, enum jop op);
bool jp_skip_name(struct jparser *p, const char *name);
int jp_expect_op(struct jparser *p, enum jop op, const char *what);
struct jnode *jp_expression(struct jparser *p);
enum { JP_NOCOND = 1, JP_PAREN = 2 };
struct jnode *jp_tuple(struct jparser *p, int how);
struct jnode *jp_target(struct jparser *p, bool names_only, bool namespaces);
struct jnode *jp_filters(struct jparser *p, struct jnode *on, bool inline_);
const struct jcall *jp_call_args(struct jparser *p);
struct jnode *jp_postfix(struct jparser *p, struct jnode *n);
bool jp_enter(struct jparser *p); /* false: too deep, error set */

/* A growing list of nodes that ends in the template's memory. */
struct jp_list {
    struct jnode **v;
    size_t n, cap;
};
void jp_list_add(struct jp_list *l, struct jnode *n);
/* The list as an array of p's template; 'l' is empty again. */
struct jnode **jp_list_take(struct jparser *p, struct jp_list *l);

static inline const struct jtok *jp_peek(const struct jparser *p)
{
    return &p->tok[p->i];
}

/* Fail with what the current token is and what is wanted; NULL. */
struct jnode *jp_unexpected(struct jparser *p, const char *want);
/* Set the height of 'n' over its children; NULL if there are too many. */
struct jnode *jp_over(struct jparser *p, struct jnode *n);
struct jnode *jp_binary(struct jparser *p, enum jnode_kind kind, enum jop op,
                        uint32_t at, struct jnode *a, struct jnode *b);
/* A name or literal; a name with calls, filters, tests. */
struct jnode *jp_primary(struct jparser *p);
struct jnode *jp_filter_expr(struct jparser *p, struct jnode *n);

#endif
