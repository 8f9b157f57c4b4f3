/* Sizes as Slurm writes them, and what the names of GPUs say. */
#include "config.h"

#include "base/tap.h"

#include "base/mem.h"
#include "sweep/check_impl.h"

static const double mib = 1024 * 1024, gib = 1024.0 * 1024 * 1024;

static void sizes(void **state)
{
    (void)state;
    assert_true(bn_slurm_bytes("100") == 100 * mib);
    assert_true(bn_slurm_bytes("7K") == 7 * 1024);
    assert_true(bn_slurm_bytes("100M") == 100 * mib);
    assert_true(bn_slurm_bytes("80G") == 80 * gib);
    assert_true(bn_slurm_bytes("80gb") == 80 * gib);
    assert_true(bn_slurm_bytes("2T") == 2048 * gib);
    assert_true(bn_slurm_bytes("0") == 0);
    static const char *const bad[] = { "",    "G",    "-1G",  "80X",
                                       "80GX", "80Gi", "lots", " 80G" };
    for (size_t i = 0; i < BN_COUNT(bad); i++)
        assert_true(bn_slurm_bytes(bad[i]) < 0);
}

static void types(void **state)
{
    static const struct {
        const char *name;
        int gib;
    } v[] = {
        { "a100", 80 },
        { "A100", 80 },
        { "a100_40gb", 40 },
        { "nvidia_a100-sxm4-40gb", 40 },
        { "nvidia_h100_80gb_hbm3", 80 },
        { "tesla_v100-pcie-16gb", 16 },
        { "1g.10gb", 10 },
        { "a100_1g.5gb", 5 },
        { "h200", 141 },
        { "nvidia_l40s", 48 },
        { "l4", 24 },
        { "a1000", 0 }, /* no a100 */
        { "mystery", 0 },
        { "", 0 },
    };
    (void)state;
    for (size_t i = 0; i < BN_COUNT(v); i++)
        assert_int_equal((int)(bn_gpu_bytes(v[i].name) / gib), v[i].gib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(types),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
