/* Curves as SVG, by gnuplot. */
#include "config.h"

#include "sweep/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "sweep/child.h"

enum { POINTS_MAX = 400, SVG_MAX = 16 << 20 };

/* Inside gnuplot's double quotes, for a terminal that is noenhanced. */
static void quote(struct bn_str *b, const char *s)
{
    bn_str_addc(b, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\' || *s == '`')
            bn_str_addc(b, '\\');
        bn_str_addc(b, *s);
    }
    bn_str_addc(b, '"');
}

/* Every k-th value, so that a picture stays small. */
static void add_data(struct bn_str *b, const struct bn_curve *c, bool log)
{
    size_t every = (c->n + POINTS_MAX - 1) / POINTS_MAX;
    for (size_t i = 0; i < c->n; i++)
        if ((i % every == 0 || i + 1 == c->n) && (!log || c->value[i] > 0))
            bn_str_addf(b, "%.10g %.8g\n", c->step[i], c->value[i]);
}

static void add_plot(struct bn_str *b, const struct bn_plot *p,
                     const char *dir, size_t number)
{
    bn_str_addf(b, "set output '%s/%zu.svg'\n", dir, number);
    bn_str_adds(b, "set title ");
    quote(b, p->title);
    bn_str_adds(b, "\nset ylabel ");
    quote(b, p->ylabel);
    bn_str_addf(b, "\n%s logscale y\n", p->log ? "set" : "unset");
    for (size_t i = 0; i < p->n; i++) {
        bn_str_addf(b, "$d%zu << EOD\n", i);
        add_data(b, p->series[i].curve, p->log);
        bn_str_adds(b, "EOD\n");
    }
    bn_str_adds(b, "plot");
    for (size_t i = 0; i < p->n; i++) {
        bn_str_addf(b, "%s $d%zu using 1:2 with linespoints lt %zu dt %zu "
                       "pt %zu ps 0.5 lw 1.5 title ", i ? "," : "", i, i + 1,
                    i % 5 + 1, i + 1);
        quote(b, p->series[i].name);
    }
    bn_str_adds(b, "\nunset output\n");
}

int bn_plot(struct bn_plot *plots, size_t n, struct bn_err *err)
{
    const char *root = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    char *dir = bn_path_join(root, "bn-plot.XXXXXX");
    const char *argv[] = { "gnuplot", "-", NULL };
    struct bn_str b = { 0 };
    int rc = -1;

    if (mkdtemp(dir) == NULL || strchr(dir, '\'')) {
        bn_fail(err, BN_ERR_DATA, "cannot make a folder in '%s'", root);
        free(dir);
        return -1;
    }
    bn_str_adds(&b, "set encoding utf8\n"
                    "set terminal svg size 760,420 noenhanced "
                    "font 'sans-serif,15' background '#ffffff'\n"
                    "set colorsequence podo\nset grid lc '#cccccc'\n"
                    "set key outside below maxrows 4 noenhanced\n"
                    "set xlabel 'step'\nset xrange [0:*]\n");
    for (size_t i = 0; i < n; i++)
        add_plot(&b, &plots[i], dir, i);
    struct bn_child c = { .argv = argv, .input = b.s, .input_len = b.len,
                          .timeout = 120 };
    rc = bn_child_must(&c, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        char *path = bn_asprintf("%s/%zu.svg", dir, i);
        plots[i].svg = bn_file_read(path, SVG_MAX, &plots[i].svg_len, err);
        if (plots[i].svg == NULL)
            rc = -1;
        free(path);
    }
    bn_child_release(&c);
    bn_str_release(&b);
    bn_remove_tree(dir, NULL);
    free(dir);
    return rc;
}
