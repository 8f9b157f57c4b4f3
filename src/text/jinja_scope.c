/* Names that a scope of a template hides before it sets them.
 *
 * Jinja compiles a scope's variables to Python's local ones. A name that is
 * set in a scope before the scope itself reads it, and that no outer scope
 * knows, is such a variable from the start: until it is set it is undefined,
 * for inner scopes (loops, macros) too, whatever the caller passed under that
 * name. Where it is first read, or set only under an "if", it begins as what
 * the caller passed. The rules are those of jinja2/idtracking.py.
 *
 * Found once, when a template is parsed: each scope gets a list of the names
 * that it starts with as undefined.
 */
#include "config.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <stdlib.h>

struct scopes {
    struct bn_chat *c;
    bool *known; /* by the name's id: some open scope knows it */
    const struct jname **stack; /* what became known, innermost last */
    size_t n, cap;
    struct jhidden **hidden; /* of the innermost scope */
    int branches; /* ifs open in it */
};

static bool know(struct scopes *s, const struct jname *name)
{
    if (s->known[name->id])
        return false;
    s->known[name->id] = true;
    bn_grow(&s->stack, &s->cap, s->n + 1, sizeof(*s->stack));
    s->stack[s->n++] = name;
    return true;
}

static void load_call(struct scopes *s, const struct jcall *call);

static void load(struct scopes *s, const struct jnode *n)
{
    if (n == NULL)
        return;
    if (n->kind == JN_NAME)
        (void)know(s, n->name);
    load(s, n->a);
    load(s, n->b);
    load(s, n->c);
    for (size_t i = 0; i < n->n; i++)
        load(s, n->list[i]);
    if (n->call != NULL)
        load_call(s, n->call);
}

static void load_call(struct scopes *s, const struct jcall *call)
{
    for (size_t i = 0; i < call->n; i++)
        load(s, call->arg[i]);
    for (size_t i = 0; i < call->nkw; i++)
        load(s, call->kwval[i]);
    load(s, call->star);
    load(s, call->starstar);
}

static void store_name(struct scopes *s, const struct jname *name)
{
    if (!know(s, name) || s->branches > 0)
        return;
    struct jhidden *h = jarena_get(&s->c->mem, sizeof(*h));
    *h = (struct jhidden){name, *s->hidden};
    *s->hidden = h;
}

static void store(struct scopes *s, const struct jnode *target)
{
    if (target->kind == JN_NAME)
        store_name(s, target->name);
    else if (target->kind == JN_NSREF)
        load(s, target->a); /* the namespace is read */
    for (size_t i = 0; i < target->n; i++)
        store(s, target->list[i]);
}

static void param(struct scopes *s, const struct jnode *target)
{
    if (target->kind == JN_NAME)
        (void)know(s, target->name);
    for (size_t i = 0; i < target->n; i++)
        param(s, target->list[i]);
}

/* What the statements of a scope read and set themselves. */
static void own(struct scopes *s, const struct jnode *n)
{
    for (; n != NULL; n = n->next) {
        switch (n->kind) {
        case JN_PRINT:
        case JN_CALLBLOCK:
            load(s, n->a);
            break;
        case JN_FOR:
        case JN_FILTERBLOCK:
            load(s, n->b);
            break;
        case JN_IF:
            s->branches++;
            for (const struct jnode *i = n; i != NULL; i = i->b) {
                load(s, i->a);
                own(s, i->body);
                own(s, i->orelse);
            }
            s->branches--;
            break;
        case JN_SET:
        case JN_SETBLOCK:
            load(s, n->b);
            store(s, n->a);
            break;
        case JN_MACRO:
            store_name(s, n->name);
            break;
        case JN_WITH:
            for (size_t i = 0; i < n->n; i += 2)
                load(s, n->list[i + 1]);
            break;
        default:
            break;
        }
    }
}

static void inner(struct scopes *s, struct jnode *n);

/* A scope of these statements; 'n', if not NULL, makes it and has names that
 * it begins with. */
static void scope(struct scopes *s, const struct jnode *n, struct jnode *body,
                  struct jhidden **hidden)
{
    struct scopes saved = *s;

    s->hidden = hidden;
    s->branches = 0;
    if (n != NULL && n->kind == JN_FOR) {
        (void)know(s, s->c->loop);
        param(s, n->a);
    } else if (n != NULL) {
        for (size_t i = 0; i < n->n; i += 2)
            param(s, n->list[i]);
        for (size_t i = 0; n->kind != JN_WITH && i < n->n; i += 2)
            load(s, n->list[i + 1]);
    }
    own(s, body);
    inner(s, body);
    while (s->n > saved.n)
        s->known[s->stack[--s->n]->id] = false;
    s->hidden = saved.hidden;
    s->branches = saved.branches;
}

/* The scopes within statements, once all of their own is known. */
static void inner(struct scopes *s, struct jnode *n)
{
    for (; n != NULL; n = n->next) {
        switch (n->kind) {
        case JN_IF:
            for (struct jnode *i = n; i != NULL; i = i->b) {
                inner(s, i->body);
                inner(s, i->orelse);
            }
            break;
        case JN_FOR:
            scope(s, n, n->body, &n->hidden);
            scope(s, NULL, n->orelse, &n->hidden_else);
            break;
        case JN_MACRO:
        case JN_CALLBLOCK:
        case JN_WITH:
            scope(s, n, n->body, &n->hidden);
            break;
        case JN_SETBLOCK:
        case JN_FILTERBLOCK:
        case JN_GENERATION:
            scope(s, NULL, n->body, &n->hidden);
            break;
        default:
            break;
        }
    }
}

void jscope(struct bn_chat *c)
{
    struct scopes s = {.c = c, .known = BN_NEWN(bool, c->nname + 1)};

    scope(&s, NULL, c->body, &c->hidden);
    free(s.known);
    free(s.stack);
}
