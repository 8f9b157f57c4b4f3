#include "config.h"
#include "cmd/lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int line_f(void *arg, const json_t *line, struct bn_str *out,
                   struct bn_err *err);

static int one_line(const char *name, size_t number, const char *s, size_t n,
                    line_f *f, void *arg, struct bn_str *out,
                    struct bn_err *err)
{
    json_error_t e;
    json_t *v;
    int rc;

    if (strspn(s, " \t\r\n") == n)
        return 0;
    v = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY
                             | JSON_ALLOW_NUL, &e);
    if (v == NULL)
        return bn_fail(err, BN_ERR_DATA, "%s:%zu:%d: invalid JSON: %s", name,
                       number, e.column, e.text);
    bn_str_clear(out);
    rc = f(arg, v, out, err);
    json_decref(v);
    if (rc < 0)
        return bn_err_prefix(err, "%s:%zu", name, number);
    if (fwrite(out->s, 1, out->len, stdout) != out->len)
        return bn_fail(err, bn_err_from_errno(errno),
                       "cannot write standard output: %s", strerror(errno));
    return 0;
}

static int one_file(const char *name, line_f *f, void *arg,
                    struct bn_str *out, struct bn_err *err)
{
    bool std = strcmp(name, "-") == 0;
    FILE *in = std ? stdin : fopen(name, "re");
    char *line = NULL;
    size_t cap = 0, number = 0;
    ssize_t n;
    int rc = 0;

    if (in == NULL)
        return bn_fail(err, bn_err_from_errno(errno), "cannot open '%s': %s",
                       name, strerror(errno));
    if (std)
        name = "standard input";
    for (;;) {
        n = getline(&line, &cap, in);
        if (n < 0)
            break;
        rc = one_line(name, ++number, line, (size_t)n, f, arg, out, err);
        if (rc < 0)
            break;
    }
    if (rc == 0 && ferror(in))
        rc = bn_fail(err, bn_err_from_errno(errno), "cannot read %s: %s",
                     name, strerror(errno));
    free(line);
    if (!std)
        fclose(in);
    return rc;
}

int bn_cmd_lines(const char *const *files, size_t n, line_f *f, void *arg,
                 struct bn_err *err)
{
    struct bn_str out = {0};
    int rc = n == 0 ? one_file("-", f, arg, &out, err) : 0;

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = one_file(files[i], f, arg, &out, err);
    if (fflush(stdout) != 0 && rc == 0)
        rc = bn_fail(err, bn_err_from_errno(errno),
                     "cannot write standard output: %s", strerror(errno));
    bn_str_release(&out);
    return rc;
}
