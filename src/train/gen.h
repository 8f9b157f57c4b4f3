/* Answers to prompts: a model, and continuous batching over it.
 *
 * Ranks: the model may be divided over tensor-parallel ranks and pipeline
 * stages. Every rank then makes the same calls with the same prompts and
 * comes to the same answers; whose sink says them is the caller's business.
 *
 * Rows are answered 'batch_size' at a time; one that is finished leaves and
 * the next in line enters at the next step, so the batch stays full. What a
 * row is answered depends on its prompt, the sampling, the seed and its
 * number alone, not on its company (to the bit where decode.h says so).
 */
#ifndef BN_TRAIN_GEN_H
#define BN_TRAIN_GEN_H

#include "base/arena.h"
#include "boot/boot.h"
#include "mesh/mesh.h"
#include "model/model.h"
#include "model/sample.h"
#include "text/tokenizer.h"
#include "train/device.h"

struct bn_generator {
    struct bn_model_config cfg;
    struct bn_tokenizer *tokenizer;
    struct bn_ids eos; /* that the folder names as ends of a text */
    /* by bn_generator_join */
    struct bn_boot *boot;
    struct bn_boot_info info;
    struct bn_dev *dev;
    struct bn_comm *world;
    struct bn_mesh mesh;
    /* by bn_generator_load */
    struct bn_arena state; /* weights */
    struct bn_adapter adapter; /* lora.r 0: none */
    struct bn_model *model;
};

/* Read config, tokenizer (from its own folder if not NULL) and the ids that
 * end a text: eos_token_id of config.json and of generation_config.json, and
 * the tokenizer's eos_token. Weights are not touched. A zeroed struct may be
 * closed. */
int bn_generator_open(struct bn_generator *g, const char *model_dir,
                      const char *tokenizer_dir, struct bn_err *err);
/* Open the device and meet the other ranks of this start, tp * pp of them
 * (class usage if there are more or fewer), which waits for 'timeout' seconds.
 * Alone: tp and pp are 1. device->rank, local_rank and, if 0, threads are
 * filled in. Collective. */
int bn_generator_join(struct bn_generator *g, int tp, int pp, double timeout,
                      const struct bn_device_want *device,
                      struct bn_err *err);
/* After bn_generator_join: load this rank's part of the weights as 't', strictly
 * (ckpt/hf.h), and of those of a PEFT folder (NULL: none) beside them, for
 * sequences of at most 'capacity' tokens. */
int bn_generator_load(struct bn_generator *g, const char *model_dir,
                      const char *adapter_dir, enum bn_dtype t, int capacity,
                      struct bn_err *err);
void bn_generator_close(struct bn_generator *g);

struct bn_gen_conf {
    struct bn_sample sample;
    uint64_t seed;
    int max_new_tokens;       /* >= 1 */
    int batch_size;           /* rows at a time, >= 1 */
    const int32_t *stop_id;   /* [nstop_id]: end an answer, themselves left */
    size_t nstop_id;          /* out of its text */
    const char *const *stop;  /* [nstop], not empty: end the text before */
    size_t nstop;
};

enum bn_gen_reason {
    BN_GEN_EOS,     /* a stop id */
    BN_GEN_STOP,    /* a stop string */
    BN_GEN_LENGTH,  /* max_new_tokens */
    BN_GEN_CONTEXT, /* prompt and answer fill the model's positions */
};
/* "eos", "stop", "length", "context" */
const char *bn_gen_reason_name(enum bn_gen_reason r);

/* Borrowed: for the duration of the call. */
struct bn_gen_answer {
    size_t row;
    const int32_t *ids; /* [n] all that came, a stop id included */
    size_t n, prompt_tokens;
    const char *text; /* without special tokens and stop string */
    size_t len;
    enum bn_gen_reason reason;
    int32_t stop; /* eos: the id; stop: which string; else -1 */
};

/* Who gets the answers. A call that returns -1 ends the run with 'err'. */
struct bn_gen_sink {
    void *arg;
    /* More text of a row, as soon as it is certain. May be NULL. */
    int (*text)(void *arg, size_t row, const char *s, size_t n,
                struct bn_err *err);
    /* Once a row, in the order in which they are finished. */
    int (*done)(void *arg, const struct bn_gen_answer *a, struct bn_err *err);
};

/* What a run did. */
struct bn_gen_stats {
    size_t prompt_tokens, new_tokens, steps;
    double seconds;
};

/* Tokens that a row of 'n' prompt tokens may come to. */
int bn_gen_limit(const struct bn_generator *g, const struct bn_gen_conf *c,
                 size_t n);
/* Answer all prompts (each of 1 to max_position - 1 known ids). A signal to
 * stop, on any rank, ends it with class again; so does any rank's failure,
 * with its class. Collective. */
int bn_generate(struct bn_generator *g, const struct bn_gen_conf *c,
                const struct bn_ids *prompts, size_t n,
                const struct bn_gen_sink *sink, struct bn_gen_stats *stats,
                struct bn_err *err);

#endif
