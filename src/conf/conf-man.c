/* Writes the manual page of run files, burnish-run(5), from the key table, or
 * with --keys a line a key for completion: its name, then "path" or the words
 * that it takes. Run by the build.
 */
#include "config.h"
#include "conf/key.h"

#include <string.h>

/* Text with what roff would interpret made plain. */
static void put(const char *s)
{
    if (*s == '.' || *s == '\'')
        fputs("\\&", stdout);
    for (; *s != '\0'; s++)
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '-')
            fputs("\\-", stdout);
        else
            fputc(*s, stdout);
}

static void put_default(const struct bn_conf_key *k)
{
    if (k->dflt == NULL && k->from == NULL)
        return;
    fputs(" Default: ", stdout);
    if (k->from != NULL)
        fputs("that of ", stdout);
    put(k->from != NULL ? k->from : k->dflt);
    if (k->orpo != NULL) {
        fputs("; for orpo ", stdout);
        put(k->orpo);
    }
    fputs(".", stdout);
}

static void put_key(const struct bn_conf_key *k)
{
    struct bn_str takes = {0};

    fputs(".TP\n.B ", stdout);
    put(k->name);
    fputs("\n", stdout);
    put(k->help);
    fputs(".\nTakes ", stdout);
    bn_conf_takes(k, &takes);
    put(takes.s);
    if (k->unit != NULL)
        printf(" (%s)", k->unit);
    fputs(".", stdout);
    put_default(k);
    if (k->flags & (BN_CONF_SFT | BN_CONF_ORPO))
        printf(" For task %s only.", k->flags & BN_CONF_SFT ? "sft" : "orpo");
    fputs("\n", stdout);
    bn_str_release(&takes);
}

static void put_section(const char *title)
{
    printf(".SH ");
    for (const char *s = title; *s != '\0'; s++)
        fputc(*s >= 'a' && *s <= 'z' ? *s - 32 : *s, stdout);
    fputs("\n", stdout);
}

static const char intro[] =
    ".TH BURNISH\\-RUN 5 \"2026-11-29\" \"burnish " PACKAGE_VERSION "\""
    " \"File formats\"\n"
    ".SH NAME\n"
    "burnish\\-run \\- run files of burnish\n"
    ".SH DESCRIPTION\n"
    "A run file says in YAML what to train: one\n"
    ".I key: value\n"
    "a line.\n"
    "An unknown key, a wrong type, a value out of range and keys that clash\n"
    "are errors; all of them are reported at once, each with file, line and\n"
    "column, and the exit status is 64.\n"
    ".PP\n"
    "Relative paths are relative to the current directory, not to the run\n"
    "file.\n"
    "Anchors and aliases may be used; merge keys and tags may not.\n"
    "Dotted keys below are written as nested maps:\n"
    ".B columns: {prompt: question}.\n"
    "On the command line\n"
    ".B \\-\\-set\n"
    ".IR key = value\n"
    "overrides the file, and\n"
    ".B \\-\\-print\\-config\n"
    "shows every value in force and where it came from.\n";

static const char example[] =
    ".SH EXAMPLE\n"
    ".nf\n"
    "task: orpo\n"
    "model_name_or_path: models/sft\\-v2\n"
    "train_file: pairs.jsonl\n"
    "eval_split: 0.05\n"
    "output_dir: runs/orpo\\-b025\n"
    "beta: 0.25\n"
    "learning_rate: 8e\\-6\n"
    "max_length: 1536\n"
    "max_steps: 200\n"
    "eval_strategy: steps\n"
    "eval_steps: 100\n"
    ".fi\n"
    ".SH SEE ALSO\n"
    ".BR burnish (1),\n"
    ".BR burnish\\-train (1)\n";

static void list_key(const struct bn_conf_key *k)
{
    fputs(k->name, stdout);
    if (k->flags & BN_CONF_PATH)
        fputs(" path", stdout);
    else if (k->type == BN_CONF_BOOL || k->type == BN_CONF_TRI)
        fputs(" true false", stdout);
    if (k->type == BN_CONF_TRI)
        fputs(" auto", stdout);
    if (k->type == BN_CONF_SET)
        fputs(" none", stdout);
    for (size_t i = 0; k->choices != NULL && k->choices[i] != NULL; i++)
        printf(" %s", k->choices[i]);
    fputs("\n", stdout);
}

int main(int argc, char **argv)
{
    const char *name, *text;
    size_t n;
    const struct bn_conf_key *keys = bn_conf_keys(&n);

    if (argc == 2 && strcmp(argv[1], "--keys") == 0) {
        for (size_t i = 0; i < n; i++)
            list_key(&keys[i]);
        return fflush(stdout) != 0;
    }
    fputs(intro, stdout);
    for (const struct bn_conf_group *g = bn_conf_groups; g->name; g++) {
        put_section(g->title);
        for (size_t i = 0; i < n; i++)
            if (strcmp(keys[i].group, g->name) == 0)
                put_key(&keys[i]);
    }
    put_section("Rules");
    fputs("Keys must agree:\n", stdout);
    for (size_t i = 0; bn_conf_rule(i, &name, &text); i++) {
        fputs(".TP\n.I ", stdout);
        put(name);
        fputs("\n", stdout);
        put(text);
        fputs("\n", stdout);
    }
    fputs(example, stdout);
    return fflush(stdout) != 0;
}
