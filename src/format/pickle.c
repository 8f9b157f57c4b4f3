#include "config.h"
#include "format/pickle.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The stack machine: a stack of nodes, marks into it, and a memo. */
struct vm {
    const unsigned char *p;
    size_t len, at;
    const char *file;
    struct bn_err *err;
    struct bn_pickle *pk;
    struct bn_pk **stack;
    size_t n, cap;
    size_t *mark;
    size_t n_mark, cap_mark;
    struct bn_pk **memo;
    size_t n_memo, cap_memo;
};

static int bad(const struct vm *m, const char *what)
{
    return bn_fail(m->err, BN_ERR_DATA, "%s: damaged pickle: %s", m->file,
                   what);
}

static const unsigned char *take(struct vm *m, uint64_t n)
{
    const unsigned char *p = m->p + m->at;

    if (n > m->len - m->at) {
        bad(m, "it is cut short");
        return NULL;
    }
    m->at += n;
    return p;
}

static int number(struct vm *m, int n, uint64_t *v)
{
    const unsigned char *p = take(m, (uint64_t)n);

    if (p == NULL)
        return -1;
    *v = 0;
    for (int i = 0; i < n; i++)
        *v |= (uint64_t)p[i] << 8 * i;
    return 0;
}

static struct bn_pk *node(struct vm *m, enum bn_pk_kind kind)
{
    struct bn_pickle *pk = m->pk;

    bn_grow(&pk->node, &pk->cap, pk->n + 1, sizeof(*pk->node));
    pk->node[pk->n] = BN_NEW(struct bn_pk);
    pk->node[pk->n]->kind = kind;
    return pk->node[pk->n++];
}

static int push(struct vm *m, struct bn_pk *v)
{
    bn_grow(&m->stack, &m->cap, m->n + 1, sizeof(*m->stack));
    m->stack[m->n++] = v;
    return 0;
}

/* Values above the innermost mark may be popped; NULL if there is none. */
static struct bn_pk *pop(struct vm *m)
{
    size_t low = m->n_mark > 0 ? m->mark[m->n_mark - 1] : 0;

    if (m->n <= low) {
        bad(m, "nothing on the stack");
        return NULL;
    }
    return m->stack[--m->n];
}

static struct bn_pk *top(struct vm *m, enum bn_pk_kind kind)
{
    struct bn_pk *v = pop(m);

    if (v == NULL)
        return NULL;
    m->n++;
    if (v->kind == kind)
        return v;
    bad(m, "an object of the wrong kind is filled");
    return NULL;
}

static void append(struct bn_pk *v, struct bn_pk *item)
{
    bn_grow(&v->item, &v->cap, v->n + 1, sizeof(*v->item));
    v->item[v->n++] = item;
}

static int push_text(struct vm *m, enum bn_pk_kind kind, uint64_t len)
{
    const unsigned char *p = take(m, len);
    struct bn_pk *v;

    if (p == NULL)
        return -1;
    v = node(m, kind);
    v->s = bn_strndup((const char *)p, len);
    v->len = len;
    return push(m, v);
}

/* Text whose length is a number of 'bytes' bytes. */
static int push_counted(struct vm *m, enum bn_pk_kind kind, int bytes)
{
    uint64_t len;

    return number(m, bytes, &len) < 0 ? -1 : push_text(m, kind, len);
}

static int push_int(struct vm *m, enum bn_pk_kind kind, int64_t i)
{
    struct bn_pk *v = node(m, kind);

    v->i = i;
    return push(m, v);
}

static int push_fixed(struct vm *m, int bytes, bool is_signed)
{
    uint64_t u;

    if (number(m, bytes, &u) < 0)
        return -1;
    return push_int(m, BN_PK_INT,
                    is_signed ? (int64_t)(int32_t)u : (int64_t)u);
}

/* LONG1: little-endian two's complement; at most 64 bits here. */
static int push_long(struct vm *m)
{
    uint64_t n, u;

    if (number(m, 1, &n) < 0)
        return -1;
    if (n > 8)
        return bad(m, "an integer above 64 bits");
    if (number(m, (int)n, &u) < 0)
        return -1;
    if (n > 0 && n < 8 && u >> (8 * n - 1))
        u |= ~(uint64_t)0 << 8 * n;
    return push_int(m, BN_PK_INT, (int64_t)u);
}

static int push_float(struct vm *m)
{
    const unsigned char *p = take(m, 8);
    uint64_t u = 0;
    struct bn_pk *v;

    if (p == NULL)
        return -1;
    for (int i = 0; i < 8; i++)
        u = u << 8 | p[i];
    v = node(m, BN_PK_FLOAT);
    memcpy(&v->f, &u, 8);
    return push(m, v);
}

/* Move what is above the innermost mark into 'v', which may be NULL. */
static int collect(struct vm *m, struct bn_pk *v)
{
    if (m->n_mark == 0)
        return bad(m, "no mark on the stack");
    size_t low = m->mark[--m->n_mark];
    for (size_t i = low; v != NULL && i < m->n; i++)
        append(v, m->stack[i]);
    m->n = low;
    return 0;
}

static int push_tuple(struct vm *m, size_t n)
{
    struct bn_pk *v = node(m, BN_PK_TUPLE), *items[3];

    for (size_t i = n; i-- > 0;) {
        items[i] = pop(m);
        if (items[i] == NULL)
            return -1;
    }
    for (size_t i = 0; i < n; i++)
        append(v, items[i]);
    return push(m, v);
}

static int push_collected(struct vm *m, enum bn_pk_kind kind)
{
    struct bn_pk *v = node(m, kind);

    if (collect(m, v) < 0)
        return -1;
    if (kind == BN_PK_DICT && v->n % 2 != 0)
        return bad(m, "a key without a value");
    return push(m, v);
}

/* APPENDS and SETITEMS: the target lies below the mark. */
static int extend(struct vm *m, enum bn_pk_kind kind)
{
    struct bn_pk all = {0};
    struct bn_pk *v;
    int rc = collect(m, &all);

    v = rc < 0 ? NULL : top(m, kind);
    if (v != NULL && kind == BN_PK_DICT && all.n % 2 != 0)
        rc = bad(m, "a key without a value");
    else if (v != NULL)
        for (size_t i = 0; i < all.n; i++)
            append(v, all.item[i]);
    free(all.item);
    return v == NULL ? -1 : rc;
}

static int set_items(struct vm *m, enum bn_pk_kind kind, int n)
{
    struct bn_pk *b = pop(m), *a = n == 2 && b != NULL ? pop(m) : b;
    struct bn_pk *v = a != NULL ? top(m, kind) : NULL;

    if (v == NULL)
        return -1;
    append(v, a);
    if (n == 2)
        append(v, b);
    return 0;
}

static int put_memo(struct vm *m, uint64_t at)
{
    struct bn_pk *v = pop(m);

    if (v == NULL)
        return -1;
    m->n++;
    /* Picklers number their memo from 0 without large gaps. */
    if (at > m->at)
        return bad(m, "memo index");
    if (at >= m->n_memo) {
        bn_grow(&m->memo, &m->cap_memo, at + 1, sizeof(*m->memo));
        for (size_t i = m->n_memo; i <= at; i++)
            m->memo[i] = NULL;
        m->n_memo = at + 1;
    }
    m->memo[at] = v;
    return 0;
}

static int get_memo(struct vm *m, int bytes)
{
    uint64_t at;

    if (number(m, bytes, &at) < 0)
        return -1;
    if (at >= m->n_memo || m->memo[at] == NULL)
        return bad(m, "memo index");
    return push(m, m->memo[at]);
}

/* One line of text, for GLOBAL. */
static const char *line(struct vm *m, size_t *len)
{
    const char *s = (const char *)m->p + m->at;
    const char *end = memchr(s, '\n', m->len - m->at);

    if (end == NULL) {
        bad(m, "it is cut short");
        return NULL;
    }
    *len = (size_t)(end - s);
    m->at += *len + 1;
    return s;
}

static int push_global(struct vm *m)
{
    size_t n1, n2;
    const char *module = line(m, &n1);
    const char *name = module != NULL ? line(m, &n2) : NULL;
    struct bn_pk *v;

    if (name == NULL)
        return -1;
    v = node(m, BN_PK_GLOBAL);
    v->s = bn_asprintf("%.*s.%.*s", (int)n1, module, (int)n2, name);
    return push(m, v);
}

static int push_stack_global(struct vm *m)
{
    struct bn_pk *name = pop(m), *module = name != NULL ? pop(m) : NULL, *v;

    if (module == NULL)
        return -1;
    if (name->kind != BN_PK_STR || module->kind != BN_PK_STR)
        return bad(m, "name of an object");
    v = node(m, BN_PK_GLOBAL);
    v->s = bn_asprintf("%s.%s", module->s, name->s);
    return push(m, v);
}

static int push_call(struct vm *m)
{
    struct bn_pk *args = pop(m), *f = args != NULL ? pop(m) : NULL, *v;

    if (f == NULL)
        return -1;
    if (f->kind != BN_PK_GLOBAL || args->kind != BN_PK_TUPLE)
        return bad(m, "something that is no function is called");
    if (strcmp(f->s, "collections.OrderedDict") == 0 && args->n == 0)
        return push(m, node(m, BN_PK_DICT));
    v = node(m, BN_PK_CALL);
    append(v, f);
    append(v, args);
    return push(m, v);
}

static int push_persid(struct vm *m)
{
    struct bn_pk *id = pop(m), *v;

    if (id == NULL)
        return -1;
    v = node(m, BN_PK_PERSID);
    append(v, id);
    return push(m, v);
}

static int set_mark(struct vm *m)
{
    bn_grow(&m->mark, &m->cap_mark, m->n_mark + 1, sizeof(*m->mark));
    m->mark[m->n_mark++] = m->n;
    return 0;
}

static int pop_one(struct vm *m)
{
    return pop(m) == NULL ? -1 : 0;
}

static int skip_number(struct vm *m, int bytes)
{
    uint64_t v;

    return number(m, bytes, &v);
}

static int memo_number(struct vm *m, int bytes)
{
    uint64_t at;

    return number(m, bytes, &at) < 0 ? -1 : put_memo(m, at);
}

/* One instruction that is not STOP. */
static int step(struct vm *m, int op)
{
    switch (op) {
    case 0x80: return skip_number(m, 1);                  /* PROTO */
    case 0x95: return skip_number(m, 8);                  /* FRAME */
    case '(': return set_mark(m);
    case '0': return pop_one(m);
    case '1': return collect(m, NULL);                    /* POP_MARK */
    case 'N': return push(m, node(m, BN_PK_NONE));
    case 0x88: return push_int(m, BN_PK_BOOL, 1);
    case 0x89: return push_int(m, BN_PK_BOOL, 0);
    case 'J': return push_fixed(m, 4, true);              /* BININT */
    case 'K': return push_fixed(m, 1, false);
    case 'M': return push_fixed(m, 2, false);
    case 0x8a: return push_long(m);
    case 'G': return push_float(m);
    case 'X': return push_counted(m, BN_PK_STR, 4);       /* BINUNICODE */
    case 0x8c: return push_counted(m, BN_PK_STR, 1);
    case 0x8d: return push_counted(m, BN_PK_STR, 8);
    case 'U': return push_counted(m, BN_PK_STR, 1);       /* Python 2 */
    case 'T': return push_counted(m, BN_PK_STR, 4);
    case 'C': return push_counted(m, BN_PK_BYTES, 1);
    case 'B': return push_counted(m, BN_PK_BYTES, 4);
    case 0x8e: return push_counted(m, BN_PK_BYTES, 8);
    case ']': return push(m, node(m, BN_PK_LIST));
    case 'l': return push_collected(m, BN_PK_LIST);
    case 'a': return set_items(m, BN_PK_LIST, 1);
    case 'e': return extend(m, BN_PK_LIST);
    case '}': return push(m, node(m, BN_PK_DICT));
    case 'd': return push_collected(m, BN_PK_DICT);
    case 's': return set_items(m, BN_PK_DICT, 2);
    case 'u': return extend(m, BN_PK_DICT);
    case ')': return push(m, node(m, BN_PK_TUPLE));
    case 't': return push_collected(m, BN_PK_TUPLE);
    case 0x85: return push_tuple(m, 1);
    case 0x86: return push_tuple(m, 2);
    case 0x87: return push_tuple(m, 3);
    case 'q': return memo_number(m, 1);                   /* BINPUT */
    case 'r': return memo_number(m, 4);
    case 0x94: return put_memo(m, m->n_memo);             /* MEMOIZE */
    case 'h': return get_memo(m, 1);
    case 'j': return get_memo(m, 4);
    case 'c': return push_global(m);
    case 0x93: return push_stack_global(m);
    case 'R': return push_call(m);
    case 0x81: return push_call(m);                       /* NEWOBJ */
    case 'b': return pop_one(m);                          /* BUILD */
    case 'Q': return push_persid(m);
    default:
        return bn_fail(m->err, BN_ERR_DATA, "%s: pickle instruction 0x%02x "
                       "is not allowed", m->file, (unsigned)op);
    }
}

static int run(struct vm *m)
{
    for (;;) {
        const unsigned char *op = take(m, 1);

        if (op == NULL)
            return -1;
        if (*op == '.') {
            m->pk->root = pop(m);
            return m->pk->root != NULL ? 0 : -1;
        }
        if (step(m, *op) < 0)
            return -1;
    }
}

int bn_pickle_read(struct bn_pickle *pk, const void *data, size_t len,
                   const char *name, struct bn_err *err)
{
    struct bn_pickle got = {0};
    struct vm m = {.p = data, .len = len, .file = name, .err = err,
                   .pk = &got};
    int rc = run(&m);

    free(m.stack);
    free(m.mark);
    free(m.memo);
    if (rc < 0) {
        bn_pickle_release(&got);
        return -1;
    }
    *pk = got;
    return 0;
}

void bn_pickle_release(struct bn_pickle *pk)
{
    for (size_t i = 0; i < pk->n; i++) {
        free(pk->node[i]->s);
        free(pk->node[i]->item);
        free(pk->node[i]);
    }
    free(pk->node);
    *pk = (struct bn_pickle){0};
}
