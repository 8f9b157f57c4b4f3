/* For tests of adapters: a small model with one on the CPU, examples for it,
 * and a pass over a batch.
 */
#ifndef BN_MODEL_TEST_LORA_FIXTURE_H
#define BN_MODEL_TEST_LORA_FIXTURE_H

#include "base/rng.h"
#include "base/tap.h"
#include "model/head.h"
#include "model/model.h"

enum { EXAMPLES = 4, LONGEST = 14, MAX_POS = 64 };

struct fixture {
    struct bn_dev *dev;
    struct bn_comm *world;
    struct bn_mesh mesh;
    struct bn_model_config cfg;
    struct bn_adapter adapter;
    struct bn_arena state, work;
    struct bn_model *m;
    struct bn_acts a;
    struct bn_head h;
    struct bn_example ex[EXAMPLES];
    int32_t ids[EXAMPLES][3][LONGEST];
    uint8_t mask[LONGEST];
};

static inline void must(int rc, const struct bn_err *err)
{
    if (rc < 0)
        fail_msg("%s", err->text);
}

static inline double normal(uint64_t stream, size_t i)
{
    return bn_rng_normal(99, stream, i);
}

/* The architecture of that name in t/data/arch-variants. r 0: the model itself.
 * It begins with all linear modules as targets. */
void open_fixture(struct fixture *f, const char *variant, enum bn_dtype t,
                  struct bn_lora lora, enum bn_recompute mode);
void close_fixture(struct fixture *f);

/* Forward, loss (divided by 'denom') and backward, onto the gradients. */
double run(struct fixture *f, const struct bn_batch *b, double denom);
/* The same of examples[n], from gradients of zero. */
double run_text(struct fixture *f, const struct bn_example *ex, int n);

#endif
