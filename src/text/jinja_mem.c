/* Memory of a template and of a render, limits, and errors with a place. */
#include "config.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct jblock {
    struct jblock *next;
    size_t used, size;
    _Alignas(16) char data[];
};

enum { BLOCK = 32 << 10 };

void *jarena_get(struct jarena *a, size_t n)
{
    struct jblock *b = a->top;

    n = (n + 15) & ~(size_t)15;
    if (b == NULL || b->size - b->used < n) {
        size_t size = n > BLOCK ? n : BLOCK;

        b = bn_malloc(sizeof(*b) + size);
        *b = (struct jblock){.next = a->top, .size = size};
        a->top = b;
        a->total += size;
    }
    b->used += n;
    return b->data + b->used - n;
}

bool jarena_extend(struct jarena *a, void *p, size_t old, size_t n)
{
    struct jblock *b = a->top;

    old = (old + 15) & ~(size_t)15;
    n = (n + 15) & ~(size_t)15;
    if (b == NULL || b->data + b->used - old != (char *)p
        || b->size - b->used + old < n)
        return false;
    b->used += n - old;
    return true;
}

char *jarena_strndup(struct jarena *a, const char *s, size_t n)
{
    char *d = jarena_get(a, n + 1);

    if (n > 0)
        memcpy(d, s, n);
    d[n] = '\0';
    return d;
}

void jarena_release(struct jarena *a)
{
    while (a->top != NULL) {
        struct jblock *next = a->top->next;

        free(a->top);
        a->top = next;
    }
    a->total = 0;
}

int jx_fail_at(const struct bn_chat *c, uint32_t at, struct bn_err *err,
               const char *fmt, va_list ap)
{
    int line = 1, col = 1;
    struct bn_str s = {0};

    for (size_t i = 0; i < at && i < c->len; i++) {
        if (c->src[i] == '\n') {
            line++;
            col = 1;
        } else if ((c->src[i] & 0xc0) != 0x80) {
            col++;
        }
    }
    bn_str_vaddf(&s, fmt, ap);
    bn_fail(err, BN_ERR_DATA, "%s:%d:%d: %s", c->name, line, col,
            s.s != NULL ? s.s : "");
    bn_str_release(&s);
    return -1;
}

int jx_fail(struct jx *x, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    jx_fail_at(x->c, x->at != NULL ? x->at->at : 0, x->err, fmt, ap);
    va_end(ap);
    return -1;
}

int jx_work(struct jx *x, size_t n)
{
    x->steps += n;
    if (x->steps > JX_MAX_STEPS)
        return jx_fail(x, "the template runs too long (over %d steps)",
                       JX_MAX_STEPS);
    return 0;
}

int jx_scan(struct jx *x, size_t bytes)
{
    return jx_work(x, bytes / 64);
}

/* Bytes of all strings in 'j'. jansson's own parser bounds the depth; what
 * is built by hand deeper than that is not counted. */
static size_t json_bytes(const json_t *j, int depth)
{
    size_t sum = 8;

    if (depth > 2048)
        return sum;
    if (json_is_string(j)) {
        sum += json_string_length(j);
    } else if (json_is_array(j)) {
        for (size_t i = 0; i < json_array_size(j); i++)
            sum += json_bytes(json_array_get(j, i), depth + 1);
    } else if (json_is_object(j)) {
        json_t *o = (json_t *)j; /* jansson iterates through non-const */

        for (void *it = json_object_iter(o); it != NULL;
             it = json_object_iter_next(o, it))
            sum += strlen(json_object_iter_key(it))
                   + json_bytes(json_object_iter_value(it), depth + 1);
    }
    return sum;
}

/* Only a render that has grown large pays for this count. */
static size_t input_bytes(struct jx *x)
{
    if (!x->counted) {
        x->input = json_bytes(x->args->messages, 0)
                   + json_bytes(x->args->tools, 0)
                   + json_bytes(x->args->extra, 0) + x->c->len;
        x->counted = true;
    }
    return x->input;
}

int jx_room(struct jx *x, size_t more)
{
    size_t total = x->mem.total + more;

    if (more > (size_t)1 << 40
        || (total > JX_MAX_MEMORY
            && total > JX_MAX_MEMORY + 64 * input_bytes(x)))
        return jx_fail(x, "the template needs too much memory (over %d MiB)",
                       JX_MAX_MEMORY >> 20);
    return 0;
}

void *jx_array(struct jx *x, size_t n, size_t size)
{
    if (n > ((size_t)1 << 40) / size) {
        jx_room(x, SIZE_MAX);
        return NULL;
    }
    if (n * size > BLOCK && jx_room(x, n * size) < 0)
        return NULL;
    return jarena_get(&x->mem, n * size);
}

int jx_emit(struct jx *x, const char *s, size_t n)
{
    size_t total = x->out->len - x->base + n;

    if (total > JX_MAX_OUTPUT && total > JX_MAX_OUTPUT + 16 * input_bytes(x))
        return jx_fail(x, "the template writes too much (over %d MiB)",
                       JX_MAX_OUTPUT >> 20);
    bn_str_add(x->out, s, n);
    return 0;
}

void jb_begin(struct jb *b, struct jx *x, size_t guess)
{
    *b = (struct jb){.x = x, .cap = guess < 32 ? 32 : guess};
    if (b->cap > BLOCK && jx_room(x, b->cap) < 0) {
        b->failed = true;
        b->cap = 32;
    }
    b->s = jarena_get(&x->mem, b->cap);
}

static bool grow(struct jb *b, size_t n)
{
    size_t cap = b->cap;

    if (b->failed)
        return false;
    if (cap - b->n > n)
        return true;
    while (cap - b->n <= n)
        cap = cap > SIZE_MAX / 4 ? b->n + n + 1 : cap * 2;
    if (cap > BLOCK && jx_room(b->x, cap) < 0) {
        b->failed = true;
        return false;
    }
    if (!jarena_extend(&b->x->mem, b->s, b->cap, cap)) {
        char *s = jarena_get(&b->x->mem, cap);

        memcpy(s, b->s, b->n);
        b->s = s;
    }
    b->cap = cap;
    return true;
}

void jb_add(struct jb *b, const char *s, size_t n)
{
    if (n == 0 || !grow(b, n))
        return;
    memcpy(b->s + b->n, s, n);
    b->n += n;
}

void jb_adds(struct jb *b, const char *s)
{
    jb_add(b, s, strlen(s));
}

void jb_pad(struct jb *b, char c, size_t n)
{
    if (n == 0 || !grow(b, n))
        return;
    memset(b->s + b->n, c, n);
    b->n += n;
}

void jb_cp(struct jb *b, uint32_t cp)
{
    char s[4];

    jb_add(b, s, (size_t)bn_utf8_put(s, cp));
}

void jb_addf(struct jb *b, const char *fmt, ...)
{
    struct bn_str s = {0};
    va_list ap;

    va_start(ap, fmt);
    bn_str_vaddf(&s, fmt, ap);
    va_end(ap);
    jb_add(b, s.s, s.len);
    bn_str_release(&s);
}

int jb_end(struct jb *b, struct jv *out)
{
    if (b->failed)
        return -1;
    b->s[b->n] = '\0'; /* grow() leaves one byte more */
    *out = jv_str(b->s, b->n);
    return 0;
}
