/* Which layers the stages of a pipeline hold. */
#ifndef BN_TRAIN_STAGES_H
#define BN_TRAIN_STAGES_H

#include "train/observe.h"
#include "train/sizes.h"

/* Layers [*first, *end) of stage 'stage' of 'stages': as pipeline_layer_split
 * says in numbers, else by bn_part_stage. A split that is not one of this model over so
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

/* Run the first micro-batch through the stages as they are, a few times, and
 * find the layers[stages] that would have been even by what that took, the
 * same on every rank. Weights and optimizer stay as they are; gradients are
 * spoilt. Collective. */
int bn_stages_measure(struct bn_trainer *t, int *layers, struct bn_err *err);
/* The split that this run's directory has for this model, layout, device and
 * size of micro-batches: 1, or 0 if there is none, or -1 (class data for a
 * file that is damaged). Collective. */
int bn_stages_recall(struct bn_session *s, int *layers, struct bn_err *err);
/* Keep it there. Collective. */
int bn_stages_remember(struct bn_session *s, const int *layers,
                       struct bn_err *err);

/* Say what the stages of a CPU run took, and which split would have been even
 * by that; all[ranks] as gathered (observe.h). Nothing without stages. */
void bn_stages_say(const struct bn_trainer *t, const struct bn_observed *all,
                   int ranks);

#endif
