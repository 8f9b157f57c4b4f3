/* burnish lora: adapters into and out of models, without a device. */
#include "config.h"
#include "base/mem.h"
#include "ckpt/peft.h"
#include "cmd/cmd.h"
#include "cmd/opts.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: burnish lora merge [OPTIONS] MODEL ADAPTER OUTPUT\n"
    "       burnish lora unmerge [OPTIONS] MERGED ADAPTER OUTPUT\n"
    "\n";

enum { MERGE, UNMERGE };
static const struct bn_verb verbs[] = {
    {"merge", "write MODEL with what the PEFT folder ADAPTER adds to its "
              "matrices, and its saved modules, as a Hugging Face folder"},
    {"unmerge", "take the same away again, as exactly as the type has digits"},
    {0},
};

static int run(int verb, const struct bn_opt_list *words, const char *dtype)
{
    static const struct {
        const char *name;
        enum bn_dtype t;
    } all[] = {{"float32", BN_F32}, {"bfloat16", BN_BF16},
               {"float16", BN_F16}};
    const enum bn_dtype *t = NULL;
    int sign = verb == MERGE ? 1 : -1;
    struct bn_err err;

    for (size_t i = 0; dtype != NULL && i < BN_COUNT(all); i++)
        if (strcmp(dtype, all[i].name) == 0)
            t = &all[i].t;
    if (bn_peft_merge(words->v[1], words->v[2], words->v[3], sign, t, &err)
        < 0)
        return bn_cmd_fail("lora", &err);
    return 0;
}

int bn_cmd_lora(int argc, char **argv)
{
    struct bn_opt_list words = {0};
    const char *dtype = NULL;
    bool help = false;
    const struct bn_opt opts[] = {
        {"dtype", BN_OPT_STR, &dtype, "float32|bfloat16|float16",
         "of the weights (default: that of the model's matrices)"},
        {"help", BN_OPT_FLAG, &help, NULL, "print this and exit"},
        {0},
    };
    struct bn_err err;
    int status = 0, verb;

    if (bn_opts_parse(opts, argc, argv, &words, &err) < 0) {
        status = bn_cmd_usage("lora", "%s", err.text);
    } else if (help) {
        fputs(usage, stdout);
        bn_verbs_help(verbs, stdout);
        bn_opts_help(opts, stdout);
    } else if ((verb = bn_verb_find(verbs, &words, &err)) < 0) {
        status = bn_cmd_usage("lora", "%s", err.text);
    } else if (words.n == 4) {
        status = run(verb, &words, dtype);
    } else {
        status = bn_cmd_usage("lora", "expected a verb, MODEL, ADAPTER and "
                              "OUTPUT");
    }
    bn_opt_list_release(&words);
    return status;
}
