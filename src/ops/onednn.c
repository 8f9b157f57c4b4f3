#include "config.h"
#include "ops/onednn.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool bn_onednn_amx(void)
{
#if defined(HAVE_ONEDNN) && defined(__x86_64__)
    unsigned a = 7, b, c = 0, d;

    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0; /* AMX-BF16, AMX-TILE */
#else
    return false;
#endif
}

#ifdef HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>

enum { ENTRIES = 512 };

/* What a primitive depends on. */
struct key {
    int t, tc, m, n, k, lda, ldb, ldc;
    bool a_by_k, b_by_k, acc, bias, packed;
};

struct entry {
    struct key key;
    uint64_t used; /* when; 0: empty */
    dnnl_primitive_t prim;
    dnnl_memory_t a, b, c, bias, scratch;
    size_t scratch_size;
};

struct bn_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    uint64_t clock;
    struct bn_arena scratch; /* of the largest primitive so far */
    struct entry entry[ENTRIES];
};

static int failed(struct bn_err *err, const char *what, dnnl_status_t s)
{
    return bn_fail(err, BN_ERR_BUG, "oneDNN cannot %s (status %d)", what,
                   (int)s);
}

struct bn_onednn *bn_onednn_create(struct bn_err *err)
{
    struct bn_onednn *o = BN_NEW(struct bn_onednn);
    dnnl_status_t s = dnnl_engine_create(&o->engine, dnnl_cpu, 0);

    if (s == dnnl_success)
        s = dnnl_stream_create(&o->stream, o->engine,
                               dnnl_stream_default_flags);
    if (s != dnnl_success) {
        failed(err, "start", s);
        bn_onednn_destroy(o);
        return NULL;
    }
    return o;
}

static void entry_clear(struct entry *e)
{
    dnnl_memory_t *mem[] = {&e->a, &e->b, &e->c, &e->bias, &e->scratch};

    for (size_t i = 0; i < BN_COUNT(mem); i++)
        if (*mem[i] != NULL)
            dnnl_memory_destroy(*mem[i]);
    if (e->prim != NULL)
        dnnl_primitive_destroy(e->prim);
    *e = (struct entry){.used = 0};
}

void bn_onednn_destroy(struct bn_onednn *o)
{
    if (o == NULL)
        return;
    for (int i = 0; i < ENTRIES; i++)
        entry_clear(&o->entry[i]);
    if (o->stream != NULL)
        dnnl_stream_destroy(o->stream);
    if (o->engine != NULL)
        dnnl_engine_destroy(o->engine);
    bn_arena_release(&o->scratch);
    free(o);
}

static dnnl_data_type_t type_of(int t)
{
    return t == BN_F32 ? dnnl_f32 : dnnl_bf16;
}

static dnnl_status_t describe(const struct key *k, dnnl_memory_desc_t *a,
                              dnnl_memory_desc_t *b, dnnl_memory_desc_t *c,
                              dnnl_memory_desc_t *bias)
{
    const dnnl_dims_t as = {k->a_by_k ? 1 : k->lda, k->a_by_k ? k->lda : 1};
    const dnnl_dims_t bs = {k->b_by_k ? k->ldb : 1, k->b_by_k ? 1 : k->ldb};
    const dnnl_dims_t cs = {k->ldc, 1}, vs = {k->n, 1};
    dnnl_status_t s = dnnl_memory_desc_init_by_strides(
        a, 2, (dnnl_dims_t){k->m, k->k}, type_of(k->t), as);

    if (s == dnnl_success && k->packed)
        s = dnnl_memory_desc_init_by_tag(b, 2, (dnnl_dims_t){k->k, k->n},
                                         type_of(k->t), dnnl_format_tag_any);
    else if (s == dnnl_success)
        s = dnnl_memory_desc_init_by_strides(b, 2, (dnnl_dims_t){k->k, k->n},
                                             type_of(k->t), bs);
    if (s == dnnl_success)
        s = dnnl_memory_desc_init_by_strides(c, 2, (dnnl_dims_t){k->m, k->n},
                                             type_of(k->tc), cs);
    if (s == dnnl_success)
        s = dnnl_memory_desc_init_by_strides(bias, 2, (dnnl_dims_t){1, k->n},
                                             type_of(k->t), vs);
    return s;
}

static dnnl_status_t attributes(const struct key *k,
                                dnnl_primitive_attr_t *attr,
                                dnnl_post_ops_t *post)
{
    dnnl_status_t s = dnnl_primitive_attr_create(attr);

    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_scratchpad_mode(*attr,
                                                    dnnl_scratchpad_mode_user);
    if (s == dnnl_success && k->acc) {
        s = dnnl_post_ops_create(post);
        if (s == dnnl_success)
            s = dnnl_post_ops_append_sum(*post, 1.0f);
        if (s == dnnl_success)
            s = dnnl_primitive_attr_set_post_ops(*attr, *post);
    }
    return s;
}

/* Memory objects without memory; the pointers are set at each call. */
static dnnl_status_t memories(struct bn_onednn *o, struct entry *e,
                              const_dnnl_primitive_desc_t pd)
{
    static const struct {
        dnnl_query_t what;
        size_t at;
    } all[] = {{dnnl_query_src_md, offsetof(struct entry, a)},
               {dnnl_query_weights_md, offsetof(struct entry, b)},
               {dnnl_query_dst_md, offsetof(struct entry, c)},
               {dnnl_query_scratchpad_md, offsetof(struct entry, scratch)}};
    dnnl_status_t s = dnnl_success;

    for (size_t i = 0; i < BN_COUNT(all) && s == dnnl_success; i++)
        s = dnnl_memory_create((dnnl_memory_t *)((char *)e + all[i].at),
                               dnnl_primitive_desc_query_md(pd, all[i].what, 0),
                               o->engine, DNNL_MEMORY_NONE);
    if (s == dnnl_success && e->key.bias)
        s = dnnl_memory_create(
            &e->bias,
            dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1),
            o->engine, DNNL_MEMORY_NONE);
    e->scratch_size = dnnl_memory_desc_get_size(
        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    return s;
}

static dnnl_status_t entry_fill(struct bn_onednn *o, struct entry *e)
{
    dnnl_memory_desc_t a, b, c, bias;
    dnnl_matmul_desc_t d;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t post = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t s = describe(&e->key, &a, &b, &c, &bias);

    if (s == dnnl_success)
        s = dnnl_matmul_desc_init(&d, &a, &b, e->key.bias ? &bias : NULL, &c);
    if (s == dnnl_success)
        s = attributes(&e->key, &attr, &post);
    if (s == dnnl_success)
        s = dnnl_primitive_desc_create(&pd, &d, attr, o->engine, NULL);
    if (s == dnnl_success)
        s = dnnl_primitive_create(&e->prim, pd);
    if (s == dnnl_success)
        s = memories(o, e, pd);
    if (pd != NULL)
        dnnl_primitive_desc_destroy(pd);
    if (post != NULL)
        dnnl_post_ops_destroy(post);
    if (attr != NULL)
        dnnl_primitive_attr_destroy(attr);
    return s;
}

bool bn_onednn_has(struct bn_onednn *o, enum bn_dtype t)
{
    struct entry e = {.key = {.t = (int)t, .tc = (int)t, .m = 1, .n = 1, .k = 1,
                              .lda = 1, .ldb = 1, .ldc = 1}};
    bool has = entry_fill(o, &e) == dnnl_success;

    entry_clear(&e);
    return has;
}

/* The primitive of a key, made if need be over the one least recently used. */
static struct entry *entry_get(struct bn_onednn *o, const struct key *key,
                               struct bn_err *err)
{
    struct entry *oldest = &o->entry[0];

    for (int i = 0; i < ENTRIES; i++) {
        struct entry *e = &o->entry[i];

        if (e->used > 0 && memcmp(&e->key, key, sizeof(*key)) == 0) {
            e->used = ++o->clock;
            return e;
        }
        if (e->used < oldest->used)
            oldest = e;
    }
    entry_clear(oldest);
    oldest->key = *key;
    dnnl_status_t s = entry_fill(o, oldest);
    if (s != dnnl_success) {
        entry_clear(oldest);
        failed(err, "make a matrix product", s);
        return NULL;
    }
    if (oldest->scratch_size > o->scratch.size) {
        bn_arena_release(&o->scratch);
        if (bn_arena_init(&o->scratch, "oneDNN scratch", oldest->scratch_size,
                          err)
            < 0) {
            entry_clear(oldest);
            return NULL;
        }
    }
    oldest->used = ++o->clock;
    return oldest;
}

static struct key key_of(const struct bn_gemm *g, bool packed)
{
    struct key k;

    memset(&k, 0, sizeof(k)); /* compared byte by byte */
    k.t = (int)g->t;
    k.tc = (int)g->tc;
    k.m = g->m;
    k.n = g->n;
    k.k = g->k;
    k.lda = g->lda;
    k.ldb = packed ? 0 : g->ldb;
    k.ldc = g->ldc;
    k.a_by_k = g->a_by_k;
    k.b_by_k = !packed && g->b_by_k;
    k.acc = g->acc;
    k.bias = g->bias != NULL;
    k.packed = packed;
    return k;
}

static int execute(struct bn_onednn *o, struct entry *e,
                   const struct bn_gemm *g, const void *b, struct bn_err *err)
{
    dnnl_exec_arg_t arg[] = {{DNNL_ARG_SRC, e->a},
                             {DNNL_ARG_WEIGHTS, e->b},
                             {DNNL_ARG_DST, e->c},
                             {DNNL_ARG_SCRATCHPAD, e->scratch},
                             {DNNL_ARG_BIAS, e->bias}};
    /* oneDNN has no const handles; it writes only c and the scratch. */
    dnnl_memory_set_data_handle(e->a, (void *)g->a);
    dnnl_memory_set_data_handle(e->b, (void *)b);
    dnnl_memory_set_data_handle(e->c, g->c);
    dnnl_memory_set_data_handle(e->scratch, o->scratch.base);
    if (e->bias != NULL)
        dnnl_memory_set_data_handle(e->bias, (void *)g->bias);
    dnnl_status_t s = dnnl_primitive_execute(e->prim, o->stream,
                                             e->bias != NULL ? 5 : 4, arg);
    return s == dnnl_success ? 0 : failed(err, "multiply matrices", s);
}

int bn_onednn_gemm(struct bn_onednn *o, const struct bn_gemm *g,
                   struct bn_err *err)
{
    struct key key = key_of(g, false);
    struct entry *e = entry_get(o, &key, err);

    return e != NULL ? execute(o, e, g, g->b, err) : -1;
}

static double least_time(struct bn_onednn *o, const struct bn_gemm *g,
                         bool packed, int tries, struct bn_err *err)
{
    struct key key = key_of(g, packed);
    struct entry *e = entry_get(o, &key, err);
    const dnnl_memory_desc_t *md;
    struct bn_arena b = {0};
    double best = -1;

    if (e == NULL)
        return -1;
    if (packed) {
        /* What the packed copy holds does not matter: zeros, touched. */
        dnnl_memory_get_memory_desc(e->b, &md);
        if (bn_arena_init(&b, "packed matrix", dnnl_memory_desc_get_size(md),
                          err)
            < 0)
            return -1;
        bn_arena_touch(&b);
    }
    for (int i = 0; i < tries; i++) {
        double t = bn_now();

        if (execute(o, e, g, packed ? b.base : g->b, err) < 0) {
            best = -1;
            break;
        }
        t = bn_now() - t;
        if (best < 0 || t < best)
            best = t;
    }
    bn_arena_release(&b);
    return best;
}

double bn_onednn_time(struct bn_onednn *o, const struct bn_gemm *g, int tries,
                      struct bn_err *err)
{
    double plain = least_time(o, g, false, tries, err);
    double packed = least_time(o, g, true, tries, err);

    return plain < 0 || packed < 0 ? -1 : plain < packed ? plain : packed;
}

#else

struct bn_onednn *bn_onednn_create(struct bn_err *err)
{
    bn_fail(err, BN_ERR_USAGE, "built without oneDNN");
    return NULL;
}

void bn_onednn_destroy(struct bn_onednn *o)
{
    (void)o;
}

bool bn_onednn_has(struct bn_onednn *o, enum bn_dtype t)
{
    (void)o;
    (void)t;
    return false;
}

int bn_onednn_gemm(struct bn_onednn *o, const struct bn_gemm *g,
                   struct bn_err *err)
{
    (void)o;
    (void)g;
    return bn_fail(err, BN_ERR_USAGE, "built without oneDNN");
}

double bn_onednn_time(struct bn_onednn *o, const struct bn_gemm *g, int tries,
                      struct bn_err *err)
{
    (void)o;
    (void)g;
    (void)tries;
    return bn_fail(err, BN_ERR_USAGE, "built without oneDNN");
}

#endif
