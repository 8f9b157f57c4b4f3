/* What a conversion is held against before its folder gets a name. */
#ifndef BN_CONVERT_VERIFY_H
#define BN_CONVERT_VERIFY_H

#include "convert/layout.h"

struct bn_verify {
    const struct bn_layout *l;
    const struct bn_tensors *src; /* bn_layout_apply's: Hugging Face names,
                                   * formats of the source */
    const struct bn_model_config *c;
    const struct bn_params *ps; /* of the whole model */
    enum bn_dtype dtype;        /* of the folder */
    const char *where;          /* names the source */
    const char *reference; /* Hugging Face folder, or JSON file: {"ids": [],
                            * "logits": [[]], "nll": x}; NULL: none */
    const char *text;      /* to be predicted; NULL: a fixed one in English */
    int tokens;            /* of it; below 2: no forward passes */
    unsigned flags;        /* enum bn_convert_flags */
    struct bn_str *report; /* gets a line a check */
};

/* Means of matrices: NULL, or why 't' looks like initial weights: normal with
 * 'init_std', or uniform within 1 / sqrt(columns), as torch's Linear begins.
 * Small ones (under 65536 elements) cannot be told and never do. */
const char *bn_init_like(const struct bn_named *t, double init_std);

/* Any two configs of one model agree on what decides the arithmetic; else
 * class data, naming the key, and both values. */
int bn_config_same(const struct bn_model_config *a, const char *where_a,
                   const struct bn_model_config *b, const char *where_b,
                   struct bn_err *err);

/* Read the folder again, and check: its config says what 'c' says; its
 * tensors are those of the source, row by row, by checksums; its tokenizer
 * opens, has no id without a row, its chat template parses; logits and mean
 * NLL of the text are those of the source and of the reference (mean KL at
 * most BN_MAX_KL nats; equal where no format is narrower); the NLL is below
 * 0.8 ln(vocabulary), and worse by BN_MIN_WORSE when the same weights are cut
 * in the ways that converters go wrong. Without a tokenizer the tokens are
 * arbitrary, and the last two are not checked; the report says so. Local;
 * uses all CPUs.
 */
int bn_verify_folder(const struct bn_verify *v, const char *folder,
                     struct bn_err *err);
#define BN_MAX_KL 0.05
#define BN_MIN_WORSE 0.02

#endif
