/* Calls of slots, kept as they came: words are made of one only when it has
 * failed, since thousands are enqueued in a step.
 */
#include "config.h"
#include "ops/cuda_state.h"

#include <stdio.h>
#include <string.h>

void bn_cuda_call_keep(struct bn_cuda_call *c, const char *slot,
                       const char *fmt, va_list ap)
{
    int n = 0;

    c->slot = slot;
    c->fmt = fmt;
    for (const char *p = strchr(fmt, '%'); p != NULL && n < BN_CUDA_ARGS;
         p = strchr(p + 1, '%'))
        switch (p[1]) {
        case 's':
            c->arg[n++].s = va_arg(ap, const char *);
            break;
        case 'd':
            c->arg[n++].d = va_arg(ap, int);
            break;
        case 'z':
            c->arg[n++].z = va_arg(ap, size_t);
            break;
        default:
            c->arg[n++].g = va_arg(ap, double);
        }
}

/* One argument in words; returns what comes after its place in the format. */
static const char *put(const struct bn_cuda_call *c, int i, const char *p,
                       char *text, size_t size)
{
    switch (p[1]) {
    case 's':
        snprintf(text, size, "%s", c->arg[i].s);
        return p + 2;
    case 'd':
        snprintf(text, size, "%d", c->arg[i].d);
        return p + 2;
    case 'z':
        snprintf(text, size, "%zu", c->arg[i].z);
        return p + 3;
    default:
        snprintf(text, size, "%g", c->arg[i].g);
        return p + 2;
    }
}

void bn_cuda_call_shapes(const struct bn_cuda_call *c, char *text, size_t size)
{
    size_t n = 0;
    int i = 0;

    text[0] = '\0';
    for (const char *p = c->fmt; *p != '\0' && n + 1 < size;) {
        if (*p == '%' && i < BN_CUDA_ARGS) {
            p = put(c, i++, p, text + n, size - n);
            n += strlen(text + n);
        } else {
            text[n++] = *p++;
            text[n] = '\0';
        }
    }
}

void bn_cuda_call_text(const struct bn_cuda_call *c, char *text, size_t size)
{
    char shapes[160];

    if (c->slot == NULL) {
        snprintf(text, size, "no kernel");
        return;
    }
    bn_cuda_call_shapes(c, shapes, sizeof(shapes));
    snprintf(text, size, "%s (%s)", c->slot, shapes);
}
