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

/* Saves one checkpoint at a time, in the background. Its memory is touched in
 * the background, too, so that the first save does not stop for it. */
struct bn_saver;
struct bn_saver *bn_saver_create(struct bn_session *s, struct bn_err *err);
/* The memory that a save copies to, [3][elements of this rank], for a load
 * before the first save. Borrowed. Local. */
float *bn_saver_memory(struct bn_saver *v);
/* Waits for this rank's writer; what is not committed is lost. NULL is
 * allowed. Local. */
void bn_saver_destroy(struct bn_saver *v);

/* Records up to a checkpoint's step are to be on disk before it is: 'm'
 * (borrowed, of rank 0) is synced in the background. Local. */
void bn_saver_records(struct bn_saver *v, struct bn_metrics *m);

/* Begin output_dir/checkpoint-STEP: finish a former save, copy the state, and
 * return while it is written. Collective. */
int bn_save_begin(struct bn_saver *v, const struct bn_saved *state,
                  struct bn_err *err);
/* Begun and not committed: the same on all ranks. */
bool bn_save_pending(const struct bn_saver *v);
/* This rank still writes. */
bool bn_save_busy(const struct bn_saver *v);
/* Wait for what this rank does in the background. All shards written: begin
 * the commit, which prunes old ones as well. Committed: it is no longer
 * pending. A failure of any rank leaves older checkpoints as they are.
 * Collective. */
int bn_save_advance(struct bn_saver *v, struct bn_err *err);
/* Advance until none is pending. Collective. */
int bn_save_finish(struct bn_saver *v, struct bn_err *err);

/* As 'resume' says: nothing, the newest whole checkpoint, or a named one. The
 * weights, the optimizer and '*state' are then those of its step. It passes
 * through the memory of 'v' (NULL: its own). Collective. */
int bn_load_checkpoint(struct bn_session *s, struct bn_saver *v,
                       struct bn_saved *state, struct bn_err *err);
/* Remove from output_dir what a run that was killed left half done there.
 * Local; rank 0 calls it. */
void bn_save_clean(const struct bn_run *run);
/* Write output_dir/model, a Hugging Face folder of the weights (of the best
 * checkpoint with load_best_model_at_end). Collective. */
int bn_save_model(struct bn_session *s, const struct bn_saved *state,
                  struct bn_err *err);

#endif
