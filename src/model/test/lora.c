/* Adapters: one linear against a reference in double, a whole model against
 * the model with s B A added to its weights, finite differences under dropout,
 * and masks that do not feel how rows are packed.
 */
#include "config.h"
#include "base/mem.h"
#include "kernels/number.h"
#include "model/adapt.h"
#include "model/test/lora_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const variants[] = {
    "llama-untied", "llama3-rope", "mistral-window", "qwen2-bias-tied",
    "qwen3-qknorm-tied",
};

/* --- One linear -------------------------------------------------------------- */

/* Of one adapted matrix in double, from values as they are stored. */
struct linear {
    int n, in, out, r, ld, col;
    enum bn_dtype t;
    const void *x, *dy; /* dy: rows of ld, this matrix's columns from col */
    const struct bn_adapted *p;
    double scale;
    double *keep; /* [n, in]: 0 or 1 / (1 - p) */
};

static double xd(const struct linear *l, int i, int c)
{
    return bn_get(l->t, l->x, (size_t)i * l->in + c)
           * l->keep[(size_t)i * l->in + c];
}
static double dy(const struct linear *l, int i, int o)
{
    return bn_get(l->t, l->dy, (size_t)i * l->ld + l->col + o);
}
static double fa(const struct linear *l, int k, int c)
{
    return bn_get(l->t, l->p->a.data, (size_t)k * l->in + c);
}
static double fb(const struct linear *l, int o, int k)
{
    return bn_get(l->t, l->p->b.data, (size_t)o * l->r + k);
}

/* want[0] y [n, out], [1] dx [n, in], [2] dA [r, in], [3] dB [out, r]; +=. */
static void reference(const struct linear *l, double *want[4])
{
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < l->r; k++) {
            double h = 0, dh = 0;

            for (int c = 0; c < l->in; c++)
                h += l->scale * xd(l, i, c) * fa(l, k, c);
            for (int o = 0; o < l->out; o++) {
                dh += l->scale * dy(l, i, o) * fb(l, o, k);
                want[0][i * l->out + o] += h * fb(l, o, k);
                want[3][o * l->r + k] += h * dy(l, i, o);
            }
            for (int c = 0; c < l->in; c++) {
                want[1][i * l->in + c] += dh * fa(l, k, c)
                                          * l->keep[i * l->in + c];
                want[2][k * l->in + c] += dh * xd(l, i, c);
            }
        }
}

static void near(enum bn_dtype t, const void *got, int ld, int col,
                 const double *want, int rows, int cols, double rel,
                 const char *what)
{
    double top = 0;

    for (int i = 0; i < rows * cols; i++)
        top = fmax(top, fabs(want[i]));
    for (int i = 0; i < rows; i++)
        for (int c = 0; c < cols; c++) {
            double g = bn_get(t, got, (size_t)i * ld + col + c);
            double w = want[i * cols + c];

            if (!(fabs(g - w) <= rel * top))
                fail_msg("%s [%d, %d] is %.9g, expected %.9g", what, i, c, g,
                         w);
        }
}

/* The mask of the kernel, by its own definition (kernels/dropout.h). */
static void masks(const struct fixture *f, int l, enum bn_param_kind kind,
                  struct linear *x)
{
    double p = f->adapter.lora.dropout;
    float one = 1;
    uint64_t bits = bn_rng_u64(f->m->dropout.seed, (uint64_t)l, kind);
    struct bn_dropout d = {.scale = 1,
                           .below = (uint32_t)(p * 0x1p32),
                           .salt = {(uint32_t)bits, (uint32_t)(bits >> 32)}};

    for (int i = 0; i < x->n; i++)
        for (int c = 0; c < x->in; c++) {
            float y = 1;

            d.key = f->a.key != NULL ? f->a.key + 2 * i : NULL;
            d.col0 = c;
            if (p > 0)
                bn_dropout_ref(BN_F32, &y, &one, &d, false, 1, 1);
            x->keep[i * x->in + c] = y / (1 - p);
        }
}

/* The n matrices from 'first' on of layer 1, side by side. */
static void check_group(struct fixture *f, enum bn_param_kind first, int n)
{
    enum { ROWS = 9, L = 1 };
    struct bn_layer *v = &f->m->layer[L];
    enum bn_dtype t = f->m->t;
    double rel = t == BN_F32 ? 2e-6 : 2e-2;
    int in = v->adapted[first - BN_P_Q].a.cols, ld = 0, col = 0;

    for (int k = 0; k < n; k++)
        ld += v->adapted[first - BN_P_Q + k].b.rows;
    char *x = bn_calloc(ROWS * (size_t)in, 4);
    char *y = bn_calloc(ROWS * (size_t)ld, 4);
    char *d_y = bn_calloc(ROWS * (size_t)ld, 4);
    char *dx = bn_calloc(ROWS * (size_t)in, 4);
    double *wdx = BN_NEWN(double, ROWS * in), *keep = BN_NEWN(double, ROWS * in);
    for (int i = 0; i < ROWS * in; i++)
        bn_put(t, x, (size_t)i, (float)normal(11, (size_t)i));
    for (int i = 0; i < ROWS * ld; i++)
        bn_put(t, d_y, (size_t)i, (float)normal(12, (size_t)i));
    f->a.n = ROWS;
    bn_model_zero_grad(f->m);
    bn_adapt_forward(f->m, &f->a, L, first, n, x, y, ld);
    bn_adapt_dx(f->m, &f->a, L, first, n, dx, d_y, ld);
    bn_adapt_dw(f->m, &f->a, L, first, n, x, d_y, ld);
    for (int k = 0; k < n; k++) {
        const struct bn_adapted *p = &v->adapted[first - BN_P_Q + k];
        struct linear l = {ROWS, in, p->b.rows, p->a.rows, ld, col, t, x, d_y,
                           p, bn_lora_scale(&f->adapter.lora), keep};
        double *wy = BN_NEWN(double, ROWS * l.out);
        double *wa = BN_NEWN(double, l.r * in), *wb = BN_NEWN(double,
                                                              l.out * l.r);
        double *want[4] = {wy, wdx, wa, wb};

        masks(f, L, (enum bn_param_kind)(first + k), &l);
        reference(&l, want);
        near(t, y, ld, col, wy, ROWS, l.out, rel, "y");
        near(BN_F32, p->g_a, in, 0, wa, l.r, in, rel, "dA");
        near(BN_F32, p->g_b, l.r, 0, wb, l.out, l.r, rel, "dB");
        col += l.out;
        free(wy);
        free(wa);
        free(wb);
    }
    near(t, dx, in, 0, wdx, ROWS, in, 2 * rel, "dx");
    free(x);
    free(y);
    free(d_y);
    free(dx);
    free(wdx);
    free(keep);
}

static void one_linear_equals_the_reference(void **state)
{
    static const struct bn_lora kinds[] = {
        {.r = 4, .alpha = 8},
        {.r = 3, .alpha = 16, .rslora = true},
        {.r = 5, .alpha = 5, .dropout = 0.3},
        {.r = 1, .alpha = 3, .dropout = 0.75, .rslora = true},
    };

    (void)state;
    for (int i = 0; i < 8; i++) {
        struct fixture f;

        open_fixture(&f, variants[i % 2 * 3], i < 4 ? BN_F32 : BN_BF16,
                     kinds[i % 4], BN_RECOMPUTE_NONE);
        f.m->dropout.on = true;
        f.m->dropout.seed = 42;
        for (int k = 0; f.a.key != NULL && k < 2 * 9; k++)
            f.a.key[k] = (uint32_t)bn_rng_u64(1, 2, (uint64_t)k);
        check_group(&f, BN_P_Q, 3);
        check_group(&f, BN_P_O, 1);
        check_group(&f, BN_P_GATE, 2);
        check_group(&f, BN_P_DOWN, 1);
        close_fixture(&f);
    }
}

/* --- The whole model --------------------------------------------------------- */

/* Add the adapter of 'f' to the weights of 'g'. */
static void merge(const struct fixture *f, struct fixture *g)
{
    double s = bn_lora_scale(&f->adapter.lora);
    int r = f->adapter.lora.r;

    for (int i = 0; i < g->m->params.n; i++) {
        const struct bn_param *p = &g->m->params.item[i];
        float *w = (float *)g->m->w + p->offset;

        if (p->kind < BN_P_Q || p->kind > BN_P_DOWN)
            continue;
        const struct bn_adapted *v =
            &f->m->layer[p->layer].adapted[p->kind - BN_P_Q];
        const float *a = v->a.data, *b = v->b.data;

        for (int o = 0; o < p->rows; o++)
            for (int c = 0; c < p->cols; c++) {
                double sum = w[o * p->cols + c];

                for (int k = 0; k < r; k++)
                    sum += s * (double)b[o * r + k] * a[k * p->cols + c];
                w[o * p->cols + c] = (float)sum;
            }
    }
    bn_model_changed(g->m);
}

/* With G the merged model's gradient of W: dA = s B^T G, dB = s G A^T. */
static void check_factors(const struct fixture *f, const struct fixture *g,
                          const struct bn_param *p)
{
    const struct bn_adapted *v =
        &f->m->layer[p->layer].adapted[p->kind - BN_P_Q];
    const float *dw = g->m->g + p->offset, *a = v->a.data, *b = v->b.data;
    double s = bn_lora_scale(&f->adapter.lora);
    int r = f->adapter.lora.r, in = p->cols, out = p->rows;
    double *da = BN_NEWN(double, r * in), *db = BN_NEWN(double, out * r);

    for (int o = 0; o < out; o++)
        for (int c = 0; c < in; c++)
            for (int k = 0; k < r; k++) {
                double w = s * (double)dw[o * in + c];

                da[k * in + c] += w * (double)b[o * r + k];
                db[o * r + k] += w * (double)a[k * in + c];
            }
    near(BN_F32, v->g_a, in, 0, da, r, in, 2e-5, p->name);
    near(BN_F32, v->g_b, r, 0, db, out, r, 2e-5, p->name);
    free(da);
    free(db);
}

static void a_model_equals_the_merged_one(void **state)
{
    static const enum bn_recompute modes[] = {
        BN_RECOMPUTE_NONE, BN_RECOMPUTE_ATTENTION, BN_RECOMPUTE_FULL};

    (void)state;
    for (size_t i = 0; i < BN_COUNT(variants); i++) {
        struct fixture f, g;
        struct bn_lora lora = {.r = 3, .alpha = 4, .rslora = i % 2 != 0};

        open_fixture(&f, variants[i], BN_F32, lora, modes[i % 3]);
        open_fixture(&g, variants[i], BN_F32, (struct bn_lora){0},
                     BN_RECOMPUTE_NONE);
        double base = run_text(&g, g.ex, EXAMPLES);
        merge(&f, &g);
        double a = run_text(&f, f.ex, EXAMPLES);
        double b = run_text(&g, g.ex, EXAMPLES);
        if (!(fabs(a - b) <= 2e-6 * b) || fabs(a - base) < 1e-4 * b)
            fail_msg("%s: loss %.9g, merged %.9g, without %.9g", variants[i],
                     a, b, base);
        for (int k = 0; k < g.m->params.n; k++)
            if (g.m->params.item[k].kind >= BN_P_Q
                && g.m->params.item[k].kind <= BN_P_DOWN)
                check_factors(&f, &g, &g.m->params.item[k]);
        close_fixture(&f);
        close_fixture(&g);
    }
}

/* A the identity and B zero: the model is its base, and dB is dW. */
static void full_rank_has_the_gradient_of_the_weights(void **state)
{
    struct fixture f, g;

    (void)state;
    open_fixture(&f, "llama-untied", BN_F32, (struct bn_lora){.r = 64, .alpha = 64},
                 BN_RECOMPUTE_NONE);
    open_fixture(&g, "llama-untied", BN_F32, (struct bn_lora){0},
                 BN_RECOMPUTE_NONE);
    assert_int_equal(f.cfg.hidden_size, 64);
    float *w = f.m->adapter_w;
    for (int i = 0; i < f.adapter.params.n; i++) {
        const struct bn_param *p = &f.adapter.params.item[i];
        bool is_a = (p->kind - BN_P_LORA) % 2 == 0;

        for (size_t k = 0; k < p->count; k++)
            w[p->offset + k] = is_a && k / (size_t)p->cols
                                           == k % (size_t)p->cols;
    }
    double a = run_text(&f, f.ex, EXAMPLES), b = run_text(&g, g.ex, EXAMPLES);
    assert_true(fabs(a - b) <= 1e-7 * b);
    for (int i = 0; i < g.m->params.n; i++) {
        const struct bn_param *p = &g.m->params.item[i];

        if (p->kind < BN_P_Q || p->kind > BN_P_DOWN || p->kind == BN_P_DOWN)
            continue;
        double *want = BN_NEWN(double, p->rows * p->cols);
        for (size_t k = 0; k < p->count; k++)
            want[k] = g.m->g[p->offset + k];
        near(BN_F32, f.m->layer[p->layer].adapted[p->kind - BN_P_Q].g_b, 64, 0,
             want, p->rows, p->cols, 1e-5, p->name);
        free(want);
    }
    close_fixture(&f);
    close_fixture(&g);
}

/* Along random directions of all that is trained, under dropout. */
static void gradients_are_differences(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        struct bn_lora lora = {.r = 4, .alpha = 8, .dropout = 0.3};

        bn_lora_add_name(&lora.save, &lora.nsave, "norm");
        bn_lora_add_name(&lora.save, &lora.nsave, "lm_head");
        open_fixture(&f, i == 2 ? "qwen3-qknorm-tied" : "llama-untied", BN_F32,
                     lora, i == 0 ? BN_RECOMPUTE_NONE : BN_RECOMPUTE_FULL);
        size_t n = f.adapter.params.elems;
        float *w = f.m->adapter_w, *at = BN_NEWN(float, n);
        f.m->dropout.on = true;
        f.m->dropout.seed = 42;
        f.m->dropout.step = 7;
        for (size_t k = 0; k < n; k++)
            at[k] = w[k] + (w[k] == 0);
        memcpy(w, at, n * sizeof(*w));
        run_text(&f, f.ex, EXAMPLES);
        double slope = 0, loss[2];
        for (size_t k = 0; k < n; k++)
            slope += f.m->adapter_g[k] * normal(20 + (uint64_t)i, k);
        for (int side = 0; side < 2; side++) {
            for (size_t k = 0; k < n; k++)
                w[k] = at[k] + (side == 0 ? -1 : 1) * 5e-4f
                                   * (float)normal(20 + (uint64_t)i, k);
            bn_model_adapter_changed(f.m);
            loss[side] = run_text(&f, f.ex, EXAMPLES);
        }
        double want = (loss[1] - loss[0]) / 1e-3;
        if (!(fabs(slope - want) <= 5e-3 * fabs(want) + 2e-3))
            fail_msg("slope %.9g, differences say %.9g", slope, want);
        free(at);
        close_fixture(&f);
    }
}

/* --- Masks ------------------------------------------------------------------- */

static void same_gradients(const float *a, const float *b, size_t n,
                           const char *what)
{
    double top = 0;

    for (size_t i = 0; i < n; i++)
        top = fmax(top, fabs((double)a[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - b[i]) <= 2e-6 * top))
            fail_msg("%s: gradient %zu is %.9g and %.9g", what, i, a[i],
                     b[i]);
}

static void packing_changes_no_mask(void **state)
{
    struct bn_lora lora = {.r = 4, .alpha = 8, .dropout = 0.5};
    struct bn_example back[EXAMPLES];
    struct fixture f;
    struct bn_batch b;
    struct bn_err err;

    (void)state;
    open_fixture(&f, "llama-untied", BN_F32, lora, BN_RECOMPUTE_NONE);
    size_t n = f.adapter.params.elems;
    float *g = BN_NEWN(float, n);
    f.m->dropout.on = true;
    f.m->dropout.step = 3;
    double all = run_text(&f, f.ex, EXAMPLES), parts = 0;
    memcpy(g, f.m->adapter_g, n * sizeof(*g));
    /* one a batch, the last first, onto one sum */
    bn_model_zero_grad(f.m);
    for (int i = EXAMPLES - 1; i >= 0; i--) {
        must(bn_batch_build(&b, 1, &f.ex[i], 1, 0, &err), &err);
        parts += run(&f, &b, 40);
        bn_batch_release(&b);
    }
    assert_true(fabs(all - parts) <= 2e-6 * all);
    same_gradients(g, f.m->adapter_g, n, "accumulated");
    for (int i = 0; i < EXAMPLES; i++)
        back[i] = f.ex[EXAMPLES - 1 - i];
    assert_true(fabs(all - run_text(&f, back, EXAMPLES)) <= 2e-6 * all);
    same_gradients(g, f.m->adapter_g, n, "in another order");
    /* another step, another seed, no dropout: other numbers */
    f.m->dropout.step = 4;
    assert_true(fabs(all - run_text(&f, f.ex, EXAMPLES)) > 1e-4 * all);
    f.m->dropout.step = 3;
    f.m->dropout.seed = 1;
    assert_true(fabs(all - run_text(&f, f.ex, EXAMPLES)) > 1e-4 * all);
    f.m->dropout.on = false;
    assert_true(fabs(all - run_text(&f, f.ex, EXAMPLES)) > 1e-4 * all);
    free(g);
    close_fixture(&f);
}

static void shared_prompts_drop_as_repeated_ones(void **state)
{
    struct bn_lora lora = {.r = 4, .alpha = 8, .dropout = 0.5};
    struct fixture f;
    struct bn_batch b;
    struct bn_err err;
    double loss[2];

    (void)state;
    open_fixture(&f, "llama-untied", BN_F32, lora, BN_RECOMPUTE_NONE);
    size_t n = f.adapter.params.elems;
    float *g = BN_NEWN(float, n);
    f.m->dropout.on = true;
    for (int i = 0; i < 2; i++) {
        must(i == 0 ? bn_batch_build(&b, 3, f.ex, EXAMPLES,
                                     BN_BATCH_SCORE_PROMPT, &err)
                    : bn_batch_build_repeated(&b, f.ex, EXAMPLES,
                                              BN_BATCH_SCORE_PROMPT, &err),
             &err);
        bn_model_zero_grad(f.m);
        loss[i] = run(&f, &b, 40);
        bn_batch_release(&b);
        if (i == 0)
            memcpy(g, f.m->adapter_g, n * sizeof(*g));
    }
    assert_true(fabs(loss[0] - loss[1]) <= 2e-6 * loss[0]);
    same_gradients(g, f.m->adapter_g, n, "repeated");
    free(g);
    close_fixture(&f);
}

/* --- Tables and memory ------------------------------------------------------- */

static void what_is_frozen_has_no_gradient(void **state)
{
    struct fixture f, g;

    (void)state;
    open_fixture(&f, "llama-untied", BN_BF16, (struct bn_lora){.r = 2, .alpha = 2},
                 BN_RECOMPUTE_NONE);
    open_fixture(&g, "llama-untied", BN_BF16, (struct bn_lora){0},
                 BN_RECOMPUTE_NONE);
    assert_null(f.m->g);
    assert_ptr_equal(bn_model_trained(f.m).params, &f.adapter.params);
    /* Two bytes a frozen weight, six a trained one. */
    size_t base = g.m->params.elems, mine = f.adapter.params.elems;
    assert_int_equal(g.state.used - f.state.used, 4 * base - 6 * mine);
    char *before = bn_malloc(2 * base);
    memcpy(before, f.m->w, 2 * base);
    run_text(&f, f.ex, EXAMPLES);
    assert_memory_equal(before, f.m->w, 2 * base);
    free(before);
    close_fixture(&f);
    close_fixture(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_linear_equals_the_reference),
        cmocka_unit_test(a_model_equals_the_merged_one),
        cmocka_unit_test(full_rank_has_the_gradient_of_the_weights),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(packing_changes_no_mask),
        cmocka_unit_test(shared_prompts_drop_as_repeated_ones),
        cmocka_unit_test(what_is_frozen_has_no_gradient),
    };

    return BN_TAP_RUN(tests);
}
