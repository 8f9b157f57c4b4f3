/* A Llama-family model on one device: weights, forward, backward.
 *
 * A model holds this rank's part of the parameters (mesh: its tensor-parallel
 * shard, its pipeline stage's layers). Activations live in a struct bn_acts
 * of their own, so that several micro-batches can be in flight. Everything
 * enqueues on the device; failures are found by bn_dev_check.
 *
 * With an adapter (lora.h) the model's own weights are frozen: they have no
 * gradients, and what is trained is the adapter's table alone.
 */
#ifndef BN_MODEL_MODEL_H
#define BN_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "data/batch.h"
#include "mesh/mesh.h"
#include "model/config.h"
#include "model/lora.h"
#include "model/params.h"
#include "ops/ops.h"

enum bn_recompute {
    BN_RECOMPUTE_NONE,      /* keep everything backward needs */
    BN_RECOMPUTE_ATTENTION, /* make q, k, v and attention again */
    BN_RECOMPUTE_FULL,      /* keep each layer's input only */
};

/* An adapter as a model is given it: what is adapted, and this rank's table
 * of it. */
struct bn_adapter {
    struct bn_lora lora;
    struct bn_params params;
};

/* The factors of one matrix; data NULL: it has none. */
struct bn_adapted {
    struct bn_mat a, b;
    float *g_a, *g_b;
    int col0; /* of the whole matrix's columns, where this rank's begin */
};

/* Views of one layer's parameters; vectors of type t, NULL where the family
 * has none. g_: float gradients of the same shape, NULL without training and
 * of what is frozen. */
struct bn_layer {
    struct bn_mat qkv, o, gate_up, down;
    const void *norm_a, *norm_m, *norm_q, *norm_k, *qkv_bias, *o_bias;
    float *g_qkv, *g_o, *g_gate_up, *g_down;
    float *g_norm_a, *g_norm_m, *g_norm_q, *g_norm_k, *g_qkv_bias, *g_o_bias;
    struct bn_adapted adapted[BN_NLINEAR]; /* by kind - BN_P_Q */
};

struct bn_model {
    struct bn_model_config cfg;
    struct bn_params params; /* this rank's table */
    struct bn_dev *dev;      /* borrowed */
    const struct bn_mesh *mesh; /* borrowed */
    enum bn_dtype t;
    void *w;  /* params.size weights of type t, device memory */
    /* as many gradients; NULL without training, if sharded or frozen */
    float *g;
    struct bn_shard *shard; /* gradients under ZeRO stage 2 (shard.h) */
    /* Called in a backward pass once the gradients of what lies in 'layer'
     * and behind it (bn_params_layer of what is trained) are made; f NULL:
     * nobody wants to know. Not with sharded gradients. */
    struct {
        void (*f)(void *arg, int layer);
        void *arg;
    } made;
    const struct bn_adapter *adapter; /* borrowed; NULL: none */
    void *adapter_w;  /* adapter->params.size weights of type t */
    float *adapter_g; /* as many gradients; NULL as g is */
    struct {
        bool on;            /* in training alone */
        uint64_t seed, step; /* masks are a function of these and the rows */
    } dropout;
    int heads, kv_heads, ffn, vocab; /* of this shard */
    int vocab_first;                 /* first id of this shard */
    int nlayers;
    struct bn_layer *layer; /* [nlayers] */
    const void *embed;      /* NULL on stages without it */
    float *g_embed;
    const void *norm_f;
    float *g_norm_f;
    struct bn_mat head; /* the embedding's memory if tied */
    float *g_head;
    int max_pos; /* rows of the RoPE tables */
    float *cosine, *sine; /* no rows with dynamic RoPE: see bn_acts */
};

/* Bytes that bn_model_create takes from its arena. adapter NULL: none. */
size_t bn_model_bytes(const struct bn_model_config *cfg,
                      const struct bn_params *params,
                      const struct bn_adapter *adapter, enum bn_dtype t,
                      int max_pos, bool training);

/* Lay a model out in 'arena' (device memory). The weights are undefined until
 * the caller writes m->w and calls bn_model_changed; gradients are zero. cfg
 * and params are copied (params is taken: the model releases it). adapter
 * (NULL: none) must outlive the model and be of the same part; its weights
 * are for the caller to write as well, m->adapter_w. */
struct bn_model *bn_model_create(const struct bn_model_config *cfg,
                                 struct bn_params *params,
                                 const struct bn_adapter *adapter,
                                 enum bn_dtype t, int max_pos, bool training,
                                 struct bn_dev *dev,
                                 const struct bn_mesh *mesh,
                                 struct bn_arena *arena, struct bn_err *err);
void bn_model_destroy(struct bn_model *m);
/* A model of sizes alone, to plan activations with; nothing to release.
 * 'params' and 'adapter' are borrowed; of 'dev' only op.attn_work is used. */
void bn_model_plan(struct bn_model *m, const struct bn_model_config *cfg,
                   const struct bn_params *params,
                   const struct bn_adapter *adapter, enum bn_dtype t,
                   struct bn_dev *dev, const struct bn_mesh *mesh);
/* Say that m->w or m->adapter_w was written; or the latter alone. */
void bn_model_changed(struct bn_model *m);
void bn_model_adapter_changed(struct bn_model *m);

/* What is trained, and so what optimizer and checkpoints are about: the
 * adapter's table and memory, or with none the model's. */
struct bn_trained {
    const struct bn_params *params;
    void *w;  /* of type m->t */
    float *g;
};
struct bn_trained bn_model_trained(const struct bn_model *m);
void bn_model_zero_grad(struct bn_model *m);
/* The gradient of the flat parameter at 'offset' and of those behind it: any
 * without sharded gradients, else of the range that is kept. */
float *bn_model_grad(const struct bn_model *m, size_t offset);
/* Bytes of bn_model_bytes that are gradients, when training. */
size_t bn_model_grad_bytes(const struct bn_params *params);

/* What one layer keeps; pointers of different layers are the same where a
 * recompute mode shares the memory. */
struct bn_layer_acts {
    /* x_a, y_a, x_m, y_m and their rstd: of 'rows' rows (bn_acts) */
    void *x_a; /* [rows, hidden] layer input: the residual stream */
    float *rstd_a;
    void *y_a;
    void *qkv; /* [n, (heads + 2 kv_heads) hd]; rotated in place if no qk_norm */
    void *qk;  /* qk_norm: normalised and rotated q, k [n, (heads + kv) hd] */
    float *rstd_q, *rstd_k;
    void *o;
    float *lse;
    void *x_m; /* residual stream before the MLP */
    float *rstd_m;
    void *y_m;
    void *gate_up;
};

struct bn_cache;

/* Activations and scratch for one micro-batch of at most max_tokens. */
struct bn_acts {
    int max_tokens, max_segs;
    enum bn_recompute recompute;
    struct bn_layer_acts *layer; /* [nlayers], host */
    void *x_f;    /* [rows, hidden] after the last layer */
    void *y_f;    /* final norm, all n rows */
    float *rstd_f;
    /* scratch; h and d_y of all n rows, d_x of this rank's; d_y is d_x where
     * that has all, else 'all' (seq.h) */
    void *h, *act, *d_x, *d_y, *d_o, *d_qkv, *d_qk, *attn_work;
    void *all; /* NULL unless rows are shared out */
    /* context parallelism: keys and values side by side, [., 2 kv hd]: this
     * rank's, all ranks' as they are gathered, all in the batch's order, and
     * the latter's gradient; NULL on one rank */
    void *kv_mine, *kv_ranks, *kv, *d_kv;
    int max_kv, max_pad; /* rows of kv; of kv_mine */
    int nkv, pad_rows;   /* in this batch */
    int32_t *kv_row;     /* [nkv], device memory */
    /* adapters: x after dropout [n, widest x]; h and dh [n, r], the latter
     * three times; NULL without, and lora_x without dropout */
    void *lora_x, *lora_h, *lora_dh;
    uint32_t *key; /* [n][2] of the rows, for dropout; device memory */
    uint32_t *host_key;
    /* the batch, in device memory */
    int n, nseg;
    int rows; /* of the residual stream that this rank holds (seq.h) */
    int32_t *ids, *pos; /* pos: rows of the tables of rope */
    float *cosine, *sine; /* the model's; dynamic RoPE: a row a token */
    float *host_rope;  /* both; dynamic RoPE */
    int32_t *host_row; /* 0, 1, ...: the rows of them */
    struct bn_attn_seg *seg;
    const struct bn_attn_seg *host_seg; /* borrowed from the batch */
    /* Not NULL: forward only; keys and values go into the cache, and segments
     * name its rows (cache.h). Borrowed. */
    const struct bn_cache *cache;
};

/* The largest batch that activations are laid out for. */
struct bn_acts_size {
    int tokens, segs; /* of this rank's share */
    int kv;           /* rows of keys and values: tokens of the whole batch */
    enum bn_recompute recompute;
    bool backward; /* false: forward alone, layers sharing their memory */
};

/* Lay activations out in 'arena' (a plan only counts). Release frees the host
 * part. */
void bn_acts_init(struct bn_acts *a, const struct bn_model *m,
                  const struct bn_acts_size *size, struct bn_arena *arena);
void bn_acts_release(struct bn_acts *a);

/* Embed, run the layers and the final norm: a->y_f. A pipeline's later stages
 * do not embed but begin with bn_acts_input, which the caller has filled; the
 * earlier ones end with bn_acts_output instead of the norm. The batch must
 * live until backward is done and must fit; with context parallelism it is
 * this rank's share. Collective over tp and cp. */
int bn_model_forward(struct bn_model *m, struct bn_acts *a,
                     const struct bn_batch *b, struct bn_err *err);
/* From d_y = dL/dy_f ([n, hidden], overwritten; each tensor-parallel rank's
 * part of it where rows are shared out, else the whole) add to the gradients.
 * d_y may be a->d_y. On a stage without head a->d_x is the gradient of bn_acts_output
 * instead; on one without embedding a->d_x is left as that of bn_acts_input.
 * Collective over tp and cp, and with sharded gradients over dp. Gradients of
 * the embedding, final norm and head are not summed over ranks then. */
void bn_model_backward(struct bn_model *m, struct bn_acts *a, void *d_y);

/* Take part in one backward pass of the other ranks without a batch of one's
 * own: nothing is added, and whoever waits for the gradients of a layer is
 * told. Collective with sharded gradients. */
void bn_model_backward_none(struct bn_model *m);

/* The residual stream [rows, hidden] between pipeline stages. */
static inline void *bn_acts_input(const struct bn_acts *a)
{
    return a->layer[0].x_a;
}

void *bn_acts_output(const struct bn_model *m, const struct bn_acts *a);

#endif
