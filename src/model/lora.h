/* Low-rank adapters (Hu et al., "LoRA: Low-Rank Adaptation of Large Language
 * Models", 2021): y = x W^T + s (drop(x) A^T) B^T with A [r, in], B [out, r]
 * trained and W frozen; s = alpha / r, or alpha / sqrt(r) with rslora
 * (Kalajdzievski, 2023). Names, files and the matching of modules are PEFT's.
 *
 * An adapter's parameters are a table as the model's own (params.h), whose
 * names are those of adapter_model.safetensors. In a layer A and B of each
 * target; besides, whole copies of the modules in 'save'.
 *
 * Tensor parallelism splits the factor that touches the split dimension of W
 * and holds the other on every rank:
 *   q, k, v, gate, up (W by rows)   A on all ranks     B by rows, as W
 *   o, down (W by columns)          A by columns, as W  B on all ranks
 * Neither needs a collective of its own in a pass: the sums over the ranks
 * that W's products need anyway sum the adapter's, too. The gradient of the
 * factor that all hold is a sum over the ranks, made once a step (reduce.c).
 */
#ifndef BN_MODEL_LORA_H
#define BN_MODEL_LORA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "model/config.h"
#include "model/params.h"

/* What is adapted; r 0: nothing. */
struct bn_lora {
    int r;
    double alpha, dropout;
    bool rslora;
    /* Modules: a name is one if it is the whole path of a module, or its end
     * after a dot: "q_proj", "layers.3.self_attn.q_proj". */
    char **target;
    size_t ntarget;
    /* Modules trained whole: paths that end so, as PEFT matches them ("norm"
     * is each norm's end). */
    char **save;
    size_t nsave;
};

void bn_lora_release(struct bn_lora *l);
/* Append a copy of 'name' to a list above. */
void bn_lora_add_name(char ***list, size_t *n, const char *name);
/* In place of the targets: the names of all linear modules of a layer. */
void bn_lora_all_linear(struct bn_lora *l);

/* s above. */
double bn_lora_scale(const struct bn_lora *l);
/* What a parameter of the model is to the adapter. 'name' is the parameter's
 * in the model ("model.layers.0.self_attn.q_proj.weight"). */
bool bn_lora_targets(const struct bn_lora *l, enum bn_param_kind kind,
                     const char *name);
bool bn_lora_saves(const struct bn_lora *l, enum bn_param_kind kind,
                   const char *name);

/* Every name must be of a module of this model that can be adapted (or
 * saved: embedding, head, norms); class usage, naming it. 'where' begins the
 * message. */
int bn_lora_check(const struct bn_lora *l, const struct bn_model_config *c,
                  const char *where, struct bn_err *err);

/* Fill the flat float buffer of an adapter's table with what training begins
 * from: A uniform in +-1 / sqrt(in), as PEFT (Kaiming, a = sqrt 5), by (seed,
 * name, element) alone; B zero. Copies of saved modules are for the caller.
 * Local. */
void bn_lora_randomize(const struct bn_params *ps, uint64_t seed,
                       float *flat);

/* --- adapter_config.json (lora_config.c) ----------------------------------- */

/* Read DIR/adapter_config.json into '*l' (release it). What this build would
 * not compute as PEFT does is refused by its key; class data. */
int bn_lora_load(struct bn_lora *l, const char *dir, struct bn_err *err);
/* Its contents; 'base' is base_model_name_or_path, NULL: null. New. */
json_t *bn_lora_config_json(const struct bn_lora *l, const char *base);
/* Shorter, for manifests: what decides the arithmetic. New. */
json_t *bn_lora_json(const struct bn_lora *l);
/* Read it back; 'where' names it. */
int bn_lora_parse(struct bn_lora *l, const json_t *o, const char *where,
                  struct bn_err *err);

#endif
