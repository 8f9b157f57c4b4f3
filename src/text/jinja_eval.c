/* Expressions: walking the tree to a value. */
#include "config.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <string.h>

struct jframe *jx_push(struct jx *x, struct jframe *up)
{
    struct jframe *f = jarena_get(&x->mem, sizeof(*f));

    *f = (struct jframe){.up = up};
    return f;
}

void jx_bind_name(struct jx *x, struct jframe *f, const struct jname *name,
                  struct jv v)
{
    for (size_t i = 0; i < f->n; i++) {
        if (f->b[i].name == name) {
            f->b[i].v = v;
            return;
        }
    }
    if (f->n == f->cap) {
        size_t cap = f->cap == 0 ? 4 : f->cap * 2;
        struct jbind *b = jarena_get(&x->mem, cap * sizeof(*b));

        if (f->n > 0)
            memcpy(b, f->b, f->n * sizeof(*b));
        f->b = b;
        f->cap = cap;
    }
    f->b[f->n++] = (struct jbind){name, v};
}

void jx_hide(struct jx *x, struct jframe *f, const struct jhidden *h)
{
    for (; h != NULL; h = h->next)
        jx_bind_name(x, f, h->name, jv_undef(h->name->s, h->name->n));
}

static struct jv token(const struct jname *name, const char *text)
{
    return text != NULL ? jv_cstr(text) : jv_undef(name->s, name->n);
}

/* A name that no scope of the template binds. */
static int outside(struct jx *x, const struct jname *name, struct jv *out)
{
    const struct bn_chat_args *a = x->args;
    const json_t *j;

    switch (name->well) {
    case JW_MESSAGES:
        *out = jv_json(a->messages);
        if (out->kind == JV_LIST)
            out->n = x->nmessages;
        return 0;
    case JW_TOOLS:
        *out = jv_json(a->tools);
        return 0;
    case JW_ADD_GENERATION_PROMPT:
        *out = jv_bool(x->generation_prompt);
        return 0;
    default:
        break;
    }
    j = a->extra != NULL ? json_object_get(a->extra, name->s) : NULL;
    if (j != NULL) {
        *out = jv_json(j);
        return 0;
    }
    switch (name->well) {
    case JW_DOCUMENTS:
        *out = jv_none();
        break;
    case JW_BOS:
        *out = token(name, a->bos_token);
        break;
    case JW_EOS:
        *out = token(name, a->eos_token);
        break;
    case JW_PAD:
        *out = token(name, a->pad_token);
        break;
    case JW_UNK:
        *out = token(name, a->unk_token);
        break;
    case JW_RANGE:
    case JW_DICT:
    case JW_NAMESPACE:
    case JW_RAISE:
    case JW_STRFTIME:
        *out = (struct jv){.kind = JV_FUNC, .aux = (uint8_t)name->well};
        break;
    case JW_UNSUPPORTED:
        return jx_fail(x, "'%s' is not supported", name->s);
    default:
        *out = jv_undef(name->s, name->n);
    }
    return 0;
}

int jx_lookup(struct jx *x, const struct jname *name, struct jv *out)
{
    for (struct jframe *f = x->frame; f != NULL; f = f->up) {
        for (size_t i = 0; i < f->n; i++) {
            if (f->b[i].name == name) {
                *out = f->b[i].v;
                return 0;
            }
        }
    }
    return outside(x, name, out);
}

int jx_call(struct jx *x, struct jv f, const struct jargs *a, struct jv *out)
{
    switch (f.kind) {
    case JV_MACRO:
        return jx_macro(x, f.u.m, a, out);
    case JV_METHOD:
        return jx_call_method(x, f, a, out);
    case JV_FUNC:
        return jx_call_func(x, f, a, out);
    case JV_UNDEF:
        return jx_undef_fail(x, f);
    case JV_LOOP:
        return jx_fail(x, "recursive loops are not supported");
    default:
        return jx_fail(x, "'%s' object is not callable", jv_type(f));
    }
}

/* ---- nodes ---- */

static int eval_seq(struct jx *x, const struct jnode *n, struct jv *out)
{
    struct jv *v = jarena_get(&x->mem, (n->n + 1) * sizeof(*v));

    for (size_t i = 0; i < n->n; i++)
        if (jx_eval(x, n->list[i], &v[i]) < 0)
            return -1;
    *out = jv_seq(n->kind == JN_LIST ? JV_LIST : JV_TUPLE, v, n->n);
    return 0;
}

static int eval_dict(struct jx *x, const struct jnode *n, struct jv *out)
{
    struct jdict *d = jarena_get(&x->mem, sizeof(*d));

    *d = (struct jdict){0};
    for (size_t i = 0; i < n->n; i += 2) {
        struct jv k, v;

        if (jx_eval(x, n->list[i], &k) < 0
            || jx_eval(x, n->list[i + 1], &v) < 0)
            return -1;
        x->at = n->list[i];
        if (jx_dict_set(x, d, k, v) < 0)
            return -1;
    }
    *out = (struct jv){.kind = JV_DICT, .n = d->n, .u.d = d};
    return 0;
}

static int eval_item(struct jx *x, const struct jnode *n, struct jv *out)
{
    struct jv v, key, part[3];
    const struct jnode *const p[3] = {n->b->a, n->b->b, n->b->c};

    if (jx_eval(x, n->a, &v) < 0)
        return -1;
    if (n->b->kind != JN_SLICE) {
        if (jx_eval(x, n->b, &key) < 0)
            return -1;
        x->at = n;
        return jx_getitem(x, v, key, out);
    }
    for (int i = 0; i < 3; i++) {
        part[i] = jv_none();
        if (p[i] != NULL && jx_eval(x, p[i], &part[i]) < 0)
            return -1;
    }
    x->at = n;
    return jx_slice(x, v, part, out);
}

static int eval_compare(struct jx *x, const struct jnode *n, struct jv *out)
{
    struct jv a, b;
    bool yes = true;

    if (jx_eval(x, n->list[0], &a) < 0)
        return -1;
    for (size_t i = 1; yes && i < n->n; i++) {
        if (jx_eval(x, n->list[i], &b) < 0)
            return -1;
        x->at = n;
        if (jx_compare(x, (enum jop)n->ops[i - 1], a, b, &yes) < 0)
            return -1;
        a = b;
    }
    *out = jv_bool(yes);
    return 0;
}

static int eval_concat(struct jx *x, const struct jnode *n, struct jv *out)
{
    struct jb b;
    struct jv *v = jarena_get(&x->mem, n->n * sizeof(*v));
    size_t total = 1;

    for (size_t i = 0; i < n->n; i++) {
        if (jx_eval(x, n->list[i], &v[i]) < 0)
            return -1;
        x->at = n;
        if (jx_str(x, v[i], &v[i]) < 0)
            return -1;
        total += v[i].n;
    }
    jb_begin(&b, x, total);
    for (size_t i = 0; i < n->n; i++)
        jb_add(&b, v[i].u.s, v[i].n);
    return jb_end(&b, out);
}

static int eval_filter(struct jx *x, const struct jnode *n, struct jv v,
                       struct jv *out)
{
    struct jargs a;

    if (jx_args(x, n->call, &a) < 0)
        return -1;
    x->at = n;
    if (v.kind == JV_STR && jx_scan(x, v.n) < 0)
        return -1;
    return n->filter->f(x, v, &a, out);
}

int jx_apply(struct jx *x, const struct jnode *n, struct jv v, struct jv *out)
{
    if (n == NULL) {
        *out = v;
        return 0;
    }
    return jx_apply(x, n->a, v, &v) < 0 ? -1 : eval_filter(x, n, v, out);
}

static int eval_test(struct jx *x, const struct jnode *n, struct jv *out)
{
    struct jargs a;
    struct jv v;
    bool yes;

    if (jx_eval(x, n->a, &v) < 0 || jx_args(x, n->call, &a) < 0)
        return -1;
    x->at = n;
    if (n->test->f(x, v, &a, &yes) < 0)
        return -1;
    *out = jv_bool(yes);
    return 0;
}

static int eval_call(struct jx *x, const struct jnode *n, struct jv *out)
{
    struct jargs a;
    struct jv f;

    if (jx_eval(x, n->a, &f) < 0 || jx_args(x, n->call, &a) < 0)
        return -1;
    x->at = n;
    return jx_call(x, f, &a, out);
}

/* and, or: the operand that decides, as in Python. */
static int eval_logic(struct jx *x, const struct jnode *n, struct jv *out)
{
    bool yes;

    if (jx_eval(x, n->a, out) < 0 || jx_truth(x, *out, &yes) < 0)
        return -1;
    return yes == (n->kind == JN_AND) ? jx_eval(x, n->b, out) : 0;
}

static int eval_cond(struct jx *x, const struct jnode *n, struct jv *out)
{
    struct jv v;
    bool yes;

    if (jx_eval(x, n->a, &v) < 0 || jx_truth(x, v, &yes) < 0)
        return -1;
    if (yes)
        return jx_eval(x, n->b, out);
    if (n->c != NULL)
        return jx_eval(x, n->c, out);
    *out = jv_undef_text("the inline if evaluated to false and has no else");
    return 0;
}

static int eval_unary(struct jx *x, const struct jnode *n, struct jv *out)
{
    struct jv v;
    bool yes;

    if (jx_eval(x, n->a, &v) < 0)
        return -1;
    x->at = n;
    if (n->kind == JN_NOT) {
        if (jx_truth(x, v, &yes) < 0)
            return -1;
        *out = jv_bool(!yes);
        return 0;
    }
    if (n->kind == JN_NEG)
        return jx_negate(x, v, out);
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (!jv_is_num(v))
        return jx_fail(x, "bad operand type for unary +: '%s'", jv_type(v));
    *out = v.kind == JV_BOOL ? jv_int(v.u.b) : v;
    return 0;
}

static int eval_binary(struct jx *x, const struct jnode *n, struct jv *out)
{
    struct jv a, b;

    if (jx_eval(x, n->a, &a) < 0 || jx_eval(x, n->b, &b) < 0)
        return -1;
    x->at = n;
    return jx_binary(x, (enum jop)n->op, a, b, out);
}

static int eval_attr(struct jx *x, const struct jnode *n, struct jv *out)
{
    struct jv v;

    if (jx_eval(x, n->a, &v) < 0)
        return -1;
    x->at = n;
    return jx_getattr(x, v, n->value, out);
}

static int eval_node(struct jx *x, const struct jnode *n, struct jv *out)
{
    struct jv v;

    switch (n->kind) {
    case JN_CONST:
        *out = n->value;
        return 0;
    case JN_NAME:
        return jx_lookup(x, n->name, out);
    case JN_ATTR:
        return eval_attr(x, n, out);
    case JN_ITEM:
        return eval_item(x, n, out);
    case JN_LIST:
    case JN_TUPLE:
        return eval_seq(x, n, out);
    case JN_DICT:
        return eval_dict(x, n, out);
    case JN_CALL:
        return eval_call(x, n, out);
    case JN_FILTER:
        return jx_eval(x, n->a, &v) < 0 ? -1 : eval_filter(x, n, v, out);
    case JN_TEST:
        return eval_test(x, n, out);
    case JN_AND:
    case JN_OR:
        return eval_logic(x, n, out);
    case JN_COND:
        return eval_cond(x, n, out);
    case JN_COMPARE:
        return eval_compare(x, n, out);
    case JN_BINARY:
        return eval_binary(x, n, out);
    case JN_CONCAT:
        return eval_concat(x, n, out);
    default:
        return eval_unary(x, n, out);
    }
}

int jx_eval(struct jx *x, const struct jnode *n, struct jv *out)
{
    int rc;

    x->at = n;
    if (++x->steps > JX_MAX_STEPS && jx_work(x, 0) < 0)
        return -1;
    if (x->mem.total > JX_MAX_MEMORY && jx_room(x, 0) < 0)
        return -1;
    if (x->nest >= JX_MAX_NEST)
        return jx_fail(x, "nested too deep (over %d levels)", JX_MAX_NEST);
    x->nest++;
    rc = eval_node(x, n, out);
    x->nest--;
    return rc;
}
