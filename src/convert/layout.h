/* Declared layouts: how the tensors of another world's checkpoint map to
 * those of a Hugging Face folder, and back. A layout is a YAML file:
 *
 *   reader: safetensors        # or torch, gguf, llama2c
 *   families: [llama]          # models it fits; all if not given
 *   prefix: "module."          # taken off source names that begin so
 *   skip: ["*._extra_state"]   # source tensors to leave, shell patterns
 *   rules:
 *     - from: layers.{L}.attn.qkv_proj.weight
 *       to: [model.layers.{L}.self_attn.q_proj.weight, ...]
 *       form: concat
 *
 * {L} stands for every layer. Forms, by rows (a vector's elements are rows):
 *   rename      the default: one target, the same rows
 *   concat      the targets one after the other
 *   grouped     for every KV head its share of each target in turn
 *   neighbours  one target whose heads pair rows 2i and 2i + 1 for RoPE,
 *               where Hugging Face pairs i and i + head_dim / 2
 * 'padded: true': the source may have more rows (a padded vocabulary);
 * those above the target's are dropped.
 * More keys of a layout:
 *   base          another layout of the same folder, which this one adds to
 *                 and overrides; comes first
 *   scale_suffix  8-bit matrices (F8_E4M3, F8_E5M2) have scales, in a tensor
 *                 of the matrix's name and this; value = code * scale
 *   scale_of      what has one scale: tensor, row, or block (of scale_block
 *                 rows and columns)
 *   fp8_bytes     F8_E4M3 or F8_E5M2: what U8 matrices that have scales hold,
 *                 as Transformer Engine stores them
 *   zero_centered source tensors (shell patterns) that hold a norm's weight
 *                 less 1 (layernorm_zero_centered_gamma, 1p)
 * How many rows a target has follows from the model's config. Nothing is
 * guessed from shapes.
 */
#ifndef BN_CONVERT_LAYOUT_H
#define BN_CONVERT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "format/tensors.h"
#include "model/params.h"

enum bn_layout_form {
    BN_FORM_RENAME,
    BN_FORM_CONCAT,
    BN_FORM_GROUPED,
    BN_FORM_NEIGHBOURS,
    BN_NFORM
};
enum bn_reader {
    BN_READ_SAFETENSORS,
    BN_READ_TORCH,
    BN_READ_GGUF,
    BN_READ_LLAMA2C,
    BN_NREADER
};
enum { BN_MAX_PARTS = 8 };

/* "safetensors", ... */
const char *bn_reader_name(enum bn_reader r);

struct bn_layout_rule {
    char *from;
    char *to[BN_MAX_PARTS];
    int n_to;
    enum bn_layout_form form;
    bool padded;
    int line; /* in the file */
};
enum bn_scale_of { BN_SCALE_TENSOR, BN_SCALE_ROW, BN_SCALE_BLOCK, BN_NSCALE };

struct bn_layout {
    char *path;
    enum bn_reader reader;
    unsigned families; /* bit 1 << enum bn_family; 0: all */
    char *prefix;      /* NULL: none */
    char **skip;
    size_t n_skip;
    char *scale_suffix; /* NULL: none */
    enum bn_scale_of scale_of;
    int scale_block;
    int fp8_bytes; /* enum bn_dtype; -1: U8 is no format of weights */
    char **zero;   /* zero_centered */
    size_t n_zero;
    struct bn_layout_rule *rule;
    size_t n_rule;
};

/* Read a layout file; every fault names file and line. */
int bn_layout_load(struct bn_layout *l, const char *path,
                   struct bn_err *err);
void bn_layout_release(struct bn_layout *l);

/* Open a checkpoint with the layout's reader. */
int bn_layout_open(const struct bn_layout *l, struct bn_tensors *ts,
                   const char *path, struct bn_err *err);

/* Bring 'src' into the form that the rules are about: 8-bit matrices times
 * their scales (as F32, exact; codes that do not come back are an error), 1
 * added where the layout says so (as F64, exact), and tensor-parallel shards
 * shard[0..n-1], which follow 'src' in the order of their ranks, merged: rows
 * and columns of each matrix as its rule and tensor parallelism have them
 * (params.h); what every rank holds must be the same. 'src' and shards are
 * changed, or emptied where 'out' (empty before) takes them over; they must
 * outlive 'out'. A line a change goes to 'report' (NULL is allowed). */
int bn_layout_prepare(const struct bn_layout *l,
                      const struct bn_model_config *c, struct bn_tensors *src,
                      struct bn_tensors *shard, int n, const char *where,
                      struct bn_tensors *out, struct bn_str *report,
                      struct bn_err *err);

/* For the way back: take 1 off where the layout says so, in double. A layout
 * with scales is refused: nothing is quantized here. */
int bn_layout_unprepare(const struct bn_layout *l, struct bn_tensors *ts,
                        struct bn_err *err);

/* Give 'out' (empty) the Hugging Face tensors of 'src', which must outlive
 * it. Every source tensor is used exactly once or matches 'skip'; rows are
 * those of the config; anything else is an error, with up to 20 names in
 * 'report' (NULL is allowed). Then hold the result against the config as
 * ckpt/hf.h does. 'where' names the source. Formats are kept.
 */
int bn_layout_apply(const struct bn_layout *l,
                    const struct bn_model_config *c,
                    const struct bn_tensors *src, const char *where,
                    struct bn_tensors *out, struct bn_str *report,
                    struct bn_err *err);

/* The way back: from Hugging Face tensors to the source layout (without its
 * prefix, skipped tensors and padding). Rules whose targets are not there
 * (biases of another family) give nothing. */
int bn_layout_invert(const struct bn_layout *l,
                     const struct bn_model_config *c,
                     const struct bn_tensors *hf, struct bn_tensors *out,
                     struct bn_err *err);

/* Convert 'out' back and compare with 'src' bit for bit. */
int bn_layout_verify(const struct bn_layout *l,
                     const struct bn_model_config *c,
                     const struct bn_tensors *src, const char *where,
                     const struct bn_tensors *out, struct bn_err *err);

/* For a check that a layout was declared right: how the rows of [q; k; v] of
 * a Hugging Face model would lie if the source had been read in the other
 * usual way. map[(heads + 2 kv_heads) * head_dim] gets the row that would
 * stand in each row's place. False if there is no difference. Pairs: q and k
 * heads for RoPE as neighbours where the layout says halves, and the other
 * way round. Fused: [Q; K; V] where it says groups, and the other way round;
 * false also where the layout has q, k and v apart. */
bool bn_layout_other_pairs(const struct bn_layout *l,
                           const struct bn_model_config *c, int32_t *map);
bool bn_layout_other_fused(const struct bn_layout *l,
                           const struct bn_model_config *c, int32_t *map);

/* A config.json of what a GGUF or llama2.c file says about itself, for
 * bn_model_config_parse; NULL with 'err' filled if it does not say enough.
 * The caller owns it. GGUF: RoPE scaling of the kinds linear and yarn from the
 * keys, llama3 from rope_freqs.weight; any key of the architecture that is not
 * known is refused by name. Not told by llama2.c: rms_norm_eps (1e-5) and
 * rope_theta (10000), which are that program's constants. */
json_t *bn_config_of_gguf(const struct bn_tensors *ts, const char *where,
                          struct bn_err *err);
json_t *bn_config_of_llama2c(const struct bn_tensors *ts, const char *where,
                             struct bn_err *err);

#endif
