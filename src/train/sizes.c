#include "config.h"
#include "train/sizes.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "mesh/split.h"
#include "optim/adamw.h"
#include "train/stages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Logits of one chunk: enough rows for an efficient product, little enough
 * to stay small beside the activations. A pair that does not fit needs its
 * logits twice, which costs far more than the memory, so for pairs a chunk
 * may grow to hold the longest. */
static const size_t logit_bytes = (size_t)128 << 20;
static const size_t pair_logit_bytes = (size_t)512 << 20;

int bn_trainer_config(const struct bn_run *run, struct bn_model_config *cfg,
                      struct bn_err *err)
{
    bool random = run->model.init == BN_RUN_INIT_RANDOM;
    const char *key = random ? "config_name" : "model_name_or_path";
    const char *from = random ? run->model.config_name
                              : run->model.model_name_or_path;

    if (!bn_exists(from))
        return errno == EACCES
                   ? bn_fail(err, BN_ERR_DATA, "%s: cannot look at '%s': %s",
                             key, from, strerror(errno))
                   : bn_fail(err, BN_ERR_DATA, "%s: there is no '%s' (names of"
                             " a hub are not fetched: give a folder)", key,
                             from);
    char *path = bn_is_dir(from) ? bn_path_join(from, "config.json")
                                 : bn_strdup(from);
    struct bn_str notes = {0};
    int rc = bn_model_config_load(cfg, path, &notes, err);

    if (rc == 0 && notes.len > 0)
        bn_debug("%s: %s", path, notes.s);
    bn_str_release(&notes);
    free(path);
    return rc;
}

/* Names from a list of the run file into one of an adapter. */
static void take_names(const struct bn_run_list *from, char ***to, size_t *n)
{
    for (size_t i = 0; i < from->n; i++)
        bn_lora_add_name(to, n, from->v[i]);
}

int bn_trainer_lora(const struct bn_run *run, const struct bn_model_config *cfg,
                    struct bn_lora *lora, struct bn_err *err)
{
    const struct bn_run_lora *r = &run->lora;
    const struct bn_run_list *t = &r->lora_target_modules;
    const char *where = "lora_r";
    struct bn_lora l = {0};
    int rc = 0;

    if (r->adapter != NULL) {
        where = r->adapter;
        rc = bn_lora_load(&l, r->adapter, err);
    } else if (r->lora_r > 0) {
        l = (struct bn_lora){.r = (int)r->lora_r,
                             .alpha = r->lora_alpha,
                             .dropout = r->lora_dropout,
                             .rslora = r->use_rslora};
        if (t->n == 1 && strcmp(t->v[0], "all-linear") == 0)
            bn_lora_all_linear(&l);
        else
            take_names(t, &l.target, &l.ntarget);
        take_names(&r->modules_to_save, &l.save, &l.nsave);
    }
    if (rc == 0 && l.r > 0)
        rc = bn_lora_check(&l, cfg, where, err);
    if (rc < 0)
        bn_lora_release(&l);
    *lora = l;
    return rc;
}

static int at_least(int a, int64_t b)
{
    return b > a ? (int)b : a;
}

/* The largest micro-batch there can be of either token set. */
static void shape(struct bn_sizes *l, const struct bn_set_size sets[2],
                  int max_tokens)
{
    struct bn_shape_plan *s = &l->shape;
    int64_t batch[2] = {l->run->optim.per_device_train_batch_size,
                        l->run->eval.per_device_eval_batch_size};

    s->max_tokens = s->max_pos = s->max_scores = max_tokens;
    s->max_segs = s->max_seqs = max_tokens > 0 ? 3 : 0;
    for (int i = 0; i < 2; i++) {
        int64_t n = (int64_t)sets[i].n, longest = sets[i].longest;
        int64_t b = batch[i] < n ? batch[i] : n;

        if (n == 0)
            continue;
        s->max_tokens = at_least(s->max_tokens, b * longest);
        s->max_pos = at_least(s->max_pos, longest);
        s->max_segs = at_least(s->max_segs, 3 * b);
        s->max_seqs = at_least(s->max_seqs, 3 * b);
        /* A prompt's last row is scored for both answers. */
        s->max_scores = at_least(s->max_scores, b * (longest + 1));
    }
}

/* The part of the model that this rank holds. */
static int my_part(const struct bn_sizes *l, struct bn_part *part,
                   struct bn_err *err)
{
    const struct bn_mesh *mesh = l->mesh;

    *part = (struct bn_part){
        .tp_size = mesh->tp.size,
        .tp_rank = mesh->tp.index,
        .has_embed = mesh->pp.index == 0,
        .has_head = mesh->pp.index == mesh->pp.size - 1,
    };
    return bn_stages_layers(l->run, l->cfg, mesh->pp.size, mesh->pp.index,
                            &part->first_layer, &part->end_layer, err);
}

int bn_sizes_depth(const struct bn_mesh *mesh, int n)
{
    int most = mesh->pp.size - mesh->pp.index;

    return n < most ? n : most;
}

/* The tables of the model and its adapter, and what is trained of them. */
static int tables(struct bn_sizes *l, const struct bn_part *part,
                  struct bn_err *err)
{
    struct bn_params *trained = &l->params;

    if (bn_sizes_adapter(l) != NULL) {
        if (bn_params_init_lora(&l->adapter.params, l->cfg, part,
                                &l->adapter.lora, err) < 0)
            return -1;
        trained = &l->adapter.params;
    }
    bn_params_pad(trained, l->mesh->data.size);
    bn_optim_range(trained, &l->mesh->data, &l->begin, &l->count);
    if (l->training && l->run->mesh.zero_stage > 1 && l->mesh->data.size > 1) {
        trained->keep = l->begin;
        trained->kept = l->count;
        trained->whole = l->run->mesh.overlap_grad_reduce ? 2 : 1;
    }
    l->elems = l->params.elems;
    l->trained = trained->elems;
    return 0;
}

/* What n elements take of an arena. */
static size_t bytes(size_t n, size_t size)
{
    return (n * size + BN_ARENA_ALIGN - 1) / BN_ARENA_ALIGN * BN_ARENA_ALIGN;
}

int bn_sizes_init(struct bn_sizes *l, const struct bn_run *run,
                   const struct bn_model_config *cfg,
                   const struct bn_mesh *mesh, struct bn_set_size train,
                   struct bn_set_size eval, int max_tokens,
                   struct bn_err *err)
{
    const struct bn_set_size sets[2] = {train, eval};
    struct bn_part part;

    *l = (struct bn_sizes){.run = run, .cfg = cfg, .mesh = mesh};
    l->training = train.n > 0;
    l->type = run->model.dtype == BN_RUN_COMPUTE_BFLOAT16 ? BN_BF16 : BN_F32;
    shape(l, sets, max_tokens);
    if (my_part(l, &part, err) < 0
        || bn_params_init(&l->params, cfg, &part, err) < 0
        || bn_trainer_lora(run, cfg, &l->adapter.lora, err) < 0
        || tables(l, &part, err) < 0)
        return -1;
    const struct bn_params *trained = l->adapter.lora.r > 0
                                          ? &l->adapter.params : &l->params;
    size_t model = bn_model_bytes(cfg, &l->params, bn_sizes_adapter(l),
                                  l->type, l->shape.max_pos, l->training);
    size_t adapter = bn_sizes_adapter(l) != NULL ? l->trained : 0;
    l->weights = bytes(l->elems, bn_dtype_size(l->type))
                 + bytes(adapter, bn_dtype_size(l->type));
    l->gradients = l->training ? bn_model_grad_bytes(trained) : 0;
    l->tables = model - l->weights - l->gradients;
    l->optimizer = l->training ? bn_optim_bytes(l->type, l->count) : 0;
    l->nacts = l->training
                   ? bn_sizes_depth(mesh, (int)run->optim
                                               .gradient_accumulation_steps)
                   : 1;
    return 0;
}

void bn_sizes_release(struct bn_sizes *l)
{
    bn_params_release(&l->params);
    bn_params_release(&l->adapter.params);
    bn_lora_release(&l->adapter.lora);
}

size_t bn_sizes_state_bytes(const struct bn_sizes *l)
{
    return l->weights + l->gradients + l->tables + l->optimizer;
}

static struct bn_acts_size acts_size(const struct bn_sizes *l)
{
    static const enum bn_recompute modes[] = {
        [BN_RUN_RECOMPUTE_NONE] = BN_RECOMPUTE_NONE,
        [BN_RUN_RECOMPUTE_ATTENTION] = BN_RECOMPUTE_ATTENTION,
        [BN_RUN_RECOMPUTE_FULL] = BN_RECOMPUTE_FULL,
    };
    const struct bn_shape_plan *s = &l->shape;
    struct bn_acts_size size = {
        .tokens = s->max_tokens,
        .segs = s->max_segs,
        .kv = s->max_tokens,
        .recompute = modes[l->run->model.activation_recompute],
        .backward = l->training,
    };

    if (l->mesh->cp.size > 1) {
        size.tokens = bn_split_max_tokens(s->max_tokens, s->max_segs,
                                          l->mesh->cp.size);
        size.segs = 2 * s->max_segs;
    }
    return size;
}

void bn_sizes_carve(const struct bn_sizes *l, const struct bn_model *m,
                     struct bn_acts *a, struct bn_head *h, double **sums,
                     struct bn_arena *arena)
{
    const struct bn_shape_plan *s = &l->shape;
    struct bn_acts_size size = acts_size(l);

    for (int i = 0; i < l->nacts; i++)
        bn_acts_init(&a[i], m, &size, arena);
    if (m->params.part.has_head)
        bn_head_init(h, m, s->chunk_rows, s->max_scores, s->max_seqs,
                     l->training, arena);
    *sums = bn_arena_get(arena, BN_STEP_SUMS * sizeof(**sums));
}

static int chunk_rows(const struct bn_sizes *l, const struct bn_model *m)
{
    int rows = bn_head_chunk_rows(m, logit_bytes);
    int most = bn_head_chunk_rows(m, pair_logit_bytes);
    int pair = l->shape.max_pos + 1; /* rows of the longest */

    /* Where ranks share a sequence, every pair takes two passes anyway. */
    if (l->run->task == BN_RUN_TASK_ORPO && l->mesh->cp.size == 1)
        rows = at_least(rows, pair < most ? pair : most);
    return rows < l->shape.max_scores ? rows : l->shape.max_scores;
}

size_t bn_sizes_work_bytes(struct bn_sizes *l, const struct bn_model *m)
{
    struct bn_arena plan;
    struct bn_head h = {0};
    double *sums;
    struct bn_acts *a = BN_NEWN(struct bn_acts, (size_t)l->nacts);

    if (m->params.part.has_head)
        l->shape.chunk_rows = chunk_rows(l, m);
    bn_arena_plan(&plan, "activations");
    bn_sizes_carve(l, m, a, &h, &sums, &plan);
    for (int i = 0; i < l->nacts; i++)
        bn_acts_release(&a[i]);
    bn_head_release(&h);
    free(a);
    return plan.used;
}
