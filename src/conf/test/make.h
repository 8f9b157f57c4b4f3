/* For tests of run files: a run made of text. */
#ifndef BN_CONF_TEST_MAKE_H
#define BN_CONF_TEST_MAKE_H

#include "base/tap.h"
#include "conf/key.h"

#include <stdio.h>
#include <string.h>

static const char small[] = "task: orpo\nmodel_name_or_path: m\n"
                            "train_file: a.jsonl\noutput_dir: out/x\n";

static inline struct bn_run *make(const char *text, unsigned flags,
                           struct bn_problems *p)
{
    struct bn_yaml_doc *doc = bn_yaml_parse(text, strlen(text), "r", p);

    if (doc == NULL)
        return NULL;
    struct bn_run_parts parts = {.base = bn_yaml_root(doc), .flags = flags};
    struct bn_run *run = bn_run_make(&parts, p);
    bn_yaml_free(doc); /* the run must not need it */
    if (run != NULL && p->n > 0) {
        bn_run_free(run);
        return NULL;
    }
    return run;
}

static inline struct bn_run *make_ok(const char *text)
{
    struct bn_problems p = {0};
    struct bn_run *run = make(text, 0, &p);

    bn_problems_print(&p, stderr);
    assert_int_equal(p.n, 0);
    assert_non_null(run);
    return run;
}

#endif
