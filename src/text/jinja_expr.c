/* Operators, in Jinja's own order of precedence. */
#include "config.h"
#include "text/jinja_parse.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void jp_list_add(struct jp_list *l, struct jnode *n)
{
    bn_grow(&l->v, &l->cap, l->n + 1, sizeof(*l->v));
    l->v[l->n++] = n;
}

struct jnode **jp_list_take(struct jparser *p, struct jp_list *l)
{
    struct jnode **v = jarena_get(&p->c->mem, (l->n + 1) * sizeof(*v));

    if (l->n > 0)
        memcpy(v, l->v, l->n * sizeof(*v));
    free(l->v);
    return v;
}

struct jnode *jp_unexpected(struct jparser *p, const char *want)
{
    const struct jtok *t = jp_peek(p);
    size_t n = t->n > 40 ? 40 : t->n;

    if (t->type == JT_NAME)
        jp_fail(p, t->at, "unexpected '%.*s', expected %s", (int)n, t->s,
                want);
    else if (t->type == JT_EOF)
        jp_fail(p, t->at, "the template ends here, expected %s", want);
    else if (t->type == JT_BLOCK_END || t->type == JT_VAR_END)
        jp_fail(p, t->at, "the tag ends here, expected %s", want);
    else
        jp_fail(p, t->at, "unexpected '%.*s', expected %s", 1,
                p->c->src + t->at, want);
    return NULL;
}

int jp_expect_op(struct jparser *p, enum jop op, const char *what)
{
    if (jp_skip_op(p, op))
        return 0;
    jp_unexpected(p, what);
    return -1;
}

struct jnode *jp_over(struct jparser *p, struct jnode *n)
{
    unsigned h = 0;
    const struct jnode *const kid[] = {n->a, n->b, n->c};

    for (size_t i = 0; i < BN_COUNT(kid); i++)
        if (kid[i] != NULL && kid[i]->height > h)
            h = kid[i]->height;
    for (size_t i = 0; i < n->n; i++)
        if (n->list[i] != NULL && n->list[i]->height > h)
            h = n->list[i]->height;
    if (n->call != NULL) {
        for (size_t i = 0; i < n->call->n; i++)
            if (n->call->arg[i]->height > h)
                h = n->call->arg[i]->height;
        for (size_t i = 0; i < n->call->nkw; i++)
            if (n->call->kwval[i]->height > h)
                h = n->call->kwval[i]->height;
    }
    if (h >= JX_MAX_NODE) {
        jp_fail(p, n->at, "expression too deep (over %d levels)",
                JX_MAX_NODE);
        return NULL;
    }
    n->height = (uint16_t)(h + 1);
    return n;
}

struct jnode *jp_binary(struct jparser *p, enum jnode_kind kind, enum jop op,
                        uint32_t at, struct jnode *a, struct jnode *b)
{
    struct jnode *n = jp_node(p, kind, at);

    n->op = (uint8_t)op;
    n->a = a;
    n->b = b;
    return jp_over(p, n);
}

static struct jnode *unary(struct jparser *p, bool filters)
{
    struct jnode *n;
    uint32_t at = jp_peek(p)->at;

    if (jp_is_op(p, JO_SUB) || jp_is_op(p, JO_ADD)) {
        bool neg = jp_is_op(p, JO_SUB);

        p->i++;
        if (!jp_enter(p))
            return NULL;
        n = unary(p, false);
        p->depth--;
        if (n != NULL)
            n = jp_binary(p, neg ? JN_NEG : JN_POS, 0, at, n, NULL);
    } else {
        n = jp_primary(p);
    }
    n = jp_postfix(p, n);
    return filters ? jp_filter_expr(p, n) : n;
}

static struct jnode *power(struct jparser *p)
{
    struct jnode *n = unary(p, true);

    while (n != NULL && jp_is_op(p, JO_POW)) {
        uint32_t at = p->tok[p->i++].at;
        struct jnode *b = unary(p, true);

        n = b != NULL ? jp_binary(p, JN_BINARY, JO_POW, at, n, b) : NULL;
    }
    return n;
}

static struct jnode *product(struct jparser *p)
{
    struct jnode *n = power(p);

    while (n != NULL && (jp_is_op(p, JO_MUL) || jp_is_op(p, JO_DIV)
                         || jp_is_op(p, JO_FLOORDIV)
                         || jp_is_op(p, JO_MOD))) {
        const struct jtok *t = &p->tok[p->i++];
        struct jnode *b = power(p);

        n = b != NULL ? jp_binary(p, JN_BINARY, t->op, t->at, n, b) : NULL;
    }
    return n;
}

static struct jnode *concat(struct jparser *p)
{
    uint32_t at;
    struct jp_list l = {0};
    struct jnode *n = product(p);

    if (n == NULL || !jp_is_op(p, JO_TILDE))
        return n;
    at = jp_peek(p)->at;
    jp_list_add(&l, n);
    while (jp_skip_op(p, JO_TILDE)) {
        n = product(p);
        if (n == NULL) {
            free(l.v);
            return NULL;
        }
        jp_list_add(&l, n);
    }
    n = jp_node(p, JN_CONCAT, at);
    n->n = l.n;
    n->list = jp_list_take(p, &l);
    return jp_over(p, n);
}

static struct jnode *sum(struct jparser *p)
{
    struct jnode *n = concat(p);

    while (n != NULL && (jp_is_op(p, JO_ADD) || jp_is_op(p, JO_SUB))) {
        const struct jtok *t = &p->tok[p->i++];
        struct jnode *b = concat(p);

        n = b != NULL ? jp_binary(p, JN_BINARY, t->op, t->at, n, b) : NULL;
    }
    return n;
}

/* The comparison operator here, skipped; -1 if there is none. */
static int comparison(struct jparser *p)
{
    const struct jtok *t = jp_peek(p);

    if (t->type == JT_OP && t->op >= JO_EQ && t->op <= JO_GE) {
        p->i++;
        return (int)t->op;
    }
    if (jp_skip_name(p, "in"))
        return JO_IN;
    if (jp_is_name(p, "not") && t[1].type == JT_NAME
        && jv_same_str(jv_str(t[1].s, t[1].n), "in")) {
        p->i += 2;
        return JO_NOTIN;
    }
    return -1;
}

static struct jnode *compare(struct jparser *p)
{
    struct jnode *n = sum(p);
    struct jp_list l = {0};
    struct bn_str ops = {0};
    uint32_t at = jp_peek(p)->at;

    if (n == NULL)
        return NULL;
    jp_list_add(&l, n);
    for (int op = comparison(p); op >= 0; op = comparison(p)) {
        bn_str_addc(&ops, (char)op);
        n = sum(p);
        if (n == NULL) {
            free(l.v);
            bn_str_release(&ops);
            return NULL;
        }
        jp_list_add(&l, n);
    }
    if (l.n == 1) {
        free(l.v);
        return n;
    }
    n = jp_node(p, JN_COMPARE, at);
    n->n = l.n;
    n->list = jp_list_take(p, &l);
    n->ops = (uint8_t *)jarena_strndup(&p->c->mem, ops.s, ops.len);
    bn_str_release(&ops);
    return jp_over(p, n);
}

static struct jnode *not_expr(struct jparser *p)
{
    uint32_t at = jp_peek(p)->at;

    if (!jp_skip_name(p, "not"))
        return compare(p);
    if (!jp_enter(p))
        return NULL;
    struct jnode *n = not_expr(p);
    p->depth--;
    return n != NULL ? jp_binary(p, JN_NOT, 0, at, n, NULL) : NULL;
}

static struct jnode *and_expr(struct jparser *p)
{
    struct jnode *n = not_expr(p);

    while (n != NULL && jp_is_name(p, "and")) {
        uint32_t at = p->tok[p->i++].at;
        struct jnode *b = not_expr(p);

        n = b != NULL ? jp_binary(p, JN_AND, 0, at, n, b) : NULL;
    }
    return n;
}

static struct jnode *or_expr(struct jparser *p)
{
    struct jnode *n = and_expr(p);

    while (n != NULL && jp_is_name(p, "or")) {
        uint32_t at = p->tok[p->i++].at;
        struct jnode *b = and_expr(p);

        n = b != NULL ? jp_binary(p, JN_OR, 0, at, n, b) : NULL;
    }
    return n;
}

struct jnode *jp_expression(struct jparser *p)
{
    struct jnode *n;

    if (!jp_enter(p))
        return NULL;
    n = or_expr(p);
    while (n != NULL && jp_is_name(p, "if")) {
        struct jnode *c = jp_node(p, JN_COND, p->tok[p->i++].at);

        c->b = n;
        c->a = or_expr(p);
        if (c->a == NULL) {
            n = NULL;
            break;
        }
        if (jp_skip_name(p, "else")) {
            c->c = jp_expression(p);
            if (c->c == NULL) {
                n = NULL;
                break;
            }
        }
        n = jp_over(p, c);
    }
    p->depth--;
    return n;
}

/* A tuple ends where the tag, a parenthesis, or "in"/"recursive" is. */
static bool tuple_end(const struct jparser *p)
{
    const struct jtok *t = &p->tok[p->i];

    return t->type == JT_VAR_END || t->type == JT_BLOCK_END
           || jp_is_op(p, JO_RPAREN) || jp_is_name(p, "in")
           || jp_is_name(p, "recursive");
}

struct jnode *jp_tuple(struct jparser *p, int how)
{
    struct jnode *n = jp_node(p, JN_TUPLE, jp_peek(p)->at);
    struct jp_list l = {0};
    bool tuple = false;

    if (!jp_enter(p))
        return NULL;
    while (!tuple_end(p)) {
        struct jnode *e = (how & JP_NOCOND) != 0 ? or_expr(p)
                                                 : jp_expression(p);

        if (e == NULL)
            goto error;
        jp_list_add(&l, e);
        if (!jp_skip_op(p, JO_COMMA))
            break;
        tuple = true;
    }
    p->depth--;
    if (!tuple && l.n == 1) {
        struct jnode *e = l.v[0];

        free(l.v);
        return e;
    }
    if (!tuple && (how & JP_PAREN) == 0)
        return jp_unexpected(p, "an expression");
    n->n = l.n;
    n->list = jp_list_take(p, &l);
    return jp_over(p, n);
error:
    free(l.v);
    return NULL;
}
