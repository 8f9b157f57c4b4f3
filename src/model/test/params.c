#include "config.h"
#include "model/params.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/tap.h"

#include <stdlib.h>
#include <string.h>

static void load(struct bn_model_config *c, const char *name)
{
    struct bn_err err = {0};
    char *path = bn_asprintf("%s/t/data/arch-variants/%s/config.json",
                             getenv("BN_SRCDIR"), name);

    if (bn_model_config_load(c, path, NULL, &err) < 0)
        fail_msg("%s", err.text);
    free(path);
}

/* The JSON header of the variant's model.safetensors, read by hand. */
static json_t *header(const char *name)
{
    char *path = bn_asprintf("%s/t/data/arch-variants/%s/model.safetensors",
                             getenv("BN_SRCDIR"), name);
    uint64_t head;
    size_t len;
    char *p = bn_file_read(path, 1 << 20, &len, NULL);
    json_t *o;

    assert_non_null(p);
    memcpy(&head, p, 8);
    o = bn_json_parse(p + 8, head, "header", NULL);
    json_object_del(o, "__metadata__");
    free(p);
    free(path);
    return o;
}

static const char *const variants[] = {
    "llama-untied", "llama-untied-bf16", "llama3-rope", "mistral-window",
    "qwen2-bias-tied", "qwen3-qknorm-tied",
};

static void names_and_shapes_are_those_of_folders(void **state)
{
    (void)state;
    for (size_t v = 0; v < BN_COUNT(variants); v++) {
        struct bn_model_config c;
        struct bn_params ps;
        json_t *o = header(variants[v]);

        load(&c, variants[v]);
        struct bn_part whole = bn_part_whole(&c);
        assert_int_equal(bn_params_init(&ps, &c, &whole, NULL), 0);
        assert_int_equal((size_t)ps.n, json_object_size(o));
        for (int i = 0; i < ps.n; i++) {
            const struct bn_param *p = &ps.item[i];
            json_t *dims = json_object_get(json_object_get(o, p->name),
                                           "shape");

            assert_int_equal(json_array_size(dims), p->ndim);
            assert_int_equal(json_integer_value(json_array_get(dims, 0)),
                             p->rows);
            if (p->ndim == 2)
                assert_int_equal(json_integer_value(json_array_get(dims, 1)),
                                 p->cols);
            else
                assert_int_equal(p->cols, 1);
            assert_int_equal(p->copies, 1);
            assert_true(!p->twin && p->decay == (p->ndim == 2));
            assert_ptr_equal(bn_param_find(&ps, p->kind, p->layer), p);
        }
        bn_params_release(&ps);
        json_decref(o);
    }
}

static void follows(const struct bn_params *ps, enum bn_param_kind a,
                    enum bn_param_kind b)
{
    const struct bn_param *x = bn_param_find(ps, a, 1);
    const struct bn_param *y = bn_param_find(ps, b, 1);

    assert_int_equal(x->offset + x->count, y->offset);
}

static void groups_lie_together(void **state)
{
    struct bn_model_config c;
    struct bn_params ps;
    size_t at = 0, count = 0;

    (void)state;
    load(&c, "qwen2-bias-tied");
    c.vocab_size = 99;
    c.hidden_size = 33; /* nothing is a multiple of 64 by chance */
    c.head_dim = 2;
    struct bn_part whole = bn_part_whole(&c);
    assert_int_equal(bn_params_init(&ps, &c, &whole, NULL), 0);
    follows(&ps, BN_P_Q, BN_P_K);
    follows(&ps, BN_P_K, BN_P_V);
    follows(&ps, BN_P_Q_BIAS, BN_P_K_BIAS);
    follows(&ps, BN_P_K_BIAS, BN_P_V_BIAS);
    follows(&ps, BN_P_GATE, BN_P_UP);
    for (int i = 0; i < ps.n; i++) {
        const struct bn_param *p = &ps.item[i];
        bool inside = p->kind == BN_P_K || p->kind == BN_P_V
                      || p->kind == BN_P_K_BIAS || p->kind == BN_P_V_BIAS
                      || p->kind == BN_P_UP;

        assert_true(p->offset >= at && p->offset < at + 64);
        assert_true(inside || p->offset % 64 == 0);
        at = p->offset + p->count;
        count += p->count;
    }
    assert_int_equal(ps.elems, (at + 63) / 64 * 64);
    assert_int_equal(ps.count, count);
    assert_ptr_equal(bn_param_head(&ps), bn_param_find(&ps, BN_P_EMBED, -1));
    assert_null(bn_param_find(&ps, BN_P_HEAD, -1));
    assert_null(bn_param_find(&ps, BN_P_O_BIAS, 0));
    assert_null(bn_param_find(&ps, BN_P_Q, 2));
    bn_params_release(&ps);
}

/* Over all parts, every element of every tensor is held 'copies' times a
 * tensor group (and twice more for a twin). */
static void check_tiling(const struct bn_model_config *c, int tp, int pp)
{
    struct bn_params whole;
    struct bn_part all = bn_part_whole(c);

    assert_int_equal(bn_params_init(&whole, c, &all, NULL), 0);
    unsigned char *seen = bn_calloc(whole.elems, 1);
    for (int s = 0; s < pp; s++) {
        for (int r = 0; r < tp; r++) {
            struct bn_part part = {tp, r, c->layers * s / pp,
                                   c->layers * (s + 1) / pp, s == 0,
                                   s == pp - 1, false};
            struct bn_params ps;

            assert_int_equal(bn_params_init(&ps, c, &part, NULL), 0);
            for (int i = 0; i < ps.n; i++) {
                const struct bn_param *p = &ps.item[i];
                const struct bn_param *w = bn_param_find(&whole, p->kind,
                                                         p->layer);

                assert_string_equal(p->name, w->name);
                int weight = 24 / p->copies / (p->twin ? 2 : 1);
                for (int y = 0; y < p->rows; y++)
                    for (int x = 0; x < p->cols; x++)
                        seen[w->offset
                             + (size_t)(p->row0 + y) * (size_t)w->cols
                             + (size_t)(p->col0 + x)] +=
                            (unsigned char)weight;
            }
            bn_params_release(&ps);
        }
    }
    for (int i = 0; i < whole.n; i++)
        for (size_t k = 0; k < whole.item[i].count; k++)
            assert_int_equal(seen[whole.item[i].offset + k], 24);
    free(seen);
    bn_params_release(&whole);
}

static void slices_tile_the_tensors(void **state)
{
    (void)state;
    for (size_t v = 0; v < BN_COUNT(variants); v++) {
        struct bn_model_config c;

        load(&c, variants[v]);
        check_tiling(&c, 1, 2);
        check_tiling(&c, 2, 1);
        check_tiling(&c, 2, 2);
        if (c.heads % 4 == 0) /* more ranks than the 2 key-value heads */
            check_tiling(&c, 4, 1);
        if (c.heads == 8 && c.intermediate_size % 8 == 0)
            check_tiling(&c, 8, 2);
    }
}

static void a_rank_holds_the_heads_its_queries_read(void **state)
{
    struct bn_model_config c;
    struct bn_params ps;

    (void)state;
    load(&c, "llama-untied"); /* 8 heads, 2 KV heads, head_dim 8 */
    struct bn_part part = {4, 2, 0, 2, true, true, false};
    assert_int_equal(bn_params_init(&ps, &c, &part, NULL), 0);
    const struct bn_param *q = bn_param_find(&ps, BN_P_Q, 0);
    const struct bn_param *k = bn_param_find(&ps, BN_P_K, 0);
    const struct bn_param *o = bn_param_find(&ps, BN_P_O, 0);
    const struct bn_param *e = bn_param_find(&ps, BN_P_EMBED, -1);
    assert_true(q->row0 == 32 && q->rows == 16 && q->copies == 1);
    assert_true(k->row0 == 8 && k->rows == 8 && k->copies == 2);
    assert_true(o->col0 == 32 && o->cols == 16 && o->rows == 64);
    assert_true(e->row0 == 48 && e->rows == 24 && e->full_rows == 97);
    bn_params_release(&ps);
}

static void impossible_splits_are_refused(void **state)
{
    static const struct {
        int tp;
        const char *says;
    } bad[] = {
        {3, "8 attention heads cannot be split over 3 tensor ranks"},
        {16, "8 attention heads cannot be split over 16 tensor ranks"},
    };
    struct bn_model_config c;
    struct bn_params ps;
    struct bn_err err;

    (void)state;
    load(&c, "llama-untied");
    struct bn_part part = bn_part_whole(&c);
    for (size_t i = 0; i < BN_COUNT(bad); i++) {
        part.tp_size = bad[i].tp;
        assert_int_equal(bn_params_init(&ps, &c, &part, &err), -1);
        assert_string_equal(err.text, bad[i].says);
    }
    part.tp_size = 4;
    c.intermediate_size = 42;
    assert_int_equal(bn_params_init(&ps, &c, &part, &err), -1);
    assert_string_equal(err.text, "intermediate size 42 cannot be split over "
                                  "4 tensor ranks");
    c.heads = 12;
    c.kv_heads = 6;
    assert_int_equal(bn_params_init(&ps, &c, &part, &err), -1);
    assert_string_equal(err.text, "6 key-value heads cannot be split over 4 "
                                  "tensor ranks");
}

/* Tensor ranks sum parts of gradients by where these lie. */
static void all_tensor_ranks_have_the_same_places(void **state)
{
    enum { TP = 4 };
    struct bn_model_config c;
    struct bn_params ps[TP];
    struct bn_err err;

    (void)state;
    load(&c, "llama-untied");
    assert_int_not_equal(c.vocab_size % TP, 0);
    struct bn_part part = bn_part_whole(&c);
    part.tp_size = TP;
    for (part.tp_rank = 0; part.tp_rank < TP; part.tp_rank++)
        assert_int_equal(bn_params_init(&ps[part.tp_rank], &c, &part, &err),
                         0);
    for (int r = 1; r < TP; r++) {
        assert_int_equal(ps[r].elems, ps[0].elems);
        for (int i = 0; i < ps[0].n; i++)
            assert_int_equal(ps[r].item[i].offset, ps[0].item[i].offset);
    }
    for (int r = 0; r < TP; r++)
        bn_params_release(&ps[r]);
}

/* --- Stages ----------------------------------------------------------------- */

static double costliest(const struct bn_stage_cost *c, int stages,
                        const int *count)
{
    double most = 0;

    for (int s = 0; s < stages; s++) {
        double x = count[s] * c->layer;

        x += s == 0 ? c->embed : 0;
        x += s == stages - 1 ? c->head : 0;
        most = x > most ? x : most;
    }
    return most;
}

/* The cheapest of all splits of 'layers' over stages s and behind. */
static double best_of_all(const struct bn_stage_cost *c, int layers,
                          int stages, int s, int *count)
{
    double best = 1e300;

    if (s == stages - 1) {
        count[s] = layers;
        return costliest(c, stages, count);
    }
    for (int n = 1; n <= layers - (stages - 1 - s); n++) {
        count[s] = n;
        double x = best_of_all(c, layers - n, stages, s + 1, count);

        best = x < best ? x : best;
    }
    return best;
}

static void no_split_is_better(void **state)
{
    static const struct bn_stage_cost costs[] = {
        {1, 0, 0},    {1, 0, 0.4},   {1, 0, 1},    {1, 0, 2.5}, {1, 0, 20},
        {1, 3.2, 1.1}, {1, 0.5, 0.5}, {0.3, 1, 1.7}, {1, 9, 0},
    };
    int count[5], other[5];

    (void)state;
    for (size_t i = 0; i < BN_COUNT(costs); i++)
        for (int stages = 1; stages <= 5; stages++)
            for (int layers = stages; layers <= 11; layers++) {
                int sum = 0;

                bn_part_split(&costs[i], layers, stages, count);
                for (int s = 0; s < stages; s++) {
                    assert_true(count[s] >= 1);
                    sum += count[s];
                }
                assert_int_equal(sum, layers);
                double want = best_of_all(&costs[i], layers, stages, 0, other);

                assert_true(costliest(&costs[i], stages, count)
                            <= want * (1 + 1e-12));
            }
}

static void parts_of_layers_begin_where_they_do(void **state)
{
    static const char *const models[] = {"llama-untied", "qwen3-qknorm-tied"};
    struct bn_model_config c;
    struct bn_params ps;
    struct bn_err err;

    (void)state;
    for (size_t i = 0; i < BN_COUNT(models); i++) {
        load(&c, models[i]);
        struct bn_part part = bn_part_whole(&c);

        assert_int_equal(bn_params_init(&ps, &c, &part, &err), 0);
        const struct bn_param *norm = bn_param_find(&ps, BN_P_FINAL_NORM, -1);

        for (int l = 0; l < c.layers; l++)
            assert_int_equal(bn_params_layer(&ps, l),
                             bn_param_find(&ps, BN_P_Q, l)->offset);
        assert_int_equal(bn_params_layer(&ps, c.layers), norm->offset);
        bn_params_release(&ps);
        part.has_head = false;
        part.end_layer = 1;
        assert_int_equal(bn_params_init(&ps, &c, &part, &err), 0);
        const struct bn_param *last = &ps.item[ps.n - 1];

        assert_int_equal(bn_params_layer(&ps, 1), last->offset + last->count);
        bn_params_release(&ps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_shapes_are_those_of_folders),
        cmocka_unit_test(groups_lie_together),
        cmocka_unit_test(slices_tile_the_tensors),
        cmocka_unit_test(a_rank_holds_the_heads_its_queries_read),
        cmocka_unit_test(impossible_splits_are_refused),
        cmocka_unit_test(all_tensor_ranks_have_the_same_places),
        cmocka_unit_test(no_split_is_better),
        cmocka_unit_test(parts_of_layers_begin_where_they_do),
    };

    return BN_TAP_RUN(tests);
}
