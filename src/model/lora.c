#include "config.h"
#include "model/lora.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const linear_names[BN_NLINEAR] = {
    "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
    "down_proj",
};

static void release_list(char ***list, size_t *n)
{
    for (size_t i = 0; i < *n; i++)
        free((*list)[i]);
    free(*list);
    *list = NULL;
    *n = 0;
}

void bn_lora_release(struct bn_lora *l)
{
    release_list(&l->target, &l->ntarget);
    release_list(&l->save, &l->nsave);
    *l = (struct bn_lora){0};
}

void bn_lora_add_name(char ***list, size_t *n, const char *name)
{
    *list = bn_realloc(*list, *n + 1, sizeof(**list));
    (*list)[(*n)++] = bn_strdup(name);
}

void bn_lora_all_linear(struct bn_lora *l)
{
    release_list(&l->target, &l->ntarget);
    for (int k = 0; k < BN_NLINEAR; k++)
        bn_lora_add_name(&l->target, &l->ntarget, linear_names[k]);
}

double bn_lora_scale(const struct bn_lora *l)
{
    return l->alpha / (l->rslora ? sqrt(l->r) : l->r);
}

/* A parameter's module: its name without ".weight". */
static size_t module_len(const char *name)
{
    static const char end[] = ".weight";

    return bn_str_ends(name, end) ? strlen(name) - (sizeof(end) - 1) : 0;
}

static bool ends_in(const char *module, size_t len, const char *word,
                    bool whole)
{
    size_t n = strlen(word);

    if (n > len || memcmp(module + len - n, word, n) != 0)
        return false;
    return !whole || n == len || module[len - n - 1] == '.';
}

bool bn_lora_targets(const struct bn_lora *l, enum bn_param_kind kind,
                     const char *name)
{
    if (kind < BN_P_Q || kind > BN_P_DOWN)
        return false;
    for (size_t i = 0; i < l->ntarget; i++)
        if (ends_in(name, module_len(name), l->target[i], true))
            return true;
    return false;
}

static bool can_be_saved(enum bn_param_kind kind)
{
    switch (kind) {
    case BN_P_EMBED:
    case BN_P_HEAD:
    case BN_P_ATTN_NORM:
    case BN_P_MLP_NORM:
    case BN_P_FINAL_NORM:
    case BN_P_Q_NORM:
    case BN_P_K_NORM:
        return true;
    default:
        return false;
    }
}

bool bn_lora_saves(const struct bn_lora *l, enum bn_param_kind kind,
                   const char *name)
{
    if (!can_be_saved(kind))
        return false;
    for (size_t i = 0; i < l->nsave; i++)
        if (ends_in(name, module_len(name), l->save[i], false))
            return true;
    return false;
}

/* --- Checking -------------------------------------------------------------- */

/* Of the model's parameters, those whose module ends in 'word' and that can
 * (or cannot) be adapted or saved. */
static void count(const struct bn_params *ps, const char *word, bool save,
                  int *can, int *cannot)
{
    *can = *cannot = 0;
    for (int i = 0; i < ps->n; i++) {
        const struct bn_param *p = &ps->item[i];
        bool able = save ? can_be_saved(p->kind)
                         : p->kind >= BN_P_Q && p->kind <= BN_P_DOWN;

        if (ends_in(p->name, module_len(p->name), word, !save))
            ++*(able ? can : cannot);
    }
}

static int check_name(const struct bn_params *ps, const char *word, bool save,
                      const char *where, struct bn_err *err)
{
    int can, cannot;

    count(ps, word, save, &can, &cannot);
    if (cannot > 0 && save)
        return bn_fail(err, BN_ERR_USAGE, "%s: modules_to_save: '%s' is a "
                       "matrix of a layer: give it an adapter instead (the "
                       "embedding, the head and norms can be saved)", where,
                       word);
    if (cannot > 0)
        return bn_fail(err, BN_ERR_USAGE, "%s: target_modules: '%s' cannot "
                       "have an adapter (q_proj, k_proj, v_proj, o_proj, "
                       "gate_proj, up_proj and down_proj can)", where, word);
    if (can == 0)
        return bn_fail(err, BN_ERR_USAGE, "%s: %s: the model has no module "
                       "'%s'", where,
                       save ? "modules_to_save" : "target_modules", word);
    return 0;
}

/* Tied weights would come apart: transformers' head stays the base's. */
static int check_tied(const struct bn_lora *l, const struct bn_model_config *c,
                      const char *where, struct bn_err *err)
{
    static const char *const ends[] = {"model.embed_tokens", "lm_head"};

    for (size_t i = 0; c->tie_embeddings && i < l->nsave; i++)
        for (size_t k = 0; k < BN_COUNT(ends); k++)
            if (ends_in(ends[k], strlen(ends[k]), l->save[i], false))
                return bn_fail(err, BN_ERR_USAGE, "%s: modules_to_save: '%s' "
                               "is tied to the %s in this model and cannot be "
                               "trained apart from it", where, l->save[i],
                               k == 0 ? "head" : "embedding");
    return 0;
}

int bn_lora_check(const struct bn_lora *l, const struct bn_model_config *c,
                  const char *where, struct bn_err *err)
{
    struct bn_part part = bn_part_whole(c);
    struct bn_params ps;
    int rc;

    if (l->ntarget == 0)
        return bn_fail(err, BN_ERR_USAGE, "%s: no target_modules", where);
    if (bn_params_init(&ps, c, &part, err) < 0)
        return -1;
    rc = check_tied(l, c, where, err);
    for (size_t i = 0; rc == 0 && i < l->ntarget; i++)
        rc = check_name(&ps, l->target[i], false, where, err);
    for (size_t i = 0; rc == 0 && i < l->nsave; i++)
        rc = check_name(&ps, l->save[i], true, where, err);
    bn_params_release(&ps);
    return rc;
}

/* --- Start ------------------------------------------------------------------ */

void bn_lora_randomize(const struct bn_params *ps, uint64_t seed, float *flat)
{
    for (int i = 0; i < ps->n; i++) {
        const struct bn_param *p = &ps->item[i];
        uint64_t stream = bn_hash_bytes(p->name, strlen(p->name)).lo;
        double bound = 1 / sqrt((double)p->full_cols);

        if (p->kind < BN_P_LORA)
            continue;
        for (size_t k = 0; k < p->count; k++) {
            uint64_t row = k / (size_t)p->cols + (uint64_t)p->row0;
            uint64_t col = k % (size_t)p->cols + (uint64_t)p->col0;
            uint64_t at = row * (uint64_t)p->full_cols + col;

            flat[p->offset + k] =
                (p->kind - BN_P_LORA) % 2 != 0
                    ? 0
                    : (float)(bound * (2 * bn_rng_uniform(seed, stream, at)
                                       - 1));
        }
    }
}
