/* burnish decode: JSON arrays of ids in, JSON strings out. */
#include "config.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/lines.h"
#include "cmd/opts.h"
#include "text/tokenizer.h"

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

static const char usage[] =
    "usage: burnish decode --tokenizer DIR [--skip-special-tokens] "
    "[FILE...]\n"
    "\n"
    "Reads JSON lines, each an array of token ids, from the files or\n"
    "standard input and writes one JSON string a line.\n"
    "\n";

static int decode(struct decode *d, const char *path,
                  const struct bn_opt_list *files)
{
    struct bn_err err;
    struct bn_tokenizer *t = bn_tokenizer_open(path, &err);
    int status = 0;

    if (t == NULL)
        return bn_cmd_fail("decode", &err);
    d->t = t;
    if (bn_cmd_lines(files->v, files->n, decode_line, d, &err) < 0)
        status = bn_cmd_fail("decode", &err);
    bn_ids_release(&d->ids);
    bn_str_release(&d->text);
    bn_tokenizer_close(t);
    return status;
}

int bn_cmd_decode(int argc, char **argv)
{
    struct decode d = {0};
    struct bn_opt_list files = {0};
    const char *path = NULL;
    bool help = false;
    const struct bn_opt opts[] = {
        {"tokenizer", BN_OPT_STR, &path, "DIR",
         "folder with tokenizer.json, or that file"},
        {"skip-special-tokens", BN_OPT_FLAG, &d.skip_special, NULL,
         "leave special tokens out of the text"},
        {"help", BN_OPT_FLAG, &help, NULL, "print this and exit"},
        {0},
    };
    struct bn_err err;
    int status = 0;

    if (bn_opts_parse(opts, argc, argv, &files, &err) < 0) {
        status = bn_cmd_usage("decode", "%s", err.text);
    } else if (help) {
        fputs(usage, stdout);
        bn_opts_help(opts, stdout);
    } else if (path == NULL) {
        status = bn_cmd_usage("decode", "--tokenizer is missing");
    } else {
        status = decode(&d, path, &files);
    }
    bn_opt_list_release(&files);
    return status;
}
