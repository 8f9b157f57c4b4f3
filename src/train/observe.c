/* Looking: memory by class, times, what ran off the device. */
#include "config.h"
#include "train/observe.h"
#include "base/blocks.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signal.h"
#include "model/shard.h"
#include "ops/cuda.h"
#include "train/peak.h"
#include "train/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const struct bn_session *s; /* NULL: nothing is observed */
    bool copy, asked;
    double flops, step_seconds, peak_flops;
    long steps;
    char peak_how[96];
} me;

void bn_observe_begin(const struct bn_session *s, bool copy)
{
    memset(&me, 0, sizeof(me));
    me.s = s;
    me.copy = copy;
    me.peak_flops = bn_peak_flops(s->dev, s->trainer->model->t, me.peak_how,
                                  sizeof(me.peak_how));
}

void bn_observe_end(void)
{
    me.s = NULL;
}

void bn_observe_step(const struct bn_step_result *r, double seconds)
{
    me.flops += r->flops;
    me.step_seconds += seconds;
    me.steps++;
}

bool bn_observe_asked(void)
{
    bool was = me.asked;

    me.asked = false;
    return was;
}

void bn_observe_poll(void)
{
    struct bn_observed o;

    if (me.s == NULL || !bn_report_asked())
        return;
    bn_observe(&o);
    bn_observe_print(&o, 1);
    me.asked = me.s->info.size > 1;
}

/* --- Memory ------------------------------------------------------------------- */

/* p[n] of the trainer's own memory. */
static struct bn_memory_use region(const struct bn_trainer *t, const void *p,
                                   size_t n, size_t planned)
{
    bool host = strcmp(t->dev->name, "cpu") == 0;

    return (struct bn_memory_use){
        .planned = planned,
        .allocated = n,
        .touched = host ? bn_pages_touched(p, n) : n,
        .peak = n,
    };
}

static void add(struct bn_memory_use *u, const char *name, size_t planned)
{
    struct bn_block_sum sum;

    bn_block_sum(name, &sum);
    u->planned += planned;
    u->allocated += sum.allocated;
    u->touched += sum.touched;
    u->peak += sum.peak;
}

/* The trainer's one arena: weights, gradients, tables, optimizer, activations,
 * in this order. */
static void trainer_memory(const struct bn_trainer *t,
                           struct bn_memory_use *u)
{
    const struct bn_model *m = t->model;
    struct bn_sizes l = t->sizes;
    const char *w = m->w;
    const char *g = (const char *)(m->shard != NULL ? m->shard->kept
                                                    : bn_model_trained(m).g);
    const char *tables = (const char *)m->cosine;
    const char *end = t->arena.base + t->state;
    const char *opt = t->optim != NULL ? (const char *)t->optim->m : end;
    const char *after_w = g != NULL ? g : tables;

    u[BN_MEMORY_WEIGHTS] = region(t, w, (size_t)(after_w - w), l.weights);
    if (g != NULL)
        u[BN_MEMORY_GRADIENTS] = region(t, g, (size_t)(tables - g),
                                        l.gradients);
    u[BN_MEMORY_TABLES] = region(t, tables, (size_t)(opt - tables),
                                 l.tables);
    if (t->optim != NULL)
        u[BN_MEMORY_OPTIMIZER] = region(t, opt, (size_t)(end - opt),
                                        l.optimizer);
    u[BN_MEMORY_ACTIVATIONS] = region(t, end, t->arena.used - t->state,
                                      bn_sizes_work_bytes(&l, t->model));
    /* To huge pages; memory of a GPU is not rounded. */
    u[BN_MEMORY_ROUNDING] = region(t, t->arena.base + t->arena.used,
                                   t->arena.size - t->arena.used, 0);
}

/* NCCL's buffers are its own, and in no plan. */
static size_t comm_plan(const struct bn_mesh *m, bool training)
{
    const struct bn_plan_mesh p = {m->dp.size, m->tp.size, m->pp.size,
                                   m->cp.size};

    return strcmp(m->world->ops->name, "mpi") == 0
               ? bn_plan_comm_bytes(&p, training)
               : 0;
}

/* Every other arena is some library's scratch. */
static bool has_class(const char *name)
{
    static const char *const known[] = {
        "model and activations", "comm", "data", "copy for checkpoints",
        "nccl staging", "nccl scratch"};

    for (size_t i = 0; i < BN_COUNT(known); i++)
        if (strcmp(name, known[i]) == 0)
            return true;
    return false;
}

static void host_memory(struct bn_memory_use *u)
{
    const char *name;
    size_t copy = me.copy && me.s->trainer->optim != NULL
                      ? 3 * me.s->trainer->optim->count * sizeof(float)
                      : 0;
    struct bn_memory_use *c = &u[BN_MEMORY_COPY];

    add(&u[BN_MEMORY_COMM], "comm", comm_plan(&me.s->mesh, me.s->trainer->optim != NULL));
    add(c, "copy for checkpoints", copy);
    if (c->allocated > copy) { /* its arena is rounded, too */
        u[BN_MEMORY_ROUNDING].allocated += c->allocated - copy;
        u[BN_MEMORY_ROUNDING].peak += c->allocated - copy;
        c->peak -= c->allocated - copy;
        c->allocated = copy;
        if (c->touched > copy) {
            u[BN_MEMORY_ROUNDING].touched += c->touched - copy;
            c->touched = copy;
        }
    }
    add(&u[BN_MEMORY_DATA], "data", 0);
    for (int i = 0; (name = bn_block_name(i)) != NULL; i++)
        if (!has_class(name))
            add(&u[BN_MEMORY_SCRATCH], name, 0);
}

static void gpu_memory(const struct bn_dev *d, struct bn_observed *o)
{
    struct bn_cuda_memory m;

    bn_cuda_memory(d, &m);
    o->memory[BN_MEMORY_GPU_SCRATCH] = (struct bn_memory_use){
        bn_plan_gpu_scratch(me.s->info.size), m.scratch, m.scratch, m.scratch};
    o->memory[BN_MEMORY_STAGING] = (struct bn_memory_use){
        0, m.pinned, m.pinned, m.pinned};
    add(&o->memory[BN_MEMORY_GPU_SCRATCH], "nccl scratch", 0);
    add(&o->memory[BN_MEMORY_STAGING], "nccl staging", 0);
    o->device_free = m.available;
    o->device_total = m.total;
}

/* "VmRSS:    1234 kB" */
static uint64_t status_kb(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    return at != NULL ? strtoull(at + strlen(key), NULL, 10) << 10 : 0;
}

static void process_memory(struct bn_observed *o)
{
    FILE *f = fopen("/proc/self/status", "re");
    char text[4096];
    size_t n = f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0;

    if (f != NULL)
        fclose(f);
    text[n] = '\0';
    o->resident = status_kb(text, "VmRSS:");
    o->resident_peak = status_kb(text, "VmHWM:");
}

/* --- All of it ------------------------------------------------------------------ */

static void off_device(const struct bn_dev *d, char *out, size_t size)
{
    struct bn_cuda_fallback v[40];
    int n = bn_cuda_fallbacks(d, v, 40);
    size_t at = 0;

    out[0] = '\0';
    for (int i = 0; i < n && i < 40 && at < size - 1; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s (first %s) %lu "
                               "times", i > 0 ? ", " : "", v[i].slot,
                               v[i].shapes, v[i].times);
}

void bn_observe(struct bn_observed *o)
{
    const struct bn_dev *d = me.s->dev;

    memset(o, 0, sizeof(*o));
    o->on_gpu = strcmp(d->name, "cuda") == 0;
    trainer_memory(me.s->trainer, o->memory);
    host_memory(o->memory);
    process_memory(o);
    if (o->on_gpu) {
        gpu_memory(d, o);
        off_device(d, o->off, sizeof(o->off));
    }
    o->wall = bn_times_get(o->seconds);
    o->flops = me.flops;
    o->step_seconds = me.step_seconds;
    o->steps = me.steps;
    o->ranks = me.s->info.size;
    o->peak_flops = me.peak_flops;
    snprintf(o->peak_how, sizeof(o->peak_how), "%s", me.peak_how);
}

int bn_observe_gather(struct bn_observed *all, struct bn_err *err)
{
    struct bn_comm *w = me.s->world;
    struct bn_observed mine;

    bn_observe(&mine);
    return w->ops->allgather(w, all, &mine, BN_U8, sizeof(mine), err);
}
