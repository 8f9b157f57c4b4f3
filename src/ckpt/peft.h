/* Adapters in PEFT's format: a folder with adapter_config.json (lora.h) and
 * adapter_model.safetensors, whose tensors are those of the adapter's table.
 */
#ifndef BN_CKPT_PEFT_H
#define BN_CKPT_PEFT_H

#include "base/hash.h"
#include "base/str.h"
#include "ckpt/hf.h"
#include "model/lora.h"

/* Fill the flat buffer of 'ps' (ps->elems elements of dtype F32 or BF16; the
 * table of 'lora' for any part of the model) from DIR. Strict: each tensor of
 * the whole adapter exactly once, of the right shape and finite, and no other;
 * class data, with lines in 'report' (NULL is allowed) as bn_hf_check's.
 * Local. */
int bn_peft_load(const char *dir, const struct bn_model_config *c,
                 const struct bn_lora *lora, const struct bn_params *ps,
                 void *flat, enum bn_dtype dtype, struct bn_str *report,
                 struct bn_err *err);

/* Write the folder 'dir', whole or not at all; if it is there and not empty,
 * that is an error. flat: F32, of the whole adapter's table. 'base' (NULL:
 * none) is the base model's folder, for base_model_name_or_path. The tokenizer
 * in 'files' (NULL: none) is carried along. Local. */
int bn_peft_save(const char *dir, const struct bn_model_config *c,
                 const struct bn_lora *lora, const float *flat,
                 const char *base, const struct bn_hf_files *files,
                 struct bn_err *err);

/* Hash of the tensors of a model's folder, whatever files they lie in: names,
 * formats, shapes and bytes. Of checker 'mine' of 'n': its share, to be summed
 * over all (each word modulo 2^64). Local; uses all CPUs. */
int bn_peft_base_hash(const char *dir, int n, int mine, struct bn_hash *h,
                      struct bn_err *err);
/* Write 'out', the model in 'base' with the adapter's s B A added to (sign 1)
 * or taken from (-1) its matrices, and saved modules in place of its own;
 * computed in double and stored as *dtype (NULL: as the base's matrices).
 * Tokenizer and configs are carried along. To take an adapter with saved
 * modules out is an error: what they replaced is gone. Local; uses all CPUs.
 */
int bn_peft_merge(const char *base, const char *adapter, const char *out,
                  int sign, const enum bn_dtype *dtype, struct bn_err *err);

#endif
