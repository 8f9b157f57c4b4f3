/* burnish encode: JSON lines of text in, JSON arrays of ids out. */
#include "config.h"
#include "cmd/cmd.h"
#include "cmd/lines.h"
#include "text/tokenizer.h"

#include <getopt.h>
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

static const char help[] =
    "usage: burnish encode --tokenizer DIR [--no-special-tokens] [FILE...]\n"
    "\n"
    "Reads JSON lines (a string, or an object with a string 'text') from the\n"
    "files or standard input and writes one array of token ids a line.\n"
    "\n"
    "  --tokenizer DIR       folder with tokenizer.json, or that file\n"
    "  --no-special-tokens   do not add what the tokenizer puts around a "
    "text\n";

int bn_cmd_encode(int argc, char **argv)
{
    static const struct option options[] = {
        {"tokenizer", required_argument, NULL, 't'},
        {"no-special-tokens", no_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct encode e = {.special = true};
    const char *path = NULL;
    struct bn_err err;
    int c, status = 0;

    opterr = 0;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 't') {
            path = optarg;
        } else if (c == 'n') {
            e.special = false;
        } else if (c == 'h') {
            fputs(help, stdout);
            return 0;
        } else {
            return bn_cmd_usage("encode", "bad option '%s'",
                                argv[optind - 1]);
        }
    }
    if (path == NULL)
        return bn_cmd_usage("encode", "--tokenizer is missing");
    struct bn_tokenizer *t = bn_tokenizer_open(path, &err);
    if (t == NULL)
        return bn_cmd_fail("encode", &err);
    e.encoder = bn_encoder_create(t);
    if (bn_cmd_lines(argv + optind, argc - optind, encode_line, &e, &err) < 0)
        status = bn_cmd_fail("encode", &err);
    bn_encoder_destroy(e.encoder);
    bn_ids_release(&e.ids);
    bn_tokenizer_close(t);
    return status;
}
