#include "config.h"
#include "ckpt/hf.h"
#include "base/mem.h"
#include "tensor/convert.h"

#include <stdlib.h>
#include <string.h>

enum { LISTED = 20 };

/* One kind of fault: how many, the first, and lines for the report. */
struct fault {
    const char *what;
    int n;
    char *first;
};

__attribute__((format(printf, 4, 5))) static void
note(struct fault *f, struct bn_str *report, const char *name,
     const char *fmt, ...)
{
    va_list ap;

    if (f->n++ == 0)
        f->first = bn_strdup(name);
    if (report == NULL || f->n > LISTED + 1)
        return;
    if (f->n == LISTED + 1) {
        bn_str_addf(report, "%s: and more\n", f->what);
        return;
    }
    bn_str_addf(report, "%s: %s", f->what, name);
    va_start(ap, fmt);
    bn_str_vaddf(report, fmt, ap);
    va_end(ap);
    bn_str_addc(report, '\n');
}

enum { MISSING, EXTRA, MISSHAPEN, FORMAT, NFAULT };

static bool shape_is(const struct bn_named *t, const struct bn_param *p)
{
    return t->ndim == p->ndim && t->dims[0] == p->full_rows
           && (t->ndim == 1 || t->dims[1] == p->full_cols);
}

/* Returns the tensor of 'p' if it is there. */
static const struct bn_named *
check_param(const struct bn_tensors *ts, const struct bn_param *p,
            struct fault *f, struct bn_str *report)
{
    const struct bn_named *t = bn_tensors_find(ts, p->name);
    int64_t want[2] = {p->full_rows, p->full_cols};
    char a[200], b[64];

    if (t == NULL)
        note(&f[MISSING], report, p->name, "%s", "");
    else if (!shape_is(t, p))
        note(&f[MISSHAPEN], report, p->name, " is %s, not %s",
             bn_dims_text(a, sizeof(a), t->ndim, t->dims),
             bn_dims_text(b, sizeof(b), p->ndim, want));
    else if (!bn_dtype_is_float(t->dtype) || bn_dtype_size(t->dtype) < 2)
        note(&f[FORMAT], report, p->name, " is %s",
             bn_dtype_name(t->dtype));
    return t;
}

/* Equal values, whatever the formats. */
static bool same_values(const struct bn_named *a, const struct bn_named *b)
{
    enum { N = 4096 };
    double x[N], y[N];
    size_t sa = bn_dtype_size(a->dtype), sb = bn_dtype_size(b->dtype);
    size_t count = (size_t)a->count;

    if (a->ndim != b->ndim || memcmp(a->dims, b->dims, sizeof(a->dims)) != 0
        || !bn_dtype_is_float(a->dtype) || !bn_dtype_is_float(b->dtype))
        return false;
    if (a->dtype == b->dtype)
        return memcmp(a->data, b->data, count * sa) == 0;
    for (size_t at = 0; at < count; at += N) {
        size_t n = count - at < N ? count - at : N;

        bn_convert(x, BN_F64, (const char *)a->data + at * sa, a->dtype, n);
        bn_convert(y, BN_F64, (const char *)b->data + at * sb, b->dtype, n);
        if (memcmp(x, y, n * 8) != 0)
            return false;
    }
    return true;
}

/* Whether a tensor that no parameter asks for may be there; c NULL: none. */
static int check_extra(const struct bn_tensors *ts, const struct bn_named *t,
                       const char *where, const struct bn_model_config *c,
                       struct fault *f, struct bn_str *report,
                       struct bn_err *err)
{
    const struct bn_named *e;

    if (c != NULL && bn_str_ends(t->name, ".rotary_emb.inv_freq"))
        return 0;
    if (c == NULL || !c->tie_embeddings
        || strcmp(t->name, "lm_head.weight") != 0) {
        note(&f[EXTRA], report, t->name, "%s", "");
        return 0;
    }
    e = bn_tensors_find(ts, "model.embed_tokens.weight");
    if (e == NULL || same_values(e, t))
        return 0;
    return bn_fail(err, BN_ERR_DATA, "%s: tie_word_embeddings is true but "
                   "lm_head.weight differs from model.embed_tokens.weight: "
                   "one of the two is stale", where);
}

static int tell(const struct fault *f, const char *where, struct bn_err *err)
{
    struct bn_str s = {0};

    for (int i = 0; i < NFAULT; i++)
        if (f[i].n > 0)
            bn_str_addf(&s, "%s%d %s (%s%s)", s.len > 0 ? ", " : "", f[i].n,
                        f[i].what, f[i].first, f[i].n > 1 ? ", ..." : "");
    if (s.len == 0)
        return 0;
    bn_fail(err, BN_ERR_DATA, "%s does not hold the tensors of its config: "
            "%s", where, s.s);
    bn_str_release(&s);
    return -1;
}

static int check(const struct bn_tensors *ts, const char *where,
                 const struct bn_model_config *c, const struct bn_params *ps,
                 struct bn_str *report, struct bn_err *err)
{
    struct fault f[NFAULT] = {{"missing", 0, NULL},
                              {"extra", 0, NULL},
                              {"misshapen", 0, NULL},
                              {"of unsupported format", 0, NULL}};
    bool *used = BN_NEWN(bool, ts->n);
    int rc = 0;

    for (int i = 0; i < ps->n; i++) {
        const struct bn_named *t = check_param(ts, &ps->item[i], f, report);

        if (t != NULL)
            used[t - ts->item] = true;
    }
    for (size_t i = 0; rc == 0 && i < ts->n; i++)
        if (!used[i])
            rc = check_extra(ts, &ts->item[i], where, c, f, report, err);
    if (rc == 0)
        rc = tell(f, where, err);
    for (int i = 0; i < NFAULT; i++)
        free(f[i].first);
    free(used);
    return rc;
}

int bn_hf_check(const struct bn_tensors *ts, const char *where,
                const struct bn_model_config *c, struct bn_str *report,
                struct bn_err *err)
{
    struct bn_part part = bn_part_whole(c);
    struct bn_params ps;

    if (bn_params_init(&ps, c, &part, err) < 0)
        return -1;
    int rc = check(ts, where, c, &ps, report, err);
    bn_params_release(&ps);
    return rc;
}

int bn_hf_check_table(const struct bn_tensors *ts, const char *where,
                      const struct bn_params *whole, struct bn_str *report,
                      struct bn_err *err)
{
    return check(ts, where, NULL, whole, report, err);
}
