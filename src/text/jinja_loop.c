/* The elements of a for loop, and what "loop." tells about them. */
#include "config.h"
#include "text/jinja.h"

#include <string.h>

/* The next element that the loop's own "if" lets through; JV_ABSENT at the
 * end. Looked at as late as Jinja does, since namespaces may change. */
static int advance(struct jx *x, struct jloop *l, struct jv *out)
{
    while (jx_next(x, &l->cur, out)) {
        struct jframe *saved = x->frame;
        struct jv v;
        bool yes;

        if (l->test_frame == NULL)
            return jx_work(x, 1);
        x->frame = l->test_frame;
        x->frame->n = 0;
        if (jx_assign(x, x->frame, l->node->a, *out) < 0
            || jx_eval(x, l->node->c, &v) < 0 || jx_truth(x, v, &yes) < 0)
            return -1;
        x->frame = saved;
        if (yes)
            return 0;
    }
    out->kind = JV_ABSENT;
    return 0;
}

int jloop_next(struct jx *x, struct jloop *l, bool *more)
{
    struct jv v = l->after;

    if (v.kind == JV_ABSENT && advance(x, l, &v) < 0)
        return -1;
    l->after.kind = JV_ABSENT;
    *more = v.kind != JV_ABSENT;
    if (*more) {
        l->before = l->now;
        l->now = v;
        l->index0++;
    }
    return 0;
}

static int peek(struct jx *x, struct jloop *l)
{
    return l->after.kind != JV_ABSENT ? 0 : advance(x, l, &l->after);
}

/* How many elements there are: makes a list of what is left. */
static int length(struct jx *x, struct jloop *l)
{
    struct jv v;
    struct jv *all = NULL;
    size_t n = 0, cap = 0;

    if (l->length >= 0)
        return 0;
    for (;;) {
        if (advance(x, l, &v) < 0)
            return -1;
        if (v.kind == JV_ABSENT)
            break;
        if (n == cap) {
            struct jv *more;

            cap = cap * 2 + 16;
            more = jx_array(x, cap, sizeof(*more));
            if (more == NULL)
                return -1;
            if (n > 0)
                memcpy(more, all, n * sizeof(*more));
            all = more;
        }
        all[n++] = v;
    }
    l->length = l->index0 + 1 + (l->after.kind != JV_ABSENT) + (int64_t)n;
    l->cur = (struct jcursor){.v = jv_seq(JV_LIST, all, n)};
    l->test_frame = NULL; /* they have passed */
    return 0;
}

int jx_loop_attr(struct jx *x, struct jloop *l, struct jv name,
                 struct jv *out, bool *found)
{
    static const char *const names[] = {
        "index", "index0", "first", "depth", "depth0", "last", "nextitem",
        "previtem", "length", "revindex", "revindex0", "cycle", "changed"};
    enum { INDEX, INDEX0, FIRST, DEPTH, DEPTH0, LAST, NEXT, PREV, LENGTH,
           REV, REV0, CYCLE, CHANGED, COUNT } what = 0;

    while (what < COUNT && !jv_same_str(name, names[what]))
        what++;
    *found = what < COUNT;
    if ((what == LAST || what == NEXT) && peek(x, l) < 0)
        return -1;
    if (what >= LENGTH && what <= REV0 && length(x, l) < 0)
        return -1;
    switch (what) {
    case INDEX:
    case INDEX0:
        *out = jv_int(l->index0 + (what == INDEX));
        break;
    case FIRST:
        *out = jv_bool(l->index0 == 0);
        break;
    case DEPTH:
    case DEPTH0:
        *out = jv_int(what == DEPTH); /* counts recursion, not nesting */
        break;
    case LAST:
        *out = jv_bool(l->after.kind == JV_ABSENT);
        break;
    case NEXT:
        *out = l->after;
        if (out->kind == JV_ABSENT)
            *out = jv_undef_text("there is no next item");
        break;
    case PREV:
        *out = l->before;
        if (l->index0 == 0)
            *out = jv_undef_text("there is no previous item");
        break;
    case LENGTH:
        *out = jv_int(l->length);
        break;
    case REV:
    case REV0:
        *out = jv_int(l->length - l->index0 - (what == REV0));
        break;
    case CYCLE:
    case CHANGED:
        *out = (struct jv){.kind = JV_FUNC, .u.loop = l,
                           .aux = what == CYCLE ? JLOOP_CYCLE
                                                : JLOOP_CHANGED};
        break;
    default:
        break;
    }
    return 0;
}
