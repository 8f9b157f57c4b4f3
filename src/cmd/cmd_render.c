/* burnish render: JSON lines of messages in, rendered texts out. */
#include "config.h"
#include "base/file.h"
#include "cmd/cmd.h"
#include "cmd/lines.h"
#include "cmd/opts.h"
#include "text/chat.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

struct render {
    const struct bn_chat *chat;
    struct bn_chat_args args; /* what all rows share */
    struct bn_str text;
};

static int render_line(void *arg, const json_t *line, struct bn_str *out,
                       struct bn_err *err)
{
    struct render *r = arg;
    struct bn_chat_args args = r->args;

    args.messages = json_object_get(line, "messages");
    args.tools = json_object_get(line, "tools");
    args.extra = json_object_get(line, "chat_template_kwargs");
    if (!json_is_array(args.messages))
        return bn_fail(err, BN_ERR_DATA, "must be an object with an array "
                       "'messages'");
    if (args.tools != NULL && !json_is_array(args.tools)
        && !json_is_null(args.tools))
        return bn_fail(err, BN_ERR_DATA, "'tools' must be an array");
    if (args.extra != NULL && !json_is_object(args.extra))
        return bn_fail(err, BN_ERR_DATA, "'chat_template_kwargs' must be an "
                       "object");
    bn_str_clear(&r->text);
    if (bn_chat_render(r->chat, &args, &r->text, NULL, NULL, err) < 0)
        return -1;
    bn_str_add_json(out, r->text.s, r->text.len);
    bn_str_addc(out, '\n');
    return 0;
}

/* The template of 'file', or the tokenizer's own. */
static struct bn_chat *open_template(const struct bn_tokenizer *t,
                                     const char *file, const char *folder,
                                     struct bn_err *err)
{
    const char *own = bn_tokenizer_chat_template(t);
    struct bn_chat *c;
    size_t len;

    if (file != NULL) {
        char *source = bn_file_read(file, 16 << 20, &len, err);

        if (source == NULL)
            return NULL;
        c = bn_chat_create(source, file, err);
        free(source);
        return c;
    }
    if (own == NULL) {
        bn_fail(err, BN_ERR_DATA, "the tokenizer '%s' has no chat template; "
                "give one with --template", folder);
        return NULL;
    }
    return bn_chat_create(own, bn_tokenizer_chat_template_name(t),
                          err);
}

static const char usage[] =
    "usage: burnish render --tokenizer DIR [--template FILE]\n"
    "                      [--add-generation-prompt] [FILE...]\n"
    "\n"
    "Reads JSON lines (objects with 'messages', optional 'tools' and\n"
    "'chat_template_kwargs') from the files or standard input and writes the\n"
    "text that the chat template makes of each as one JSON string a line.\n"
    "\n";

static int run(struct render *r, const char *folder, const char *file,
               const struct bn_opt_list *files, struct bn_err *err)
{
    struct bn_tokenizer *t = bn_tokenizer_open(folder, err);
    struct bn_chat *c = NULL;
    int rc = -1;

    if (t == NULL)
        return -1;
    c = open_template(t, file, folder, err);
    if (c == NULL)
        goto out;
    r->chat = c;
    r->args.bos_token = bn_tokenizer_special(t, "bos_token");
    r->args.eos_token = bn_tokenizer_special(t, "eos_token");
    r->args.pad_token = bn_tokenizer_special(t, "pad_token");
    r->args.unk_token = bn_tokenizer_special(t, "unk_token");
    rc = bn_cmd_lines(files->v, files->n, render_line, r, err);
out:
    bn_chat_destroy(c);
    bn_tokenizer_close(t);
    return rc;
}

int bn_cmd_render(int argc, char **argv)
{
    struct render r = {0};
    struct bn_opt_list files = {0};
    const char *folder = NULL, *file = NULL;
    bool help = false;
    const struct bn_opt opts[] = {
        {"tokenizer", BN_OPT_STR, &folder, "DIR",
         "folder with tokenizer.json: special tokens and the template come"
         " from there"},
        {"template", BN_OPT_STR, &file, "FILE", "another template (Jinja)"},
        {"add-generation-prompt", BN_OPT_FLAG,
         &r.args.add_generation_prompt, NULL,
         "end with what begins an answer"},
        {"help", BN_OPT_FLAG, &help, NULL, "print this and exit"},
        {0},
    };
    struct bn_err err;
    int status = 0;

    if (bn_opts_parse(opts, argc, argv, &files, &err) < 0) {
        status = bn_cmd_usage("render", "%s", err.text);
    } else if (help) {
        fputs(usage, stdout);
        bn_opts_help(opts, stdout);
    } else if (folder == NULL) {
        status = bn_cmd_usage("render", "--tokenizer is missing");
    } else if (run(&r, folder, file, &files, &err) < 0) {
        status = bn_cmd_fail("render", &err);
    }
    bn_str_release(&r.text);
    bn_opt_list_release(&files);
    return status;
}
