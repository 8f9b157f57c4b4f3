/* What a run leaves on disk and comes back from. */
#ifndef BN_TRAIN_SAVE_H
#define BN_TRAIN_SAVE_H

#include <stdbool.h>

#include "train/record.h"
#include "train/session.h"

/* What a checkpoint remembers of the loop. */
struct bn_saved {
    long step;       /* optimizer steps done */
    struct bn_window window; /* what no record holds yet, and totals */
    int64_t records; /* of metrics.jsonl so far; 0 at the start */
    long eval_step;  /* the last evaluation was after this step */
    long saved_step; /* not in the file: the step last saved */
    bool has_best;
    double best; /* of metric_for_best_model */
    long best_step;
    long bad_evals; /* evaluations since it improved enough */
};

/* Commit output_dir/checkpoint-STEP and prune old ones. Collective. */
int bn_save_checkpoint(struct bn_session *s, const struct bn_saved *state,
                       struct bn_err *err);
/* As 'resume' says: nothing, the newest whole checkpoint, or a named one. The
 * weights, the optimizer and '*state' are then those of its step. Collective.
 */
int bn_load_checkpoint(struct bn_session *s, struct bn_saved *state,
                       struct bn_err *err);
/* Remove from output_dir what a run that was killed left half done there.
 * Local; rank 0 calls it. */
void bn_save_clean(const struct bn_run *run);
/* Write output_dir/model, a Hugging Face folder of the weights (of the best
 * checkpoint with load_best_model_at_end). Collective. */
int bn_save_model(struct bn_session *s, const struct bn_saved *state,
                  struct bn_err *err);

#endif
