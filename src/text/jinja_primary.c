/* What operators apply to: names, literals, calls, filters and tests; and
 * what can be assigned to.
 */
#include "config.h"
#include "text/jinja_parse.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static struct jnode *constant(struct jparser *p, uint32_t at, struct jv v)
{
    struct jnode *n = jp_node(p, JN_CONST, at);

    n->value = v;
    return n;
}

static struct jnode *list_literal(struct jparser *p)
{
    struct jnode *n = jp_node(p, JN_LIST, jp_peek(p)->at);
    struct jp_list l = {0};

    p->i++;
    while (!jp_is_op(p, JO_RBRACKET)) {
        if (l.n > 0 && jp_expect_op(p, JO_COMMA, "',' or ']'") < 0)
            goto error;
        if (jp_is_op(p, JO_RBRACKET))
            break;
        struct jnode *e = jp_expression(p);
        if (e == NULL)
            goto error;
        jp_list_add(&l, e);
    }
    p->i++;
    n->n = l.n;
    n->list = jp_list_take(p, &l);
    return jp_over(p, n);
error:
    free(l.v);
    return NULL;
}

static struct jnode *dict_literal(struct jparser *p)
{
    struct jnode *n = jp_node(p, JN_DICT, jp_peek(p)->at);
    struct jp_list l = {0};

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
        jp_list_add(&l, key);
        jp_list_add(&l, val);
    }
    p->i++;
    n->n = l.n;
    n->list = jp_list_take(p, &l);
    return jp_over(p, n);
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

    if (jp_peek(p)->type != JT_STRING)
        return constant(p, t->at, jv_str(t->s, t->n));
    bn_str_add(&b, t->s, t->n);
    while (jp_peek(p)->type == JT_STRING) {
        bn_str_add(&b, jp_peek(p)->s, jp_peek(p)->n);
        p->i++;
    }
    struct jv v = jv_str(jarena_strndup(&p->c->mem, b.s, b.len), b.len);
    bn_str_release(&b);
    return constant(p, t->at, v);
}

struct jnode *jp_primary(struct jparser *p)
{
    const struct jtok *t = jp_peek(p);
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
        return jp_unexpected(p, "an expression");
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
    uint32_t at = jp_peek(p)->at;
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
    return jp_over(p, n);
}

static struct jnode *attribute(struct jparser *p, struct jnode *on)
{
    uint32_t at = jp_peek(p)->at;
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
        return jp_unexpected(p, "a name or a number after '.'");
    }
    p->i++;
    return jp_over(p, n);
}

static struct jnode *item(struct jparser *p, struct jnode *on)
{
    struct jnode *n = jp_node(p, JN_ITEM, jp_peek(p)->at);

    p->i++;
    if (!jp_enter(p))
        return NULL;
    n->a = on;
    n->b = subscript(p);
    p->depth--;
    if (n->b == NULL)
        return NULL;
    if (jp_is_op(p, JO_COMMA)) {
        jp_fail(p, jp_peek(p)->at, "only one index is supported");
        return NULL;
    }
    if (jp_expect_op(p, JO_RBRACKET, "']'") < 0)
        return NULL;
    return jp_over(p, n);
}

static struct jnode *call(struct jparser *p, struct jnode *on)
{
    struct jnode *n = jp_node(p, JN_CALL, jp_peek(p)->at);

    n->a = on;
    n->call = jp_call_args(p);
    return n->call != NULL ? jp_over(p, n) : NULL;
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
static int argument(struct jparser *p, struct jcall *c, struct jp_list *args,
                    struct jp_list *kw, struct jp_list *names)
{
    uint32_t at = jp_peek(p)->at;
    const struct jtok *t = jp_peek(p);
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
    jp_list_add(named ? kw : args, n);
    if (named) {
        struct jnode *name = jp_node(p, JN_NAME, at);

        name->name = jintern(p->c, t->s, t->n);
        for (size_t i = 0; i < names->n; i++)
            if (names->v[i]->name == name->name)
                return jp_fail(p, at, "argument '%s' is given twice",
                               name->name->s);
        jp_list_add(names, name);
    }
    return 0;
}

const struct jcall *jp_call_args(struct jparser *p)
{
    struct jcall *c = jarena_get(&p->c->mem, sizeof(*c));
    struct jp_list args = {0}, kw = {0}, names = {0};
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
    c->arg = jp_list_take(p, &args);
    c->kwval = jp_list_take(p, &kw);
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
        if (jp_peek(p)->type != JT_NAME)
            return jp_unexpected(p, "the name of a filter");
        struct jnode *n = jp_node(p, JN_FILTER, jp_peek(p)->at);
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
        on = jp_over(p, n);
        if (on == NULL)
            return NULL;
    }
    return on;
}

static struct jnode *test(struct jparser *p, struct jnode *on)
{
    struct jnode *n = jp_node(p, JN_TEST, jp_peek(p)->at);
    const struct jtok *t;

    p->i++;
    bool negated = jp_skip_name(p, "not");
    if (jp_peek(p)->type != JT_NAME)
        return jp_unexpected(p, "the name of a test");
    uint32_t at = jp_peek(p)->at;
    struct jv name = dotted(p);
    n->test = jtest_find(name.u.s, name.n);
    if (n->test == NULL) {
        jp_fail(p, at, "no test named '%.*s'", (int)name.n, name.u.s);
        return NULL;
    }
    n->a = on;
    t = jp_peek(p);
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
        struct jnode *arg = jp_postfix(p, jp_primary(p));

        if (arg == NULL)
            return NULL;
        *c = (struct jcall){.n = 1};
        c->arg = jarena_get(&p->c->mem, sizeof(*c->arg));
        c->arg[0] = arg;
        n->call = c;
    }
    n = jp_over(p, n);
    return n != NULL && negated ? jp_binary(p, JN_NOT, 0, n->at, n, NULL) : n;
}

struct jnode *jp_filter_expr(struct jparser *p, struct jnode *n)
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

static struct jnode *target_one(struct jparser *p, bool names_only,
                                bool namespaces)
{
    const struct jtok *t = jp_peek(p);
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
        return jp_unexpected(p, "a name to assign to");
    n = name_or_word(p);
    if (n->kind == JN_CONST) {
        jp_fail(p, t->at, "cannot assign to '%.*s'", (int)t->n, t->s);
        return NULL;
    }
    if (n->name->well >= JW_CALLER)
        p->uses[n->name->well - JW_CALLER]--; /* stored, not used */
    if (namespaces && jp_is_op(p, JO_DOT)) {
        if (p->tok[++p->i].type != JT_NAME)
            return jp_unexpected(p, "the name of an attribute");
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
    struct jnode *n = jp_node(p, JN_TUPLE, jp_peek(p)->at);
    struct jp_list l = {0};
    struct jnode *e = target_one(p, names_only, namespaces);

    if (e == NULL || names_only || !jp_is_op(p, JO_COMMA))
        return e;
    jp_list_add(&l, e);
    while (jp_skip_op(p, JO_COMMA)) {
        if (jp_peek(p)->type != JT_NAME && !jp_is_op(p, JO_LPAREN))
            break;
        e = target_one(p, false, namespaces);
        if (e == NULL) {
            free(l.v);
            return NULL;
        }
        jp_list_add(&l, e);
    }
    n->n = l.n;
    n->list = jp_list_take(p, &l);
    return n;
}
