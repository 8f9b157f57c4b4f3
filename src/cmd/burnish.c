/* The login tool: finds the command, runs it, and leaves with its status. */
#include "config.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/opts.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct bn_cmd bn_cmds[] = {
    {"encode", bn_cmd_encode, "turn lines of text into token ids"},
    {"decode", bn_cmd_decode, "turn lines of token ids into text"},
    {"tokenize", bn_cmd_tokenize, "make a run's token cache and show it"},
    {"render", bn_cmd_render, "turn lines of messages into text"},
    {"convert", bn_cmd_convert, "bring in a checkpoint of another layout"},
    {"lora", bn_cmd_lora, "an adapter into its model, and out again"},
    {"sweep", bn_cmd_sweep, "check, submit, watch and rank many runs"},
    {"clean", bn_cmd_clean, "end and remove what jobs left behind here"},
    {"mps", bn_cmd_mps, "the MPS daemon of one job"},
    {"plan", bn_cmd_plan, "memory and communication of a run"},
    {"ckpt", bn_cmd_ckpt, "list, verify and export checkpoints"},
    {"doctor", bn_cmd_doctor, "is this machine fit, and what went wrong"},
    {NULL, NULL, NULL},
};

int bn_cmd_fail(const char *name, const struct bn_err *err)
{
    bn_error("burnish %s: %s", name, err->text);
    return err->code;
}

int bn_cmd_usage(const char *name, const char *fmt, ...)
{
    struct bn_str text = {0};
    va_list ap;

    va_start(ap, fmt);
    bn_str_vaddf(&text, fmt, ap);
    va_end(ap);
    bn_error("burnish %s: %s (see 'burnish %s --help')", name, text.s, name);
    bn_str_release(&text);
    return BN_ERR_USAGE;
}

static void help(FILE *to)
{
    static const struct bn_opt opts[] = {
        {"help", BN_OPT_FLAG, NULL, NULL, "print this and exit"},
        {"version", BN_OPT_FLAG, NULL, NULL, "print it and exit"},
        {0},
    };

    fprintf(to, "usage: burnish COMMAND [ARGUMENT...]\n\n");
    for (const struct bn_cmd *c = bn_cmds; c->name != NULL; c++)
        fprintf(to, "  %-10s %s\n", c->name, c->help);
    fputc('\n', to);
    bn_opts_help(opts, to);
    fprintf(to, "\n'burnish COMMAND --help' says more.\n");
}

static int unknown(const char *word)
{
    const char *names[64];
    size_t n = 0;

    for (const struct bn_cmd *c = bn_cmds; c->name != NULL && n < 64; c++)
        names[n++] = c->name;
    const char *near = bn_str_nearest(word, names, n);
    if (near != NULL)
        bn_error("burnish: no command '%s'; did you mean '%s'?", word, near);
    else
        bn_error("burnish: no command '%s' (see 'burnish --help')", word);
    return BN_ERR_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return BN_ERR_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("burnish %s\n", PACKAGE_VERSION);
        return 0;
    }
    signal(SIGPIPE, SIG_IGN); /* children that end early are no fault */
    for (const struct bn_cmd *c = bn_cmds; c->name != NULL; c++)
        if (strcmp(c->name, argv[1]) == 0)
            return c->run(argc - 1, argv + 1);
    return unknown(argv[1]);
}
