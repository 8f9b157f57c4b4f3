#include "config.h"
#include "convert/verify.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/thread.h"
#include "ckpt/hf.h"
#include "convert/verify_run.h"
#include "tensor/convert.h"
#include "text/chat.h"

#include <stdlib.h>
#include <string.h>

static int check_config(const struct bn_verify *v, const char *folder,
                        struct bn_model_config *c, struct bn_err *err)
{
    char *path = bn_path_join(folder, "config.json");
    int rc = bn_model_config_load(c, path, NULL, err);

    free(path);
    if (rc < 0 || bn_config_same(v->c, v->where, c, "the new config.json",
                                 err) < 0)
        return -1;
    bn_str_adds(v->report, "config.json says what the source's config says: "
                           "sizes, RoPE, eps, tying\n");
    return 0;
}

/* Rows of every tensor, source against folder, in threads. */
struct rows {
    const struct bn_verify *v;
    const struct bn_tensors *got;
    int threads;
    size_t *bad_tensor; /* [threads]; SIZE_MAX: none */
    int64_t *bad_row;
};

static struct bn_hash hash_of(const struct bn_named *t, int64_t row,
                              enum bn_dtype as, void *room)
{
    size_t n = (size_t)(t->ndim == 2 ? t->dims[1] : 1);
    const char *at = (const char *)t->data
                     + (size_t)row * n * bn_dtype_size(t->dtype);

    bn_convert(room, as, at, t->dtype, n);
    return bn_hash_bytes(room, n * bn_dtype_size(as));
}

static void some_tensors(void *arg, int index)
{
    const struct rows *j = arg;
    const struct bn_params *ps = j->v->ps;

    j->bad_tensor[index] = SIZE_MAX;
    for (int i = index; i < ps->n; i += j->threads) {
        const struct bn_named *s = bn_tensors_find(j->v->src,
                                                   ps->item[i].name);
        const struct bn_named *t = bn_tensors_find(j->got, ps->item[i].name);
        void *room = bn_malloc((size_t)ps->item[i].full_cols * 8);

        for (int64_t r = 0; r < s->dims[0]; r++) {
            struct bn_hash a = hash_of(s, r, j->v->dtype, room);
            struct bn_hash b = hash_of(t, r, j->v->dtype, room);

            if (a.hi == b.hi && a.lo == b.lo)
                continue;
            j->bad_tensor[index] = (size_t)i;
            j->bad_row[index] = r;
            break;
        }
        free(room);
        if (j->bad_tensor[index] != SIZE_MAX)
            return;
    }
}

static int check_rows(const struct bn_verify *v, const struct bn_tensors *got,
                      struct bn_err *err)
{
    int threads = bn_cpu_count(), rc = 0;
    struct rows j = {v, got, threads, BN_NEWN(size_t, (size_t)threads),
                     BN_NEWN(int64_t, (size_t)threads)};
    int64_t rows = 0;

    bn_parallel(threads, some_tensors, &j);
    for (int i = 0; rc == 0 && i < threads; i++)
        if (j.bad_tensor[i] != SIZE_MAX)
            rc = bn_fail(err, BN_ERR_DATA, "row %lld of %s in the new folder "
                         "is not that of the source",
                         (long long)j.bad_row[i],
                         v->ps->item[j.bad_tensor[i]].name);
    free(j.bad_tensor);
    free(j.bad_row);
    for (int i = 0; i < v->ps->n; i++)
        rows += v->ps->item[i].full_rows;
    if (rc == 0)
        bn_str_addf(v->report, "checksums of %lld rows in %d tensors of the "
                    "new folder are those of the source\n", (long long)rows,
                    v->ps->n);
    return rc;
}

static int check_template(const struct bn_tokenizer *t, struct bn_err *err)
{
    const char *source = bn_tokenizer_chat_template(t);
    struct bn_chat *chat;

    if (source == NULL)
        return 0;
    chat = bn_chat_create(source, bn_tokenizer_chat_template_name(t),
                          err);
    bn_chat_destroy(chat);
    return chat != NULL ? 0 : -1;
}

static void note_ids(const struct bn_verify *v, const struct bn_tokenizer *t)
{
    int32_t bos = bn_tokenizer_bos(t), eos = bn_tokenizer_eos(t);
    bool among = v->c->n_eos == 0 || eos < 0;

    for (int i = 0; i < v->c->n_eos; i++)
        among = among || v->c->eos[i] == eos;
    if (bos >= 0 && v->c->bos >= 0 && bos != v->c->bos)
        bn_str_addf(v->report, "note: BOS is %d for the config, %d for the "
                    "tokenizer\n", v->c->bos, bos);
    if (!among)
        bn_str_addf(v->report, "note: EOS of the tokenizer, %d, is none of "
                    "the config's\n", eos);
}

/* '*t' stays NULL where the folder has no tokenizer. */
static int check_tokenizer(const struct bn_verify *v, const char *folder,
                           struct bn_tokenizer **t, struct bn_err *err)
{
    char *path = bn_path_join(folder, "tokenizer.json");
    bool there = bn_exists(path);

    free(path);
    if (!there) {
        bn_str_adds(v->report, "no tokenizer: give --tokenizer to carry one "
                               "along\n");
        return 0;
    }
    *t = bn_tokenizer_open(folder, err);
    if (*t == NULL)
        return -1;
    int size = bn_tokenizer_vocab_size(*t), rows = v->c->vocab_size;
    if (size > rows)
        return bn_fail(err, BN_ERR_DATA, "the tokenizer has ids up to %d, "
                       "but the model has %d rows of embedding", size - 1,
                       rows);
    if (check_template(*t, err) < 0)
        return -1;
    bn_str_addf(v->report, "tokenizer opens: %d ids for %d rows of "
                "embedding%s\n", size, rows,
                bn_tokenizer_chat_template(*t) != NULL
                    ? "; its chat template parses" : "");
    note_ids(v, *t);
    return 0;
}

int bn_verify_folder(const struct bn_verify *v, const char *folder,
                     struct bn_err *err)
{
    struct bn_tensors got = {0};
    struct bn_tokenizer *t = NULL;
    struct bn_model_config c;
    int rc = -1;

    if (check_config(v, folder, &c, err) < 0
        || bn_safetensors_open(&got, folder, err) < 0
        || bn_hf_check(&got, folder, &c, NULL, err) < 0
        || check_rows(v, &got, err) < 0
        || check_tokenizer(v, folder, &t, err) < 0)
        goto out;
    if (v->tokens < 2) {
        bn_str_adds(v->report, "logits were not checked\n");
        rc = 0;
    } else {
        rc = bn_verify_run(v, &got, &c, t, err);
    }
out:
    bn_tokenizer_close(t);
    bn_tensors_close(&got);
    return rc;
}
