/* burnish encode: JSON lines of text in, JSON arrays of ids out. */
#include "config.h"
#include "cmd/cmd.h"
#include "cmd/lines.h"
#include "cmd/opts.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

struct encode {
    struct bn_encoder *encoder;
    struct bn_ids ids;
    bool special;
};

static int encode_line(void *arg, const json_t *line, struct bn_str *out,
                       struct bn_err *err)
{
    struct encode *e = arg;
    const json_t *v =
        json_is_object(line) ? json_object_get(line, "text") : line;

    if (!json_is_string(v))
        return bn_fail(err, BN_ERR_DATA, "must be a string or an object with "
                       "a string 'text'");
    e->ids.n = 0;
    if (bn_encode(e->encoder, json_string_value(v), json_string_length(v),
                  e->special, &e->ids, err) < 0)
        return -1;
    bn_str_addc(out, '[');
    for (size_t i = 0; i < e->ids.n; i++)
        bn_str_addf(out, i == 0 ? "%d" : ",%d", e->ids.v[i]);
    bn_str_adds(out, "]\n");
    return 0;
}

static const char usage[] =
    "usage: burnish encode --tokenizer DIR [--no-special-tokens] [FILE...]\n"
    "\n"
    "Reads JSON lines (a string, or an object with a string 'text') from the\n"
    "files or standard input and writes one array of token ids a line.\n"
    "\n";

static int encode(struct encode *e, const char *path,
                  const struct bn_opt_list *files)
{
    struct bn_err err;
    struct bn_tokenizer *t = bn_tokenizer_open(path, &err);
    int status = 0;

    if (t == NULL)
        return bn_cmd_fail("encode", &err);
    e->encoder = bn_encoder_create(t);
    if (bn_cmd_lines(files->v, files->n, encode_line, e, &err) < 0)
        status = bn_cmd_fail("encode", &err);
    bn_encoder_destroy(e->encoder);
    bn_ids_release(&e->ids);
    bn_tokenizer_close(t);
    return status;
}

int bn_cmd_encode(int argc, char **argv)
{
    struct encode e = {0};
    struct bn_opt_list files = {0};
    const char *path = NULL;
    bool plain = false, help = false;
    const struct bn_opt opts[] = {
        {"tokenizer", BN_OPT_STR, &path, "DIR",
         "folder with tokenizer.json, or that file"},
        {"no-special-tokens", BN_OPT_FLAG, &plain, NULL,
         "do not add what the tokenizer puts around a text"},
        {"help", BN_OPT_FLAG, &help, NULL, "print this and exit"},
        {0},
    };
    struct bn_err err;
    int status = 0;

    if (bn_opts_parse(opts, argc, argv, &files, &err) < 0) {
        status = bn_cmd_usage("encode", "%s", err.text);
    } else if (help) {
        fputs(usage, stdout);
        bn_opts_help(opts, stdout);
    } else if (path == NULL) {
        status = bn_cmd_usage("encode", "--tokenizer is missing");
    } else {
        e.special = !plain;
        status = encode(&e, path, &files);
    }
    bn_opt_list_release(&files);
    return status;
}
