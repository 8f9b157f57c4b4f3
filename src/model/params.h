/* The parameters of a model, or of the part of it that one rank holds, laid
 * out in one flat buffer of elements.
 *
 * Names and shapes are those of a Hugging Face folder. q, k and v weights
 * lie one after the other without a gap, so that they are one matrix
 * [(heads + 2 * kv_heads) * head_dim, hidden] as well; so do their biases,
 * and gate and up, [2 * intermediate, hidden]. Every such group begins at a
 * multiple of 64 elements. Order: embedding, layers, final norm, head; in a
 * layer matrices come first.
 *
 * Tensor parallelism splits a tensor by its rule:
 *   rows   output features (Megatron's column parallel): q, k, v, gate, up
 *          and their biases; whole heads. With more ranks than KV heads
 *          several ranks hold the same head ('copies').
 *   cols   input features (row parallel): o, down
 *   vocab  rows of embedding and head in near-equal runs; any size fits. Each
 *          run has room for the longest, so that what follows lies at the
 *          same place on all tensor ranks
 *   none   every rank holds all: norms, q/k norms, o's bias
 * and an adapter's factors as lora.h says.
 */
#ifndef BN_MODEL_PARAMS_H
#define BN_MODEL_PARAMS_H

#include <stddef.h>
#include <stdint.h>

#include "model/config.h"

enum bn_param_kind {
    BN_P_EMBED, /* [vocab, hidden] */
    BN_P_Q,     /* [heads * head_dim, hidden] */
    BN_P_K,     /* [kv_heads * head_dim, hidden] */
    BN_P_V,
    BN_P_O,    /* [hidden, heads * head_dim] */
    BN_P_GATE, /* [intermediate, hidden] */
    BN_P_UP,
    BN_P_DOWN, /* [hidden, intermediate] */
    BN_P_ATTN_NORM,
    BN_P_Q_BIAS,
    BN_P_K_BIAS,
    BN_P_V_BIAS,
    BN_P_Q_NORM, /* [head_dim] */
    BN_P_K_NORM,
    BN_P_O_BIAS,
    BN_P_MLP_NORM,
    BN_P_FINAL_NORM,
    BN_P_HEAD, /* [vocab, hidden]; not there when tied */
    /* of an adapter's table alone: A [r, in] and B [out, r] of each matrix
     * of a layer, in the order of the matrices above */
    BN_P_LORA,
    BN_P_Q_A = BN_P_LORA,
    BN_P_Q_B,
    BN_P_K_A,
    BN_P_K_B,
    BN_P_V_A,
    BN_P_V_B,
    BN_P_O_A,
    BN_P_O_B,
    BN_P_GATE_A,
    BN_P_GATE_B,
    BN_P_UP_A,
    BN_P_UP_B,
    BN_P_DOWN_A,
    BN_P_DOWN_B,
    BN_NPARAM
};

/* The matrices of a layer, which can have adapters: BN_P_Q + 0 .. */
enum { BN_NLINEAR = BN_P_DOWN - BN_P_Q + 1 };

/* The factors of matrix 'kind', and the matrix of a factor. */
static inline enum bn_param_kind bn_param_a(enum bn_param_kind kind)
{
    return (enum bn_param_kind)(BN_P_LORA + 2 * (kind - BN_P_Q));
}
static inline enum bn_param_kind bn_param_b(enum bn_param_kind kind)
{
    return (enum bn_param_kind)(bn_param_a(kind) + 1);
}
static inline enum bn_param_kind bn_param_adapted(enum bn_param_kind factor)
{
    return (enum bn_param_kind)(BN_P_Q + (factor - BN_P_LORA) / 2);
}

struct bn_lora; /* lora.h */

enum bn_split_rule {
    BN_SPLIT_NONE,
    BN_SPLIT_ROWS,
    BN_SPLIT_COLS,
    BN_SPLIT_VOCAB
};

/* The part of a model that a rank holds. */
struct bn_part {
    int tp_size, tp_rank;
    int first_layer, end_layer; /* layers first .. end-1 */
    bool has_embed;             /* the first stage */
    bool has_head;              /* the last: final norm and head */
    bool tight; /* runs of the vocabulary have no room beyond what they hold:
                 * checkpoints of versions 1 to 3 */
};

struct bn_param {
    const char *name; /* "model.layers.3.self_attn.q_proj.weight" */
    enum bn_param_kind kind;
    int layer; /* in the whole model; -1: of no layer */
    int ndim;  /* 2 matrix, 1 vector: [rows], cols is 1 */
    int rows, cols;           /* held here */
    int full_rows, full_cols; /* of the tensor in a folder */
    int row0, col0;           /* where the held slice begins in it */
    size_t offset, count;     /* elements in the flat buffer */
    enum bn_split_rule split;
    int copies; /* tensor ranks that hold each element held here */
    bool decay; /* a matrix: weight decay applies by custom */
    bool twin;  /* tied embedding whose other copy is on another stage */
};

struct bn_params {
    struct bn_part part;
    struct bn_param *item; /* by offset */
    int n;
    size_t elems; /* of the flat buffer; a multiple of 64 */
    size_t count; /* parameters in it, without padding */
    /* Gradients of [keep, keep + kept) alone are kept over a backward pass
     * (ZeRO stage 2); kept 0: all of them. */
    size_t keep, kept;
    int whole; /* layers whose whole gradients are there at a time: 1 or 2 */
    int *index;   /* private */
    char *names;
};

enum { BN_PARAM_ALIGN = 64 };

/* All of the model on one rank. */
struct bn_part bn_part_whole(const struct bn_model_config *c);

/* Build the table of 'part'. A tied model holds BN_P_EMBED on the first and
 * on the last stage. Heads or intermediate size that do not divide by
 * tp_size are an error. Release with bn_params_release. */
int bn_params_init(struct bn_params *ps, const struct bn_model_config *c,
                   const struct bn_part *part, struct bn_err *err);
/* The same of an adapter; with 'lora' NULL or its r 0, of the model itself. */
int bn_params_init_lora(struct bn_params *ps, const struct bn_model_config *c,
                        const struct bn_part *part, const struct bn_lora *lora,
                        struct bn_err *err);
void bn_params_release(struct bn_params *ps);
/* Round the flat buffer up so that 'ranks' equal ranges of it begin at
 * multiples of 64 elements. */
void bn_params_pad(struct bn_params *ps, int ranks);

/* What a pipeline's stages compute, in any unit of time or work. */
struct bn_stage_cost {
    double layer; /* one of them; they are alike */
    double embed; /* besides, of the first stage */
    double head;  /* besides, of the last */
};

/* Split 'layers' >= stages over stages so that the costliest stage is as
 * cheap as can be; of equal splits the one with more layers behind.
 * count[stages] >= 1. */
void bn_part_split(const struct bn_stage_cost *cost, int layers, int stages,
                   int *count);

/* The layers of stage 'stage' of a pipeline of 'stages', [*first, *end), by
 * bn_part_split, counting as the cost of a layer and of the head the elements
 * of their matrices (to which their FLOPs are proportional but for attention's
 * products), and none for the embedding. Fewer layers than stages are an error
 * (class usage). */
int bn_part_stage(const struct bn_model_config *c, int stages, int stage,
                  int *first, int *end, struct bn_err *err);

/* Where the parameters of layer 'layer' of this part begin, or of the next
 * that has any; behind the last layer, where those of none begin, or the last
 * layer's end. What lies between two layers' beginnings is the former's. */
size_t bn_params_layer(const struct bn_params *ps, int layer);

/* The parameter in constant time; 'layer' -1 for those of no layer. NULL if
 * it is not held here. */
const struct bn_param *bn_param_find(const struct bn_params *ps,
                                     enum bn_param_kind kind, int layer);
/* The matrix of the output head, which is the embedding in a tied model;
 * NULL if this part has no head. */
const struct bn_param *bn_param_head(const struct bn_params *ps);

#endif
