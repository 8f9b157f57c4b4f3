/* burnish convert: bring a model in, or write one in a foreign layout. */
#include "config.h"
#include "cmd/cmd.h"
#include "cmd/opts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "convert/run.h"

static const char usage[] =
    "usage: burnish convert --layout NAME [OPTION...] SOURCE... OUTPUT\n"
    "\n"
    "Makes the Hugging Face folder OUTPUT of the checkpoint SOURCE, whose\n"
    "layout is declared, not guessed: a file templates/layouts/NAME.yaml, or\n"
    "a file of your own by its path. Several SOURCE files are the shards of\n"
    "tensor-parallel ranks, in their order. Every tensor is used once, must be what\n"
    "the config implies, and is converted back to compare. The folder is read\n"
    "again: its rows, its config, its tokenizer, and what it computes, which\n"
    "must be what the source computes, and worse when the weights are read in\n"
    "the ways that converters go wrong. What was checked is printed. OUTPUT\n"
    "appears whole or not at all.\n"
    "\n";

struct args {
    const char *layout, *config, *tokenizer, *dtype, *reader, *reference;
    const char *text;
    int64_t max_gib, tokens;
    bool back, nonfinite, zero, same, untrained, help;
};

/* malloc'ed: a name is looked up among the templates. */
static char *layout_path(const char *layout)
{
    const char *root = getenv("BURNISH_TEMPLATES");

    if (strchr(layout, '/') != NULL || bn_str_ends(layout, ".yaml"))
        return bn_strdup(layout);
    return bn_asprintf("%s/layouts/%s.yaml",
                       root != NULL ? root : BN_DATADIR "/templates",
                       layout);
}

static int parse_dtype(const char *s)
{
    return strcmp(s, "bf16") == 0   ? BN_BF16
           : strcmp(s, "fp16") == 0 ? BN_F16
           : strcmp(s, "fp32") == 0 ? BN_F32
                                    : -1;
}

static int parse_reader(const char *s)
{
    for (int i = 0; i < BN_NREADER; i++)
        if (strcmp(s, bn_reader_name((enum bn_reader)i)) == 0)
            return i;
    return -1;
}

/* words: sources, one a tensor-parallel rank, then the output. */
static int run(const struct args *a, const struct bn_opt_list *words)
{
    const char *output = words->v[words->n - 1];
    struct bn_convert_job j = {
        .source = words->v[0],
        .shards = words->v + 1,
        .n_shards = (int)words->n - 2,
        .config = a->config,
        .tokenizer = a->tokenizer,
        .output = output,
        .max_bytes = (uint64_t)a->max_gib << 30,
        .flags = (a->nonfinite ? BN_CONVERT_ALLOW_NONFINITE : 0u)
                 | (a->zero ? BN_CONVERT_ALLOW_ZERO : 0u)
                 | (a->same ? BN_CONVERT_ALLOW_SAME : 0u)
                 | (a->untrained ? BN_CONVERT_ALLOW_UNTRAINED : 0u),
        .reader = -1,
        .reference = a->reference,
        .tokens = (int)a->tokens,
    };
    struct bn_str report = {0};
    struct bn_err err = {0};
    int dtype = parse_dtype(a->dtype);

    if (dtype < 0)
        return bn_cmd_usage("convert", "--dtype must be fp32, bf16 or fp16, "
                            "not '%s'", a->dtype);
    j.dtype = (enum bn_dtype)dtype;
    if (a->reader != NULL) {
        j.reader = parse_reader(a->reader);
        if (j.reader < 0)
            return bn_cmd_usage("convert", "--reader must be safetensors, "
                                "torch, gguf or llama2c, not '%s'",
                                a->reader);
    }
    if (a->max_gib < 1 || a->max_gib > 1024)
        return bn_cmd_usage("convert", "--max-file-gib must be 1 to 1024");
    if (a->tokens < 0 || a->tokens > 4096)
        return bn_cmd_usage("convert", "--verify-tokens must be 0 to 4096");
    char *text = NULL;
    size_t len;
    if (a->text != NULL) {
        text = bn_file_read(a->text, 1 << 20, &len, &err);
        if (text == NULL)
            return bn_cmd_fail("convert", &err);
    }
    j.text = text;
    char *layout = layout_path(a->layout);
    j.layout = layout;
    int rc = a->back ? bn_convert_back(&j, &report, &err)
                     : bn_convert_run(&j, &report, &err);
    if (report.len > 0)
        fwrite(report.s, 1, report.len, rc < 0 ? stderr : stdout);
    bn_str_release(&report);
    free(layout);
    free(text);
    return rc < 0 ? bn_cmd_fail("convert", &err) : 0;
}

int bn_cmd_convert(int argc, char **argv)
{
    struct args a = {.dtype = "bf16", .max_gib = 5, .tokens = 48};
    const struct bn_opt opts[] = {
        {"layout", BN_OPT_STR, &a.layout, "NAME",
         "how the source names and fuses its tensors"},
        {"config", BN_OPT_STR, &a.config, "FILE",
         "config.json of the model; by default the one in SOURCE, or what a "
         "GGUF or llama2.c file says"},
        {"tokenizer", BN_OPT_STR, &a.tokenizer, "DIR",
         "take tokenizer files from here, not from beside the config"},
        {"dtype", BN_OPT_STR, &a.dtype, "fp32|bf16|fp16",
         "of the weights written (default: bf16)"},
        {"max-file-gib", BN_OPT_INT, &a.max_gib, "N",
         "several files above this size (default 5)"},
        {"back", BN_OPT_FLAG, &a.back, NULL,
         "from the Hugging Face folder SOURCE to a safetensors file OUTPUT "
         "in the layout"},
        {"reader", BN_OPT_STR, &a.reader, "NAME",
         "file format, where it is not the layout's usual one"},
        {"reference", BN_OPT_STR, &a.reference, "PATH",
         "compare logits with this Hugging Face folder, or with the numbers "
         "in this JSON file"},
        {"text", BN_OPT_STR, &a.text, "FILE",
         "what the model is to predict in these checks, by default a few "
         "sentences in English"},
        {"verify-tokens", BN_OPT_INT, &a.tokens, "N",
         "tokens of it to run (default 48; 0: no forward passes)"},
        {"allow-nonfinite", BN_OPT_FLAG, &a.nonfinite, NULL,
         "let NaN and infinity pass"},
        {"allow-zero", BN_OPT_FLAG, &a.zero, NULL,
         "let matrices pass that are all zero"},
        {"allow-same", BN_OPT_FLAG, &a.same, NULL,
         "let matrices pass that equal another"},
        {"allow-untrained", BN_OPT_FLAG, &a.untrained, NULL,
         "let weights pass that look random or predict nothing"},
        {"help", BN_OPT_FLAG, &a.help, NULL, "say this, and exit"},
        {NULL, BN_OPT_FLAG, NULL, NULL, NULL},
    };
    struct bn_opt_list words = {0};
    struct bn_err err = {0};
    int rc;

    if (bn_opts_parse(opts, argc, argv, &words, &err) < 0) {
        rc = bn_cmd_usage("convert", "%s", err.text);
    } else if (a.help) {
        fputs(usage, stdout);
        bn_opts_help(opts, stdout);
        rc = 0;
    } else if (words.n < 2 || (a.back && words.n > 2) || a.layout == NULL) {
        rc = bn_cmd_usage("convert", a.layout == NULL
                                         ? "--layout is missing"
                                         : "SOURCE and OUTPUT are needed");
    } else {
        rc = run(&a, &words);
    }
    bn_opt_list_release(&words);
    return rc;
}
