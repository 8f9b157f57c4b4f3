/* Steps as graphs (cuda_graph: true): a step whose batches have the shapes of
 * an earlier one is launched as a whole.
 */
#ifndef BN_TRAIN_GRAPH_H
#define BN_TRAIN_GRAPH_H

#include "train/pipeline.h"

/* How many graphs are kept, the least recently used going first. */
enum { BN_GRAPHS = 8 };

struct bn_graphs;

/* Refused with class usage, naming what cannot be captured, for more than one
 * rank and for a device without graphs. */
struct bn_graphs *bn_graphs_create(struct bn_dev *dev, int ranks,
                                   struct bn_err *err);
/* Log what was recorded and launched; NULL is allowed. */
void bn_graphs_destroy(struct bn_graphs *g);

/* Make a step by queue(arg), which enqueues all of it, and sets '*dropped' if
 * it is not to be made after all. The shapes are those of m[n]. The first time
 * it is made as without graphs, the second time recorded; from then on it is
 * launched: queue is called every time, but but for from_host the device does
 * nothing. g NULL: always as without. Local. */
int bn_graphs_step(struct bn_graphs *g, const struct bn_micro *m, int n,
                   int (*queue)(void *arg, struct bn_err *err), void *arg,
                   const bool *dropped, struct bn_err *err);

#endif
