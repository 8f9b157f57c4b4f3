/* Statements: tags and text to a list of nodes. */
#include "config.h"
#include "text/jinja_parse.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

int jp_fail(struct jparser *p, uint32_t at, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    jx_fail_at(p->c, at, p->err, fmt, ap);
    va_end(ap);
    return -1;
}

bool jp_enter(struct jparser *p)
{
    if (p->depth >= JX_MAX_PARSE) {
        jp_fail(p, p->tok[p->i].at, "nested too deep (over %d levels)",
                JX_MAX_PARSE);
        return false;
    }
    p->depth++;
    return true;
}

struct jnode *jp_node(struct jparser *p, enum jnode_kind kind, uint32_t at)
{
    struct jnode *n = jarena_get(&p->c->mem, sizeof(*n));

    *n = (struct jnode){.kind = (uint8_t)kind, .at = at, .height = 1};
    return n;
}

bool jp_is_op(const struct jparser *p, enum jop op)
{
    return p->tok[p->i].type == JT_OP && p->tok[p->i].op == op;
}

bool jp_is_name(const struct jparser *p, const char *name)
{
    const struct jtok *t = &p->tok[p->i];

    return t->type == JT_NAME && strlen(name) == t->n
           && memcmp(t->s, name, t->n) == 0;
}

bool jp_skip_op(struct jparser *p, enum jop op)
{
    bool yes = jp_is_op(p, op);

    p->i += yes;
    return yes;
}

bool jp_skip_name(struct jparser *p, const char *name)
{
    bool yes = jp_is_name(p, name);

    p->i += yes;
    return yes;
}

static const struct {
    const char *name;
    enum jwell well;
} well_known[] = {
    {"messages", JW_MESSAGES}, {"tools", JW_TOOLS},
    {"documents", JW_DOCUMENTS},
    {"add_generation_prompt", JW_ADD_GENERATION_PROMPT},
    {"bos_token", JW_BOS}, {"eos_token", JW_EOS}, {"pad_token", JW_PAD},
    {"unk_token", JW_UNK}, {"range", JW_RANGE}, {"dict", JW_DICT},
    {"namespace", JW_NAMESPACE}, {"raise_exception", JW_RAISE},
    {"strftime_now", JW_STRFTIME}, {"lipsum", JW_UNSUPPORTED},
    {"cycler", JW_UNSUPPORTED}, {"joiner", JW_UNSUPPORTED},
    {"loop", JW_LOOP}, {"caller", JW_CALLER}, {"varargs", JW_VARARGS},
    {"kwargs", JW_KWARGS},
};

const struct jname *jintern(struct bn_chat *c, const char *s, size_t n)
{
    uint32_t h = 5381;

    for (size_t i = 0; i < n; i++)
        h = h * 33 + (unsigned char)s[i];
    struct jname **slot = &c->names[h % BN_COUNT(c->names)];
    for (struct jname *p = *slot; p != NULL; p = p->next) {
        if (p->n == n && memcmp(p->s, s, n) == 0)
            return p;
    }
    struct jname *new = jarena_get(&c->mem, sizeof(*new));
    *new = (struct jname){.s = jarena_strndup(&c->mem, s, n), .n = n,
                          .id = c->nname++, .next = *slot};
    for (size_t i = 0; i < BN_COUNT(well_known); i++) {
        if (strcmp(new->s, well_known[i].name) == 0)
            new->well = well_known[i].well;
    }
    c->uses_clock |= new->well == JW_STRFTIME;
    *slot = new;
    return new;
}

static int statements(struct jparser *p, const char *const *end,
                      uint32_t open, struct jnode **out);

static int expect_block_end(struct jparser *p)
{
    const struct jtok *t = &p->tok[p->i];

    if (t->type == JT_BLOCK_END) {
        p->i++;
        return 0;
    }
    if (t->type == JT_NAME)
        return jp_fail(p, t->at, "unexpected '%.*s', expected '%%}'",
                       (int)(t->n > 40 ? 40 : t->n), t->s);
    return jp_fail(p, t->at, "expected '%%}' here");
}

/* What stands between "{% tag ... %}" and one of the words 'end', which is
 * the current token afterwards. */
static int block(struct jparser *p, const char *const *end, uint32_t open,
                 struct jnode **out)
{
    jp_skip_op(p, JO_COLON);
    if (expect_block_end(p) < 0)
        return -1;
    return statements(p, end, open, out);
}

/* A block that ends in one word, which is skipped. */
static int block_to(struct jparser *p, const char *word, uint32_t open,
                    struct jnode **out)
{
    const char *const end[] = {word, NULL};

    if (block(p, end, open, out) < 0)
        return -1;
    p->i++;
    return 0;
}

static struct jnode *parse_for(struct jparser *p, uint32_t at)
{
    static const char *const end[] = {"endfor", "else", NULL};
    struct jnode *n = jp_node(p, JN_FOR, at);

    n->a = jp_target(p, false, false);
    if (n->a == NULL)
        return NULL;
    if (!jp_skip_name(p, "in")) {
        jp_fail(p, p->tok[p->i].at, "expected 'in'");
        return NULL;
    }
    n->b = jp_tuple(p, JP_NOCOND);
    if (n->b == NULL)
        return NULL;
    if (jp_skip_name(p, "if")) {
        n->c = jp_expression(p);
        if (n->c == NULL)
            return NULL;
    }
    if (jp_is_name(p, "recursive")) {
        jp_fail(p, p->tok[p->i].at, "recursive loops are not supported");
        return NULL;
    }
    p->loops++;
    if (block(p, end, at, &n->body) < 0)
        return NULL;
    p->loops--;
    if (jp_skip_name(p, "endfor"))
        return n;
    p->i++;
    return block_to(p, "endfor", at, &n->orelse) == 0 ? n : NULL;
}

static struct jnode *parse_if(struct jparser *p, uint32_t at)
{
    static const char *const end[] = {"elif", "else", "endif", NULL};
    struct jnode *first = jp_node(p, JN_IF, at), *n = first;

    for (;;) {
        n->a = jp_tuple(p, JP_NOCOND);
        if (n->a == NULL || block(p, end, at, &n->body) < 0)
            return NULL;
        uint32_t here = p->tok[p->i].at;
        if (jp_skip_name(p, "endif"))
            return first;
        if (jp_skip_name(p, "else"))
            return block_to(p, "endif", at, &n->orelse) == 0 ? first : NULL;
        p->i++;
        n->b = jp_node(p, JN_IF, here); /* elif: a chain, not a nest */
        n = n->b;
    }
}

static struct jnode *parse_set(struct jparser *p, uint32_t at)
{
    struct jnode *n = jp_node(p, JN_SET, at);

    n->a = jp_target(p, false, true);
    if (n->a == NULL)
        return NULL;
    if (jp_skip_op(p, JO_ASSIGN)) {
        n->b = jp_tuple(p, 0);
        return n->b != NULL ? n : NULL;
    }
    n->kind = JN_SETBLOCK;
    if (jp_is_op(p, JO_PIPE)) {
        n->b = jp_filters(p, NULL, false);
        if (n->b == NULL)
            return NULL;
    }
    return block_to(p, "endset", at, &n->body) == 0 ? n : NULL;
}

/* "(a, b=1)" into n->list: name, default, name, default. */
static int signature(struct jparser *p, struct jnode *n)
{
    struct jnode *v[2 * 64];
    size_t k = 0;
    bool defaults = false;

    if (jp_expect_op(p, JO_LPAREN, "'('") < 0)
        return -1;
    while (!jp_is_op(p, JO_RPAREN)) {
        if (k > 0 && jp_expect_op(p, JO_COMMA, "',' or ')'") < 0)
            return -1;
        if (k == BN_COUNT(v))
            return jp_fail(p, n->at, "too many arguments (over 64)");
        v[k] = jp_target(p, true, false);
        v[k + 1] = NULL;
        if (v[k] == NULL)
            return -1;
        for (size_t i = 0; i < k; i += 2)
            if (v[i]->name == v[k]->name)
                return jp_fail(p, v[k]->at, "argument '%s' is named twice",
                               v[k]->name->s);
        if (jp_skip_op(p, JO_ASSIGN)) {
            v[k + 1] = jp_expression(p);
            if (v[k + 1] == NULL)
                return -1;
            defaults = true;
        } else if (defaults) {
            return jp_fail(p, v[k]->at, "an argument without default after "
                                        "one with a default");
        }
        k += 2;
    }
    p->i++;
    n->n = k;
    n->list = jarena_get(&p->c->mem, (k + 1) * sizeof(*v));
    memcpy(n->list, v, k * sizeof(*v));
    return 0;
}

/* The body of a macro or call block: break and continue stop at it. */
static int closed_body(struct jparser *p, struct jnode *n, const char *end,
                       const size_t before[3])
{
    int loops = p->loops;

    p->loops = 0;
    if (block_to(p, end, n->at, &n->body) < 0)
        return -1;
    p->loops = loops;
    n->uses_caller = p->uses[0] > before[0];
    n->uses_varargs = p->uses[1] > before[1];
    n->uses_kwargs = p->uses[2] > before[2];
    return 0;
}

static struct jnode *parse_macro(struct jparser *p, uint32_t at)
{
    struct jnode *n = jp_node(p, JN_MACRO, at);
    struct jnode *name = jp_target(p, true, false);
    size_t before[3];

    memcpy(before, p->uses, sizeof(before));
    if (name == NULL || signature(p, n) < 0)
        return NULL;
    n->name = name->name;
    return closed_body(p, n, "endmacro", before) == 0 ? n : NULL;
}

static struct jnode *parse_call(struct jparser *p, uint32_t at)
{
    struct jnode *n = jp_node(p, JN_CALLBLOCK, at);
    size_t before[3];

    memcpy(before, p->uses, sizeof(before));
    if (jp_is_op(p, JO_LPAREN) && signature(p, n) < 0)
        return NULL;
    n->a = jp_expression(p);
    if (n->a == NULL)
        return NULL;
    if (n->a->kind != JN_CALL) {
        jp_fail(p, n->a->at, "expected a call");
        return NULL;
    }
    return closed_body(p, n, "endcall", before) == 0 ? n : NULL;
}

static struct jnode *parse_filter(struct jparser *p, uint32_t at)
{
    struct jnode *n = jp_node(p, JN_FILTERBLOCK, at);

    n->b = jp_filters(p, NULL, true);
    if (n->b == NULL || block_to(p, "endfilter", at, &n->body) < 0)
        return NULL;
    return n;
}

static struct jnode *parse_with(struct jparser *p, uint32_t at)
{
    struct jnode *n = jp_node(p, JN_WITH, at);
    struct jnode *v[2 * 64];

    while (p->tok[p->i].type != JT_BLOCK_END) {
        if (n->n > 0 && jp_expect_op(p, JO_COMMA, "',' or '%}'") < 0)
            return NULL;
        if (n->n == BN_COUNT(v)) {
            jp_fail(p, at, "too many variables (over 64)");
            return NULL;
        }
        v[n->n] = jp_target(p, false, false);
        if (v[n->n] == NULL || jp_expect_op(p, JO_ASSIGN, "'='") < 0)
            return NULL;
        v[n->n + 1] = jp_expression(p);
        if (v[n->n + 1] == NULL)
            return NULL;
        n->n += 2;
    }
    n->list = jarena_get(&p->c->mem, (n->n + 1) * sizeof(*v));
    memcpy(n->list, v, n->n * sizeof(*v));
    return block_to(p, "endwith", at, &n->body) == 0 ? n : NULL;
}

static struct jnode *parse_jump(struct jparser *p, uint32_t at,
                                enum jnode_kind kind)
{
    if (p->loops == 0) {
        jp_fail(p, at, "'%s' outside of a loop",
                kind == JN_BREAK ? "break" : "continue");
        return NULL;
    }
    return jp_node(p, kind, at);
}

static struct jnode *parse_break(struct jparser *p, uint32_t at)
{
    return parse_jump(p, at, JN_BREAK);
}

static struct jnode *parse_continue(struct jparser *p, uint32_t at)
{
    return parse_jump(p, at, JN_CONTINUE);
}

static struct jnode *parse_generation(struct jparser *p, uint32_t at)
{
    struct jnode *n = jp_node(p, JN_GENERATION, at);
    int loops = p->loops;

    if (p->in_generation) {
        jp_fail(p, at, "a generation block inside of another");
        return NULL;
    }
    p->in_generation = p->c->marks_generation = true;
    p->loops = 0;
    if (block_to(p, "endgeneration", at, &n->body) < 0)
        return NULL;
    p->loops = loops;
    p->in_generation = false;
    return n;
}

static const struct {
    const char *word;
    struct jnode *(*f)(struct jparser *p, uint32_t at);
} tags[] = {
    {"if", parse_if}, {"for", parse_for}, {"set", parse_set},
    {"macro", parse_macro}, {"break", parse_break},
    {"continue", parse_continue}, {"generation", parse_generation},
    {"call", parse_call}, {"filter", parse_filter}, {"with", parse_with},
};
static const char *const known_elsewhere[] = {
    "block", "extends", "include", "import", "from", "autoescape", "print",
    "do", "trans", "debug",
};

static struct jnode *statement(struct jparser *p)
{
    const struct jtok *t = &p->tok[p->i];

    if (t->type != JT_NAME) {
        jp_fail(p, t->at, "expected the name of a tag");
        return NULL;
    }
    for (size_t i = 0; i < BN_COUNT(tags); i++) {
        if (jp_skip_name(p, tags[i].word))
            return tags[i].f(p, t->at);
    }
    for (size_t i = 0; i < BN_COUNT(known_elsewhere); i++) {
        if (jp_is_name(p, known_elsewhere[i])) {
            jp_fail(p, t->at, "the tag '%s' is not supported in chat "
                    "templates", known_elsewhere[i]);
            return NULL;
        }
    }
    jp_fail(p, t->at, "unknown tag '%.*s'", (int)(t->n > 40 ? 40 : t->n),
            t->s);
    return NULL;
}

static bool is_end(const struct jparser *p, const char *const *end)
{
    for (; end != NULL && *end != NULL; end++) {
        if (jp_is_name(p, *end))
            return true;
    }
    return false;
}

/* One piece at the current token: text, "{{ }}" or a tag. */
static struct jnode *part(struct jparser *p)
{
    const struct jtok *t = &p->tok[p->i++];
    struct jnode *n;

    if (t->type == JT_DATA) {
        n = jp_node(p, JN_DATA, t->at);
        n->value = jv_str(t->s, t->n);
        return n;
    }
    if (t->type == JT_VAR_BEGIN) {
        n = jp_node(p, JN_PRINT, t->at);
        n->a = jp_tuple(p, 0);
        if (n->a == NULL)
            return NULL;
        if (p->tok[p->i].type != JT_VAR_END) {
            jp_fail(p, p->tok[p->i].at, "expected '}}' here");
            return NULL;
        }
        p->i++;
        return n;
    }
    n = statement(p);
    return n != NULL && expect_block_end(p) == 0 ? n : NULL;
}

static int statements(struct jparser *p, const char *const *end,
                      uint32_t open, struct jnode **out)
{
    struct jnode **tail = out;

    *out = NULL;
    if (!jp_enter(p))
        return -1;
    while (p->tok[p->i].type != JT_EOF) {
        if (p->tok[p->i].type == JT_BLOCK_BEGIN) {
            p->i++;
            if (is_end(p, end)) {
                p->depth--;
                return 0;
            }
            p->i--;
        }
        *tail = part(p);
        if (*tail == NULL)
            return -1;
        tail = &(*tail)->next;
    }
    p->depth--;
    if (end != NULL) {
        while (end[1] != NULL)
            end++;
        return jp_fail(p, open, "this block is never closed (expected "
                                "'%s')", *end);
    }
    return 0;
}

int jparse(struct bn_chat *c, struct bn_err *err)
{
    struct jparser p = {.c = c, .err = err};
    int rc;

    if (jlex(c, &p.tok, &p.n, err) < 0)
        return -1;
    rc = statements(&p, NULL, 0, &c->body);
    free(p.tok);
    if (rc == 0)
        jscope(c);
    return rc;
}
