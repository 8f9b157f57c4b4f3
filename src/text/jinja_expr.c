/* Expressions: tokens to nodes, in Jinja's own order of precedence. */
#include "config.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* A growing list of nodes that ends in the template's memory. */
struct list {
    struct jnode **v;
    size_t n, cap;
};

static void list_add(struct list *l, struct jnode *n)
{
    bn_grow(&l->v, &l->cap, l->n + 1, sizeof(*l->v));
    l->v[l->n++] = n;
}

static struct jnode **list_take(struct jparser *p, struct list *l)
{
    struct jnode **v = jarena_get(&p->c->mem, (l->n + 1) * sizeof(*v));

    if (l->n > 0)
        memcpy(v, l->v, l->n * sizeof(*v));
    free(l->v);
    return v;
}

static const struct jtok *peek(const struct jparser *p)
{
    return &p->tok[p->i];
}

/* What the current token is, for messages. */
static struct jnode *unexpected(struct jparser *p, const char *want)
{
    const struct jtok *t = peek(p);
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
    unexpected(p, what);
    return -1;
}

/* Set the height of 'n' over its children; NULL if there are too many. */
static struct jnode *over(struct jparser *p, struct jnode *n)
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

static struct jnode *binary(struct jparser *p, enum jnode_kind kind,
                            enum jop op, uint32_t at, struct jnode *a,
                            struct jnode *b)
{
    struct jnode *n = jp_node(p, kind, at);

    n->op = (uint8_t)op;
    n->a = a;
    n->b = b;
    return over(p, n);
}

static struct jnode *constant(struct jparser *p, uint32_t at, struct jv v)
{
    struct jnode *n = jp_node(p, JN_CONST, at);

    n->value = v;
    return n;
}

static struct jnode *list_literal(struct jparser *p)
{
    struct jnode *n = jp_node(p, JN_LIST, peek(p)->at);
    struct list l = {0};

    p->i++;
    while (!jp_is_op(p, JO_RBRACKET)) {
        if (l.n > 0 && jp_expect_op(p, JO_COMMA, "',' or ']'") < 0)
            goto error;
        if (jp_is_op(p, JO_RBRACKET))
            break;
        struct jnode *e = jp_expression(p);
        if (e == NULL)
            goto error;
        list_add(&l, e);
    }
    p->i++;
    n->n = l.n;
    n->list = list_take(p, &l);
    return over(p, n);
error:
    free(l.v);
    return NULL;
}

static struct jnode *dict_literal(struct jparser *p)
{
    struct jnode *n = jp_node(p, JN_DICT, peek(p)->at);
    struct list l = {0};

    p->i++;
    while (!jp_is_op(p, JO_RBRACE)) {
        if (l.n > 0 && jp_expect_op(p, JO_COMMA, "',' or '}'") < 0)
            goto error;
        if (jp_is_op(p, JO_RBRACE))
            break;
        struct jnode *key = jp_expression(p);
        if (key == NULL || jp_expect_op(p, JO_COLON, "':'") < 0)
            goto error;
        struct jnode *val = jp_expression(p);
        if (val == NULL)
            goto error;
        list_add(&l, key);
        list_add(&l, val);
    }
    p->i++;
    n->n = l.n;
    n->list = list_take(p, &l);
    return over(p, n);
error:
    free(l.v);
    return NULL;
}

static struct jnode *name_or_word(struct jparser *p)
{
    static const struct {
        const char *word;
        int what;
    } words[] = {{"true", 1}, {"True", 1}, {"false", 0}, {"False", 0},
                 {"none", 2}, {"None", 2}};
    const struct jtok *t = &p->tok[p->i++];
    struct jv s = jv_str(t->s, t->n);

    for (size_t i = 0; i < BN_COUNT(words); i++) {
        if (jv_same_str(s, words[i].word))
            return constant(p, t->at, words[i].what == 2
                                          ? jv_none()
                                          : jv_bool(words[i].what == 1));
    }
    struct jnode *n = jp_node(p, JN_NAME, t->at);
    n->name = jintern(p->c, t->s, t->n);
    if (n->name->well >= JW_CALLER)
        p->uses[n->name->well - JW_CALLER]++;
    return n;
}

static struct jnode *strings(struct jparser *p)
{
    const struct jtok *t = &p->tok[p->i++];
    struct bn_str b = {0};

    if (peek(p)->type != JT_STRING)
        return constant(p, t->at, jv_str(t->s, t->n));
    bn_str_add(&b, t->s, t->n);
    while (peek(p)->type == JT_STRING) {
        bn_str_add(&b, peek(p)->s, peek(p)->n);
        p->i++;
    }
    struct jv v = jv_str(jarena_strndup(&p->c->mem, b.s, b.len), b.len);
    bn_str_release(&b);
    return constant(p, t->at, v);
}

static struct jnode *primary(struct jparser *p)
{
    const struct jtok *t = peek(p);
    struct jnode *n;

    switch (t->type) {
    case JT_NAME:
        return name_or_word(p);
    case JT_STRING:
        return strings(p);
    case JT_INT:
        p->i++;
        return constant(p, t->at, jv_int(t->i));
    case JT_FLOAT:
        p->i++;
        return constant(p, t->at, jv_float(t->f));
    default:
        break;
    }
    if (!jp_is_op(p, JO_LPAREN) && !jp_is_op(p, JO_LBRACKET)
        && !jp_is_op(p, JO_LBRACE))
        return unexpected(p, "an expression");
    if (!jp_enter(p))
        return NULL;
    if (jp_is_op(p, JO_LBRACKET)) {
        n = list_literal(p);
    } else if (jp_is_op(p, JO_LBRACE)) {
        n = dict_literal(p);
    } else {
        p->i++;
        n = jp_tuple(p, JP_PAREN);
        if (n != NULL && jp_expect_op(p, JO_RPAREN, "')'") < 0)
            n = NULL;
    }
    p->depth--;
    return n;
}

/* What stands in brackets: an expression or a slice. */
static struct jnode *subscript(struct jparser *p)
{
    uint32_t at = peek(p)->at;
    struct jnode *part[3] = {NULL, NULL, NULL};

    if (!jp_is_op(p, JO_COLON)) {
        part[0] = jp_expression(p);
        if (part[0] == NULL || !jp_is_op(p, JO_COLON))
            return part[0];
    }
    for (int i = 1; i < 3 && jp_skip_op(p, JO_COLON); i++) {
        if (jp_is_op(p, JO_COLON) || jp_is_op(p, JO_RBRACKET)
            || jp_is_op(p, JO_COMMA))
            continue;
        part[i] = jp_expression(p);
        if (part[i] == NULL)
            return NULL;
    }
    struct jnode *n = jp_node(p, JN_SLICE, at);
    n->a = part[0];
    n->b = part[1];
    n->c = part[2];
    return over(p, n);
}

static struct jnode *attribute(struct jparser *p, struct jnode *on)
{
    uint32_t at = peek(p)->at;
    const struct jtok *t = &p->tok[++p->i];
    struct jnode *n;

    if (t->type == JT_NAME) {
        n = jp_node(p, JN_ATTR, at);
        n->name = jintern(p->c, t->s, t->n);
        n->value = jv_str(n->name->s, n->name->n);
        if (!jmethod_exists(n->value))
            n->value.flag = JF_PLAIN; /* most are keys: no need to ask */
        n->a = on;
    } else if (t->type == JT_INT) {
        n = jp_node(p, JN_ITEM, at);
        n->a = on;
        n->b = constant(p, t->at, jv_int(t->i));
    } else {
        return unexpected(p, "a name or a number after '.'");
    }
    p->i++;
    return over(p, n);
}

static struct jnode *item(struct jparser *p, struct jnode *on)
{
    struct jnode *n = jp_node(p, JN_ITEM, peek(p)->at);

    p->i++;
    if (!jp_enter(p))
        return NULL;
    n->a = on;
    n->b = subscript(p);
    p->depth--;
    if (n->b == NULL)
        return NULL;
    if (jp_is_op(p, JO_COMMA)) {
        jp_fail(p, peek(p)->at, "only one index is supported");
        return NULL;
    }
    if (jp_expect_op(p, JO_RBRACKET, "']'") < 0)
        return NULL;
    return over(p, n);
}

static struct jnode *call(struct jparser *p, struct jnode *on)
{
    struct jnode *n = jp_node(p, JN_CALL, peek(p)->at);

    n->a = on;
    n->call = jp_call_args(p);
    return n->call != NULL ? over(p, n) : NULL;
}

struct jnode *jp_postfix(struct jparser *p, struct jnode *n)
{
    while (n != NULL) {
        if (jp_is_op(p, JO_DOT))
            n = attribute(p, n);
        else if (jp_is_op(p, JO_LBRACKET))
            n = item(p, n);
        else if (jp_is_op(p, JO_LPAREN))
            n = call(p, n);
        else
            break;
    }
    return n;
}

/* One argument of a call. Returns -1 on error. */
static int argument(struct jparser *p, struct jcall *c, struct list *args,
                    struct list *kw, struct list *names)
{
    uint32_t at = peek(p)->at;
    const struct jtok *t = peek(p);
    struct jnode *n;

    if (jp_skip_op(p, JO_MUL)) {
        if (c->star != NULL || c->starstar != NULL)
            return jp_fail(p, at, "a second '*' argument");
        c->star = jp_expression(p);
        return c->star != NULL ? 0 : -1;
    }
    if (jp_skip_op(p, JO_POW)) {
        if (c->starstar != NULL)
            return jp_fail(p, at, "a second '**' argument");
        c->starstar = jp_expression(p);
        return c->starstar != NULL ? 0 : -1;
    }
    bool named = t->type == JT_NAME && t[1].type == JT_OP
                 && t[1].op == JO_ASSIGN;
    if (named)
        p->i += 2;
    n = jp_expression(p);
    if (n == NULL)
        return -1;
    if (c->starstar != NULL || (!named && (c->star != NULL || kw->n > 0)))
        return jp_fail(p, at, "this argument must come before the named "
                              "and starred ones");
    list_add(named ? kw : args, n);
    if (named) {
        struct jnode *name = jp_node(p, JN_NAME, at);

        name->name = jintern(p->c, t->s, t->n);
        for (size_t i = 0; i < names->n; i++)
            if (names->v[i]->name == name->name)
                return jp_fail(p, at, "argument '%s' is given twice",
                               name->name->s);
        list_add(names, name);
    }
    return 0;
}

const struct jcall *jp_call_args(struct jparser *p)
{
    struct jcall *c = jarena_get(&p->c->mem, sizeof(*c));
    struct list args = {0}, kw = {0}, names = {0};
    bool comma = false;

    *c = (struct jcall){0};
    if (!jp_enter(p))
        return NULL;
    p->i++;
    while (!jp_is_op(p, JO_RPAREN)) {
        if (comma && jp_expect_op(p, JO_COMMA, "',' or ')'") < 0)
            goto error;
        if (comma && jp_is_op(p, JO_RPAREN))
            break;
        if (argument(p, c, &args, &kw, &names) < 0)
            goto error;
        comma = true;
    }
    p->i++;
    p->depth--;
    c->n = args.n;
    c->nkw = kw.n;
    c->arg = list_take(p, &args);
    c->kwval = list_take(p, &kw);
    c->kwname = jarena_get(&p->c->mem, (c->nkw + 1) * sizeof(*c->kwname));
    for (size_t i = 0; i < c->nkw; i++)
        c->kwname[i] = names.v[i]->name;
    free(names.v);
    return c;
error:
    free(args.v);
    free(kw.v);
    free(names.v);
    return NULL;
}

/* "a.b" as one word, as names of filters and tests may be. */
static struct jv dotted(struct jparser *p)
{
    const struct jtok *t = &p->tok[p->i++];
    struct jv v = jv_str(t->s, t->n);

    while (jp_is_op(p, JO_DOT) && p->tok[p->i + 1].type == JT_NAME) {
        p->i += 2;
        v.n = (size_t)(p->tok[p->i - 1].s + p->tok[p->i - 1].n - v.u.s);
    }
    return v;
}

struct jnode *jp_filters(struct jparser *p, struct jnode *on, bool inline_)
{
    while (inline_ || jp_is_op(p, JO_PIPE)) {
        if (!inline_)
            p->i++;
        inline_ = false;
        if (peek(p)->type != JT_NAME)
            return unexpected(p, "the name of a filter");
        struct jnode *n = jp_node(p, JN_FILTER, peek(p)->at);
        struct jv name = dotted(p);
        n->filter = jfilter_find(name.u.s, name.n);
        if (n->filter == NULL) {
            jp_fail(p, n->at, "no filter named '%.*s'", (int)name.n,
                    name.u.s);
            return NULL;
        }
        n->a = on;
        if (jp_is_op(p, JO_LPAREN)) {
            n->call = jp_call_args(p);
            if (n->call == NULL)
                return NULL;
        }
        on = over(p, n);
        if (on == NULL)
            return NULL;
    }
    return on;
}

static struct jnode *test(struct jparser *p, struct jnode *on)
{
    struct jnode *n = jp_node(p, JN_TEST, peek(p)->at);
    const struct jtok *t;

    p->i++;
    bool negated = jp_skip_name(p, "not");
    if (peek(p)->type != JT_NAME)
        return unexpected(p, "the name of a test");
    uint32_t at = peek(p)->at;
    struct jv name = dotted(p);
    n->test = jtest_find(name.u.s, name.n);
    if (n->test == NULL) {
        jp_fail(p, at, "no test named '%.*s'", (int)name.n, name.u.s);
        return NULL;
    }
    n->a = on;
    t = peek(p);
    if (jp_is_op(p, JO_LPAREN)) {
        n->call = jp_call_args(p);
        if (n->call == NULL)
            return NULL;
    } else if (jp_is_name(p, "is")) {
        jp_fail(p, t->at, "tests cannot be chained with 'is'");
        return NULL;
    } else if ((t->type == JT_NAME && !jp_is_name(p, "else")
                && !jp_is_name(p, "or") && !jp_is_name(p, "and"))
               || t->type == JT_STRING || t->type == JT_INT
               || t->type == JT_FLOAT || jp_is_op(p, JO_LBRACKET)
               || jp_is_op(p, JO_LBRACE)) {
        struct jcall *c = jarena_get(&p->c->mem, sizeof(*c));
        struct jnode *arg = jp_postfix(p, primary(p));

        if (arg == NULL)
            return NULL;
        *c = (struct jcall){.n = 1};
        c->arg = jarena_get(&p->c->mem, sizeof(*c->arg));
        c->arg[0] = arg;
        n->call = c;
    }
    n = over(p, n);
    return n != NULL && negated ? binary(p, JN_NOT, 0, n->at, n, NULL) : n;
}

static struct jnode *filter_expr(struct jparser *p, struct jnode *n)
{
    while (n != NULL) {
        if (jp_is_op(p, JO_PIPE))
            n = jp_filters(p, n, false);
        else if (jp_is_name(p, "is"))
            n = test(p, n);
        else if (jp_is_op(p, JO_LPAREN))
            n = call(p, n);
        else
            break;
    }
    return n;
}

static struct jnode *unary(struct jparser *p, bool filters)
{
    struct jnode *n;
    uint32_t at = peek(p)->at;

    if (jp_is_op(p, JO_SUB) || jp_is_op(p, JO_ADD)) {
        bool neg = jp_is_op(p, JO_SUB);

        p->i++;
        if (!jp_enter(p))
            return NULL;
        n = unary(p, false);
        p->depth--;
        if (n != NULL)
            n = binary(p, neg ? JN_NEG : JN_POS, 0, at, n, NULL);
    } else {
        n = primary(p);
    }
    n = jp_postfix(p, n);
    return filters ? filter_expr(p, n) : n;
}

static struct jnode *power(struct jparser *p)
{
    struct jnode *n = unary(p, true);

    while (n != NULL && jp_is_op(p, JO_POW)) {
        uint32_t at = p->tok[p->i++].at;
        struct jnode *b = unary(p, true);

        n = b != NULL ? binary(p, JN_BINARY, JO_POW, at, n, b) : NULL;
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

        n = b != NULL ? binary(p, JN_BINARY, t->op, t->at, n, b) : NULL;
    }
    return n;
}

static struct jnode *concat(struct jparser *p)
{
    uint32_t at;
    struct list l = {0};
    struct jnode *n = product(p);

    if (n == NULL || !jp_is_op(p, JO_TILDE))
        return n;
    at = peek(p)->at;
    list_add(&l, n);
    while (jp_skip_op(p, JO_TILDE)) {
        n = product(p);
        if (n == NULL) {
            free(l.v);
            return NULL;
        }
        list_add(&l, n);
    }
    n = jp_node(p, JN_CONCAT, at);
    n->n = l.n;
    n->list = list_take(p, &l);
    return over(p, n);
}

static struct jnode *sum(struct jparser *p)
{
    struct jnode *n = concat(p);

    while (n != NULL && (jp_is_op(p, JO_ADD) || jp_is_op(p, JO_SUB))) {
        const struct jtok *t = &p->tok[p->i++];
        struct jnode *b = concat(p);

        n = b != NULL ? binary(p, JN_BINARY, t->op, t->at, n, b) : NULL;
    }
    return n;
}

/* The comparison operator here, skipped; -1 if there is none. */
static int comparison(struct jparser *p)
{
    const struct jtok *t = peek(p);

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
    struct list l = {0};
    struct bn_str ops = {0};
    uint32_t at = peek(p)->at;

    if (n == NULL)
        return NULL;
    list_add(&l, n);
    for (int op = comparison(p); op >= 0; op = comparison(p)) {
        bn_str_addc(&ops, (char)op);
        n = sum(p);
        if (n == NULL) {
            free(l.v);
            bn_str_release(&ops);
            return NULL;
        }
        list_add(&l, n);
    }
    if (l.n == 1) {
        free(l.v);
        return n;
    }
    n = jp_node(p, JN_COMPARE, at);
    n->n = l.n;
    n->list = list_take(p, &l);
    n->ops = (uint8_t *)jarena_strndup(&p->c->mem, ops.s, ops.len);
    bn_str_release(&ops);
    return over(p, n);
}

static struct jnode *not_expr(struct jparser *p)
{
    uint32_t at = peek(p)->at;

    if (!jp_skip_name(p, "not"))
        return compare(p);
    if (!jp_enter(p))
        return NULL;
    struct jnode *n = not_expr(p);
    p->depth--;
    return n != NULL ? binary(p, JN_NOT, 0, at, n, NULL) : NULL;
}

static struct jnode *and_expr(struct jparser *p)
{
    struct jnode *n = not_expr(p);

    while (n != NULL && jp_is_name(p, "and")) {
        uint32_t at = p->tok[p->i++].at;
        struct jnode *b = not_expr(p);

        n = b != NULL ? binary(p, JN_AND, 0, at, n, b) : NULL;
    }
    return n;
}

static struct jnode *or_expr(struct jparser *p)
{
    struct jnode *n = and_expr(p);

    while (n != NULL && jp_is_name(p, "or")) {
        uint32_t at = p->tok[p->i++].at;
        struct jnode *b = and_expr(p);

        n = b != NULL ? binary(p, JN_OR, 0, at, n, b) : NULL;
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
        n = over(p, c);
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
    struct jnode *n = jp_node(p, JN_TUPLE, peek(p)->at);
    struct list l = {0};
    bool tuple = false;

    if (!jp_enter(p))
        return NULL;
    while (!tuple_end(p)) {
        struct jnode *e = (how & JP_NOCOND) != 0 ? or_expr(p)
                                                 : jp_expression(p);

        if (e == NULL)
            goto error;
        list_add(&l, e);
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
        return unexpected(p, "an expression");
    n->n = l.n;
    n->list = list_take(p, &l);
    return over(p, n);
error:
    free(l.v);
    return NULL;
}

static struct jnode *target_one(struct jparser *p, bool names_only,
                                bool namespaces)
{
    const struct jtok *t = peek(p);
    struct jnode *n;

    if (!names_only && jp_is_op(p, JO_LPAREN)) {
        if (!jp_enter(p))
            return NULL;
        p->i++;
        n = jp_target(p, false, namespaces);
        p->depth--;
        if (n != NULL && jp_expect_op(p, JO_RPAREN, "')'") < 0)
            return NULL;
        return n;
    }
    if (t->type != JT_NAME)
        return unexpected(p, "a name to assign to");
    n = name_or_word(p);
    if (n->kind == JN_CONST) {
        jp_fail(p, t->at, "cannot assign to '%.*s'", (int)t->n, t->s);
        return NULL;
    }
    if (n->name->well >= JW_CALLER)
        p->uses[n->name->well - JW_CALLER]--; /* stored, not used */
    if (namespaces && jp_is_op(p, JO_DOT)) {
        if (p->tok[++p->i].type != JT_NAME)
            return unexpected(p, "the name of an attribute");
        struct jnode *ref = jp_node(p, JN_NSREF, t->at);
        ref->a = n;
        ref->value = jv_str(p->tok[p->i].s, p->tok[p->i].n);
        p->i++;
        return ref;
    }
    return n;
}

struct jnode *jp_target(struct jparser *p, bool names_only, bool namespaces)
{
    struct jnode *n = jp_node(p, JN_TUPLE, peek(p)->at);
    struct list l = {0};
    struct jnode *e = target_one(p, names_only, namespaces);

    if (e == NULL || names_only || !jp_is_op(p, JO_COMMA))
        return e;
    list_add(&l, e);
    while (jp_skip_op(p, JO_COMMA)) {
        if (peek(p)->type != JT_NAME && !jp_is_op(p, JO_LPAREN))
            break;
        e = target_one(p, false, namespaces);
        if (e == NULL) {
            free(l.v);
            return NULL;
        }
        list_add(&l, e);
    }
    n->n = l.n;
    n->list = list_take(p, &l);
    return n;
}
