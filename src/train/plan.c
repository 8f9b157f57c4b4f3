#include "config.h"
#include "train/plan.h"
#include "base/thread.h"
#include "comm/nccl.h"
#include "kernels/cuda/attn_work.h"
#include "ops/cuda.h"

#ifdef _OPENMP
#include <omp.h>
#endif

/* A mesh of sizes alone. */
static struct bn_mesh mesh_of(const struct bn_plan_mesh *p, int pp, int tp,
                              bool sequence)
{
    return (struct bn_mesh){
        .tp = {.size = p->tp, .index = tp},
        .cp = {.size = p->cp},
        .dp = {.size = p->dp},
        .pp = {.size = p->pp, .index = pp},
        .data = {.size = p->dp * p->cp},
        .sequence = sequence && p->tp > 1,
    };
}

static size_t attn_work(struct bn_dev *d, const struct bn_attn *a)
{
    (void)d;
    return bn_attn_work_cpu(a);
}

static size_t attn_work_gpu(struct bn_dev *d, const struct bn_attn *a)
{
    (void)d;
    return bn_attn_work_bytes(a);
}

/* As comm_mpi.c: a group of n keeps n pieces of 256 KiB. The groups are
 * world, tp, cp, dp, pp and data; the ends of a pipeline are two. Gradients
 * that are summed over data take two pieces more a rank (later.c). */
size_t bn_plan_comm_bytes(const struct bn_plan_mesh *p, bool training)
{
    size_t world = (size_t)p->dp * (size_t)p->tp * (size_t)p->pp
                   * (size_t)p->cp;
    size_t data = (size_t)p->dp * (size_t)p->cp;
    size_t groups = world + (size_t)(p->tp + p->cp + p->dp + p->pp) + data
                    + (p->pp > 1 ? 2 : 0);

    if (training && data > 1)
        groups += 2 * data;

    return world > 1 ? groups * (256 << 10) : 0;
}

/* Bytes that a rank sends in a reduction to the ranks that hold a part each,
 * or in a gathering, of n bytes over k ranks; a sum is both. */
static double one_way(double n, int k)
{
    return n * (k - 1) / k;
}

/* How often the residual stream goes one way between tensor ranks for a layer
 * and micro-batch: four sums; with rows shared out two gatherings more, of the
 * inputs of the column-parallel matrices in backward; and what is computed
 * anew is sent anew. */
static double tensor_ways(const struct bn_run *run)
{
    bool shared = run->mesh.sequence_parallel;
    double ways = shared ? 10 : 8;

    if (run->model.activation_recompute != BN_RUN_RECOMPUTE_NONE)
        ways += shared; /* the input of attention */
    if (run->model.activation_recompute == BN_RUN_RECOMPUTE_FULL)
        ways += 2; /* its output's sum */
    return ways;
}

static void volumes(struct bn_rank_plan *p, const struct bn_sizes *l,
                    const struct bn_plan_mesh *mesh, const struct bn_model *m)
{
    const struct bn_part *part = &l->params.part;
    double micros = (double)l->run->optim.gradient_accumulation_steps;
    double elem = (double)bn_dtype_size(l->type);
    double tokens = (double)l->shape.max_tokens / mesh->cp;
    double stream = tokens * m->cfg.hidden_size * elem;
    bool shared = l->run->mesh.sequence_parallel && mesh->tp > 1;
    double layers = part->end_layer - part->first_layer;
    double kv = 2.0 * m->kv_heads * m->cfg.head_dim * tokens * elem;
    int data = mesh->dp * mesh->cp;

    /* Gradients are reduced in fp32, sharded ones of layers in every
     * micro-batch; weights are gathered in their type. */
    const struct bn_params *trained = bn_sizes_adapter(l) != NULL
                                          ? &l->adapter.params : &l->params;
    double again = trained->kept == 0 ? 0 : micros - 1;
    double in_layers = (double)(bn_params_layer(trained, part->end_layer)
                                - bn_params_layer(trained,
                                                  part->first_layer));
    p->dp_bytes = ((double)l->trained * (sizeof(float) + elem)
                   + again * in_layers * sizeof(float)) * (data - 1) / data;
    /* Besides layers the embedding's sum, and that of the head's input. */
    p->tp_bytes = micros * one_way(stream, mesh->tp)
                  * (tensor_ways(l->run) * layers
                     + 2 * (part->has_embed + part->has_head));
    p->pp_bytes = micros * stream / (shared ? mesh->tp : 1)
                  * (!part->has_head + !part->has_embed);
    if (mesh->pp > 1 && m->cfg.tie_embeddings
        && (part->has_embed || part->has_head))
        p->pp_bytes += 2 * one_way((double)m->vocab * m->cfg.hidden_size
                                       * sizeof(float), 2);
    /* Keys and values gathered forward and again backward, and reduced. */
    p->cp_bytes = micros * layers * 3 * kv * (mesh->cp - 1);
}

int bn_plan_rank(struct bn_rank_plan *p, const struct bn_run *run,
                 const struct bn_model_config *cfg,
                 const struct bn_plan_mesh *mesh, int pp, int tp,
                 struct bn_set_size train, struct bn_set_size eval,
                 struct bn_err *err)
{
    struct bn_mesh at = mesh_of(mesh, pp, tp, run->mesh.sequence_parallel);
    bool gpu = run->mesh.device == BN_RUN_DEVICE_CUDA;
    struct bn_dev dev = {.op = {.attn_work = gpu ? attn_work_gpu : attn_work}};
    struct bn_sizes l;
    struct bn_model m;

#ifdef _OPENMP
    omp_set_num_threads(bn_compute_threads((int)run->mesh.num_threads, 1));
#endif
    if (bn_sizes_init(&l, run, cfg, &at, train, eval, 0, err) < 0)
        return -1;
    bn_model_plan(&m, cfg, &l.params, bn_sizes_adapter(&l), l.type, &dev,
                  &at);
    *p = (struct bn_rank_plan){
        .first_layer = l.params.part.first_layer,
        .end_layer = l.params.part.end_layer,
        .weights = l.weights,
        .gradients = l.gradients,
        .tables = l.tables,
        .optimizer = l.optimizer,
        .activations = bn_sizes_work_bytes(&l, &m),
        .gpu_scratch = run->mesh.device == BN_RUN_DEVICE_CPU
                           ? 0
                           : bn_plan_gpu_scratch(mesh->dp * mesh->tp * mesh->pp
                                                 * mesh->cp),
        .comm = bn_plan_comm_bytes(mesh, l.training),
        .copy = l.training ? 3 * l.count * sizeof(float) : 0,
    };
    if (l.training)
        volumes(p, &l, mesh, &m);
    bn_sizes_release(&l);
    return 0;
}

size_t bn_plan_gpu_scratch(int ranks)
{
    return (size_t)BN_CUDA_ROOM + (ranks > 1 ? BN_NCCL_ROOM : 0);
}

size_t bn_rank_plan_device(const struct bn_rank_plan *p)
{
    return p->weights + p->gradients + p->tables + p->optimizer
           + p->activations + p->gpu_scratch;
}

int bn_plan_worst(size_t *device, double *sent, const struct bn_run *run,
                  const struct bn_model_config *cfg,
                  const struct bn_plan_mesh *mesh, struct bn_set_size train,
                  struct bn_set_size eval, struct bn_err *err)
{
    *device = 0;
    *sent = 0;
    for (int pp = 0; pp < mesh->pp; pp++) {
        struct bn_rank_plan p;

        /* The last tensor rank has the longest run of the vocabulary. */
        if (bn_plan_rank(&p, run, cfg, mesh, pp, mesh->tp - 1, train, eval,
                         err) < 0)
            return -1;
        size_t bytes = bn_rank_plan_device(&p);
        double out = p.dp_bytes + p.tp_bytes + p.pp_bytes + p.cp_bytes;

        *device = bytes > *device ? bytes : *device;
        *sent = out > *sent ? out : *sent;
    }
    return 0;
}
