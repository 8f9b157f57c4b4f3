/* The parts of a run in the order in which they may be made: data on disk
 * before any rank waits for another, then boot, communicator, device, model.
 */
#ifndef BN_TRAIN_SESSION_H
#define BN_TRAIN_SESSION_H

#include "boot/boot.h"
#include "train/data_opts.h"
#include "train/trainer.h"

struct bn_session {
    const struct bn_run *run; /* borrowed */
    struct bn_model_config cfg;
    struct bn_tokenizer *tokenizer;
    struct bn_tokens *train, *eval;
    struct bn_boot *boot;
    struct bn_boot_info info;
    struct bn_comm *world;
    struct bn_mesh mesh;
    struct bn_dev *dev;
    struct bn_trainer *trainer;
};

enum bn_session_flags {
    BN_SESSION_TRAIN = 1, /* training data and optimizer */
    BN_SESSION_EVAL = 2,  /* evaluation data */
};

/* Open everything. max_tokens: see bn_trainer_create. On failure nothing is
 * left. Collective. */
int bn_session_open(struct bn_session *s, const struct bn_run *run,
                    unsigned flags, int max_tokens, struct bn_err *err);
void bn_session_close(struct bn_session *s);

#endif
