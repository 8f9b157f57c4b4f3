/* From folders to a model that can answer. */
#include "config.h"
#include "train/gen.h"

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "ckpt/peft.h"
#include "train/meet.h"

#include <stdlib.h>
#include <string.h>

static void add_eos(struct bn_ids *l, int32_t id)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i] == id)
            return;
    bn_grow(&l->v, &l->cap, l->n + 1, sizeof(*l->v));
    l->v[l->n++] = id;
}

/* eos_token_id of generation_config.json: an id or a list of them. */
static int read_eos(struct bn_generator *g, const json_t *o, const char *path,
                    struct bn_err *err)
{
    json_t *v = json_object_get(o, "eos_token_id");
    size_t n = json_is_array(v) ? json_array_size(v) : v != NULL;

    if (json_is_null(v))
        return 0;
    for (size_t i = 0; i < n; i++) {
        json_t *e = json_is_array(v) ? json_array_get(v, i) : v;
        json_int_t id = json_integer_value(e);

        if (!json_is_integer(e) || id < 0 || id >= g->cfg.vocab_size)
            return bn_fail(err, BN_ERR_DATA, "%s: eos_token_id must be ids "
                           "below vocab_size %d", path, g->cfg.vocab_size);
        add_eos(&g->eos, (int32_t)id);
    }
    return 0;
}

static int find_eos(struct bn_generator *g, const char *dir,
                    struct bn_err *err)
{
    char *path = bn_path_join(dir, "generation_config.json");
    int32_t own = bn_tokenizer_eos(g->tokenizer);
    json_t *o = NULL;
    int rc = 0;

    for (int i = 0; i < g->cfg.n_eos; i++)
        add_eos(&g->eos, g->cfg.eos[i]);
    if (own >= 0)
        add_eos(&g->eos, own);
    if (bn_is_listed(path)) {
        o = bn_json_load(path, err);
        rc = o != NULL ? read_eos(g, o, path, err) : -1;
    }
    json_decref(o);
    free(path);
    return rc;
}

static int open_all(struct bn_generator *g, const char *dir,
                    const char *tokenizer, struct bn_err *err)
{
    char *path = bn_path_join(dir, "config.json");
    int rc = bn_model_config_load(&g->cfg, path, NULL, err);

    free(path);
    if (rc < 0)
        return -1;
    if (tokenizer == NULL)
        tokenizer = dir;
    g->tokenizer = bn_tokenizer_open(tokenizer, err);
    if (g->tokenizer == NULL)
        return -1;
    int ids = bn_tokenizer_vocab_size(g->tokenizer);
    if (ids > g->cfg.vocab_size)
        return bn_fail(err, BN_ERR_DATA, "tokenizer '%s' has %d ids but the "
                       "model's vocab_size is %d: not this model's tokenizer,"
                       " or its embedding was not resized",
                       tokenizer, ids, g->cfg.vocab_size);
    return find_eos(g, dir, err);
}

int bn_generator_open(struct bn_generator *g, const char *model_dir,
                      const char *tokenizer_dir, struct bn_err *err)
{
    *g = (struct bn_generator){0};
    if (open_all(g, model_dir, tokenizer_dir, err) < 0) {
        bn_generator_close(g);
        return -1;
    }
    return 0;
}

static int open_device(struct bn_generator *g,
                       const struct bn_device_want *device,
                       struct bn_err *err)
{
    struct bn_device_want want = *device;

    want.rank = g->info.rank;
    want.local_rank = g->info.local_rank;
    want.threads = bn_compute_threads(want.threads, g->info.local_size);
    g->dev = bn_device_open(&want, err);
    if (g->dev == NULL)
        return -1;
    g->dev->keep_packed = true; /* a step is few rows by all the weights */
    return 0;
}

int bn_generator_join(struct bn_generator *g, int tp, int pp, double timeout,
                      const struct bn_device_want *device, struct bn_err *err)
{
    g->boot = bn_boot_create(&g->info, timeout, err);
    if (g->boot == NULL)
        return -1;
    bn_log_set_rank(g->info.rank, g->info.size);
    if ((int64_t)tp * pp != g->info.size)
        return bn_fail(err, BN_ERR_USAGE, "%d ranks were started, but "
                       "--tensor-parallel-size %d and "
                       "--pipeline-parallel-size %d need %lld",
                       g->info.size, tp, pp, (long long)tp * pp);
    if (open_device(g, device, err) < 0)
        return -1;
    const struct bn_meeting meeting = {.boot = g->boot,
                                       .info = &g->info,
                                       .dev = g->dev,
                                       .timeout = timeout};

    g->world = bn_meet(&meeting, err);
    if (g->world == NULL)
        return -1;
    return bn_mesh_init(&g->mesh, g->world, 1, tp, pp, 1, err);
}

/* What this rank holds. */
static int own_part(const struct bn_generator *g, struct bn_part *part,
                    struct bn_err *err)
{
    const struct bn_axis *tp = &g->mesh.tp, *pp = &g->mesh.pp;

    *part = bn_part_whole(&g->cfg);
    part->tp_size = tp->size;
    part->tp_rank = tp->index;
    part->has_embed = pp->index == 0;
    part->has_head = pp->index + 1 == pp->size;
    return bn_part_stage(&g->cfg, pp->size, pp->index, &part->first_layer,
                         &part->end_layer, err);
}

static int open_adapter(struct bn_generator *g, const char *dir,
                        struct bn_err *err)
{
    struct bn_part part;

    if (own_part(g, &part, err) < 0
        || bn_lora_load(&g->adapter.lora, dir, err) < 0
        || bn_lora_check(&g->adapter.lora, &g->cfg, dir, err) < 0)
        return -1;
    return bn_params_init_lora(&g->adapter.params, &g->cfg, &part,
                               &g->adapter.lora, err);
}

static int make_model(struct bn_generator *g, enum bn_dtype t, int capacity,
                      struct bn_err *err)
{
    struct bn_part part;
    const struct bn_adapter *adapter = g->adapter.lora.r > 0 ? &g->adapter
                                                             : NULL;
    struct bn_params ps;

    if (own_part(g, &part, err) < 0
        || bn_params_init(&ps, &g->cfg, &part, err) < 0)
        return -1;
    size_t bytes = bn_model_bytes(&g->cfg, &ps, adapter, t, capacity, false);
    if (g->dev->op.arena_init(g->dev, &g->state, "model", bytes, err) < 0) {
        bn_params_release(&ps);
        return -1;
    }
    g->model = bn_model_create(&g->cfg, &ps, adapter, t, capacity, false,
                               g->dev, &g->mesh, &g->state, err);
    return g->model != NULL ? 0 : -1;
}

/* One table's weights, of the model or of the adapter, to the device. */
static int fill(struct bn_generator *g, const char *dir, bool adapter,
                struct bn_err *err)
{
    struct bn_model *m = g->model;
    const struct bn_params *ps = adapter ? &g->adapter.params : &m->params;
    void *flat = bn_realloc(NULL, ps->elems, bn_dtype_size(m->t));
    struct bn_str report = {0};
    int rc = adapter ? bn_peft_load(dir, &g->cfg, &g->adapter.lora, ps, flat,
                                    m->t, &report, err)
                     : bn_hf_load(dir, &g->cfg, ps, flat, m->t, 0, &report,
                                  err);

    if (report.len > 0)
        bn_log(rc < 0 ? BN_LOG_ERROR : BN_LOG_DEBUG, "%s", report.s);
    if (rc == 0) {
        g->dev->op.from_host(g->dev, adapter ? m->adapter_w : m->w, m->t,
                             flat, m->t, ps->elems);
        g->dev->op.sync(g->dev);
    }
    bn_str_release(&report);
    free(flat);
    return rc;
}

int bn_generator_load(struct bn_generator *g, const char *model_dir,
                      const char *adapter_dir, enum bn_dtype t, int capacity,
                      struct bn_err *err)
{
    if ((adapter_dir != NULL && open_adapter(g, adapter_dir, err) < 0)
        || make_model(g, t, capacity, err) < 0
        || fill(g, model_dir, false, err) < 0
        || (adapter_dir != NULL && fill(g, adapter_dir, true, err) < 0))
        return -1;
    bn_model_changed(g->model);
    return bn_dev_check(g->dev, err);
}

void bn_generator_close(struct bn_generator *g)
{
    bn_model_destroy(g->model);
    bn_params_release(&g->adapter.params);
    bn_lora_release(&g->adapter.lora);
    if (g->dev != NULL)
        g->dev->op.arena_release(g->dev, &g->state);
    if (g->mesh.world != NULL)
        bn_mesh_release(&g->mesh);
    bn_comm_destroy(g->world);
    bn_device_close(g->dev); /* the groups used it */
    bn_boot_destroy(g->boot);
    bn_tokenizer_close(g->tokenizer);
    bn_ids_release(&g->eos);
    *g = (struct bn_generator){0};
}
