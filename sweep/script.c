#include "config.h"

#include "sweep/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sweep/here.h"
#include "sweep/state.h"
#include "sweep/template.h"

enum { TEMPLATE_MAX = 1 << 20 };

char *bn_template_dir(void)
{
    const char *env = getenv("BURNISH_TEMPLATES");
    return bn_strdup(env ? env : BN_DATADIR "/templates");
}

static const char *template_name(const struct bn_sweep *s, bool tokenize)
{
    if (tokenize)
        return "tokenize";
    if (s->template)
        return s->template;
    if (s->launch == BN_LAUNCH_ARRAY)
        return "array";
    if (s->launch == BN_LAUNCH_SEQUENTIAL)
        return "sequential";
    if (s->res.gpus_per_node == 0)
        return "cpu";
    return s->res.nodes > 1 ? "multi" : "single";
}

char *bn_script_template(const struct bn_sweep *s, bool tokenize, char **path,
                         struct bn_err *err)
{
    const char *name = template_name(s, tokenize);
    char *dir = bn_template_dir();
    size_t len;

    *path = strchr(name, '/') ? bn_strdup(name)
                              : bn_asprintf("%s/%s.sbatch.in", dir, name);
    free(dir);
    char *text = bn_file_read(*path, TEMPLATE_MAX, &len, err);
    if (text == NULL) {
        free(*path);
        *path = NULL;
    }
    return text;
}

void bn_pattern_add(struct bn_str *b, const char *path)
{
    for (; *path; path++) {
        bn_str_addc(b, *path);
        if (*path == '%')
            bn_str_addc(b, '%');
    }
}

/* --- Blocks ----------------------------------------------------------------- */

static int option(struct bn_str *b, const char *name, const char *value,
                  struct bn_err *err)
{
    if (value == NULL)
        return 0;
    bn_str_addf(b, "#SBATCH --%s=", name);
    if (bn_quote_sbatch(b, value, err) < 0)
        return bn_err_prefix(err, "%s", name);
    bn_str_addc(b, '\n');
    return 0;
}

static int extra_option(struct bn_str *b, const char *text,
                        struct bn_err *err)
{
    const char *eq = strchr(text, '=');
    size_t n = eq ? (size_t)(eq - text) : strlen(text);

    if (strspn(text, "abcdefghijklmnopqrstuvwxyz-0123456789") < n)
        return bn_fail(err, BN_ERR_USAGE, "'%s' is no option of sbatch: "
                       "write --name=value", text);
    bn_str_addf(b, "#SBATCH %.*s", (int)n, text);
    if (eq) {
        bn_str_addc(b, '=');
        if (bn_quote_sbatch(b, eq + 1, err) < 0)
            return -1;
    }
    bn_str_addc(b, '\n');
    return 0;
}

static int options_block(const struct bn_sweep *s, const char *template,
                         bool tokenize, struct bn_str *b, struct bn_err *err)
{
    const struct bn_resources *r = &s->res;
    char *cwd = getcwd(NULL, 0), gpus[24];
    int rc = -1;

    bn_str_adds(b, "");
    snprintf(gpus, sizeof(gpus), "%lld", (long long)r->gpus_per_node);
    bool gpu = !tokenize && r->gpus_per_node > 0
               && strstr(template, "@GPUS@") == NULL;
    if (option(b, "chdir", cwd, err) < 0
        || option(b, "partition", r->partition, err) < 0
        || option(b, "account", r->account, err) < 0
        || option(b, "qos", r->qos, err) < 0
        || option(b, "reservation", r->reservation, err) < 0
        || option(b, "constraint", r->constraint, err) < 0
        || option(b, "mem", tokenize ? NULL : r->mem, err) < 0
        || option(b, "gpus-per-node", gpu ? gpus : NULL, err) < 0)
        goto done;
    if (r->exclusive && !tokenize)
        bn_str_adds(b, "#SBATCH --exclusive\n");
    for (size_t i = 0; i < s->sbatch.n; i++)
        if (extra_option(b, s->sbatch.v[i], err) < 0)
            goto done;
    rc = 0;
done:
    free(cwd);
    return rc;
}

static int assign(struct bn_str *b, const char *name, const char *value,
                  struct bn_err *err)
{
    bn_str_addf(b, "%s=", name);
    if (bn_quote_shell(b, value, err) < 0)
        return bn_err_prefix(err, "%s", name);
    bn_str_addc(b, '\n');
    return 0;
}

static int setup_block(const struct bn_sweep *s, struct bn_str *b,
                       struct bn_err *err)
{
    char *bin = bn_program_dir(), requeues[24];
    int rc = -1;

    snprintf(requeues, sizeof(requeues), "%lld", (long long)s->max_requeues);
    if (assign(b, "bn_bin", bin, err) < 0
        || assign(b, "bn_requeues", requeues, err) < 0
        || assign(b, "bn_core", s->core, err) < 0)
        goto done;
    bn_str_adds(b, "bn_prefix=(");
    for (size_t i = 0; i < s->container.n; i++) {
        bn_str_adds(b, i ? " " : "");
        if (bn_quote_shell(b, s->container.v[i], err) < 0) {
            bn_err_prefix(err, "container");
            goto done;
        }
    }
    bn_str_adds(b, ")\n");
    for (size_t i = 0; i < s->modules.n; i++) {
        bn_str_adds(b, "module load ");
        if (bn_quote_shell(b, s->modules.v[i], err) < 0) {
            bn_err_prefix(err, "modules");
            goto done;
        }
        bn_str_adds(b, " || exit\n");
    }
    for (size_t i = 0; i < s->environment.n; i++) {
        const char *e = s->environment.v[i];
        int n = (int)strcspn(e, "=");
        char *name = bn_asprintf("export %.*s", n, e);
        int bad = assign(b, name, e + n + 1, err);
        free(name);
        if (bad < 0)
            goto done;
    }
    rc = 0;
done:
    free(bin);
    return rc;
}

/* --- The script --------------------------------------------------------------- */

/* What is in the directives must be what was asked for. */
static int verify(const char *script, const struct bn_hole *h, size_t n,
                  const char *options, struct bn_err *err)
{
    static const struct {
        const char *key, *option;
    } same[] = {
        { "NAME", "job-name" }, { "TIME", "time" },   { "LOG", "output" },
        { "ARRAY", "array" },   { "NODES", "nodes" }, { "CPUS",
                                                        "cpus-per-task" },
        { "TASKS", "ntasks-per-node" }, { "GPUS", "gpus-per-node" },
    };
    struct bn_directives d, want;
    int rc = bn_directives_read(&d, script, err);

    if (rc < 0)
        return -1;
    char *asked = bn_asprintf("#!\n%s", options);
    rc = bn_directives_read(&want, asked, err);
    free(asked);
    for (size_t i = 0; rc == 0 && i < want.n; i++) {
        const char *got = bn_directives_get(&d, want.v[i].name);
        const char *last = bn_directives_get(&want, want.v[i].name);
        if (got == NULL || strcmp(got, last) != 0)
            rc = bn_fail(err, BN_ERR_USAGE, "the script asks for --%s=%s, "
                         "not %s", want.v[i].name, got ? got : "nothing",
                         last);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        for (size_t j = 0; rc == 0 && j < BN_COUNT(same); j++) {
            const char *got = bn_directives_get(&d, same[j].option);
            if (strcmp(h[i].key, same[j].key) == 0 && got
                && strcmp(got, h[i].value) != 0
                && bn_directives_get(&want, same[j].option) == NULL
                && strcmp(same[j].key, "NODES") != 0)
                rc = bn_fail(err, BN_ERR_USAGE, "the script asks for "
                             "--%s=%s, not %s", same[j].option, got,
                             h[i].value);
        }
    }
    bn_directives_release(&want);
    bn_directives_release(&d);
    return rc;
}

int bn_script_make(const struct bn_sweep *s, const char *template,
                   const char *path, const struct bn_script *job,
                   struct bn_str *out, struct bn_err *err)
{
    struct bn_str options = { 0 }, setup = { 0 };
    char *lib = bn_sweep_file(s, "job.sh");
    char nodes[24], tasks[24], cpus[24], gpus[24];
    size_t before = out->len, n = 0;
    struct bn_hole h[16];
    int rc = -1;

#define NUMBER(buf, v) (snprintf(buf, sizeof(buf), "%lld", (long long)(v)), buf)
#define HOLE(k, v) h[n++] = (struct bn_hole){ k, BN_HOLE_WORD, v }
    if (options_block(s, template, job->tokenize, &options, err) < 0
        || setup_block(s, &setup, err) < 0)
        goto done;
    HOLE("NAME", job->name);
    HOLE("LOG", job->log);
    HOLE("TIME", job->tokenize ? s->tokenize_time : s->res.time);
    HOLE("NODES", NUMBER(nodes, s->res.nodes));
    HOLE("TASKS", NUMBER(tasks, s->res.tasks_per_node));
    HOLE("CPUS", NUMBER(cpus, job->tokenize ? s->tokenize_cpus
                                            : s->res.cpus_per_task));
    HOLE("GPUS", NUMBER(gpus, s->res.gpus_per_node));
    HOLE("LIB", lib);
    if (job->dir)
        HOLE("DIR", job->dir);
    if (job->list)
        HOLE("LIST", job->list);
    if (job->array)
        HOLE("ARRAY", job->array);
    size_t words = n;
    h[n++] = (struct bn_hole){ "OPTIONS", BN_HOLE_BLOCK, options.s };
    h[n++] = (struct bn_hole){ "SETUP", BN_HOLE_BLOCK, setup.s };
    if (bn_template_expand(template, path, h, n, out, err) < 0)
        goto done;
    if (verify(out->s + before, h, words, options.s, err) < 0) {
        bn_err_prefix(err, "%s", path);
        out->len = before;
        goto done;
    }
    rc = 0;
done:
    bn_str_release(&options);
    bn_str_release(&setup);
    free(lib);
    return rc;
}
