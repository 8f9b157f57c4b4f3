#include "config.h"
#include "train/record.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void bn_window_add(struct bn_window *w, const struct bn_step_result *r,
                   double seconds)
{
    for (int k = 0; k < BN_LOSS_MAX_KEYS; k++)
        w->sums[k] += r->metrics[k];
    w->tokens += r->tokens;
    w->flops += r->flops;
    w->seconds += seconds;
    w->steps++;
    w->total_tokens += r->tokens;
    w->total_examples += r->examples;
    w->last = *r;
}

enum { EXTRA = 8 };

int bn_window_write(struct bn_window *w, struct bn_metrics *m,
                    const struct bn_trainer *t, long step, double epoch,
                    struct bn_err *err)
{
    struct bn_metric v[BN_LOSS_MAX_KEYS + EXTRA];
    size_t n = 0;
    double secs = w->seconds > 0 ? w->seconds : 1e-9;

    for (int k = 0; k < t->loss->nkeys; k++)
        v[n++] = (struct bn_metric){t->loss->keys[k],
                                    w->sums[k] / (double)w->steps};
    v[n++] = (struct bn_metric){"grad_norm", w->last.grad_norm};
    v[n++] = (struct bn_metric){"learning_rate", w->last.lr};
    v[n++] = (struct bn_metric){"num_tokens", w->total_tokens};
    v[n++] = (struct bn_metric){"num_examples", w->total_examples};
    v[n++] = (struct bn_metric){"tokens_per_second", w->tokens / secs};
    v[n++] = (struct bn_metric){"model_flops_per_second", w->flops / secs};
    v[n++] = (struct bn_metric){"step_seconds", secs / (double)w->steps};
    if (bn_metrics_write(m, BN_METRICS_TRAIN, step, epoch, v, n, err) < 0)
        return -1;
    memset(w->sums, 0, sizeof(w->sums));
    w->tokens = w->flops = w->seconds = 0;
    w->steps = 0;
    return 0;
}

int bn_record_eval(struct bn_metrics *m, const struct bn_trainer *t,
                   const double *metrics, double examples, double seconds,
                   long step, double epoch, struct bn_err *err)
{
    struct bn_metric v[BN_LOSS_MAX_KEYS + EXTRA];
    size_t n = 0;
    double nll;

    for (int k = 0; k < t->loss->nkeys; k++)
        v[n++] = (struct bn_metric){t->loss->keys[k], metrics[k]};
    if (bn_record_find(t, metrics, "nll_loss", &nll))
        v[n++] = (struct bn_metric){"perplexity", exp(nll)};
    v[n++] = (struct bn_metric){"runtime", seconds};
    v[n++] = (struct bn_metric){"samples_per_second",
                                examples / (seconds > 0 ? seconds : 1e-9)};
    return bn_metrics_write(m, BN_METRICS_EVAL, step, epoch, v, n, err);
}

void bn_window_text(const struct bn_window *w, char *out)
{
    double secs = w->seconds > 0 ? w->seconds : 1e-9;
    double n = w->steps > 0 ? (double)w->steps : 1;

    snprintf(out, 160, "loss %.4f, %.0f tok/s, %.1f GFLOP/s",
             w->sums[0] / n, w->tokens / secs, w->flops / secs / 1e9);
}

bool bn_record_find(const struct bn_trainer *t, const double *metrics,
                    const char *key, double *value)
{
    if (bn_str_starts(key, "eval_"))
        key += strlen("eval_");
    for (int k = 0; k < t->loss->nkeys; k++)
        if (strcmp(t->loss->keys[k], key) == 0) {
            *value = metrics[k];
            return true;
        }
    return false;
}
