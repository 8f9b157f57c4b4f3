#include "config.h"
#include "train/stages.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

int bn_stages_layers(const struct bn_run *run,
                     const struct bn_model_config *cfg, int stages, int stage,
                     int *first, int *end, struct bn_err *err)
{
    const struct bn_run_list *l = &run->mesh.pipeline_layer_split;
    long sum = 0;

    if (l->n == 0 || bn_run_split_measured(run))
        return bn_part_stage(cfg, stages, stage, first, end, err);
    if (l->n != (size_t)stages)
        return bn_fail(err, BN_ERR_USAGE, "pipeline_layer_split: it is of %zu "
                       "stages, and there are %d", l->n, stages);
    for (int s = 0; s < stages; s++) {
        long n = strtol(l->v[s], NULL, 10); /* checked by conf */

        if (s == stage)
            *first = (int)sum;
        sum += n;
        if (s == stage)
            *end = (int)sum;
    }
    if (sum != cfg->layers)
        return bn_fail(err, BN_ERR_USAGE, "pipeline_layer_split: it is of %ld "
                       "layers, and the model has %d", sum, cfg->layers);
    return 0;
}

static double at_least_0(double x)
{
    return x > 0 ? x : 0;
}

struct bn_stage_cost bn_stages_cost(const double *seconds, const int *layers,
                                    int stages)
{
    int first = stages > 2 ? 1 : 0, last = stages - 1, n = 0;
    struct bn_stage_cost c = {0};

    for (int s = first; s < last; s++) {
        c.layer += seconds[s];
        n += layers[s];
    }
    c.layer /= n;
    c.embed = at_least_0(seconds[0] - layers[0] * c.layer);
    c.head = at_least_0(seconds[last] - layers[last] * c.layer);
    return c;
}

/* The mean of the ranks of a stage, which are neighbours. */
static double seconds_of(const struct bn_observed *all, int each, int stage)
{
    double sum = 0;

    for (int r = stage * each; r < (stage + 1) * each; r++)
        sum += all[r].seconds[BN_TIME_FORWARD]
               + all[r].seconds[BN_TIME_BACKWARD];
    return sum / each;
}

void bn_stages_say(const struct bn_trainer *t, const struct bn_observed *all,
                   int ranks)
{
    int stages = t->mesh->pp.size, each = ranks / stages, first, end;
    double *seconds = BN_NEWN(double, (size_t)stages);
    int *layers = BN_NEWN(int, 2 * (size_t)stages), *even = layers + stages;
    struct bn_str s = {0};

    for (int i = 0; i < stages; i++)
        if (bn_stages_layers(t->run, &t->model->cfg, stages, i, &first, &end,
                             NULL) == 0) {
            layers[i] = end - first;
            seconds[i] = seconds_of(all, each, i);
            bn_str_addf(&s, "%s stage %d of %d layers %.3f s",
                        i > 0 ? "," : "", i, layers[i], seconds[i]);
        }
    if (stages > 1 && !all[0].on_gpu && all[0].steps > 0) {
        struct bn_stage_cost c = bn_stages_cost(seconds, layers, stages);

        bn_part_split(&c, t->model->cfg.layers, stages, even);
        bn_str_adds(&s, "; by that pipeline_layer_split: [");
        for (int i = 0; i < stages; i++)
            bn_str_addf(&s, "%s%d", i > 0 ? ", " : "", even[i]);
        bn_info("  computed:%s]", s.s);
    }
    bn_str_release(&s);
    free(layers);
    free(seconds);
}
