/* burnish plan: memory and communication of a run, before it starts. */
#include "config.h"
#include "base/mem.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/opts.h"
#include "data/data.h"
#include "train/data_opts.h"
#include "train/plan.h"

#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: burnish plan [OPTIONS] RUN.yaml\n\n"
    "Print what the ranks of a run take: bytes by class and the bytes that a\n"
    "step sends. The lengths are those of the run's data, whose token cache is\n"
    "made if it is not there, or those of --longest.\n\n";

struct args {
    struct bn_run_args run;
    struct bn_opt_list words;
    int64_t ranks, longest; /* 0: not said */
    double memory_gib;      /* 0: not said */
    bool json, help;
};

/* From the token cache, which is made if it is not there. */
static int data_lengths(const struct bn_run *run, struct bn_set_size *train,
                        struct bn_set_size *eval, struct bn_err *err)
{
    struct bn_tokens *sets[2] = {NULL, NULL};
    struct bn_set_size *out[2] = {train, eval};
    struct bn_data_opts o;
    char *template;

    if (bn_session_data_opts(&o, run, &template, err) < 0)
        return -1;
    struct bn_tokenizer *t =
        bn_tokenizer_open(run->model.tokenizer_name_or_path, err);
    int rc = t != NULL ? bn_tokens_make(&sets[0], &sets[1], &o, t, err) : -1;
    for (int i = 0; rc == 0 && i < 2; i++)
        if (sets[i] != NULL)
            *out[i] = (struct bn_set_size){bn_tokens_count(sets[i]),
                                           bn_tokens_longest(sets[i])};
    bn_tokens_close(sets[0]);
    bn_tokens_close(sets[1]);
    bn_tokenizer_close(t);
    free(template);
    return rc;
}

static int lengths(const struct args *a, const struct bn_run *run,
                   struct bn_set_size *train, struct bn_set_size *eval,
                   struct bn_err *err)
{
    if (a->longest > 0) {
        bool has_eval = run->data.eval_file.n > 0 || run->data.eval_split > 0;

        *train = (struct bn_set_size){UINT32_MAX, a->longest};
        *eval = (struct bn_set_size){has_eval ? UINT32_MAX : 0, a->longest};
        return 0;
    }
    return data_lengths(run, train, eval, err);
}

/* --- One mesh -------------------------------------------------------------- */

static void print_json(const struct bn_rank_plan *p, int pp, int tp)
{
    printf("{\"pp\":%d,\"tp\":%d,\"first_layer\":%d,\"end_layer\":%d,"
           "\"weights\":%zu,\"gradients\":%zu,"
           "\"tables\":%zu,\"optimizer\":%zu,\"activations\":%zu,"
           "\"gpu_scratch\":%zu,"
           "\"state\":%zu,\"comm\":%zu,\"copy\":%zu,\"dp_bytes\":%.0f,"
           "\"tp_bytes\":%.0f,\"pp_bytes\":%.0f,\"cp_bytes\":%.0f}\n", pp, tp,
           p->first_layer, p->end_layer,
           p->weights, p->gradients, p->tables, p->optimizer, p->activations,
           p->gpu_scratch,
           p->weights + p->gradients + p->tables + p->optimizer, p->comm,
           p->copy, p->dp_bytes, p->tp_bytes, p->pp_bytes, p->cp_bytes);
}

static void print_class(const char *name, size_t bytes)
{
    char text[32];

    printf("  %-26s %12s\n", name, bn_str_bytes(text, bytes));
}

static void print_rank(const struct bn_rank_plan *p, int pp, int tp)
{
    printf("stage %d, tensor rank %d: layers %d to %d\n", pp, tp,
           p->first_layer, p->end_layer - 1);
    print_class("weights", p->weights);
    print_class("gradients", p->gradients);
    print_class("position tables", p->tables);
    print_class("optimizer", p->optimizer);
    print_class("activations", p->activations);
    if (p->gpu_scratch > 0)
        print_class("scratch, if it is a GPU", p->gpu_scratch);
    print_class("in all, on the device", bn_rank_plan_device(p));
    print_class("host: buffers of CPU ranks", p->comm);
    print_class("host: copy for checkpoints", p->copy);
    print_class("sent a step: dp", (size_t)p->dp_bytes);
    print_class("sent a step: tp", (size_t)p->tp_bytes);
    print_class("sent a step: pp", (size_t)p->pp_bytes);
    print_class("sent a step: cp", (size_t)p->cp_bytes);
}

struct job {
    const struct args *a;
    const struct bn_run *run;
    struct bn_model_config cfg;
    struct bn_set_size train, eval;
};

static int one_mesh(const struct job *j, struct bn_err *err)
{
    const struct bn_run_mesh *r = &j->run->mesh;
    struct bn_plan_mesh m = {(int)r->data_parallel_size,
                             (int)r->tensor_parallel_size,
                             (int)r->pipeline_parallel_size,
                             (int)r->context_parallel_size};
    int rest = m.tp * m.pp * m.cp;

    if (m.dp == 0)
        m.dp = j->a->ranks > 0 ? (int)j->a->ranks / rest : 1;
    if (j->a->ranks > 0 && m.dp * rest != j->a->ranks)
        return bn_fail(err, BN_ERR_USAGE, "dp %d x tp %d x pp %d x cp %d is "
                       "not %lld ranks", m.dp, m.tp, m.pp, m.cp,
                       (long long)j->a->ranks);
    if (!j->a->json)
        printf("dp %d x tp %d x pp %d x cp %d = %d ranks; neighbours differ "
               "in tp, then cp, dp, pp\n", m.dp, m.tp, m.pp, m.cp,
               m.dp * rest);
    if (!j->a->json && m.pp > 1 && bn_run_split_measured(j->run))
        printf("layers by size here: the run measures them when it starts\n");
    for (int pp = 0; pp < m.pp; pp++)
        for (int tp = 0; tp < m.tp; tp++) {
            struct bn_rank_plan p;

            if (bn_plan_rank(&p, j->run, &j->cfg, &m, pp, tp, j->train,
                             j->eval, err) < 0)
                return -1;
            if (j->a->json)
                print_json(&p, pp, tp);
            else if (tp == 0)
                print_rank(&p, pp, tp);
        }
    return 0;
}

/* --- All meshes of so many ranks ------------------------------------------- */

struct fit {
    struct bn_plan_mesh m;
    size_t device;
    double sent;
};

static int by_sent(const void *a, const void *b)
{
    const struct fit *x = a, *y = b;

    return (x->sent > y->sent) - (x->sent < y->sent);
}

/* Those that fit, the ones that send least first. */
static int all_meshes(const struct job *j, struct bn_err *err)
{
    int n = (int)j->a->ranks;
    double room = j->a->memory_gib * (1 << 30);
    size_t nfit = 0, cap = 0;
    struct fit *fits = NULL;
    char a[32], b[32];

    if (n < 1)
        return bn_fail(err, BN_ERR_USAGE, "--memory needs --ranks");
    for (int tp = 1; tp <= n; tp++)
        for (int pp = 1; pp <= n / tp; pp++)
            for (int cp = 1; cp <= n / tp / pp; cp++) {
                struct fit f = {.m = {n / tp / pp / cp, tp, pp, cp}};

                if (f.m.dp * tp * pp * cp != n
                    || bn_plan_worst(&f.device, &f.sent, j->run, &j->cfg,
                                     &f.m, j->train, j->eval, NULL) < 0
                    || (double)f.device > room)
                    continue;
                bn_grow(&fits, &cap, nfit + 1, sizeof(*fits));
                fits[nfit++] = f;
            }
    if (nfit > 0)
        qsort(fits, nfit, sizeof(*fits), by_sent);
    printf("%4s %4s %4s %4s %14s %14s\n", "dp", "tp", "pp", "cp",
           "a rank takes", "sends a step");
    for (size_t i = 0; i < nfit; i++)
        printf("%4d %4d %4d %4d %14s %14s\n", fits[i].m.dp, fits[i].m.tp,
               fits[i].m.pp, fits[i].m.cp, bn_str_bytes(a, fits[i].device),
               bn_str_bytes(b, (uint64_t)fits[i].sent));
    free(fits);
    return nfit > 0 ? 0
                    : bn_fail(err, BN_ERR_USAGE, "no layout of %d ranks fits "
                              "%g GiB", n, j->a->memory_gib);
}

/* The option whose number is out of range; NULL: none. */
static const char *out_of_range(const struct args *a)
{
    if (a->ranks < 0 || a->ranks > 1 << 20)
        return "--ranks";
    if (a->longest < 0 || a->longest > INT32_MAX)
        return "--longest";
    return a->memory_gib < 0 || a->memory_gib > 1 << 20 ? "--memory" : NULL;
}

int bn_cmd_plan(int argc, char **argv)
{
    struct args a = {0};
    const struct bn_opt opts[] = {
        BN_RUN_OPTS(&a.run),
        {"ranks", BN_OPT_INT, &a.ranks, "N", "how many ranks there are"},
        {"memory", BN_OPT_NUM, &a.memory_gib, "GIB",
         "list the layouts of all ranks that fit this much a rank"},
        {"longest", BN_OPT_INT, &a.longest, "TOKENS",
         "tokens of the longest example, instead of reading the data"},
        {"json", BN_OPT_FLAG, &a.json, NULL, "one JSON object a rank"},
        {"help", BN_OPT_FLAG, &a.help, NULL, "print this and exit"},
        {0},
    };
    struct bn_err err;
    int status = BN_ERR_USAGE, rc;

    if (bn_opts_parse(opts, argc, argv, &a.words, &err) < 0)
        return bn_cmd_fail("plan", &err);
    if (a.help) {
        fputs(usage, stdout);
        bn_opts_help(opts, stdout);
        return 0;
    }
    if (a.words.n != 1)
        return bn_cmd_usage("plan", "one run file is expected");
    const char *wrong = out_of_range(&a);
    if (wrong != NULL)
        return bn_cmd_usage("plan", "%s is out of range", wrong);
    struct bn_run *run = bn_run_args_load(&a.run, a.words.v[0], 0, &status);
    if (run != NULL) {
        struct job j = {.a = &a, .run = run};

        rc = bn_trainer_config(run, &j.cfg, &err);
        if (rc == 0)
            rc = lengths(&a, run, &j.train, &j.eval, &err);
        if (rc == 0)
            rc = a.memory_gib > 0 ? all_meshes(&j, &err)
                                  : one_mesh(&j, &err);
        status = rc < 0 ? bn_cmd_fail("plan", &err) : 0;
    }
    bn_run_free(run);
    bn_opt_list_release(&a.words);
    bn_opt_list_release(&a.run.sets);
    return status;
}
