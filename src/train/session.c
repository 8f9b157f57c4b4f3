#include "config.h"
#include "train/session.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signal.h"
#include "base/str.h"
#include "base/thread.h"
#include "ckpt/peft.h"
#include "train/device.h"
#include "train/hold.h"
#include "train/meet.h"
#include "train/phase.h"
#include "train/stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What tokenization did, said once by the process that did it. */
static void report(const struct bn_tokens *ts)
{
    struct bn_str text = {0};

    bn_tokens_report(ts, &text);
    bn_log_lines(BN_LOG_INFO, text.s);
    bn_str_release(&text);
}

static int open_data(struct bn_session *s, unsigned flags, struct bn_err *err)
{
    const struct bn_run *run = s->run;
    struct bn_data_opts o;
    char *template;
    int rc;

    if (bn_session_data_opts(&o, run, &template, err) < 0)
        return -1;
    if ((flags & BN_SESSION_TRAIN) == 0 && o.neval_files > 0)
        o.nfiles = 0;
    rc = bn_tokens_make(&s->train, &s->eval, &o, s->tokenizer, err);
    free(template);
    if (rc < 0)
        return -1;
    if (s->train != NULL)
        report(s->train);
    return 0;
}

/* Ids that the model has no row for would train on garbage. */
static int check_vocab(const struct bn_session *s, struct bn_err *err)
{
    int ids = bn_tokenizer_vocab_size(s->tokenizer);

    if (ids > s->cfg.vocab_size)
        return bn_fail(err, BN_ERR_DATA, "tokenizer '%s' has %d ids but the "
                       "model's vocab_size is %d: not this model's tokenizer,"
                       " or its embedding was not resized",
                       s->run->model.tokenizer_name_or_path, ids,
                       s->cfg.vocab_size);
    return 0;
}

static const double patience = 5; /* seconds, with a run that is ending */

/* A rank whose node is down is noticed after this long. */
static const double silence = 45; /* seconds */

static int open_boot(struct bn_session *s, unsigned flags, struct bn_err *err)
{
    const char *dir = flags & BN_SESSION_PUBLISH ? s->run->output_dir : NULL;

    s->boot = bn_boot_create(&s->info, s->run->mesh.ddp_timeout, err);
    if (s->boot == NULL)
        return -1;
    bn_log_set_rank(s->info.rank, s->info.size);
    /* Before anything in the folder is touched. */
    if (dir != NULL && s->info.rank == 0) {
        s->hold = bn_hold_dir(dir, patience, err);
        if (s->hold < 0)
            return -1;
    }
    bn_phase_begin(dir, &s->info);
    bn_phase_watch(&s->watch, dir, &s->info, silence);
    bn_boot_watch(s->boot, &s->watch);
    if ((flags & BN_SESSION_ALONE) != 0 && s->info.size > 1)
        return bn_fail(err, BN_ERR_USAGE, "this is done by one rank, not %d",
                       s->info.size);
    return 0;
}

static int open_device(struct bn_session *s, struct bn_err *err)
{
    const struct bn_run_mesh *m = &s->run->mesh;
    const struct bn_device_want want = {.kind = m->device,
                                        .rank = s->info.rank,
                                        .local_rank = s->info.local_rank,
                                        .threads = bn_compute_threads(
                                            (int)m->num_threads,
                                            s->info.local_size),
                                        .strict = m->strict_device,
                                        .graphs = m->cuda_graph};

    s->dev = bn_device_open(&want, err);
    return s->dev != NULL ? 0 : -1;
}

static int open_ranks(struct bn_session *s, struct bn_err *err)
{
    const struct bn_run_mesh *m = &s->run->mesh;
    const struct bn_meeting meeting = {.boot = s->boot,
                                       .info = &s->info,
                                       .dev = s->dev,
                                       .timeout = m->ddp_timeout,
                                       .watch = &s->watch,
                                       .dying = bn_phase_fail};

    s->world = bn_meet(&meeting, err);
    if (s->world == NULL)
        return -1;
    if (bn_mesh_init(&s->mesh, s->world, (int)m->data_parallel_size,
                     (int)m->tensor_parallel_size,
                     (int)m->pipeline_parallel_size,
                     (int)m->context_parallel_size, err) < 0)
        return -1;
    s->mesh.sequence = m->sequence_parallel;
    return 0;
}

/* What the ranks must have alike: keys and data. Malloc'ed. */
static char *common_text(const struct bn_session *s)
{
    char *keys = bn_run_common(s->run), train[BN_HASH_HEX] = "none",
         eval[BN_HASH_HEX] = "none";

    if (s->train != NULL)
        bn_hash_hex(bn_tokens_hash(s->train), train);
    if (s->eval != NULL)
        bn_hash_hex(bn_tokens_hash(s->eval), eval);
    char *all = bn_asprintf("%straining data: %s\nevaluation data: %s\n", keys,
                            train, eval);

    free(keys);
    return all;
}

/* Ranks that read different files would each train something else, or meet
 * in different calls. */
static int alike(const struct bn_session *s, struct bn_err *err)
{
    struct bn_comm *world = s->world;

    if (world->size == 1)
        return 0;
    char *mine = common_text(s), *first = NULL;
    uint64_t n = strlen(mine) + 1;
    int rc = world->ops->bcast(world, &n, sizeof(n), 0, err);

    if (rc == 0) {
        first = world->rank == 0 ? bn_strdup(mine) : bn_malloc(n);
        rc = world->ops->bcast(world, first, n, 0, err);
    }
    if (rc == 0) {
        rc = bn_run_common_same(first, mine, err);
        rc = bn_comm_agree(world, rc < 0 ? err->code : 0, err);
    }
    free(mine);
    free(first);
    return rc;
}

/* Checkpoints of adapters name the frozen model by its weights: each rank
 * reads a share of the tensors. */
static int name_base(struct bn_session *s, struct bn_err *err)
{
    struct bn_trainer *t = s->trainer;
    struct bn_hash h = {0};
    int64_t v[2];

    if (t->optim == NULL || t->model->adapter == NULL)
        return 0;
    int rc = bn_peft_base_hash(s->run->model.model_name_or_path, s->info.size,
                               s->info.rank, &h, err);
    if (bn_session_agree(s, rc, NULL, err) < 0)
        return -1;
    v[0] = (int64_t)h.hi;
    v[1] = (int64_t)h.lo;
    if (s->info.size > 1
        && s->world->ops->allreduce(s->world, v, BN_I64, 2, BN_SUM, err) < 0)
        return -1;
    bn_hash_hex((struct bn_hash){(uint64_t)v[0], (uint64_t)v[1]}, t->base);
    return 0;
}

static int create_trainer(struct bn_session *s, int max_tokens,
                          struct bn_err *err)
{
    s->trainer = bn_trainer_create(s->run, &s->cfg, s->train, s->eval,
                                   max_tokens, s->dev, &s->mesh, err);
    return bn_session_agree(s, s->trainer != NULL ? 0 : -1, NULL, err);
}

/* From now on the run says layers[stages]. */
static void set_split(struct bn_session *s, const int *layers, const char *how)
{
    struct bn_run_list *l = &s->split.mesh.pipeline_layer_split;
    struct bn_str text = {0};

    s->split = *s->run;
    s->run = &s->split;
    *l = (struct bn_run_list){.n = (size_t)s->mesh.pp.size};
    l->v = BN_NEWN(char *, l->n);
    for (size_t i = 0; i < l->n; i++) {
        l->v[i] = bn_asprintf("%d", layers[i]);
        bn_str_addf(&text, "%s%d", i > 0 ? ", " : "", layers[i]);
    }
    if (s->info.rank == 0)
        bn_info("pipeline_layer_split: [%s], %s", text.s, how);
    bn_str_release(&text);
}

static void release_split(struct bn_session *s)
{
    struct bn_run_list *l = &s->split.mesh.pipeline_layer_split;

    if (s->run != &s->split)
        return;
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
}

/* With the layers where they were measured to belong: the first time they are
 * laid out by their sizes, measured, and laid out anew. */
static int make_measured(struct bn_session *s, int max_tokens, int *layers,
                         struct bn_err *err)
{
    int known = bn_stages_recall(s, layers, err);

    if (known < 0)
        return -1;
    if (!known) {
        if (create_trainer(s, max_tokens, err) < 0
            || bn_session_agree(s, bn_stages_measure(s->trainer, layers, err),
                                NULL, err) < 0
            || bn_stages_remember(s, layers, err) < 0)
            return -1;
        bn_trainer_destroy(s->trainer);
        s->trainer = NULL;
    }
    set_split(s, layers, known ? "as measured before" : "as measured");
    return create_trainer(s, max_tokens, err);
}

static int make_trainer(struct bn_session *s, unsigned flags, int max_tokens,
                        struct bn_err *err)
{
    int *layers;

    if (!(flags & BN_SESSION_TRAIN) || !bn_run_split_measured(s->run)
        || s->mesh.pp.size == 1)
        return create_trainer(s, max_tokens, err);
    layers = BN_NEWN(int, (size_t)s->mesh.pp.size);
    int rc = make_measured(s, max_tokens, layers, err);

    free(layers);
    return rc;
}

/* What goes with the final model. It is not looked for again at the end of
 * the run: the folders may be gone by then, or hold other files. */
static int open_carried(struct bn_session *s, struct bn_err *err)
{
    const struct bn_run_model *m = &s->run->model;
    const struct bn_run_lora *lora = &s->run->lora;
    /* An adapter's folder has the tokenizer, not the model's configs. */
    bool whole = m->init == BN_RUN_INIT_PRETRAINED && lora->lora_r == 0
                 && lora->adapter == NULL;

    return bn_hf_files_load(&s->carried, whole ? m->model_name_or_path : NULL,
                            m->tokenizer_name_or_path, err);
}

static int open_all(struct bn_session *s, unsigned flags, int max_tokens,
                    struct bn_err *err)
{
    if (open_boot(s, flags, err) < 0
        || bn_trainer_config(s->run, &s->cfg, err) < 0)
        return -1;
    s->tokenizer = bn_tokenizer_open(s->run->model.tokenizer_name_or_path,
                                     err);
    if (s->tokenizer == NULL || check_vocab(s, err) < 0)
        return -1;
    if ((flags & BN_SESSION_TRAIN) != 0 && s->info.rank == 0
        && open_carried(s, err) < 0)
        return -1;
    bn_phase_set("tokenize", 0);
    if ((flags & (BN_SESSION_TRAIN | BN_SESSION_EVAL)) != 0
        && open_data(s, flags, err) < 0)
        return -1;
    bn_phase_set("boot", 0);
    if (open_device(s, err) < 0 || open_ranks(s, err) < 0
        || alike(s, err) < 0)
        return -1;
    bn_phase_set("load", 0);
    if (make_trainer(s, flags, max_tokens, err) < 0)
        return -1;
    return name_base(s, err);
}

int bn_session_agree(struct bn_session *s, int rc, struct bn_word *word,
                     struct bn_err *err)
{
    if (rc < 0)
        bn_phase_fail(err);
    /* A class in the high half and its rank in the low one: the largest names
     * a rank of the worst class. */
    int64_t v[5] = {rc < 0 ? (int64_t)err->code << 32 | s->info.rank : 0,
                    bn_stop_signal(), word != NULL && word->busy,
                    word != NULL && word->halt, word != NULL && word->report};

    if (s->info.size > 1
        && s->world->ops->allreduce(s->world, v, BN_I64, 5, BN_MAX,
                                    rc < 0 ? NULL : err) < 0)
        return -1;
    if (word != NULL)
        *word = (struct bn_word){.stop = (int)v[1],
                                 .busy = v[2] != 0,
                                 .halt = v[3] != 0,
                                 .report = v[4] != 0,
                                 .failed = (int)(v[0] >> 32)};
    if (v[0] != 0 && rc == 0) {
        int who = (int)(v[0] & 0x7fffffff);

        /* Its own words, if they can be read. */
        if (s->watch.failed == NULL
            || s->watch.failed(s->watch.arg, who, err) == 0)
            bn_fail(err, (enum bn_err_code)(v[0] >> 32), "rank %d failed",
                    who);
    }
    return v[0] != 0 ? -1 : 0;
}

int bn_session_open(struct bn_session *s, const struct bn_run *run,
                    unsigned flags, int max_tokens, struct bn_err *err)
{
    *s = (struct bn_session){.run = run, .hold = -1};
    if (open_all(s, flags, max_tokens, err) < 0) {
        bn_phase_fail(err);
        bn_session_close(s, true);
        return -1;
    }
    return 0;
}

void bn_session_close(struct bn_session *s, bool failed)
{
    if (failed && s->world != NULL)
        s->world->ops->leave(s->world);
    bn_trainer_destroy(s->trainer);
    if (s->mesh.world != NULL)
        bn_mesh_release(&s->mesh);
    bn_comm_destroy(s->world);
    bn_device_close(s->dev); /* the groups used it */
    bn_phase_end();
    bn_boot_destroy(s->boot);
    bn_tokens_close(s->eval);
    bn_tokens_close(s->train);
    bn_hf_files_release(&s->carried);
    bn_tokenizer_close(s->tokenizer);
    release_split(s);
    if (s->hold >= 0)
        close(s->hold);
    *s = (struct bn_session){.hold = -1};
}
