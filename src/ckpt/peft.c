#include "config.h"
#include "ckpt/peft.h"
#include "base/mem.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char weights_file[] = "adapter_model.safetensors";

int bn_peft_load(const char *dir, const struct bn_model_config *c,
                 const struct bn_lora *lora, const struct bn_params *ps,
                 void *flat, enum bn_dtype dtype, struct bn_str *report,
                 struct bn_err *err)
{
    char *path = bn_path_join(dir, weights_file);
    struct bn_part part = bn_part_whole(c);
    struct bn_params whole = {0};
    struct bn_tensors ts = {0};
    int rc = bn_safetensors_open(&ts, path, err);

    if (rc == 0)
        rc = bn_params_init_lora(&whole, c, &part, lora, err);
    if (rc == 0)
        rc = bn_hf_check_table(&ts, path, &whole, report, err);
    /* B of an adapter that was never trained is zero. */
    if (rc == 0)
        rc = bn_hf_fill(&ts, path, ps, flat, dtype, BN_LOAD_ALLOW_ZERO,
                        report, err);
    bn_params_release(&whole);
    bn_tensors_close(&ts);
    free(path);
    return rc;
}

/* --- Writing ---------------------------------------------------------------- */

struct folder {
    const struct bn_model_config *c;
    const struct bn_lora *lora;
    const float *flat;
    const char *base;
    const struct bn_hf_files *files;
};

static int put_weights(const struct folder *f, const char *dir,
                       struct bn_err *err)
{
    struct bn_part part = bn_part_whole(f->c);
    struct bn_params ps;

    if (bn_params_init_lora(&ps, f->c, &part, f->lora, err) < 0)
        return -1;
    struct bn_st_entry *e = BN_NEWN(struct bn_st_entry, (size_t)ps.n);
    char *path = bn_path_join(dir, weights_file);
    for (int i = 0; i < ps.n; i++) {
        const struct bn_param *p = &ps.item[i];

        e[i] = (struct bn_st_entry){p->name, BN_F32, p->ndim,
                                    {p->rows, p->cols}, f->flat + p->offset};
    }
    int rc = bn_safetensors_write(path, e, (size_t)ps.n, NULL, NULL, err);
    free(path);
    free(e);
    bn_params_release(&ps);
    return rc;
}

static int fill_dir(void *arg, const char *dir, struct bn_err *err)
{
    const struct folder *f = arg;
    json_t *o = bn_lora_config_json(f->lora, f->base);
    int rc = bn_hf_put_json(dir, "adapter_config.json", o, err);

    json_decref(o);
    if (rc == 0)
        rc = put_weights(f, dir, err);
    if (rc == 0 && f->files != NULL)
        rc = bn_hf_files_put(f->files, dir, err);
    return rc;
}

int bn_peft_save(const char *dir, const struct bn_model_config *c,
                 const struct bn_lora *lora, const float *flat,
                 const char *base, const struct bn_hf_files *files,
                 struct bn_err *err)
{
    struct folder f = {c, lora, flat, base, files};

    return bn_hf_make_dir(dir, fill_dir, &f, err);
}

/* --- The base's hash -------------------------------------------------------- */

struct hashing {
    const struct bn_tensors *ts;
    size_t step;
    atomic_size_t next;
    _Atomic uint64_t hi, lo;
};

static struct bn_hash hash_tensor(const struct bn_named *t)
{
    struct bn_hasher *h = bn_hasher_begin();

    bn_hasher_adds(h, t->name);
    bn_hasher_adds(h, bn_dtype_name(t->dtype));
    bn_hasher_add(h, t->dims, (size_t)t->ndim * sizeof(t->dims[0]));
    bn_hasher_add(h, t->data, (size_t)t->count * bn_dtype_size(t->dtype));
    return bn_hasher_end(h);
}

static void hash_some(void *arg, int index)
{
    struct hashing *x = arg;

    (void)index;
    for (;;) {
        size_t i = atomic_fetch_add(&x->next, x->step);

        if (i >= x->ts->n)
            return;
        struct bn_hash h = hash_tensor(&x->ts->item[i]);
        atomic_fetch_add(&x->hi, h.hi);
        atomic_fetch_add(&x->lo, h.lo);
    }
}

int bn_peft_base_hash(const char *dir, int n, int mine, struct bn_hash *h,
                      struct bn_err *err)
{
    struct bn_tensors ts = {0};
    struct hashing x = {.ts = &ts, .step = (size_t)n};

    if (bn_safetensors_open(&ts, dir, err) < 0)
        return -1;
    atomic_store(&x.next, (size_t)mine);
    bn_parallel(bn_cpu_count(), hash_some, &x);
    *h = (struct bn_hash){atomic_load(&x.hi), atomic_load(&x.lo)};
    bn_tensors_close(&ts);
    return 0;
}
