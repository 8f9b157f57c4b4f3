/* The loop of a run: step, log, evaluate, save, stop. */
#include "config.h"
#include "train/run.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/signal.h"
#include "base/str.h"
#include "base/times.h"
#include "train/asha.h"
#include "train/observe.h"
#include "train/phase.h"
#include "train/record.h"
#include "train/save.h"
#include "train/session.h"
#include "train/stages.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct loop {
    struct bn_session *s;
    struct bn_trainer *t;
    const struct bn_run *run;
    struct bn_metrics *metrics; /* rank 0 only */
    struct bn_saver *saver;
    struct bn_saved state; /* what a checkpoint remembers of the loop */
    struct bn_word word; /* as agreed after the last step */
    bool stopped; /* the run ends by it, in order */
    bool dropped; /* a signal came in the middle of the last step */
    double began;
};

static bool leads(const struct loop *l)
{
    return l->s->info.rank == 0;
}

static double epoch_of(const struct loop *l, long step)
{
    return (double)bn_plan_seen(&l->t->plan, (uint64_t)step)
           / (double)l->t->plan.n;
}

/* Whether something happens after 'step' steps. */
static bool due(const struct loop *l, enum bn_run_strategy when,
                int64_t every, long step)
{
    long per_epoch = (long)bn_plan_steps_per_epoch(&l->t->plan);

    if (when == BN_RUN_STRATEGY_STEPS)
        return step % every == 0;
    return when == BN_RUN_STRATEGY_EPOCH && step % per_epoch == 0;
}

/* Evaluation has one time more: the model that the run ends with is evaluated,
 * too, as transformers' Trainer does. */
static bool eval_due(const struct loop *l, long step)
{
    enum bn_run_strategy when = l->run->eval.eval_strategy;

    return due(l, when, l->run->eval.eval_steps, step)
           || (when != BN_RUN_STRATEGY_NO && step == l->t->total_steps);
}

/* Due and not done: a signal came before or during it. */
static bool eval_owed(const struct loop *l, long step)
{
    return eval_due(l, step) && l->state.eval_step != step;
}

static int log_window(struct loop *l, long step, struct bn_err *err)
{
    if (l->state.window.steps == 0 || !leads(l))
        return 0;
    l->state.records++;
    return bn_window_write(&l->state.window, l->metrics, l->t, step,
                           epoch_of(l, step), err);
}

/* Note whether this evaluation is the best so far, and when to give up. The
 * one before the first step is of no checkpoint. */
static void judge(struct loop *l, const double *metrics, long step)
{
    const struct bn_run_eval *e = &l->run->eval;
    struct bn_saved *st = &l->state;
    double v;

    if (step == 0
        || !bn_record_find(l->t, metrics, e->metric_for_best_model, &v))
        return;
    double gain = e->greater_is_better == BN_RUN_YES ? v - st->best
                                                     : st->best - v;
    if (!st->has_best || gain > 0) {
        bool enough = !st->has_best || gain > e->early_stopping_threshold;

        st->has_best = true;
        st->best = v;
        st->best_step = step;
        st->bad_evals = enough ? 0 : st->bad_evals + 1;
    } else {
        st->bad_evals++;
    }
}

/* Whether evaluations have been bad for long enough. */
static bool hopeless(const struct loop *l)
{
    int64_t patience = l->run->eval.early_stopping_patience;

    return patience > 0 && l->state.bad_evals >= patience;
}

/* At a rung: whether this run goes on. Only the leader looks at files; the
 * others hear of it when they agree. */
static int at_rung(struct loop *l, const double *metrics, long step,
                   struct bn_err *err)
{
    const struct bn_run *run = l->run;
    struct bn_asha_verdict v = {0};
    double value = NAN;

    if (!leads(l) || run->asha.asha_dir == NULL
        || !bn_asha_is_rung(run, step))
        return 0;
    bn_record_find(l->t, metrics, run->asha.asha_metric, &value);
    if (bn_asha_judge(&v, run, step, value, err) < 0)
        return bn_err_prefix(err, "asha");
    l->word.halt |= v.stop;
    bn_info("step %ld: %s by asha: rank %d of %d by %s", step,
            v.stop ? "stopped" : "goes on", v.rank, v.of,
            run->asha.asha_metric);
    return 0;
}

/* A run that was killed between its verdict and its end. */
static int recall_verdict(struct loop *l, struct bn_err *err)
{
    struct bn_asha_verdict v;

    if (!leads(l) || l->run->asha.asha_dir == NULL)
        return 0;
    int rc = bn_asha_last(&v, l->run->output_dir, err);
    l->word.halt = rc > 0 && v.stop && v.step <= l->state.step;
    return rc < 0 ? -1 : 0;
}

static void say_eval(const struct loop *l, const double *metrics, long step)
{
    struct bn_str s = {0};

    for (int k = 0; k < l->t->loss->nkeys; k++)
        bn_str_addf(&s, "%seval_%s %.4g", k > 0 ? ", " : "",
                    l->t->loss->keys[k], metrics[k]);
    if (leads(l))
        bn_info("step %ld: %s", step, s.s);
    bn_str_release(&s);
}

static int evaluate(struct loop *l, long step, struct bn_err *err)
{
    double metrics[BN_LOSS_MAX_KEYS], examples, t0 = bn_now();
    bool stopped;

    bn_phase_set("eval", step);
    enum bn_time was = bn_times_enter(BN_TIME_EVAL);
    int rc = bn_trainer_eval(l->t, metrics, &examples, &stopped, err);

    bn_times_enter(was);
    if (rc < 0)
        return -1;
    if (stopped)
        return 0; /* the loop sees the signal next */
    say_eval(l, metrics, step);
    if (leads(l)
        && bn_record_eval(l->metrics, l->t, metrics, examples, bn_now() - t0,
                          step, epoch_of(l, step), err) < 0)
        return -1;
    l->state.records++;
    judge(l, metrics, step);
    l->state.eval_step = step;
    return at_rung(l, metrics, step, err);
}

static int save(struct loop *l, long step, struct bn_err *err)
{
    enum bn_time was = bn_times_enter(BN_TIME_SAVE);
    int rc;

    bn_phase_set("save", step);
    l->state.step = step;
    rc = bn_save_begin(l->saver, &l->state, err);
    if (rc == 0)
        l->state.saved_step = step;
    bn_times_enter(was);
    return rc;
}

/* A stop signal: commit what there is, and say what came of it. */
static int stop(struct loop *l, long step, struct bn_err *err)
{
    int sig = l->word.stop;

    bool unsaved = l->run->save.save_on_signal && l->state.saved_step != step;

    if (unsaved && sig == SIGINT && leads(l))
        bn_info("interrupted: saving step %ld (a second Ctrl-C ends the run "
                "without)", step);
    if (unsaved && save(l, step, err) < 0)
        return -1;
    if (bn_save_finish(l->saver, err) < 0)
        return -1;
    if (l->run->save.save_on_signal && bn_stop_signal() != 0)
        bn_info("signal %d: step %ld is saved, %.2f s after the signal", sig,
                step, bn_now() - bn_stop_time());
    l->stopped = true;
    return bn_fail(err, BN_ERR_AGAIN, "stopped by signal %d after step %ld",
                   sig, step);
}

static int one_step(struct loop *l, long step, struct bn_err *err)
{
    struct bn_step_result r;
    double t0 = bn_now();
    char text[160];

    bn_phase_set("step", step);
    if (bn_trainer_step(l->t, step, &r, err) < 0)
        return -1;
    l->dropped = r.dropped;
    if (r.dropped)
        return 0;
    bn_observe_step(&r, bn_now() - t0);
    bn_window_add(&l->state.window, &r, bn_now() - t0);
    bn_window_text(&l->state.window, text);
    if (leads(l))
        bn_progress_update((uint64_t)step + 1, text);
    return 0;
}

/* Evaluation, log and checkpoint that are due after 'step' steps. */
static int after_step(struct loop *l, long step, struct bn_err *err)
{
    const struct bn_run *run = l->run;
    bool last = step == l->t->total_steps;

    if ((step % run->log.logging_steps == 0 || last)
        && log_window(l, step, err) < 0)
        return -1;
    if (eval_due(l, step) && evaluate(l, step, err) < 0)
        return -1;
    if (due(l, run->save.save_strategy, run->save.save_steps, step)
        && save(l, step, err) < 0)
        return -1;
    return 0;
}

/* What all ranks took; rank 0 says it. 'v' (NULL: not wanted) gets '*n' keys
 * of it. Collective. */
static int report(struct loop *l, struct bn_metric *v, size_t *n,
                  struct bn_err *err)
{
    int ranks = l->s->info.size;
    struct bn_observed *all = BN_NEWN(struct bn_observed, (size_t)ranks);
    int rc = bn_observe_gather(all, err);

    if (rc == 0 && leads(l)) {
        bn_observe_print(all, ranks);
        bn_stages_say(l->t, all, ranks);
    }
    if (rc == 0 && v != NULL)
        *n += bn_observe_metrics(all, ranks, v + *n);
    free(all);
    return rc;
}

/* The end of a step is where all ranks agree: that it went well, whether a
 * signal came to any of them, and whether all have written their shards. */
static int agree(struct loop *l, int rc, struct bn_err *err)
{
    bn_observe_poll();
    l->word.busy = bn_save_busy(l->saver);
    l->word.report = bn_observe_asked();
    if (bn_session_agree(l->s, rc, &l->word, err) < 0)
        return -1;
    if (l->word.report && report(l, NULL, NULL, err) < 0)
        return -1;
    if (!bn_save_pending(l->saver) || l->word.busy)
        return 0;
    enum bn_time was = bn_times_enter(BN_TIME_SAVE);

    rc = bn_save_advance(l->saver, err);
    bn_times_enter(was);
    return rc;
}

/* After a NaN, of which all ranks know, the checkpoint that is being written
 * is still one of a good step. */
static void keep_last(struct loop *l)
{
    struct bn_err lost;

    if (l->word.failed == BN_ERR_NUMERIC && bn_save_finish(l->saver, &lost) < 0)
        bn_warn("%s", lost.text);
}

static int steps(struct loop *l, struct bn_err *err)
{
    long total = l->t->total_steps;

    if (agree(l, 0, err) < 0)
        return -1;
    for (long step = l->state.step;
         step < total && !hopeless(l) && !l->word.halt; step++) {
        if (l->word.stop != 0)
            return stop(l, step, err);
        int rc = one_step(l, step, err);

        if (rc == 0 && !l->dropped)
            rc = after_step(l, step + 1, err);
        if (agree(l, rc, err) < 0) {
            keep_last(l);
            return -1;
        }
        if (l->dropped)
            return stop(l, step, err);
        l->state.step = step + 1;
        if (hopeless(l) && leads(l))
            bn_info("step %ld: %s has not improved for %ld evaluations: "
                    "stopping early", step + 1,
                    l->run->eval.metric_for_best_model, l->state.bad_evals);
    }
    if (l->word.stop != 0 && eval_owed(l, l->state.step))
        return stop(l, l->state.step, err);
    return 0;
}

static int finish(struct loop *l, struct bn_err *err)
{
    const struct bn_run *run = l->run;
    long step = l->state.step;
    struct bn_metric v[3 + BN_OBSERVE_KEYS] = {
        {"train_runtime", bn_now() - l->began},
        {"num_tokens", l->state.window.total_tokens},
        {"num_examples", l->state.window.total_examples},
    };
    size_t n = 3;

    if (log_window(l, step, err) < 0)
        return -1;
    bn_times_enter(BN_TIME_SAVE);
    if (run->save.save_strategy != BN_RUN_STRATEGY_NO
        && l->state.saved_step != step && save(l, step, err) < 0)
        return -1;
    if (bn_save_finish(l->saver, err) < 0)
        return -1;
    if (bn_save_model(l->s, &l->state, err) < 0)
        return -1;
    bn_times_enter(BN_TIME_OTHER);
    if (report(l, v, &n, err) < 0)
        return -1;
    if (leads(l)
        && (bn_metrics_write(l->metrics, BN_METRICS_END, step,
                             epoch_of(l, step), v, n, err) < 0
            || bn_metrics_sync(l->metrics, err) < 0))
        return -1;
    bn_phase_set("done", step);
    return 0;
}

static int open_metrics(struct loop *l, struct bn_err *err)
{
    const char *out = l->run->output_dir;
    char *path = bn_path_join(out, "metrics.jsonl");
    char *tb = l->run->log.report_to & BN_RUN_REPORT_TENSORBOARD
                   ? bn_strdup(out)
                   : NULL;
    int rc = 0;

    if (bn_metrics_truncate(path, l->state.step, &l->state.records, err) < 0)
        rc = -1;
    if (rc == 0) {
        l->metrics = bn_metrics_open(path, tb, l->state.step, err);
        rc = l->metrics != NULL ? 0 : -1;
    }
    free(path);
    free(tb);
    return rc;
}

static int train(struct loop *l, struct bn_err *err)
{
    l->saver = bn_saver_create(l->s, err);
    if (l->saver == NULL
        || bn_load_checkpoint(l->s, l->saver, &l->state, err) < 0)
        return -1;
    if (leads(l))
        bn_save_clean(l->run);
    if (leads(l) && open_metrics(l, err) < 0)
        return -1;
    bn_saver_records(l->saver, l->metrics);
    if (recall_verdict(l, err) < 0)
        return -1;
    long done = l->state.step;
    /* The only record there can be of step 0 is that of its evaluation. */
    bool owed = done == 0 ? l->run->eval.eval_on_start
                                && l->state.records == 0
                          : eval_owed(l, done);
    /* After a signal in evaluation it is made up for. */
    if (owed && evaluate(l, done, err) < 0)
        return -1;
    if (leads(l))
        bn_progress_begin("train", (uint64_t)l->state.step,
                          (uint64_t)l->t->total_steps, 30);
    bn_times_enter(BN_TIME_OTHER);
    int rc = steps(l, err);
    bn_progress_end();
    return rc < 0 ? -1 : finish(l, err);
}

/* Positions that the model has never seen train badly, and nothing else would
 * tell. Dynamic RoPE is made for them. */
static void warn_beyond(const struct bn_session *s)
{
    const struct bn_tokens *sets[] = {s->train, s->eval};
    unsigned long long longest = 0;

    for (size_t i = 0; i < BN_COUNT(sets); i++)
        if (sets[i] != NULL && bn_tokens_stats(sets[i])->longest > longest)
            longest = bn_tokens_stats(sets[i])->longest;
    if (longest > (unsigned long long)s->cfg.max_position
        && s->cfg.rope.type != BN_ROPE_DYNAMIC)
        bn_warn("rows have up to %llu tokens, and the model's "
                "max_position_embeddings is %d: lower max_length, or give "
                "its config a rope_scaling", longest, s->cfg.max_position);
}

/* What --check found: enough to see that it is the run that was meant. */
static void say_run(const struct bn_session *s)
{
    const struct bn_trainer *t = s->trainer;
    char a[32], b[32];

    bn_debug("arena: %zu bytes of state, %zu of activations", t->state,
             t->arena.used - t->state);
    if (s->info.rank != 0)
        return;
    bn_info("model: %s, %d layers, hidden %d, vocabulary %d, %.1f M "
            "parameters, %s", bn_family_name(s->cfg.family), s->cfg.layers,
            s->cfg.hidden_size, s->cfg.vocab_size,
            (double)t->model->params.count / 1e6,
            t->model->t == BN_F32 ? "float32" : "bfloat16");
    if (t->model->adapter != NULL)
        bn_info("adapter: rank %d, %.2f M parameters trained; the model's "
                "own are frozen", t->model->adapter->lora.r,
                (double)t->model->adapter->params.count / 1e6);
    if (t->train != NULL)
        bn_info("steps: %ld of %llu examples in all, %llu an epoch",
                t->total_steps,
                (unsigned long long)bn_plan_global_batch(&t->plan),
                (unsigned long long)bn_plan_steps_per_epoch(&t->plan));
    bn_info("memory: %s for weights and optimizer, %s for up to %d tokens "
            "a micro-batch", bn_str_bytes(a, t->state),
            bn_str_bytes(b, t->arena.used - t->state),
            t->sizes.shape.max_tokens);
    warn_beyond(s);
}

static int eval_only(struct loop *l, struct bn_err *err)
{
    double metrics[BN_LOSS_MAX_KEYS], examples, nll;
    struct bn_metric v[BN_LOSS_MAX_KEYS + 1];
    struct bn_str s = {0};
    size_t n = 0;
    bool stopped;

    if (bn_trainer_eval(l->t, metrics, &examples, &stopped, err) < 0)
        return -1;
    if (stopped)
        return bn_fail(err, BN_ERR_AGAIN, "stopped by a signal in "
                       "evaluation");
    if (!leads(l))
        return 0;
    for (; n < (size_t)l->t->loss->nkeys; n++)
        v[n] = (struct bn_metric){l->t->loss->keys[n], metrics[n]};
    if (bn_record_find(l->t, metrics, "nll_loss", &nll))
        v[n++] = (struct bn_metric){"perplexity", exp(nll)};
    bn_metrics_add(&s, BN_METRICS_EVAL, v, n);
    printf("{\"eval_examples\":%.0f%s}\n", examples, s.s);
    bn_str_release(&s);
    return 0;
}

/* In the output_dir, and in what an earlier run left there that this one will
 * replace in the end. */
static int may_write(const char *dir, struct bn_err *err)
{
    static const char *const replaced[] = {"model", "adapter"};
    int rc = bn_dir_may_write(dir, err);

    for (size_t i = 0; i < BN_COUNT(replaced) && rc == 0; i++) {
        char *path = bn_path_join(dir, replaced[i]);

        if (bn_is_dir(path))
            rc = bn_dir_may_write(path, err);
        free(path);
    }
    return rc;
}

int bn_train_run(const struct bn_run *run, unsigned flags, struct bn_err *err)
{
    struct bn_session s;
    unsigned parts = flags & BN_TRAIN_EVAL_ONLY
                         ? BN_SESSION_EVAL
                         : BN_SESSION_TRAIN | BN_SESSION_EVAL;
    int rc;

    bn_signals_catch();
    bn_times_begin();
    if (flags & BN_TRAIN_EVAL_ONLY && run->data.eval_file.n == 0
        && run->data.eval_split == 0)
        return bn_fail(err, BN_ERR_USAGE, "--eval-only needs evaluation data:"
                       " eval_file or eval_split");
    if ((flags & (BN_TRAIN_EVAL_ONLY | BN_TRAIN_CHECK)) == 0)
        parts |= BN_SESSION_PUBLISH;
    if ((flags & BN_TRAIN_EVAL_ONLY) == 0
        && (may_write(run->output_dir, err) < 0
            || (parts & BN_SESSION_PUBLISH
                && bn_mkdirs(run->output_dir, err) < 0)))
        return bn_err_prefix(err, "output_dir");
    if (bn_session_open(&s, run, parts, 0, err) < 0)
        return -1;
    struct loop l = {.s = &s, .t = s.trainer, .run = run, .began = bn_now()};
    bn_observe_begin(&s, (flags & (BN_TRAIN_EVAL_ONLY | BN_TRAIN_CHECK)) == 0);
    say_run(&s);
    if (flags & BN_TRAIN_EVAL_ONLY)
        rc = eval_only(&l, err);
    else if (flags & BN_TRAIN_CHECK)
        rc = bn_load_checkpoint(&s, NULL, &l.state, err);
    else
        rc = train(&l, err);
    if (rc < 0)
        bn_phase_fail(err);
    bn_observe_end();
    bn_saver_destroy(l.saver);
    bn_metrics_close(l.metrics);
    bn_session_close(&s, rc < 0 && !l.stopped);
    return rc;
}
