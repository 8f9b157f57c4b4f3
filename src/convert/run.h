/* A whole conversion: read, map, check, write. */
#ifndef BN_CONVERT_RUN_H
#define BN_CONVERT_RUN_H

#include "convert/layout.h"

enum bn_convert_flags {
    BN_CONVERT_ALLOW_NONFINITE = 1 << 0,
    BN_CONVERT_ALLOW_ZERO = 1 << 1, /* matrices that are all zero */
    BN_CONVERT_ALLOW_SAME = 1 << 2, /* matrices equal bit for bit */
    BN_CONVERT_ALLOW_UNTRAINED = 1 << 3, /* weights as they began; an NLL that
                                          * says nothing was learnt */
};

struct bn_convert_job {
    const char *source;    /* a file, or a folder of safetensors */
    const char *layout;    /* the layout's file */
    const char *config;    /* config.json; NULL: that of the source folder,
                            * or what a GGUF or llama2.c file says */
    const char *tokenizer; /* folder whose tokenizer files are carried along;
                            * NULL: that of the config */
    const char *output;
    enum bn_dtype dtype; /* F32, BF16 or F16 */
    uint64_t max_bytes;  /* of one safetensors file */
    unsigned flags;      /* enum bn_convert_flags */
    int reader;          /* enum bn_reader instead of the layout's; -1 */
    const char *const *shards; /* tensor-parallel ranks 1 and up, source
                                * being rank 0: [n_shards] files */
    int n_shards;
    const char *reference; /* as bn_verify's; NULL: none */
    const char *text;      /* to be predicted; NULL: a fixed one */
    int tokens;            /* of it to run; below 2: none */
};

/* Make the Hugging Face folder 'output' (whole or not at all; it must not be
 * there, or be empty). Checked: every source tensor used once; the set and
 * shapes of the config; the way back bit for bit; every value finite in
 * 'dtype', no matrix all zero, equal to another, or like an initial one; a
 * config given for a GGUF or llama2.c file against what the file says; and
 * the written folder as verify.h says. 'report' gets a line a check, each
 * format that was converted, and notes on the config. Local; uses all CPUs.
 */
int bn_convert_run(const struct bn_convert_job *j, struct bn_str *report,
                   struct bn_err *err);

/* The other way: from the Hugging Face folder 'source' to the safetensors
 * file 'output' with the layout's names. 'config' and 'reader' are not
 * used. */
int bn_convert_back(const struct bn_convert_job *j, struct bn_str *report,
                    struct bn_err *err);

#endif
