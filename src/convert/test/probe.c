#include "config.h"
#include "convert/probe.h"
#include "base/mem.h"
#include "base/tap.h"
#include "ckpt/hf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Against logits that a reference in double recorded, for every kind of
 * model. */
static void one(const char *variant)
{
    char *dir = bn_asprintf("%s/t/data/arch-variants/%s",
                            getenv("BN_SRCDIR"), variant);
    char *config = bn_path_join(dir, "config.json");
    char *record = bn_path_join(dir, "reference.json");
    struct bn_err err = {0};
    struct bn_model_config c;
    struct bn_tensors ts;
    json_t *want = bn_json_load(record, &err);

    if (want == NULL || bn_model_config_load(&c, config, NULL, &err) < 0
        || bn_safetensors_open(&ts, dir, &err) < 0)
        fail_msg("%s", err.text);
    json_t *all = json_object_get(want, "sequences");
    for (size_t s = 0; s < json_array_size(all); s++) {
        json_t *list = json_array_get(all, s);
        json_t *rows = json_array_get(json_object_get(want, "logits"), s);
        int n = (int)json_array_size(list);
        int32_t *ids = BN_NEWN(int32_t, (size_t)n);
        float *logits = BN_NEWN(float, (size_t)n * (size_t)c.vocab_size);
        double worst = 0;

        for (int i = 0; i < n; i++)
            ids[i] = (int32_t)json_integer_value(
                json_array_get(list, (size_t)i));
        assert_int_equal(bn_probe_logits(&ts, &c, NULL, ids, n, logits,
                                         &err), 0);
        for (int i = 0; i < n * c.vocab_size; i++) {
            json_t *row = json_array_get(rows, (size_t)(i / c.vocab_size));
            double w = json_number_value(json_array_get(
                row, (size_t)(i % c.vocab_size)));

            worst = fmax(worst, fabs(w - (double)logits[i]));
        }
        if (!(worst < 2e-5))
            fail_msg("%s: logits are off by %g", variant, worst);
        free(logits);
        free(ids);
    }
    bn_tensors_close(&ts);
    json_decref(want);
    free(record);
    free(config);
    free(dir);
}

static void logits_are_the_recorded_ones(void **state)
{
    static const char *const variants[] = {
        "llama-untied", "llama-untied-bf16", "llama3-rope", "mistral-window",
        "qwen2-bias-tied", "qwen3-qknorm-tied"};

    (void)state;
    for (size_t i = 0; i < BN_COUNT(variants); i++)
        one(variants[i]);
}

static void nll_and_kl_are_by_hand(void **state)
{
    /* p = 1/4, 3/4 and 1/2, 1/2 */
    const float a[4] = {0, 1.0986123f, 5, 5}, b[4] = {7, 7, 5, 5};
    const int32_t ids[3] = {0, 1, 0};

    (void)state;
    assert_true(fabs(bn_probe_nll(a, 2, ids, 3)
                     - (log(4.0 / 3) + log(2)) / 2) < 1e-7);
    assert_true(fabs(bn_probe_kl(a, b, 2, 2)
                     - (log(0.5) / 4 + 0.75 * log(1.5)) / 2) < 1e-7);
    assert_true(bn_probe_kl(a, a, 2, 2) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_the_recorded_ones),
        cmocka_unit_test(nll_and_kl_are_by_hand),
    };

    return BN_TAP_RUN(tests);
}
