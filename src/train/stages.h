/* Which layers the stages of a pipeline hold. */
#ifndef BN_TRAIN_STAGES_H
#define BN_TRAIN_STAGES_H

#include "train/observe.h"
#include "train/sizes.h"

/* Layers [*first, *end) of stage 'stage' of 'stages': as pipeline_layer_split
 * says, else by bn_part_stage. A split that is not one of this model over so
 * many stages is an error (class usage). */
int bn_stages_layers(const struct bn_run *run,
                     const struct bn_model_config *cfg, int stages, int stage,
                     int *first, int *end, struct bn_err *err);

/* Of the seconds that each stage computed for its layers (layers[stages]),
 * what a layer, the embedding and the head took: of three stages and more a
 * layer is what it took in those that have nothing else, and of two what it
 * took in the first, with the embedding. */
struct bn_stage_cost bn_stages_cost(const double *seconds, const int *layers,
                                    int stages);

/* Say what the stages of a CPU run took, and which split would have been even
 * by that; all[ranks] as gathered (observe.h). Nothing without stages. */
void bn_stages_say(const struct bn_trainer *t, const struct bn_observed *all,
                   int ranks);

#endif
