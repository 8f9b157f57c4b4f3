/* What the runs read, and the memory that they take of it. */
#include "config.h"

#include "sweep/check_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "ckpt/hf.h"
#include "data/data.h"
#include "data/source.h"
#include "model/config.h"
#include "text/tokenizer.h"
#include "train/data_opts.h"
#include "train/plan.h"

/* What is known of a distinct model or data set, at its first point. */
struct model {
    bool ok;
    double params;
    struct bn_model_config cfg;
};
struct data {
    bool ok, whole;
    /* as far as was read; bound: no example can be longer */
    struct bn_set_size train, eval;
    int64_t bound;
};

struct inputs {
    struct bn_check *c;
    struct model **model; /* [n], NULL but at first points */
    struct data **data;
    struct bn_tokenizer *tokenizer; /* the one opened last */
    char *tokenizer_path;
};

/* Where a key of a run was written; the point itself if nowhere. */
static struct bn_place place(const struct bn_run *run, const char *key,
                             const struct bn_point *pt)
{
    struct bn_place at = bn_run_place(run, key);
    return at.file ? at : pt->at;
}

/* The first point whose hash at 'offset' is that of point i. Almost always
 * there are few distinct ones, so it is soon found. */
static size_t first_like(const struct bn_sweep *s, size_t i, size_t offset)
{
    const char *mine = (const char *)&s->points[i] + offset;
    size_t j = 0;
    while (s->points[j].run_yaml == NULL
           || memcmp((const char *)&s->points[j] + offset, mine,
                     sizeof(struct bn_hash)) != 0)
        j++;
    return j;
}

/* --- Models ------------------------------------------------------------------ */

static int open_model(struct model *m, const struct bn_run *run,
                      struct bn_err *err)
{
    bool random = run->model.init == BN_RUN_INIT_RANDOM;
    const char *dir = run->model.model_name_or_path;
    struct bn_tensors ts = { 0 };
    struct bn_params ps;

    if (bn_trainer_config(run, &m->cfg, err) < 0)
        return -1;
    if (!random) {
        if (bn_safetensors_open(&ts, dir, err) < 0)
            return -1;
        int rc = bn_hf_check(&ts, dir, &m->cfg, NULL, err);
        bn_tensors_close(&ts);
        if (rc < 0)
            return -1;
    }
    struct bn_part whole = bn_part_whole(&m->cfg);
    if (bn_params_init(&ps, &m->cfg, &whole, err) < 0)
        return -1;
    m->params = (double)ps.count;
    bn_params_release(&ps);
    return 0;
}

/* The tokenizer of a run: reopened only if it is another one. */
static const struct bn_tokenizer *open_tokenizer(struct inputs *in,
                                                 const struct bn_run *run,
                                                 struct bn_err *err)
{
    const char *path = run->model.tokenizer_name_or_path;
    if (in->tokenizer && strcmp(in->tokenizer_path, path) == 0)
        return in->tokenizer;
    bn_tokenizer_close(in->tokenizer);
    free(in->tokenizer_path);
    in->tokenizer_path = bn_strdup(path);
    return in->tokenizer = bn_tokenizer_open(path, err);
}

static struct bn_place model_place(const struct bn_run *run,
                                   const struct bn_point *pt)
{
    return place(run, run->model.init == BN_RUN_INIT_RANDOM
                          ? "config_name" : "model_name_or_path", pt);
}

/* Whether the tokenizer is missed with the folder of the model, which is said
 * already. */
static bool is_model_missing(const struct bn_run *run)
{
    const char *model = run->model.model_name_or_path;
    return model && strcmp(model, run->model.tokenizer_name_or_path) == 0
           && access(model, F_OK) < 0;
}

/* The model and tokenizer of point i, which add their problems once. */
static const struct model *model_of(struct inputs *in, size_t i,
                                    const struct bn_run *run)
{
    const struct bn_point *pt = &in->c->s->points[i];
    size_t j = first_like(in->c->s, i, offsetof(struct bn_point, inputs));
    struct bn_err err;

    if (in->model[j])
        return in->model[j];
    struct model *m = in->model[j] = BN_NEW(struct model);
    m->ok = open_model(m, run, &err) == 0;
    if (!m->ok)
        bn_problem_add(in->c->p, model_place(run, pt), "%s", err.text);
    const struct bn_tokenizer *t = open_tokenizer(in, run, &err);
    struct bn_place at = place(run, "tokenizer_name_or_path", pt);
    if (t == NULL && !is_model_missing(run))
        bn_problem_add(in->c->p, at, "%s", err.text);
    else if (t && m->ok && bn_tokenizer_vocab_size(t) > m->cfg.vocab_size)
        bn_problem_add(in->c->p, at, "tokenizer '%s' has %d ids but the "
                       "model's vocab_size is %d: not this model's "
                       "tokenizer, or its embedding was not resized",
                       run->model.tokenizer_name_or_path,
                       bn_tokenizer_vocab_size(t), m->cfg.vocab_size);
    return m;
}

/* --- Data ---------------------------------------------------------------------- */

static void note_bad(struct bn_check *c, const struct bn_peek *k)
{
    if (k->bad.len == 0)
        return;
    bn_str_addf(c->notes, "bad rows, which are left out:\n%s", k->bad.s);
}

static int peek(struct inputs *in, const struct bn_data_opts *o,
                const struct bn_tokenizer *t, struct data *d,
                struct bn_set_size *set, struct bn_err *err)
{
    struct bn_peek k;

    if (bn_data_peek(&k, o, t, err) < 0)
        return -1;
    note_bad(in->c, &k);
    set->n = k.whole ? k.stats.drops[BN_KEPT] : UINT32_MAX;
    set->longest = k.longest;
    d->whole &= k.whole;
    bn_peek_release(&k);
    return 0;
}

static bool are_there(struct inputs *in, const char *const *paths, size_t n,
                      struct bn_place at)
{
    struct bn_data_files f;
    struct bn_err err;

    if (n == 0)
        return true;
    if (bn_files_list(&f, paths, n, &err) < 0) {
        bn_problem_add(in->c->p, at, "%s", err.text);
        return false;
    }
    bn_files_release(&f);
    return true;
}

/* Read the first rows of both sets; '*key' names the one that is wrong. */
static int read_data(struct inputs *in, struct data *d,
                     const struct bn_data_opts *o,
                     const struct bn_tokenizer *t, const char **key,
                     struct bn_err *err)
{
    d->whole = true;
    d->bound = o->task == BN_DATA_PREFERENCE ? 2 * o->max_length
                                             : o->max_length;
    *key = "train_file";
    if (peek(in, o, t, d, &d->train, err) < 0)
        return -1;
    if (o->neval_files > 0) {
        struct bn_data_opts e = *o;
        e.files = o->eval_files;
        e.nfiles = o->neval_files;
        e.eval_split = 0;
        *key = "eval_file";
        if (peek(in, &e, t, d, &d->eval, err) < 0)
            return -1;
    } else if (o->eval_split > 0) {
        /* which of the two the longest is in is open */
        d->eval = d->train;
        if (d->whole) {
            d->eval.n = (uint64_t)ceil(o->eval_split * (double)d->train.n
                                       - 1e-9);
            d->train.n -= d->eval.n;
        }
    }
    return 0;
}

static const struct data *data_of(struct inputs *in, size_t i,
                                  const struct bn_run *run)
{
    const struct bn_point *pt = &in->c->s->points[i];
    size_t j = first_like(in->c->s, i, offsetof(struct bn_point, data));
    const char *key = "train_file";
    struct bn_data_opts o;
    char *template;
    struct bn_err err;

    if (in->data[j])
        return in->data[j];
    struct data *d = in->data[j] = BN_NEW(struct data);
    if (bn_session_data_opts(&o, run, &template, &err) < 0) {
        bn_problem_add(in->c->p, place(run, key, pt), "%s", err.text);
        return d;
    }
    const struct bn_tokenizer *t = open_tokenizer(in, run, &err);
    /* both, whatever is wrong with the first */
    bool train = are_there(in, o.files, o.nfiles, place(run, key, pt));
    bool eval = are_there(in, o.eval_files, o.neval_files,
                          place(run, "eval_file", pt));
    /* a tokenizer that is not there is said with the model */
    if (train && eval && t) {
        d->ok = read_data(in, d, &o, t, &key, &err) == 0;
        if (!d->ok)
            bn_problem_add(in->c->p, place(run, key, pt), "%s", err.text);
    }
    free(template);
    return d;
}

/* --- Memory ----------------------------------------------------------------------- */

/* The rank that takes most, and what all ranks of a node take of the host. */
struct take {
    struct bn_rank_plan worst;
    size_t device, host;
};

static bool on_gpus(const struct bn_check *c, const struct bn_run *run)
{
    return c->s->res.gpus_per_node > 0
           && run->mesh.device != BN_RUN_DEVICE_CPU;
}

static int plan(struct take *t, const struct bn_run *run, bool gpu,
                const struct bn_model_config *cfg,
                const struct bn_plan_mesh *mesh, struct bn_set_size train,
                struct bn_set_size eval, struct bn_err *err)
{
    memset(t, 0, sizeof(*t));
    for (int pp = 0; pp < mesh->pp; pp++) {
        struct bn_rank_plan p;
        /* the last tensor rank has the longest run of the vocabulary */
        if (bn_plan_rank(&p, run, cfg, mesh, pp, mesh->tp - 1, train, eval,
                         err) < 0)
            return -1;
        if (!gpu)
            p.gpu_scratch = 0;
        size_t device = bn_rank_plan_device(&p);
        if (device > t->device) {
            t->worst = p;
            t->device = device;
        }
        if (p.comm + p.copy > t->host)
            t->host = p.comm + p.copy;
    }
    return 0;
}

static int mesh_of(const struct bn_check *c, const struct bn_run *run,
                   struct bn_plan_mesh *m, struct bn_err *err)
{
    const struct bn_run_mesh *r = &run->mesh;
    int64_t ranks = c->s->res.nodes * c->s->res.tasks_per_node;
    int64_t rest = r->tensor_parallel_size * r->pipeline_parallel_size
                   * r->context_parallel_size;
    int64_t dp = r->data_parallel_size > 0 ? r->data_parallel_size
                                           : ranks / rest;

    if (dp * rest != ranks)
        return bn_fail(err, BN_ERR_USAGE, "dp %lld x tp %lld x pp %lld x cp "
                       "%lld is not %lld ranks (nodes %lld x tasks_per_node "
                       "%lld)", (long long)dp,
                       (long long)r->tensor_parallel_size,
                       (long long)r->pipeline_parallel_size,
                       (long long)r->context_parallel_size, (long long)ranks,
                       (long long)c->s->res.nodes,
                       (long long)c->s->res.tasks_per_node);
    *m = (struct bn_plan_mesh){ (int)dp, (int)r->tensor_parallel_size,
                                (int)r->pipeline_parallel_size,
                                (int)r->context_parallel_size };
    return 0;
}

/* Bytes that the ranks of one node may take together; 0: not known. */
static double host_room(const struct bn_check *c)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    if (c->s->res.mem)
        return bn_slurm_bytes(c->s->res.mem);
    if (c->s->launch == BN_LAUNCH_LOCAL && pages > 0 && size > 0)
        return (double)pages * (double)size;
    return 0;
}

/* Ranks that share one GPU. */
static double sharing(const struct bn_sweep *s)
{
    int64_t t = s->res.tasks_per_node, g = s->res.gpus_per_node;
    return (double)((t + g - 1) / g);
}

/* "takes X of a GPU's Y", or "" if it fits. */
static void too_much(const struct bn_check *c, const struct bn_run *run,
                     const struct take *t, struct bn_str *out)
{
    double tasks = (double)c->s->res.tasks_per_node, room = host_room(c);
    bool gpu = on_gpus(c, run);
    double device = gpu ? (double)t->device * sharing(c->s) : 0;
    double host = tasks * (double)(t->host + (gpu ? 0 : t->device));
    char a[32], b[32];

    if (gpu && c->gpu_memory > 0 && device > c->gpu_memory)
        bn_str_addf(out, "%s on a GPU of %s", bn_str_bytes(a, (uint64_t)device),
                    bn_str_bytes(b, (uint64_t)c->gpu_memory));
    if (room > 0 && host > room)
        bn_str_addf(out, "%s%s on a node with %s (%s)", out->len ? ", " : "",
                    bn_str_bytes(a, (uint64_t)host),
                    bn_str_bytes(b, (uint64_t)room),
                    c->s->res.mem ? "mem" : "this machine");
}

static void add_classes(struct bn_str *out, const struct bn_rank_plan *p)
{
    const struct {
        const char *name;
        size_t bytes;
    } v[] = { { "weights", p->weights },     { "gradients", p->gradients },
              { "optimizer", p->optimizer }, { "activations", p->activations },
              { "position tables", p->tables }, { "scratch", p->gpu_scratch },
              { "collectives", p->comm }, { "copy for checkpoints", p->copy } };
    const char *sep = "";
    char a[32];

    for (size_t i = 0; i < BN_COUNT(v); i++) {
        if (v[i].bytes == 0)
            continue;
        bn_str_addf(out, "%s%s %s", sep, v[i].name,
                    bn_str_bytes(a, v[i].bytes));
        sep = ", ";
    }
}

/* Points that take the same memory as point i, as words. */
static void add_points(const struct bn_sweep *s, size_t i, struct bn_str *out)
{
    size_t n = 0;
    for (size_t k = i; k < s->n; k++)
        n += s->points[k].run_yaml != NULL
             && memcmp(&s->points[k].memory, &s->points[i].memory,
                       sizeof(s->points[i].memory)) == 0;
    bn_str_addf(out, " (point %s", s->points[i].name);
    if (n > 1)
        bn_str_addf(out, " and %zu more", n - 1);
    bn_str_addc(out, ')');
}

/* What is sure, by the rows that were read, is a problem; what may be, if a
 * later row is as long as max_length allows, is a note. */
static void check_memory(struct inputs *in, size_t i, const struct bn_run *run,
                         const struct model *m, const struct data *d)
{
    struct bn_check *c = in->c;
    const struct bn_point *pt = &c->s->points[i];
    struct bn_plan_mesh mesh;
    struct bn_str say = { 0 };
    struct bn_err err;
    struct take t;

    if (mesh_of(c, run, &mesh, &err) < 0
        || plan(&t, run, on_gpus(c, run), &m->cfg, &mesh, d->train, d->eval,
                &err) < 0) {
        bn_str_adds(&say, err.text);
        add_points(c->s, i, &say);
        bn_problem_add(c->p, pt->at, "%s", say.s);
        bn_str_release(&say);
        return;
    }
    too_much(c, run, &t, &say);
    if (say.len > 0) {
        bn_str_adds(&say, "; a rank: ");
        add_classes(&say, &t.worst);
        bn_str_adds(&say, "; take activation_recompute: full, smaller "
                          "batches, or more ranks");
        add_points(c->s, i, &say);
        bn_problem_add(c->p, pt->at, "memory: the run needs %s", say.s);
    } else if (!d->whole) {
        struct bn_set_size train = d->train, eval = d->eval;
        train.longest = eval.longest = d->bound;
        if (plan(&t, run, on_gpus(c, run), &m->cfg, &mesh, train, eval, &err)
                == 0)
            too_much(c, run, &t, &say);
        if (say.len > 0) {
            add_points(c->s, i, &say);
            bn_str_addf(c->notes, "memory: with examples of max_length the "
                                  "run would need %s; no row that was read "
                                  "is so long\n", say.s);
        }
    }
    bn_str_release(&say);
}

/* --- All of it ----------------------------------------------------------------------- */

void bn_check_inputs(struct bn_check *c)
{
    const struct bn_sweep *s = c->s;
    struct inputs in = { .c = c };

    in.model = BN_NEWN(struct model *, s->n + 1);
    in.data = BN_NEWN(struct data *, s->n + 1);
    for (size_t i = 0; i < s->n; i++) {
        struct bn_problems none = { 0 }; /* they would be known by now */
        if (s->points[i].run_yaml == NULL)
            continue;
        size_t j = first_like(s, i, offsetof(struct bn_point, memory));
        if (j < i) {
            c->params[i] = c->params[j];
            continue;
        }
        struct bn_run *run = bn_point_run(s, &s->points[i], &none);
        if (run) {
            const struct model *m = model_of(&in, i, run);
            const struct data *d = data_of(&in, i, run);
            c->params[i] = m->params;
            if (m->ok && d->ok)
                check_memory(&in, i, run, m, d);
            bn_run_free(run);
        }
        bn_problems_release(&none);
    }
    for (size_t i = 0; i < s->n; i++) {
        free(in.model[i]);
        free(in.data[i]);
    }
    free(in.model);
    free(in.data);
    bn_tokenizer_close(in.tokenizer);
    free(in.tokenizer_path);
}
