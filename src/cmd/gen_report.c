#include "config.h"
#include "cmd/gen_report.h"
#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bn_gen_report_add(struct bn_gen_eval *e, const struct bn_gen_answer *a,
                       const struct bn_prompts *p)
{
    bool ended = a->reason == BN_GEN_EOS;

    bn_gen_eval_add(e, a->ids, a->n - ended, ended, a->text, a->len,
                    p->reference != NULL ? p->reference[a->row] : NULL);
}

int bn_gen_report_write(const struct bn_gen_eval *e, const char *file,
                        struct bn_err *err)
{
    struct bn_metric v[BN_GEN_EVAL_KEYS];
    size_t n = bn_gen_eval_metrics(e, v);
    struct bn_str s = {0};
    int rc = 0;

    for (size_t i = 0; i < n; i++)
        bn_str_addf(&s, "%s\"eval_%s\":%.17g", i > 0 ? "," : "{", v[i].key,
                    v[i].value);
    bn_str_adds(&s, n > 0 ? "}\n" : "{}\n");
    if (strcmp(file, "-") == 0)
        fputs(s.s, stderr);
    else
        rc = bn_file_write(file, s.s, s.len, err);
    bn_str_release(&s);
    return rc;
}

struct last {
    int64_t step;
    double epoch;
};

static int keep(void *arg, const json_t *o, int64_t step, size_t at,
                size_t end, struct bn_err *err)
{
    struct last *l = arg;

    (void)at;
    (void)end;
    (void)err;
    l->step = step;
    l->epoch = json_number_value(json_object_get(o, "epoch"));
    return 0;
}

int bn_gen_report_record(const struct bn_gen_eval *e, const char *run_dir,
                         struct bn_err *err)
{
    struct bn_metric v[BN_GEN_EVAL_KEYS];
    size_t n = bn_gen_eval_metrics(e, v);
    char *path = bn_path_join(run_dir, "metrics.jsonl");
    struct last last = {.step = -1};
    struct bn_metrics *m = NULL;
    int rc = bn_metrics_scan(path, keep, &last, err);

    if (rc == 0 && last.step < 0)
        rc = bn_fail(err, BN_ERR_DATA, "'%s' has no record: is it a run that "
                     "has trained?", path);
    if (rc == 0) {
        m = bn_metrics_open(path, NULL, last.step, err);
        rc = m != NULL ? 0 : -1;
    }
    if (rc == 0)
        rc = bn_metrics_write(m, BN_METRICS_EVAL, last.step, last.epoch, v, n,
                              err);
    if (rc == 0)
        rc = bn_metrics_sync(m, err);
    bn_metrics_close(m);
    free(path);
    return rc;
}
