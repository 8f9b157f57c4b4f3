#include "config.h"
#include "train/data_opts.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { TEMPLATE_MAX = 16 << 20 };

static enum bn_shape shape_of(const struct bn_run *run)
{
    static const enum bn_shape shapes[] = {
        [BN_RUN_DATA_AUTO] = BN_SHAPE_AUTO,
        [BN_RUN_DATA_TEXT] = BN_SHAPE_TEXT,
        [BN_RUN_DATA_PROMPT_COMPLETION] = BN_SHAPE_PROMPT_COMPLETION,
        [BN_RUN_DATA_ALPACA] = BN_SHAPE_ALPACA,
        [BN_RUN_DATA_MESSAGES] = BN_SHAPE_MESSAGES,
        [BN_RUN_DATA_SHAREGPT] = BN_SHAPE_SHAREGPT,
        [BN_RUN_DATA_PREFERENCE] = BN_SHAPE_PREFERENCE,
    };

    return shapes[run->data.data_format];
}

static enum bn_choice choice(enum bn_run_tri t)
{
    static const enum bn_choice choices[] = {
        [BN_RUN_NO] = BN_CHOICE_NO,
        [BN_RUN_YES] = BN_CHOICE_YES,
        [BN_RUN_AUTO] = BN_CHOICE_AUTO,
    };

    return choices[t];
}

static void columns(struct bn_data_opts *o, const struct bn_run_columns *c)
{
    o->column[BN_COL_TEXT] = c->text;
    o->column[BN_COL_PROMPT] = c->prompt;
    o->column[BN_COL_COMPLETION] = c->completion;
    o->column[BN_COL_CHOSEN] = c->chosen;
    o->column[BN_COL_REJECTED] = c->rejected;
    o->column[BN_COL_MESSAGES] = c->messages;
    o->column[BN_COL_CONVERSATIONS] = c->conversations;
    o->column[BN_COL_INSTRUCTION] = c->instruction;
    o->column[BN_COL_INPUT] = c->input;
    o->column[BN_COL_OUTPUT] = c->output;
    o->column[BN_COL_SYSTEM] = c->system;
    o->column[BN_COL_TOOLS] = c->tools;
}

int bn_session_data_opts(struct bn_data_opts *o, const struct bn_run *run,
                         char **chat_template, struct bn_err *err)
{
    const struct bn_run_data *d = &run->data;
    size_t len;

    *chat_template = NULL;
    if (d->chat_template != NULL) {
        *chat_template =
            bn_file_read(d->chat_template, TEMPLATE_MAX, &len, err);
        if (*chat_template == NULL)
            return -1;
        if (strlen(*chat_template) != len) {
            free(*chat_template);
            *chat_template = NULL;
            return bn_fail(err, BN_ERR_DATA, "%s: has a NUL byte",
                           d->chat_template);
        }
    }
    bn_data_opts_init(o);
    o->files = (const char *const *)d->train_file.v;
    o->nfiles = d->train_file.n;
    o->eval_files = (const char *const *)d->eval_file.v;
    o->neval_files = d->eval_file.n;
    o->eval_split = d->eval_split;
    o->split_seed = (uint64_t)d->data_seed;
    o->task = run->task == BN_RUN_TASK_ORPO ? BN_DATA_PREFERENCE
                                            : BN_DATA_SFT;
    o->shape = shape_of(run);
    columns(o, &d->columns);
    o->chat_template = *chat_template;
    o->chat_template_name = d->chat_template;
    o->max_length = d->max_length;
    o->max_prompt_length = d->max_prompt_length;
    o->keep_start = d->truncation_mode == BN_RUN_KEEP_START;
    o->completion_only_loss = choice(d->completion_only_loss);
    o->assistant_only_loss = d->assistant_only_loss;
    o->last_turn_only = d->last_turn_only;
    o->add_bos = choice(d->add_bos);
    o->add_eos = d->add_eos;
    o->max_dropped_fraction = d->max_dropped_fraction;
    o->threads = (int)d->dataset_num_proc;
    o->cache_dir = d->token_cache_dir;
    o->wait_seconds = run->mesh.ddp_timeout;
    return 0;
}
