/* The part of bn_verify_folder that runs the model. */
#ifndef BN_CONVERT_VERIFY_RUN_H
#define BN_CONVERT_VERIFY_RUN_H

#include "convert/verify.h"
#include "text/tokenizer.h"

/* got, c: the new folder's tensors and config. t: its tokenizer, or NULL. */
int bn_verify_run(const struct bn_verify *v, const struct bn_tensors *got,
                  const struct bn_model_config *c,
                  const struct bn_tokenizer *t, struct bn_err *err);

#endif
