/* Statements: running the tree. Scopes as in Jinja: loops, macros, "with"
 * and the bodies of block tags have their own, "if" has not.
 */
#include "config.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <string.h>

/* ---- assignment ---- */

static int assign_attr(struct jx *x, const struct jnode *t, struct jv v)
{
    struct jv ns;

    if (jx_lookup(x, t->a->name, &ns) < 0)
        return -1;
    x->at = t;
    if (ns.kind != JV_NS)
        return jx_fail(x, "cannot assign to an attribute of '%s': only a "
                          "namespace has such", t->a->name->s);
    return jx_dict_set(x, ns.u.d, t->value, v);
}

static int unpack(struct jx *x, struct jframe *f, const struct jnode *t,
                  struct jv v)
{
    struct jcursor c;
    struct jv e;

    x->at = t;
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (jx_cursor(x, v, &c) < 0)
        return -1;
    for (size_t i = 0; i < t->n; i++) {
        if (!jx_next(x, &c, &e))
            return jx_fail(x, "not enough values to unpack (expected %zu, "
                              "got %zu)", t->n, i);
        if (jx_assign(x, f, t->list[i], e) < 0)
            return -1;
        x->at = t;
    }
    if (jx_next(x, &c, &e))
        return jx_fail(x, "too many values to unpack (expected %zu)", t->n);
    return 0;
}

int jx_assign(struct jx *x, struct jframe *f, const struct jnode *target,
              struct jv v)
{
    switch (target->kind) {
    case JN_NAME:
        jx_bind_name(x, f, target->name, v);
        return 0;
    case JN_NSREF:
        return assign_attr(x, target, v);
    default:
        return unpack(x, f, target, v);
    }
}

/* ---- taking output as a value ---- */

/* The frame of a block's own scope. */
static struct jframe *block_frame(struct jx *x, const struct jnode *n)
{
    struct jframe *f = jx_push(x, x->frame);

    jx_hide(x, f, n->hidden);
    return f;
}

/* Run 'body' in 'frame'; what it writes becomes '*out'. */
static int capture(struct jx *x, const struct jnode *body,
                   struct jframe *frame, struct jv *out, int *flow)
{
    struct jframe *saved = x->frame;
    size_t from = x->out->len;
    int rc;

    x->frame = frame;
    x->capture++;
    rc = jx_run(x, body, flow);
    x->capture--;
    x->frame = saved;
    if (rc < 0)
        return -1;
    size_t n = x->out->len - from;
    if (jx_room(x, n) < 0)
        return -1;
    *out = jv_str(jarena_strndup(&x->mem, n > 0 ? x->out->s + from : "", n),
                  n);
    x->out->len = from;
    if (x->out->s != NULL)
        x->out->s[from] = '\0';
    return 0;
}

/* ---- macros ---- */

/* Bind the parameters of 'm' in 'f'. Keywords used are marked in 'used'. */
static int bind_params(struct jx *x, const struct jmacro *m,
                       const struct jargs *a, struct jframe *f, bool *used)
{
    const struct jnode *n = m->node;
    size_t params = n->n / 2;

    for (size_t i = 0; i < params; i++) {
        const struct jname *name = n->list[2 * i]->name;
        struct jv v = {.kind = JV_ABSENT};

        if (i < a->npos) {
            v = a->pos[i];
        } else {
            for (size_t k = 0; k < a->nkw; k++) {
                if (!jv_same_str(a->kwname[k], name->s))
                    continue;
                v = a->kwval[k];
                used[k] = true;
            }
        }
        if (v.kind == JV_ABSENT && n->list[2 * i + 1] != NULL) {
            if (jx_eval(x, n->list[2 * i + 1], &v) < 0)
                return -1;
        } else if (v.kind == JV_ABSENT) {
            v = jv_undef(name->s, name->n);
        }
        jx_bind_name(x, f, name, v);
    }
    return 0;
}

/* caller, varargs and kwargs, where the body names them. */
static int bind_rest(struct jx *x, const struct jmacro *m,
                     const struct jargs *a, struct jframe *f, bool *used)
{
    const struct jnode *n = m->node;
    const char *name = n->name != NULL ? n->name->s : "caller";
    size_t params = n->n / 2;
    struct jv caller = jv_undef_text("no caller defined");
    struct jdict *rest = jarena_get(&x->mem, sizeof(*rest));

    *rest = (struct jdict){0};
    for (size_t k = 0; k < a->nkw; k++) {
        if (used[k])
            continue;
        if (n->uses_caller && jv_same_str(a->kwname[k], "caller"))
            caller = a->kwval[k];
        else if (!n->uses_kwargs)
            return jx_fail(x, "macro '%s' takes no keyword argument '%.*s'",
                           name, (int)a->kwname[k].n, a->kwname[k].u.s);
        else if (jx_dict_set(x, rest, a->kwname[k], a->kwval[k]) < 0)
            return -1;
    }
    if (a->npos > params && !n->uses_varargs)
        return jx_fail(x, "macro '%s' takes not more than %zu arguments, "
                          "%zu given", name, params, a->npos);
    if (n->uses_caller)
        jx_bind_name(x, f, x->c->caller, caller);
    if (n->uses_kwargs)
        jx_bind_name(x, f, x->c->kwargs,
                     (struct jv){.kind = JV_DICT, .n = rest->n,
                                 .u.d = rest});
    if (n->uses_varargs) {
        size_t extra = a->npos > params ? a->npos - params : 0;

        jx_bind_name(x, f, x->c->varargs,
                     jv_seq(JV_TUPLE, a->pos + (extra > 0 ? params : 0),
                            extra));
    }
    return 0;
}

int jx_macro(struct jx *x, const struct jmacro *m, const struct jargs *a,
             struct jv *out)
{
    struct jframe *f = jx_push(x, m->home), *saved = x->frame;
    bool *used = jarena_get(&x->mem, a->nkw + 1);
    int flow = JFLOW_ON, rc;

    if (x->calls >= JX_MAX_CALLS)
        return jx_fail(x, "macros call each other too deep (over %d)",
                       JX_MAX_CALLS);
    memset(used, 0, a->nkw + 1);
    x->calls++;
    x->frame = f;
    jx_hide(x, f, m->node->hidden);
    rc = bind_params(x, m, a, f, used);
    if (rc == 0)
        rc = bind_rest(x, m, a, f, used);
    x->frame = saved;
    if (rc == 0)
        rc = capture(x, m->node->body, f, out, &flow);
    x->calls--;
    return rc;
}

static struct jv make_macro(struct jx *x, const struct jnode *n)
{
    struct jmacro *m = jarena_get(&x->mem, sizeof(*m));

    *m = (struct jmacro){.node = n, .home = x->frame,
                         .is_caller = n->kind == JN_CALLBLOCK};
    return (struct jv){.kind = JV_MACRO, .u.m = m};
}

static int run_call(struct jx *x, const struct jnode *n)
{
    struct jv f, v;
    struct jargs a;

    if (jx_eval(x, n->a->a, &f) < 0 || jx_args(x, n->a->call, &a) < 0)
        return -1;
    struct jv *kw = jarena_get(&x->mem, 2 * (a.nkw + 1) * sizeof(*kw));
    struct jv *val = kw + a.nkw + 1;
    if (a.nkw > 0) {
        memcpy(kw, a.kwname, a.nkw * sizeof(*kw));
        memcpy(val, a.kwval, a.nkw * sizeof(*val));
    }
    kw[a.nkw] = jv_cstr("caller");
    val[a.nkw] = make_macro(x, n);
    a.kwname = kw;
    a.kwval = val;
    a.nkw++;
    x->at = n->a;
    if (jx_call(x, f, &a, &v) < 0)
        return -1;
    x->at = n->a;
    return jx_str(x, v, &v) < 0 ? -1 : jx_emit(x, v.u.s, v.n);
}

/* ---- blocks ---- */

static int run_for(struct jx *x, const struct jnode *n, int *flow)
{
    struct jframe *outer = x->frame, *f = NULL;
    struct jloop *l = jarena_get(&x->mem, sizeof(*l));
    struct jv v;
    bool more, whole = false;
    int rc = -1;

    *l = (struct jloop){.x = x, .node = n, .index0 = -1, .length = -1};
    if (jx_eval(x, n->b, &v) < 0)
        return -1;
    x->at = n->b;
    if (jx_cursor(x, v, &l->cur) < 0)
        return -1;
    if (n->c != NULL)
        l->test_frame = jx_push(x, outer);
    else if (v.kind != JV_ITER && v.kind != JV_UNDEF && v.kind != JV_STR)
        l->length = (int64_t)v.n;
    f = jx_push(x, outer);
    for (;;) {
        if (jloop_next(x, l, &more) < 0)
            goto out;
        if (!more)
            break;
        x->frame = f;
        f->n = 0; /* each turn sees the outer variables afresh */
        jx_hide(x, f, n->hidden);
        jx_bind_name(x, f, x->c->loop,
                     (struct jv){.kind = JV_LOOP, .u.loop = l});
        if (jx_assign(x, f, n->a, l->now) < 0
            || jx_run(x, n->body, flow) < 0)
            goto out;
        x->frame = outer;
        whole |= *flow == JFLOW_ON;
        if (*flow == JFLOW_BREAK)
            break;
        *flow = JFLOW_ON;
    }
    *flow = JFLOW_ON;
    rc = 0;
    /* Jinja's "else" is for loops of which no turn came to its end */
    if (!whole && n->orelse != NULL) {
        x->frame = jx_push(x, outer);
        jx_hide(x, x->frame, n->hidden_else);
        rc = jx_run(x, n->orelse, flow);
    }
out:
    x->frame = outer;
    return rc;
}

static int run_if(struct jx *x, const struct jnode *n, int *flow)
{
    for (; n != NULL; n = n->b) {
        struct jv v;
        bool yes;

        if (jx_eval(x, n->a, &v) < 0 || jx_truth(x, v, &yes) < 0)
            return -1;
        if (yes)
            return jx_run(x, n->body, flow);
        if (n->b == NULL)
            return jx_run(x, n->orelse, flow);
    }
    return 0;
}

static int run_generation(struct jx *x, const struct jnode *n, int *flow)
{
    struct jframe *saved = x->frame;
    size_t from = x->out->len;
    int rc;

    if (x->capture > 0)
        return jx_fail(x, "a generation block inside of a macro or of a "
                          "block whose output is taken as a value");
    x->frame = jx_push(x, saved);
    jx_hide(x, x->frame, n->hidden);
    rc = jx_run(x, n->body, flow);
    x->frame = saved;
    if (rc < 0)
        return -1;
    bn_grow(&x->span, &x->spancap, x->nspan + 1, sizeof(*x->span));
    x->span[x->nspan++] = (struct bn_span){from, x->out->len};
    return 0;
}

static int run_with(struct jx *x, const struct jnode *n, int *flow)
{
    struct jframe *saved = x->frame, *f = jx_push(x, saved);
    int rc = 0;

    jx_hide(x, f, n->hidden);
    for (size_t i = 0; rc == 0 && i < n->n; i += 2) {
        struct jv v;

        /* values are of the outer scope, all of them */
        rc = jx_eval(x, n->list[i + 1], &v);
        if (rc == 0)
            rc = jx_assign(x, f, n->list[i], v);
    }
    x->frame = f;
    if (rc == 0)
        rc = jx_run(x, n->body, flow);
    x->frame = saved;
    return rc;
}

static int run_print(struct jx *x, const struct jnode *n)
{
    struct jv v;

    if (jx_eval(x, n->a, &v) < 0)
        return -1;
    x->at = n->a;
    if (v.kind != JV_STR && jx_str(x, v, &v) < 0)
        return -1;
    return jx_emit(x, v.u.s, v.n);
}

static int run_set(struct jx *x, const struct jnode *n, int *flow)
{
    struct jv v;

    if (n->kind == JN_SET)
        return jx_eval(x, n->b, &v) < 0 ? -1
                                        : jx_assign(x, x->frame, n->a, v);
    if (capture(x, n->body, block_frame(x, n), &v, flow) < 0
        || jx_apply(x, n->b, v, &v) < 0)
        return -1;
    return jx_assign(x, x->frame, n->a, v);
}

static int run_filter(struct jx *x, const struct jnode *n, int *flow)
{
    struct jv v;

    if (capture(x, n->body, block_frame(x, n), &v, flow) < 0
        || jx_apply(x, n->b, v, &v) < 0 || jx_str(x, v, &v) < 0)
        return -1;
    return jx_emit(x, v.u.s, v.n);
}

static int run_one(struct jx *x, const struct jnode *n, int *flow)
{
    switch (n->kind) {
    case JN_DATA:
        return jx_emit(x, n->value.u.s, n->value.n);
    case JN_PRINT:
        return run_print(x, n);
    case JN_IF:
        return run_if(x, n, flow);
    case JN_FOR:
        return run_for(x, n, flow);
    case JN_SET:
    case JN_SETBLOCK:
        return run_set(x, n, flow);
    case JN_MACRO:
        jx_bind_name(x, x->frame, n->name, make_macro(x, n));
        return 0;
    case JN_CALLBLOCK:
        return run_call(x, n);
    case JN_FILTERBLOCK:
        return run_filter(x, n, flow);
    case JN_WITH:
        return run_with(x, n, flow);
    case JN_GENERATION:
        return run_generation(x, n, flow);
    case JN_BREAK:
        *flow = JFLOW_BREAK;
        return 0;
    default:
        *flow = JFLOW_CONTINUE;
        return 0;
    }
}

int jx_run(struct jx *x, const struct jnode *body, int *flow)
{
    if (body == NULL)
        return 0;
    if (x->nest >= JX_MAX_NEST)
        return jx_fail(x, "nested too deep (over %d levels)", JX_MAX_NEST);
    x->nest++;
    for (; body != NULL && *flow == JFLOW_ON; body = body->next) {
        x->at = body;
        if (jx_work(x, 1) < 0 || run_one(x, body, flow) < 0)
            return -1;
    }
    x->nest--;
    return 0;
}
