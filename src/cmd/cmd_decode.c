/* burnish decode: JSON arrays of ids in, JSON strings out. */
#include "config.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/lines.h"
#include "text/tokenizer.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

struct decode {
    const struct bn_tokenizer *t;
    struct bn_ids ids;
    struct bn_str text;
    bool skip_special;
};

static int decode_line(void *arg, const json_t *line, struct bn_str *out,
                       struct bn_err *err)
{
    struct decode *d = arg;
    size_t i;
    json_t *v;

    if (!json_is_array(line))
        return bn_fail(err, BN_ERR_DATA, "must be an array of ids");
    d->ids.n = 0;
    json_array_foreach (line, i, v) {
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;

        if (id < 0 || id > INT32_MAX)
            return bn_fail(err, BN_ERR_DATA, "element %zu is not an id", i);
        bn_grow(&d->ids.v, &d->ids.cap, d->ids.n + 1, sizeof(int32_t));
        d->ids.v[d->ids.n++] = (int32_t)id;
    }
    bn_str_clear(&d->text);
    if (bn_decode(d->t, d->ids.v, d->ids.n, d->skip_special, &d->text, err)
        < 0)
        return -1;
    bn_str_add_json(out, d->text.s != NULL ? d->text.s : "", d->text.len);
    bn_str_addc(out, '\n');
    return 0;
}

static const char help[] =
    "usage: burnish decode --tokenizer DIR [--skip-special-tokens] "
    "[FILE...]\n"
    "\n"
    "Reads JSON lines, each an array of token ids, from the files or\n"
    "standard input and writes one JSON string a line.\n"
    "\n"
    "  --tokenizer DIR         folder with tokenizer.json, or that file\n"
    "  --skip-special-tokens   leave special tokens out of the text\n";

int bn_cmd_decode(int argc, char **argv)
{
    static const struct option options[] = {
        {"tokenizer", required_argument, NULL, 't'},
        {"skip-special-tokens", no_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct decode d = {0};
    const char *path = NULL;
    struct bn_err err;
    int c, status = 0;

    opterr = 0;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 't') {
            path = optarg;
        } else if (c == 's') {
            d.skip_special = true;
        } else if (c == 'h') {
            fputs(help, stdout);
            return 0;
        } else {
            return bn_cmd_usage("decode", "bad option '%s'",
                                argv[optind - 1]);
        }
    }
    if (path == NULL)
        return bn_cmd_usage("decode", "--tokenizer is missing");
    struct bn_tokenizer *t = bn_tokenizer_open(path, &err);
    if (t == NULL)
        return bn_cmd_fail("decode", &err);
    d.t = t;
    if (bn_cmd_lines(argv + optind, argc - optind, decode_line, &d, &err) < 0)
        status = bn_cmd_fail("decode", &err);
    bn_ids_release(&d.ids);
    bn_str_release(&d.text);
    bn_tokenizer_close(t);
    return status;
}
