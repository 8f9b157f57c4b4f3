/* Hugging Face model folders: strict in, whole out. */
#ifndef BN_CKPT_HF_H
#define BN_CKPT_HF_H

#include "base/str.h"
#include "format/safetensors.h"
#include "model/params.h"

enum bn_load_flags {
    BN_LOAD_ALLOW_NONFINITE = 1 << 0, /* NaN and infinity among weights */
    BN_LOAD_ALLOW_ZERO = 1 << 1,      /* matrices that are all zero */
};

/* Hold a set of tensors against the table of the whole model: each tensor
 * there exactly once, of the right shape, in a 16 to 64-bit floating format.
 * Extra ones are refused but for "*.rotary_emb.inv_freq" and, in a tied
 * model, an lm_head.weight equal to the embedding bit for bit (another one
 * is stale, and refused). 'where' names the set in messages. 'report' (NULL
 * is allowed) gets a line for up to 20 tensors of each fault; 'err' has the
 * counts and the first name of each. Reads no values otherwise.
 */
int bn_hf_check(const struct bn_tensors *ts, const char *where,
                const struct bn_model_config *c, struct bn_str *report,
                struct bn_err *err);

/* The same of any whole table, without exceptions. */
int bn_hf_check_table(const struct bn_tensors *ts, const char *where,
                      const struct bn_params *whole, struct bn_str *report,
                      struct bn_err *err);

/* bn_hf_check, then fill the flat buffer of 'ps' (ps->elems elements of
 * dtype F32 or BF16, of any part of the model) from the set. Padding becomes
 * 0. Values that are not finite as 'dtype', and matrices that are all zero,
 * are refused unless 'flags' allow them. 'report' also says which formats
 * were converted. A signal to stop (base/signal.h) is a failure of
 * class BN_ERR_AGAIN. On failure the buffer's contents are undefined. Local;
 * uses all CPUs.
 */
int bn_hf_load_tensors(const struct bn_tensors *ts, const char *where,
                       const struct bn_model_config *c,
                       const struct bn_params *ps, void *flat,
                       enum bn_dtype dtype, unsigned flags,
                       struct bn_str *report, struct bn_err *err);
/* The latter half: of a set that was checked, with the names of any table. */
int bn_hf_fill(const struct bn_tensors *ts, const char *where,
               const struct bn_params *ps, void *flat, enum bn_dtype dtype,
               unsigned flags, struct bn_str *report, struct bn_err *err);
/* The same of a folder's safetensors files (config.json is not read). */
int bn_hf_load(const char *dir, const struct bn_model_config *c,
               const struct bn_params *ps, void *flat, enum bn_dtype dtype,
               unsigned flags, struct bn_str *report, struct bn_err *err);

/* What a saved folder takes along from the folders a run began with, held
 * in memory so that these may be gone by then. */
struct bn_hf_files {
    struct bn_hf_file {
        const char *name; /* static */
        char *data;
        size_t len;
    } *item; /* generation_config.json and tokenizer files that exist */
    size_t n, cap;
    json_t *config; /* the model's config.json, or NULL */
};
/* From 'model_dir' (NULL: none), with tokenizer files from 'tokenizer_dir'
 * instead if that is not NULL. */
int bn_hf_files_load(struct bn_hf_files *f, const char *model_dir,
                     const char *tokenizer_dir, struct bn_err *err);
/* Add a file; 'name' is static, 'data' is taken. */
void bn_hf_files_add_take(struct bn_hf_files *f, const char *name, char *data,
                          size_t len);
void bn_hf_files_release(struct bn_hf_files *f);

/* Write the folder 'dir' that transformers loads: config.json, weights as
 * 'dtype' (F32, BF16 or F16) in one file or, above 'max_bytes', in several
 * (safetensors.h), and the carried 'files' (NULL: none). 'read' delivers
 * tensor number i of bn_params_init's table of the whole model. The folder
 * appears whole or not at all; if it is there and not empty, that is an
 * error. Local.
 */
int bn_hf_save(const char *dir, const struct bn_model_config *c,
               enum bn_dtype dtype, uint64_t max_bytes,
               const struct bn_hf_files *files, bn_st_read_f *read, void *arg,
               struct bn_err *err);
/* The same with a last look: 'check' is called on the finished folder before
 * it gets its name; if it fails, the folder is removed. */
typedef int bn_hf_check_f(void *arg, const char *folder, struct bn_err *err);
int bn_hf_save_checked(const char *dir, const struct bn_model_config *c,
                       enum bn_dtype dtype, uint64_t max_bytes,
                       const struct bn_hf_files *files, bn_st_read_f *read,
                       bn_hf_check_f *check, void *arg, struct bn_err *err);
/* The same from a flat buffer of the whole model. */
int bn_hf_save_flat(const char *dir, const struct bn_model_config *c,
                    const void *flat, enum bn_dtype flat_dtype,
                    enum bn_dtype dtype, uint64_t max_bytes,
                    const struct bn_hf_files *files, struct bn_err *err);

/* Make the folder 'dir' of what fill(arg, tmp) puts into the fresh one 'tmp':
 * whole or not at all; if it is there and not empty, that is an error. */
typedef int bn_hf_dir_f(void *arg, const char *tmp, struct bn_err *err);
int bn_hf_make_dir(const char *dir, bn_hf_dir_f *fill, void *arg,
                   struct bn_err *err);
/* Write the files (not the config) into 'dir'. */
int bn_hf_files_put(const struct bn_hf_files *f, const char *dir,
                    struct bn_err *err);
/* Write 'o' as DIR/NAME. */
int bn_hf_put_json(const char *dir, const char *name, const json_t *o,
                   struct bn_err *err);

#endif
