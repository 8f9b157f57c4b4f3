/* The op table: everything a model does to numbers, on one device.
 *
 * The CPU back end fills every slot; another back end then overwrites slots.
 * Model code calls d->op.NAME(d, ...). A call enqueues on the device's one
 * compute stream and does not wait (the CPU runs it at once). Slots return
 * nothing: the first failure is kept in d->err, later calls then do nothing,
 * and bn_dev_check reports it at the end of a step.
 *
 * Conventions of every slot
 *   t           compute type of activations and weights: BN_F32 or BN_BF16
 *   pointers    memory of the device's domain unless named host_
 *   matrices    row-major; ld is the distance of rows in elements, and where
 *               no ld is given rows are contiguous
 *   gradients   of parameters are float and are added to (+=); gradients of
 *               activations have type t and are overwritten (=) unless 'acc'
 *   sizes       n rows (tokens) >= 0; n == 0 does nothing
 *   order       sums have a fixed order: same inputs, same thread count, same
 *               bits
 *   aliasing    none, unless said
 */
#ifndef BN_OPS_OPS_H
#define BN_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/err.h"
#include "kernels/adamw.h"
#include "kernels/attn.h"
#include "kernels/dropout.h"
#include "kernels/head.h"
#include "kernels/loss.h"
#include "kernels/sample.h"
#include "kernels/score.h"

struct bn_dev;
struct bn_graph;

/* Bytes that 'mail' has room for. */
enum { BN_MAIL = 1024 };

/* A weight matrix [rows, cols] = [out, in] of type t, and what a back end
 * keeps with it (a packed copy, say). Views: the data is owned elsewhere. */
struct bn_mat {
    const void *data;
    int rows, cols;
    void *pack; /* back end's, made by mat_changed; NULL at first */
    bool pack_half; /* back end's: of what kind it is */
};

struct bn_ops {
    /* --- memory ------------------------------------------------------- */
    /* An arena of device memory (arena->base is a device address). What the
     * back end needs itself may come with the first, which is released last.
     */
    int (*arena_init)(struct bn_dev *d, struct bn_arena *a, const char *name,
                      size_t size, struct bn_err *err);
    void (*arena_release)(struct bn_dev *d, struct bn_arena *a);
    /* Copies between host and device convert between named formats; nothing
     * converts by accident. from_host may return before the copy is done but
     * not before 'host_src' may be reused; to_host waits for its data. */
    void (*from_host)(struct bn_dev *d, void *dst, enum bn_dtype dst_type,
                      const void *host_src, enum bn_dtype src_type, size_t n);
    void (*to_host)(struct bn_dev *d, void *host_dst, enum bn_dtype dst_type,
                    const void *src, enum bn_dtype src_type, size_t n);
    /* Begin to copy 'bytes' from src to byte 'at' of the one box for mail;
     * does not wait. 'collect' waits until all that was sent has come, and
     * returns the box (host memory), which keeps it until the next mail. */
    void (*mail)(struct bn_dev *d, size_t at, const void *src, size_t bytes);
    const void *(*collect)(struct bn_dev *d);
    void (*zero)(struct bn_dev *d, void *p, size_t bytes);
    /* dst = src with conversion; may alias if the types are equal. */
    void (*cast)(struct bn_dev *d, void *dst, enum bn_dtype dst_type,
                 const void *src, enum bn_dtype src_type, size_t n);
    void (*sync)(struct bn_dev *d);

    /* --- graphs (NULL: this back end has none) -------------------------- */
    /* A graph is made by recording: between graph_begin with 'record' and
     * graph_end nothing is done, and what is enqueued is kept with its
     * arguments. graph_end launches it. After that, graph_begin without
     * 'record' does nothing but put what from_host is given in the places of
     * what it was given when the graph was recorded (the same destinations
     * and sizes in the same order, else a failure), for graph_end to launch
     * it with that. So the same calls are made each time, and whatever else
     * they depend on has to be as it was. Between the two, calls that wait
     * are failures.
     * room: of what from_host gets, as d->fed counts it. NULL on failure. */
    struct bn_graph *(*graph_create)(struct bn_dev *d, size_t room,
                                     struct bn_err *err);
    void (*graph_destroy)(struct bn_dev *d, struct bn_graph *g);
    void (*graph_begin)(struct bn_dev *d, struct bn_graph *g, bool record);
    /* launch false: forget what came since graph_begin (one that was recorded
     * in vain is to be destroyed). Failures are the device's. */
    void (*graph_end)(struct bn_dev *d, struct bn_graph *g, bool launch);

    /* --- matrix products ---------------------------------------------- */
    /* Say that m->data changed (after load, after an optimizer step), so that
     * packed copies are made anew. Called at most once a step a matrix. */
    void (*mat_changed)(struct bn_dev *d, enum bn_dtype t, struct bn_mat *m);
    void (*mat_release)(struct bn_dev *d, struct bn_mat *m);
    /* y[n, rows] = x[n, cols] w^T (+ bias[rows]) (+ y if acc) */
    void (*linear)(struct bn_dev *d, enum bn_dtype t, void *y, int ldy,
                   const void *x, const struct bn_mat *w, const void *bias,
                   int n, bool acc);
    /* as linear, but y is float whatever t is: for logits */
    void (*linear_f32)(struct bn_dev *d, enum bn_dtype t, float *y, int ldy,
                       const void *x, const struct bn_mat *w, int n);
    /* dx[n, cols] = dy[n, rows] w (+ dx if acc) */
    void (*linear_dx)(struct bn_dev *d, enum bn_dtype t, void *dx,
                      const void *dy, int lddy, const struct bn_mat *w, int n,
                      bool acc);
    /* dw[rows, cols] += dy[n, rows]^T x[n, cols], dw float */
    void (*linear_dw)(struct bn_dev *d, enum bn_dtype t, float *dw,
                      const void *dy, int lddy, const void *x, int rows,
                      int cols, int n);
    /* db[rows] += sum over n of dy[n, rows] */
    void (*bias_grad)(struct bn_dev *d, enum bn_dtype t, float *db,
                      const void *dy, int lddy, int rows, int n);

    /* --- layers -------------------------------------------------------- */
    /* y[i] = table[ids[i] - first] if 0 <= ids[i] - first < count, else 0 */
    void (*embed)(struct bn_dev *d, enum bn_dtype t, void *y, const void *table,
                  const int32_t *ids, int first, int count, int cols, int n);
    /* dtable[ids[i] - first] += dy[i], in the order of i */
    void (*embed_grad)(struct bn_dev *d, enum bn_dtype t, float *dtable,
                       const void *dy, const int32_t *ids, int first, int count,
                       int cols, int n);
    /* xo = x + delta (delta NULL: xo is not written and x is used);
     * y = xo * rstd * w, rstd[i] = 1 / sqrt(mean(xo[i]^2) + eps), sums in
     * float or wider. xo may alias x or delta. */
    void (*rmsnorm)(struct bn_dev *d, enum bn_dtype t, void *y, float *rstd,
                    void *xo, const void *x, const void *delta, const void *w,
                    float eps, int cols, int n);
    /* dx = dres + (d rmsnorm / dx)^T dy (dres NULL: 0; may alias dx or dy);
     * dw[cols] += (NULL: not wanted; so in headnorm_grad). x is what was
     * normalised (xo). */
    void (*rmsnorm_grad)(struct bn_dev *d, enum bn_dtype t, void *dx, float *dw,
                         const void *dy, const void *dres, const void *x,
                         const void *w, const float *rstd, int cols, int n);
    /* RMSNorm of each head of a row: x, y [n, heads, hd] with ldx, ldy; rstd
     * [n, heads]; w [hd]. y may alias x only if the ld are equal. */
    void (*headnorm)(struct bn_dev *d, enum bn_dtype t, void *y, int ldy,
                     float *rstd, const void *x, int ldx, const void *w,
                     float eps, int heads, int hd, int n);
    /* dx may alias dy if the ld are equal. */
    void (*headnorm_grad)(struct bn_dev *d, enum bn_dtype t, void *dx, int lddx,
                          float *dw, const void *dy, int lddy, const void *x,
                          int ldx, const void *w, const float *rstd, int heads,
                          int hd, int n);
    /* Rotate in place, half-split as in Hugging Face's Llama: with h = hd/2,
     * (a, b) = (x[j], x[j + h]) -> (a c - b s, b c + a s), c = cosine[pos, j],
     * s = sine[pos, j], tables [max_pos, h] float. inverse: s negated (this
     * is the backward pass). */
    void (*rope)(struct bn_dev *d, enum bn_dtype t, void *x, int ldx,
                 const float *cosine, const float *sine, const int32_t *pos,
                 int heads, int hd, int n, bool inverse);
    size_t (*attn_work)(struct bn_dev *d, const struct bn_attn *a);
    void (*attn)(struct bn_dev *d, enum bn_dtype t, const struct bn_attn *a);
    void (*attn_grad)(struct bn_dev *d, enum bn_dtype t,
                      const struct bn_attn *a, const struct bn_attn_grad *g);
    /* y[n, f] = silu(gu[n, :f]) * gu[n, f:] */
    void (*swiglu)(struct bn_dev *d, enum bn_dtype t, void *y, const void *gu,
                   int f, int n);
    /* dgu[n, 2f] from dy[n, f]; dgu may alias gu. y, if not NULL, receives
     * the forward result again; it may alias dy. */
    void (*swiglu_grad)(struct bn_dev *d, enum bn_dtype t, void *dgu, void *y,
                        const void *dy, const void *gu, int f, int n);
    /* y += x */
    void (*add)(struct bn_dev *d, enum bn_dtype t, void *y, const void *x,
                size_t n);
    /* y[n, cols] = p->scale x, but 0 where the mask of p drops it (+ y if
     * acc); y may be x. p is host memory, p->key device memory. */
    void (*dropout)(struct bn_dev *d, enum bn_dtype t, void *y, const void *x,
                    const struct bn_dropout *p, bool acc, int cols, int n);
    /* y[i] = x[rows[i]]; dx[rows[i]] = dy[i] (rows all different) */
    void (*gather)(struct bn_dev *d, enum bn_dtype t, void *y, const void *x,
                   const int32_t *rows, int cols, int n);
    void (*scatter)(struct bn_dev *d, enum bn_dtype t, void *dx, const void *dy,
                    const int32_t *rows, int cols, int n);
    /* y[i, :cols] = x[i, :cols], rows of ldy and ldx elements */
    void (*copy_rows)(struct bn_dev *d, enum bn_dtype t, void *y, int ldy,
                      const void *x, int ldx, int cols, int n);

    /* --- log-probability head ------------------------------------------ */
    /* Of each row of float logits: max, sum of exp(x - max), sum of x (may be
     * NULL); of each target its logit (0 where it is another shard's). */
    void (*head_stats)(struct bn_dev *d, const struct bn_head_rows *h,
                       const float *logits, float *max, float *sum,
                       float *total, float *target_logit);
    /* dlogits (type t, rows of ld_out elements, each row starting where the
     * row of logits starts or in memory of its own) from logits, lse[rows]
     * and dL/dlogp per target: with s the label smoothing,
     *   dlogits[v] = sum_e g[e] ((1 - s) [v == target e] + s / vocab)
     *                - exp(logits[v] - lse) sum_e g[e]
     */
    void (*head_grad)(struct bn_dev *d, enum bn_dtype t,
                      const struct bn_head_rows *h, void *dlogits, int ld_out,
                      const float *logits, const float *lse, const float *g,
                      float smoothing);

    /* --- from log-probabilities to a loss (kernels/score.h, loss.h) ------
     * The structs that are handed over are host memory, what they point to
     * is device memory. In double, and in one order on all devices. */
    void (*score_logp)(struct bn_dev *d, const struct bn_score_stats *s,
                       float *lse, const struct bn_score_values *v);
    void (*score_sums)(struct bn_dev *d, double *sums, size_t stride,
                       int first, int n, const struct bn_score_range *r,
                       const struct bn_score_values *v);
    void (*score_spread)(struct bn_dev *d, float *g, const double *dlogp,
                         const struct bn_score_range *r);
    void (*loss)(struct bn_dev *d, enum bn_loss_kind kind,
                 const struct bn_loss_params *p, const struct bn_loss_seqs *s,
                 const struct bn_loss_denom *denom, double *dlogp,
                 struct bn_loss_acc *acc, int batch, int first);

    /* --- sampling ------------------------------------------------------- */
    /* Bytes of scratch that 'sample' takes. */
    size_t (*sample_work)(struct bn_dev *d, int vocab, int rows);
    /* token[rows] from logits (kernels/sample.h); s and r are host memory,
     * what r points to device memory. The same tokens on every device. */
    void (*sample)(struct bn_dev *d, const struct bn_sample *s,
                   const struct bn_sample_rows *r, int32_t *token, void *work);

    /* --- optimizer ------------------------------------------------------ */
    /* *out += sum of g^2 over n floats (double, fixed order) */
    void (*sqnorm)(struct bn_dev *d, double *out, const float *g, size_t n);
    /* *scale = min(1, max_norm / (sqrt(*sq) + 1e-6)) (max_norm <= 0: 1), NaN
     * if *sq is not finite */
    void (*clip_scale)(struct bn_dev *d, float *scale, const double *sq,
                       float max_norm);
    /* One AdamW step on n elements with gradient g * scale, lr, bias1, bias2
     * and scale being those of 'now' (device memory; 'a' is host memory):
     *   p *= 1 - lr wd; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
     *   p -= lr / bias1 * m / (sqrt(v) / sqrt(bias2) + eps)
     * and w = p in type t (w NULL or == master: not written). A scale that
     * is NaN leaves everything as it was. */
    void (*adamw)(struct bn_dev *d, enum bn_dtype t, const struct bn_adamw *a,
                  void *w, float *master, float *m, float *v, const float *g,
                  const struct bn_adamw_now *now, size_t n);
};

/* A device: its table, and its state. */
struct bn_dev {
    struct bn_ops op;
    const char *name; /* "cpu", "cuda" */
    int threads;      /* of the CPU back end */
    /* Matrices are used often between changes: mat_changed may keep a copy in
     * the order in which products read it, as large as the matrix. Set before
     * the first mat_changed; the same bits. */
    bool keep_packed;
    /* A step is being enqueued: a call that waits for a GPU is a failure, but
     * for the slots that run on the CPU. */
    bool queueing;
    size_t fed; /* room that from_host would have taken in a graph so far */
    _Atomic bool failed; /* set after 'err' is */
    struct bn_err err;   /* the first failure */
    void *state;       /* of the back end */
    void (*destroy)(struct bn_dev *d);
};

/* A CPU device with 'threads' OpenMP threads (0: as many as this process may
 * use). NULL on failure. */
struct bn_dev *bn_dev_cpu(int threads, struct bn_err *err);
void bn_dev_destroy(struct bn_dev *d);

/* The first failure since creation, as an error: -1, or 0 if all is well. */
int bn_dev_check(struct bn_dev *d, struct bn_err *err);
/* For back ends, and for what works for them on another thread: keep the
 * first failure. */
void bn_dev_fail(struct bn_dev *d, enum bn_err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
