/* Values: making them, what they are, walking through them. */
#include "config.h"
#include "text/jinja.h"

#include <string.h>

struct jv jv_str(const char *s, size_t n)
{
    return (struct jv){.kind = JV_STR, .n = n, .u.s = s};
}

struct jv jv_cstr(const char *s)
{
    return jv_str(s, strlen(s));
}

struct jv jv_sub(struct jv v, size_t from, size_t to)
{
    struct jv s = jv_str(v.u.s + from, to - from);

    s.flag = v.flag;
    return s;
}

struct jv jv_int(int64_t i)
{
    return (struct jv){.kind = JV_INT, .u.i = i};
}

struct jv jv_float(double f)
{
    return (struct jv){.kind = JV_FLOAT, .u.f = f};
}

struct jv jv_bool(bool b)
{
    return (struct jv){.kind = JV_BOOL, .u.b = b};
}

struct jv jv_none(void)
{
    return (struct jv){.kind = JV_NONE};
}

struct jv jv_seq(enum jkind kind, const struct jv *v, size_t n)
{
    return (struct jv){.kind = (uint8_t)kind, .n = n, .u.v = v};
}

struct jv jv_json(const json_t *j)
{
    if (j == NULL)
        return jv_none();
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        return (struct jv){.kind = JV_DICT, .flag = JF_JSON,
                           .n = json_object_size(j), .u.j = j};
    case JSON_ARRAY:
        return (struct jv){.kind = JV_LIST, .flag = JF_JSON,
                           .n = json_array_size(j), .u.j = j};
    case JSON_STRING:
        return jv_str(json_string_value(j), json_string_length(j));
    case JSON_INTEGER:
        return jv_int(json_integer_value(j));
    case JSON_REAL:
        return jv_float(json_real_value(j));
    case JSON_TRUE:
        return jv_bool(true);
    case JSON_FALSE:
        return jv_bool(false);
    case JSON_NULL:
        break;
    }
    return jv_none();
}

struct jv jv_undef(const char *name, size_t n)
{
    return (struct jv){.kind = JV_UNDEF, .aux = JU_NAME, .n = n, .u.s = name};
}

struct jv jv_undef_text(const char *text)
{
    return (struct jv){.kind = JV_UNDEF, .aux = JU_TEXT, .n = strlen(text),
                       .u.s = text};
}

struct jv jx_iter_of(struct jx *x, const struct jv *v, size_t n)
{
    struct jiter *it = jarena_get(&x->mem, sizeof(*it));

    *it = (struct jiter){.src = jv_seq(JV_LIST, v, n)};
    return (struct jv){.kind = JV_ITER, .u.it = it};
}

static const char *type_name(enum jkind kind, int aux)
{
    static const char *const views[] = {"dict_keys", "dict_values",
                                        "dict_items"};
    static const char *const names[] = {
        [JV_ABSENT] = "absent", [JV_UNDEF] = "Undefined",
        [JV_NONE] = "NoneType", [JV_BOOL] = "bool", [JV_INT] = "int",
        [JV_FLOAT] = "float", [JV_STR] = "str", [JV_LIST] = "list",
        [JV_TUPLE] = "tuple", [JV_DICT] = "dict", [JV_RANGE] = "range",
        [JV_ITER] = "generator", [JV_NS] = "Namespace",
        [JV_MACRO] = "Macro", [JV_LOOP] = "LoopContext",
        [JV_METHOD] = "method", [JV_FUNC] = "function"};

    return kind == JV_VIEW ? views[aux] : names[kind];
}

const char *jv_type(struct jv v)
{
    return type_name(v.kind, v.aux);
}

bool jv_given(struct jv v)
{
    return v.kind != JV_ABSENT && v.kind != JV_NONE;
}

bool jv_is_num(struct jv v)
{
    return v.kind == JV_BOOL || v.kind == JV_INT || v.kind == JV_FLOAT;
}

bool jv_is_int(struct jv v)
{
    return v.kind == JV_BOOL || v.kind == JV_INT;
}

double jv_num(struct jv v)
{
    return v.kind == JV_FLOAT ? v.u.f : (double)jv_integer(v);
}

int64_t jv_integer(struct jv v)
{
    return v.kind == JV_BOOL ? v.u.b : v.u.i;
}

bool jv_same_str(struct jv v, const char *s)
{
    return v.kind == JV_STR && v.n == strlen(s) && memcmp(v.u.s, s, v.n) == 0;
}

int jx_undef_fail(struct jx *x, struct jv v)
{
    const char *owner = type_name(v.owner, 0);
    int n = v.n > 80 ? 80 : (int)v.n;

    switch (v.aux) {
    case JU_NAME:
        return jx_fail(x, "'%.*s' is undefined", n, v.u.s);
    case JU_ATTR:
        return jx_fail(x, "'%s' object has no attribute '%.*s'", owner, n,
                       v.u.s);
    case JU_ITEM:
        return jx_fail(x, "'%s' object has no element %lld", owner,
                       (long long)v.u.i);
    case JU_UNSAFE:
        return jx_fail(x, "access to attribute '%.*s' of '%s' object is "
                          "unsafe: values cannot be changed in a template",
                       n, v.u.s, owner);
    default:
        return jx_fail(x, "%.*s", n, v.u.s);
    }
}

int jx_truth(struct jx *x, struct jv v, bool *out)
{
    (void)x;
    switch (v.kind) {
    case JV_UNDEF:
    case JV_NONE:
        *out = false;
        break;
    case JV_BOOL:
        *out = v.u.b;
        break;
    case JV_INT:
        *out = v.u.i != 0;
        break;
    case JV_FLOAT:
        *out = v.u.f != 0;
        break;
    case JV_STR:
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
    case JV_VIEW:
    case JV_RANGE:
        *out = v.n != 0;
        break;
    default:
        *out = true; /* generators too, as in Python */
    }
    return 0;
}

int jx_len(struct jx *x, struct jv v, size_t *n)
{
    switch (v.kind) {
    case JV_UNDEF:
        *n = 0;
        return 0;
    case JV_STR:
        *n = ju_len(v);
        return 0;
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
    case JV_VIEW:
    case JV_RANGE:
        *n = v.n;
        return 0;
    default:
        return jx_fail(x, "object of type '%s' has no length%s", jv_type(v),
                       v.kind == JV_ITER ? " (make it one with |list)" : "");
    }
}

struct jv jv_at(struct jv seq, size_t i)
{
    if (seq.kind == JV_RANGE)
        return jv_int(seq.u.r->start + (int64_t)i * seq.u.r->step);
    if ((seq.flag & JF_JSON) != 0)
        return jv_json(json_array_get(seq.u.j, i));
    return seq.u.v[i];
}

int jx_cursor(struct jx *x, struct jv v, struct jcursor *c)
{
    *c = (struct jcursor){.v = v, .view = JVIEW_KEYS};
    switch (v.kind) {
    case JV_VIEW:
        c->view = v.aux;
        c->v = *v.u.v;
        /* fall through */
    case JV_DICT:
        if ((c->v.flag & JF_JSON) != 0)
            c->it = json_object_iter((json_t *)c->v.u.j);
        return 0;
    case JV_UNDEF:
    case JV_STR:
    case JV_LIST:
    case JV_TUPLE:
    case JV_RANGE:
    case JV_ITER:
        return 0;
    default:
        return jx_fail(x, "'%s' object is not iterable", jv_type(v));
    }
}

/* A dict's next key or value, or a pair in the arena. */
static bool next_entry(struct jx *x, struct jcursor *c, struct jv *out)
{
    struct jv kv[2];

    if ((c->v.flag & JF_JSON) != 0) {
        if (c->it == NULL)
            return false;
        kv[0] = jv_cstr(json_object_iter_key(c->it));
        kv[1] = jv_json(json_object_iter_value(c->it));
        c->it = json_object_iter_next((json_t *)c->v.u.j, c->it);
    } else {
        if (c->i == c->v.u.d->n)
            return false;
        kv[0] = c->v.u.d->key[c->i];
        kv[1] = c->v.u.d->val[c->i++];
    }
    if (c->view == JVIEW_ITEMS) {
        struct jv *pair = jarena_get(&x->mem, sizeof(kv));

        memcpy(pair, kv, sizeof(kv));
        *out = jv_seq(JV_TUPLE, pair, 2);
    } else {
        *out = kv[c->view == JVIEW_VALUES];
    }
    return true;
}

bool jx_next(struct jx *x, struct jcursor *c, struct jv *out)
{
    struct jiter *it;
    uint32_t cp;

    switch (c->v.kind) {
    case JV_LIST:
    case JV_TUPLE:
    case JV_RANGE:
        if (c->i >= c->v.n)
            return false;
        *out = jv_at(c->v, c->i++);
        return true;
    case JV_STR:
        if (c->i >= c->v.n)
            return false;
        *out = jv_str(c->v.u.s + c->i,
                      ju_get(c->v.u.s + c->i, c->v.n - c->i, &cp));
        out->flag = 0;
        c->i += out->n;
        return true;
    case JV_ITER:
        it = c->v.u.it;
        if (it->at >= it->src.n)
            return false;
        *out = it->src.u.v[it->at++];
        return true;
    case JV_DICT:
        return next_entry(x, c, out);
    default:
        return false;
    }
}

int jx_collect(struct jx *x, struct jv v, struct jv **out, size_t *n)
{
    struct jcursor c;
    size_t most = v.kind == JV_ITER ? v.u.it->src.n : v.n, k = 0;

    if (jx_cursor(x, v, &c) < 0 || jx_work(x, most) < 0)
        return -1;
    if (v.kind == JV_UNDEF)
        most = 0;
    struct jv *a = jx_array(x, most + 1, sizeof(*a));
    if (a == NULL)
        return -1;
    while (k < most && jx_next(x, &c, &a[k]))
        k++;
    *out = a;
    *n = k;
    return 0;
}

/* Python refuses mutable values as keys. */
static int hashable(struct jx *x, struct jv key)
{
    if (key.kind == JV_LIST || key.kind == JV_DICT)
        return jx_fail(x, "unhashable type: '%s'", jv_type(key));
    return 0;
}

static const json_t *member(struct jx *x, const json_t *o, struct jv key)
{
#if JANSSON_VERSION_HEX >= 0x020e00
    (void)x;
    return json_object_getn(o, key.u.s, key.n);
#else
    if (memchr(key.u.s, '\0', key.n) != NULL)
        return NULL;
    /* a piece of a longer string has no NUL of its own */
    return json_object_get(o, jarena_strndup(&x->mem, key.u.s, key.n));
#endif
}

int jx_dict_get(struct jx *x, struct jv d, struct jv key, struct jv *out,
                bool *found)
{
    *found = false;
    if (hashable(x, key) < 0)
        return -1;
    if ((d.flag & JF_JSON) != 0) {
        const json_t *j = key.kind == JV_STR ? member(x, d.u.j, key) : NULL;

        *found = j != NULL;
        if (*found)
            *out = jv_json(j);
        return 0;
    }
    const struct jdict *t = d.u.d;
    if (jx_work(x, t->n) < 0)
        return -1;
    for (size_t i = 0; i < t->n; i++) {
        bool same;

        if (key.kind == JV_STR && t->key[i].kind == JV_STR) {
            same = key.n == t->key[i].n
                   && memcmp(key.u.s, t->key[i].u.s, key.n) == 0;
        } else if (jx_equal(x, key, t->key[i], &same) < 0) {
            return -1;
        }
        if (same) {
            *out = t->val[i];
            *found = true;
            return 0;
        }
    }
    return 0;
}

int jx_dict_set(struct jx *x, struct jdict *d, struct jv key, struct jv v)
{
    bool same;

    if (hashable(x, key) < 0 || jx_work(x, d->n) < 0)
        return -1;
    for (size_t i = 0; i < d->n; i++) {
        if (jx_equal(x, key, d->key[i], &same) < 0)
            return -1;
        if (same) {
            d->val[i] = v;
            return 0;
        }
    }
    if (d->n == d->cap) {
        size_t cap = d->cap == 0 ? 8 : d->cap * 2;
        struct jv *k = jx_array(x, cap, sizeof(*k));
        struct jv *w = jx_array(x, cap, sizeof(*w));

        if (k == NULL || w == NULL)
            return -1;
        if (d->n > 0) {
            memcpy(k, d->key, d->n * sizeof(*k));
            memcpy(w, d->val, d->n * sizeof(*w));
        }
        d->key = k;
        d->val = w;
        d->cap = cap;
    }
    d->key[d->n] = key;
    d->val[d->n++] = v;
    return 0;
}
