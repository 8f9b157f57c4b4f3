/* The parts of a run in the order in which they may be made: who am I (which
 * waits for nobody), data on disk, device, and only then a meeting of the
 * ranks, communicator, model.
 */
#ifndef BN_TRAIN_SESSION_H
#define BN_TRAIN_SESSION_H

#include "boot/boot.h"
#include "ckpt/hf.h"
#include "train/data_opts.h"
#include "train/trainer.h"

struct bn_session {
    const struct bn_run *run; /* borrowed, or &split */
    struct bn_run split; /* the run with the layers of stages as measured */
    struct bn_model_config cfg;
    struct bn_tokenizer *tokenizer;
    struct bn_hf_files carried; /* rank 0, if it trains: for the final model,
                                 * as they are now */
    struct bn_tokens *train, *eval;
    struct bn_boot *boot;
    struct bn_boot_info info;
    struct bn_watch watch;
    int hold; /* rank 0's, of output_dir (hold.h); -1: none */
    struct bn_comm *world;
    struct bn_mesh mesh;
    struct bn_dev *dev;
    struct bn_trainer *trainer;
};

enum bn_session_flags {
    BN_SESSION_TRAIN = 1, /* training data and optimizer */
    BN_SESSION_EVAL = 2,  /* evaluation data */
    BN_SESSION_PUBLISH = 4, /* phases and failures, in output_dir */
    BN_SESSION_ALONE = 8,   /* more than one rank is refused */
};

/* Open everything. max_tokens: see bn_trainer_create. On failure nothing is
 * left, and the failure is published. Collective. */
int bn_session_open(struct bn_session *s, const struct bn_run *run,
                    unsigned flags, int max_tokens, struct bn_err *err);
/* What ranks tell each other when they agree: in this rank's, out any's. */
struct bn_word {
    int stop;    /* out: a signal that asked to stop, or 0 */
    bool busy;   /* in the background */
    bool halt;   /* the run is to end here, in order */
    bool report; /* wants a report of all ranks */
    int failed;  /* out: the worst class of any rank, or 0 */
};

/* The agreement point of all ranks: rc < 0 with 'err' is this rank's failure,
 * which is published. -1 if any rank failed, with the class of one. 'word'
 * may be NULL. Collective. */
int bn_session_agree(struct bn_session *s, int rc, struct bn_word *word,
                     struct bn_err *err);
/* failed: this rank ends out of order, so the others are not waited for. */
void bn_session_close(struct bn_session *s, bool failed);

#endif
