/* Decoding with a cache equals computing the whole sequence again for every
 * token, in every architecture variant, alone and in company.
 */
#include "config.h"
#include "base/mem.h"
#include "base/tap.h"
#include "ckpt/hf.h"
#include "model/decode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const variants[] = {
    "llama-untied",    "llama3-rope",       "mistral-window",
    "qwen2-bias-tied", "qwen3-qknorm-tied",
};

enum { CAPACITY = 60, SLOTS = 4, NEW = 24, TOKENS = 40 };
/* Some as long as the windows (8) and beyond, one of a single token. */
static const int prompt_len[SLOTS] = {5, 1, 17, 9};

struct fixture {
    struct bn_dev *dev;
    struct bn_comm *world;
    struct bn_mesh mesh;
    struct bn_arena state, whole, work;
    struct bn_model *m;
    struct bn_acts acts; /* without a cache */
    struct bn_decode d;
    float *logits; /* [vocab] of the oracle */
};

static void must(int rc, const struct bn_err *err)
{
    if (rc < 0)
        fail_msg("%s", err->text);
}

static void load_model(struct fixture *f, const char *variant,
                       enum bn_dtype t)
{
    const char *src = getenv("BN_SRCDIR");
    char *dir = bn_asprintf("%s/t/data/arch-variants/%s",
                            src != NULL ? src : ".", variant);
    char *path = bn_asprintf("%s/config.json", dir);
    struct bn_model_config cfg;
    struct bn_params ps;
    struct bn_err err;

    must(bn_model_config_load(&cfg, path, NULL, &err), &err);
    struct bn_part part = bn_part_whole(&cfg);
    must(bn_params_init(&ps, &cfg, &part, &err), &err);
    size_t bytes = bn_model_bytes(&cfg, &ps, NULL, t, CAPACITY, false);
    must(f->dev->op.arena_init(f->dev, &f->state, "model", bytes, &err), &err);
    f->m = bn_model_create(&cfg, &ps, NULL, t, CAPACITY, false, f->dev, &f->mesh,
                           &f->state, &err);
    if (f->m == NULL)
        fail_msg("%s", err.text);
    must(bn_hf_load(dir, &cfg, &f->m->params, f->m->w, t, 0, NULL, &err),
         &err);
    bn_model_changed(f->m);
    free(path);
    free(dir);
}

static void open_decode(struct fixture *f, int slots)
{
    struct bn_decode_size size = {slots, CAPACITY, TOKENS};
    size_t bytes = bn_decode_bytes(f->m, &size);
    struct bn_err err;

    must(f->dev->op.arena_init(f->dev, &f->work, "decode", bytes, &err),
         &err);
    memset(f->work.base, 0xff, bytes); /* NaN wherever nothing is written */
    must(bn_decode_init(&f->d, f->m, &size, &f->work, &err), &err);
    assert_int_equal(f->work.used, bytes);
}

static void close_decode(struct fixture *f)
{
    bn_decode_release(&f->d);
    f->dev->op.arena_release(f->dev, &f->work);
}

static void open_fixture(struct fixture *f, const char *variant,
                         enum bn_dtype t)
{
    struct bn_acts_size size = {.tokens = CAPACITY, .segs = 1,
                                .kv = CAPACITY};
    struct bn_arena plan;
    struct bn_acts a;
    struct bn_err err;

    memset(f, 0, sizeof(*f));
    f->dev = bn_dev_cpu(2, &err);
    f->dev->keep_packed = true; /* as burnish-generate does */
    f->world = bn_comm_self();
    must(bn_mesh_init(&f->mesh, f->world, 1, 1, 1, 1, &err), &err);
    load_model(f, variant, t);
    bn_arena_plan(&plan, "plan");
    bn_acts_init(&a, f->m, &size, &plan);
    bn_acts_release(&a);
    must(f->dev->op.arena_init(f->dev, &f->whole, "whole", plan.used, &err),
         &err);
    bn_acts_init(&f->acts, f->m, &size, &f->whole);
    f->logits = BN_NEWN(float, (size_t)f->m->vocab);
    open_decode(f, SLOTS);
}

static void close_fixture(struct fixture *f)
{
    close_decode(f);
    bn_acts_release(&f->acts);
    bn_model_destroy(f->m);
    f->dev->op.arena_release(f->dev, &f->whole);
    f->dev->op.arena_release(f->dev, &f->state);
    bn_mesh_release(&f->mesh);
    bn_comm_destroy(f->world);
    bn_dev_destroy(f->dev);
    free(f->logits);
}

/* Prompt of slot s; its ids have nothing in common with another's. */
static void prompt(int32_t *ids, int s)
{
    for (int i = 0; i < prompt_len[s]; i++)
        ids[i] = (3 + 7 * s + 11 * i * (s + 1)) % 97;
}

/* The oracle: logits after ids[0..n), all computed anew. */
static const float *whole(struct fixture *f, int32_t *ids, int n)
{
    int32_t pos[CAPACITY];
    struct bn_attn_seg seg = {.q_len = n, .k_len = n};
    struct bn_batch b = {.ntok = n, .ids = ids, .pos = pos, .nseg = 1,
                         .seg = &seg};
    struct bn_err err;
    size_t hidden = (size_t)f->m->cfg.hidden_size;

    for (int i = 0; i < n; i++)
        pos[i] = i;
    must(bn_model_forward(f->m, &f->acts, &b, &err), &err);
    f->dev->op.linear_f32(f->dev, f->m->t, f->logits, f->m->vocab,
                          (char *)f->acts.y_f
                              + (size_t)(n - 1) * hidden
                                    * bn_dtype_size(f->m->t),
                          &f->m->head, 1);
    return f->logits;
}

static int argmax(const float *x, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

/* What is computed the same way has the same bits, unless a library with
 * blocks of its own multiplies. */
static void same(const struct fixture *f, const float *got, const float *want,
                 const char *what, int slot, int at)
{
    bool own = getenv("BURNISH_GEMM") == NULL && f->m->t == BN_F32;

    for (int v = 0; v < f->m->vocab; v++) {
        float d = fabsf(got[v] - want[v]);

        if (!(own ? d == 0 : d <= (f->m->t == BN_F32 ? 2e-5f : 0.1f)))
            fail_msg("%s: slot %d, token %d: logit %d is %.9g, not %.9g",
                     what, slot, at, v, (double)got[v], (double)want[v]);
    }
}

static void feed(struct fixture *f, int slot, const int32_t *ids, int n,
                 const float **logits)
{
    struct bn_feed one = {slot, ids, n, logits != NULL};
    const float *unused;
    struct bn_err err;

    must(bn_decode_step(&f->d, &one, 1, logits != NULL ? logits : &unused,
                        &err), &err);
}

/* All slots at once, greedy: each step's logits are those of the oracle. */
static void together(struct fixture *f, const char *what)
{
    int32_t ids[SLOTS][CAPACITY];
    int len[SLOTS], fed[SLOTS] = {0};
    const float *logits;
    struct bn_err err;

    for (int s = 0; s < SLOTS; s++) {
        prompt(ids[s], s);
        len[s] = prompt_len[s];
        bn_decode_cut(&f->d, s, 0);
    }
    for (int step = 0; step < NEW; step++) {
        struct bn_feed feeds[SLOTS];

        for (int s = 0; s < SLOTS; s++)
            feeds[s] = (struct bn_feed){s, ids[s] + fed[s], len[s] - fed[s],
                                        true};
        must(bn_decode_step(&f->d, feeds, SLOTS, &logits, &err), &err);
        for (int s = 0; s < SLOTS; s++, logits += f->m->vocab) {
            same(f, logits, whole(f, ids[s], len[s]), what, s, step);
            fed[s] = len[s];
            ids[s][len[s]++] = argmax(logits, f->m->vocab);
        }
    }
}

static void cached_is_uncached(void **state)
{
    (void)state;
    for (size_t i = 0; i < BN_COUNT(variants); i++) {
        struct fixture f;

        open_fixture(&f, variants[i], BN_F32);
        together(&f, variants[i]);
        together(&f, variants[i]); /* slots used before: nothing is left */
        close_fixture(&f);
    }
}

static void bf16_too(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, "llama-untied-bf16", BN_BF16);
    together(&f, "bf16");
    close_fixture(&f);
}

/* A prompt may come in pieces, while others say a token at a time, in any
 * order of the slots. */
static void pieces(const char *variant, int piece)
{
    struct fixture f;
    int32_t a[CAPACITY], b[CAPACITY];
    int na = prompt_len[2], nb = prompt_len[0];
    const float *logits;
    struct bn_err err;

    open_fixture(&f, variant, BN_F32);
    prompt(a, 2);
    prompt(b, 0);
    feed(&f, 0, b, nb, &logits);
    b[nb++] = argmax(logits, f.m->vocab);
    for (int at = 0; at < na; at += piece) {
        int n = na - at < piece ? na - at : piece;
        struct bn_feed feeds[] = {{3, a + at, n, at + n == na},
                                  {0, b + nb - 1, 1, true}};

        must(bn_decode_step(&f.d, feeds, 2, &logits, &err), &err);
        if (at + n == na) {
            same(&f, logits, whole(&f, a, na), "piece", 3, at);
            logits += f.m->vocab;
        }
        same(&f, logits, whole(&f, b, nb), "beside a piece", 0, at);
        b[nb++] = argmax(logits, f.m->vocab);
    }
    assert_int_equal(f.d.length[3], na);
    close_fixture(&f);
}

static void prompts_come_in_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < BN_COUNT(variants); i++) {
        pieces(variants[i], 1);
        pieces(variants[i], 5);
    }
}

/* Another end to the same beginning. */
static void cutting_back(void **state)
{
    struct fixture f;
    int32_t ids[CAPACITY];
    const float *logits;
    int n = prompt_len[2];

    (void)state;
    open_fixture(&f, "mistral-window", BN_F32);
    prompt(ids, 2);
    feed(&f, 1, ids, n, NULL);
    bn_decode_cut(&f.d, 1, n - 3);
    ids[n - 3] = 50;
    feed(&f, 1, ids + n - 3, 1, &logits);
    same(&f, logits, whole(&f, ids, n - 2), "cut", 1, n);
    bn_decode_cut(&f.d, 1, 100); /* longer than it is: nothing happens */
    assert_int_equal(f.d.length[1], n - 2);
    close_fixture(&f);
}

static void to_the_last_position(void **state)
{
    struct fixture f;
    int32_t ids[CAPACITY + 1];
    const float *logits;
    struct bn_err err;

    (void)state;
    open_fixture(&f, "qwen3-qknorm-tied", BN_F32);
    for (int i = 0; i <= CAPACITY; i++)
        ids[i] = i % 97;
    feed(&f, 3, ids, 30, NULL);
    feed(&f, 3, ids + 30, CAPACITY - 30, &logits);
    same(&f, logits, whole(&f, ids, CAPACITY), "full", 3, CAPACITY);
    struct bn_feed more = {3, ids + CAPACITY, 1, true};
    assert_int_equal(bn_decode_step(&f.d, &more, 1, &logits, &err), -1);
    assert_int_equal(err.code, BN_ERR_BUG);
    assert_int_equal(f.d.length[3], CAPACITY);
    close_fixture(&f);
}

static void refusals(void **state)
{
    struct fixture f;
    int32_t bad[] = {5, 97}, many[TOKENS + 1] = {0};
    struct bn_feed feeds[] = {{0, bad, 2, true}, {0, many, TOKENS + 1, true}};
    struct bn_decode_size size = {1, CAPACITY + 1, 8};
    struct bn_decode d;
    struct bn_arena plan;
    const float *logits;
    struct bn_err err;

    (void)state;
    open_fixture(&f, "llama-untied", BN_F32);
    assert_int_equal(bn_decode_step(&f.d, &feeds[0], 1, &logits, &err), -1);
    assert_int_equal(err.code, BN_ERR_DATA);
    assert_int_equal(f.d.length[0], 0);
    assert_int_equal(bn_decode_step(&f.d, &feeds[1], 1, &logits, &err), -1);
    assert_int_equal(err.code, BN_ERR_BUG);
    bn_arena_plan(&plan, "plan");
    assert_int_equal(bn_decode_init(&d, f.m, &size, &plan, &err), -1);
    assert_int_equal(err.code, BN_ERR_DATA);
    bn_decode_release(&d);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached_is_uncached),
        cmocka_unit_test(bf16_too),
        cmocka_unit_test(prompts_come_in_pieces),
        cmocka_unit_test(cutting_back),
        cmocka_unit_test(to_the_last_position),
        cmocka_unit_test(refusals),
    };

    return BN_TAP_RUN(tests);
}
