/* The report as one HTML file. Pictures are data URIs, so that each keeps
 * its ids to itself; each has a text alternative and its numbers in a table
 * that opens from the keyboard.
 */
#include "config.h"

#include "sweep/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

enum { NUMBERS_MAX = 12 };

static const char style[] =
    ":root{color-scheme:light;--ink:#1a1a1a;--soft:#5a5a5a;--line:#d0d0d0;"
    "--best:#e8f3ec}\n"
    "body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:"
    "#fff;max-width:84rem;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.7rem;margin:0 0 .3rem}h2{font-size:1.3rem;margin-top:"
    "2.5rem}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;"
    "min-width:100%}\n"
    "caption{text-align:left;color:var(--soft);padding:.3rem 0}\n"
    "caption span{display:block;max-width:calc(100vw - 2rem)}\n"
    "th,td{padding:.35rem .7rem;border-bottom:1px solid var(--line);"
    "text-align:left;vertical-align:top}\n"
    "td.n,th.n{text-align:right}thead th{border-bottom:2px solid var(--ink)}"
    "\n"
    "tbody th{min-width:11rem}tbody th span{white-space:nowrap}td.state{min-width:12rem}\n"
    "th small,td small{display:block;font-weight:400;color:var(--soft)}\n"
    "td small{white-space:nowrap}\n"
    "tr.best{background:var(--best)}\n"
    ".figures{display:grid;gap:1.2rem;grid-template-columns:repeat(auto-fit,"
    "minmax(min(30rem,100%),1fr))}figure{margin:0;min-width:0}\n"
    /* below this the words in a picture could not be read: it scrolls */
    "img{width:100%;min-width:34rem;height:auto;box-sizing:border-box;"
    "border:1px solid var(--line)}\n"
    "summary{cursor:pointer}a:focus-visible,summary:focus-visible,"
    ".wide:focus-visible{outline:3px solid #0b5cad;outline-offset:2px}\n"
    ".skip{position:absolute;left:-999px}.skip:focus{position:static}\n";

static void escape(struct bn_str *b, const char *s)
{
    for (; *s; s++) {
        switch (*s) {
        case '&': bn_str_adds(b, "&amp;"); break;
        case '<': bn_str_adds(b, "&lt;"); break;
        case '>': bn_str_adds(b, "&gt;"); break;
        case '"': bn_str_adds(b, "&quot;"); break;
        default: bn_str_addc(b, *s);
        }
    }
}

static void base64(struct bn_str *b, const char *s, size_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
                                "qrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        unsigned v = (unsigned char)s[i] << 16;
        if (i + 1 < n)
            v |= (unsigned)(unsigned char)s[i + 1] << 8;
        if (i + 2 < n)
            v |= (unsigned char)s[i + 2];
        char out[4] = { digit[v >> 18], digit[v >> 12 & 63],
                        i + 1 < n ? digit[v >> 6 & 63] : '=',
                        i + 2 < n ? digit[v & 63] : '=' };
        bn_str_add(b, out, 4);
    }
}

/* --- The table ------------------------------------------------------------------ */

static const enum bn_column shown[] = { BN_COL_NLL,    BN_COL_ODDS,
                                        BN_COL_ACCURACY, BN_COL_LOSS,
                                        BN_COL_MARGIN };

static bool has_column(const struct bn_ranking *r, enum bn_column c)
{
    return r->orpo || c == BN_COL_LOSS || r->ranks[c];
}

/* A key may be broken after / and _, so that no column is wider than its
 * numbers ask for. */
static void head_cell(struct bn_str *b, const char *key, const char *sense)
{
    bn_str_adds(b, "<th scope=\"col\" class=\"n\">");
    for (; *key; key++) {
        bn_str_addc(b, *key);
        if (*key == '/' || *key == '_')
            bn_str_adds(b, "<wbr>");
    }
    if (*sense)
        bn_str_addf(b, "<small>%s</small>", sense);
    bn_str_adds(b, "</th>");
}

/* A name may be broken after a comma, and not within "3e-3". */
static void name_parts(struct bn_str *b, const char *name)
{
    while (*name) {
        size_t n = strcspn(name, ",");
        char *part = bn_strndup(name, n + (name[n] == ','));

        bn_str_adds(b, "<span>");
        escape(b, part);
        bn_str_adds(b, "</span><wbr>");
        name += strlen(part);
        free(part);
    }
}

/* Whether a point's name says its settings already. */
static bool says_all(const char *name, const char *settings)
{
    for (; *settings; settings++)
        if (*settings != ' ' && *name++ != *settings)
            return false;
    return *name == '\0';
}

static void table_head(struct bn_str *b, const struct bn_ranking *r)
{
    bn_str_adds(b, "<thead><tr><th scope=\"col\" class=\"n\">Rank</th>"
                   "<th scope=\"col\">Point and its settings</th>"
                   "<th scope=\"col\" class=\"n\">Step</th>");
    for (size_t k = 0; k < BN_COUNT(shown); k++)
        if (has_column(r, shown[k]))
            head_cell(b, bn_column_key(shown[k]), bn_rank_sense(r, shown[k]));
    bn_str_adds(b, "<th scope=\"col\">State</th></tr></thead>\n<tbody>\n");
}

static void table_row(struct bn_str *b, const struct bn_sweep *s,
                      const struct bn_ranking *r, const struct bn_ranked *x)
{
    const struct bn_point *p = &s->points[x->point];
    char *set = bn_point_settings(p);

    bn_str_adds(b, x->place == 1 ? "<tr class=\"best\">" : "<tr>");
    if (x->place > 0)
        bn_str_addf(b, "<td class=\"n\">%d</td>", x->place);
    else
        bn_str_adds(b, "<td class=\"n\">not ranked</td>");
    bn_str_adds(b, "<th scope=\"row\">");
    name_parts(b, p->name);
    if (!says_all(p->name, set)) {
        bn_str_adds(b, "<small>");
        escape(b, set);
        bn_str_adds(b, "</small>");
    }
    free(set);
    bn_str_adds(b, "</th>");
    if (x->last.step >= 0)
        bn_str_addf(b, "<td class=\"n\">%ld</td>", x->last.step);
    else
        bn_str_adds(b, "<td class=\"n\">none</td>");
    for (size_t k = 0; k < BN_COUNT(shown); k++) {
        enum bn_column c = shown[k];
        if (!has_column(r, c))
            continue;
        if (x->last.step >= 0 && x->last.cell[c] == BN_CELL_FINITE)
            bn_str_addf(b, "<td class=\"n\">%.5g</td>", x->last.value[c]);
        else
            bn_str_addf(b, "<td class=\"n\">%s</td>",
                        x->last.cell[c] == BN_CELL_NONFINITE ? "not finite"
                                                             : "missing");
    }
    struct bn_str words = { 0 };
    bn_ranked_words(x, &words);
    bn_str_adds(b, "<td class=\"state\">");
    escape(b, words.s);
    bn_str_adds(b, "</td></tr>\n");
    bn_str_release(&words);
}

static void group_table(struct bn_str *b, const struct bn_sweep *s,
                        const struct bn_ranking *r, int group)
{
    char *title = bn_group_title(s, r, group);

    bn_str_addf(b, "<h2 id=\"group-%d\">Group %d: ", group + 1, group + 1);
    escape(b, title);
    bn_str_addf(b, "</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" "
                   "aria-label=\"Ranking of group %d\"><table>\n"
                   "<caption><span>Last evaluation of each point. Place is "
                   "the mean of the places in the columns that rank.</span>"
                   "</caption>\n",
                group + 1);
    table_head(b, r);
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].group == group)
            table_row(b, s, r, &r->v[i]);
    bn_str_adds(b, "</tbody></table></div>\n");
    free(title);
}

/* --- Generations ----------------------------------------------------------------- */

static void gen_cell(struct bn_str *b, const struct bn_last *l, int k)
{
    if (l->gen[k] != BN_CELL_FINITE) {
        bn_str_adds(b, "<td class=\"n\">missing</td>");
        return;
    }
    bn_str_addf(b, "<td class=\"n\">%.4g", l->gen_value[k]);
    if (l->gen_bounded[k])
        bn_str_addf(b, "<small>%.3g to %.3g</small>", l->gen_low[k],
                    l->gen_high[k]);
    bn_str_adds(b, "</td>");
}

static bool group_has_gen(const struct bn_ranking *r, int group)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].group == group && r->v[i].last.has_gen)
            return true;
    return false;
}

/* What the points of a group answered; takes no part in the ranking. */
static void gen_table(struct bn_str *b, const struct bn_sweep *s,
                      const struct bn_ranking *r, int group)
{
    if (!group_has_gen(r, group))
        return;
    bn_str_addf(b, "<h3>Answers of group %d</h3>\n<div class=\"wide\" "
                   "tabindex=\"0\" role=\"region\" aria-label=\"Answers of "
                   "group %d\"><table>\n<caption><span>What generated answers "
                   "are like, with 95&nbsp;%% confidence intervals. These "
                   "columns do not rank.</span></caption>\n<thead><tr><th "
                   "scope=\"col\">Point</th>", group + 1, group + 1);
    for (int k = 0; k < BN_NGEN; k++)
        head_cell(b, bn_gen_key(k), "");
    bn_str_adds(b, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < r->n; i++) {
        if (r->v[i].group != group || !r->v[i].last.has_gen)
            continue;
        bn_str_adds(b, "<tr><th scope=\"row\">");
        name_parts(b, s->points[r->v[i].point].name);
        bn_str_adds(b, "</th>");
        for (int k = 0; k < BN_NGEN; k++)
            gen_cell(b, &r->v[i].last, k);
        bn_str_adds(b, "</tr>\n");
    }
    bn_str_adds(b, "</tbody></table></div>\n");
}

static void reasons(struct bn_str *b, const struct bn_ranking *r)
{
    bn_str_adds(b, "<h2 id=\"why\">Why these columns rank</h2>\n<dl>\n");
    for (size_t k = 0; k < BN_COUNT(shown); k++)
        if (has_column(r, shown[k]))
            bn_str_addf(b, "<dt><b>%s</b></dt><dd>%s.</dd>\n",
                        bn_column_key(shown[k]),
                        bn_rank_reason(r, shown[k]));
    bn_str_adds(b, "</dl>\n<p>Points are compared only within a group: the "
                   "numbers of points with other data or lengths do not "
                   "mean the same.</p>\n");
}

/* --- Curves ---------------------------------------------------------------------- */

static const struct chart {
    enum bn_column column;
    bool eval, log;
    const char *title;
} charts[] = {
    { BN_COL_NLL, true, false, "Evaluation: NLL of chosen answers" },
    { BN_COL_ODDS, true, false, "Evaluation: log odds of chosen answers" },
    { BN_COL_ACCURACY, true, false, "Evaluation: accuracy" },
    { BN_COL_MARGIN, true, false, "Evaluation: margin (scales with beta)" },
    { BN_COL_LOSS, true, false, "Evaluation: loss (scales with beta)" },
    { BN_COL_LOSS, false, false, "Training: loss" },
    { BN_COL_RATE, false, false, "Training: learning rate" },
    { BN_COL_GRAD, false, true, "Training: gradient norm" },
    { BN_COL_SPEED, false, false, "Training: tokens a second" },
};

struct figures {
    const struct bn_sweep *s;
    const struct bn_ranked **of; /* whose curves */
    struct bn_curves *curves;
    size_t n;
    struct bn_plot plots[BN_COUNT(charts)];
    struct bn_series *series; /* [charts * n] */
    size_t nplots;
};

static void collect(struct figures *f, const struct bn_ranking *r, int group,
                    int curves)
{
    f->of = BN_NEWN(const struct bn_ranked *, (size_t)curves + 1);
    f->curves = BN_NEWN(struct bn_curves, (size_t)curves + 1);
    for (size_t i = 0; i < r->n && f->n < (size_t)curves; i++) {
        if (r->v[i].group != group || r->v[i].last.reached < 0)
            continue;
        char *path = bn_point_file(f->s, &f->s->points[r->v[i].point],
                                   "metrics.jsonl");
        bn_curves_read(path, &f->curves[f->n]);
        f->of[f->n++] = &r->v[i];
        free(path);
    }
    f->series = BN_NEWN(struct bn_series, BN_COUNT(charts) * (f->n + 1));
    for (size_t c = 0; c < BN_COUNT(charts); c++) {
        struct bn_plot *p = &f->plots[f->nplots];
        struct bn_series *v = f->series + c * f->n;
        memset(p, 0, sizeof(*p));
        for (size_t i = 0; i < f->n; i++) {
            const struct bn_curve *k =
                charts[c].eval ? &f->curves[i].eval[charts[c].column]
                               : &f->curves[i].train[charts[c].column];
            if (k->n > 0)
                v[p->n++] = (struct bn_series){
                    f->s->points[f->of[i]->point].name, k };
        }
        if (p->n == 0)
            continue;
        p->title = charts[c].title;
        p->ylabel = bn_column_key(charts[c].column);
        p->log = charts[c].log;
        p->series = v;
        f->nplots++;
    }
}

static void release(struct figures *f)
{
    for (size_t i = 0; i < f->n; i++)
        bn_curves_release(&f->curves[i]);
    for (size_t i = 0; i < f->nplots; i++)
        free(f->plots[i].svg);
    free(f->series);
    free(f->curves);
    free(f->of);
}

/* Some of the numbers of a plot, evenly picked. */
static void numbers(struct bn_str *b, const struct bn_plot *p)
{
    bn_str_adds(b, "<details><summary>Numbers of ");
    escape(b, p->title);
    bn_str_adds(b, "</summary><div class=\"wide\" tabindex=\"0\" "
                   "role=\"region\" aria-label=\"Numbers\"><table><thead><tr>"
                   "<th scope=\"col\">Point</th><th scope=\"col\">step: "
                   "value</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < p->n; i++) {
        const struct bn_curve *c = p->series[i].curve;
        size_t every = (c->n + NUMBERS_MAX - 1) / NUMBERS_MAX;
        bn_str_adds(b, "<tr><th scope=\"row\">");
        escape(b, p->series[i].name);
        bn_str_adds(b, "</th><td>");
        for (size_t k = 0; k < c->n; k++)
            if (k % every == 0 || k + 1 == c->n)
                bn_str_addf(b, "%s%g:&nbsp;%.5g", k ? ", " : "", c->step[k],
                            c->value[k]);
        bn_str_adds(b, "</td></tr>\n");
    }
    bn_str_adds(b, "</tbody></table></div></details>\n");
}

static void figure(struct bn_str *b, const struct bn_plot *p)
{
    bn_str_adds(b, "<figure>");
    if (p->svg) {
        bn_str_adds(b, "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
                       "aria-label=\"Picture: ");
        escape(b, p->title);
        bn_str_adds(b, "\"><img width=\"760\" height=\"420\" alt=\"");
        escape(b, p->title);
        bn_str_addf(b, ", curves of %zu points over the steps; the numbers "
                       "follow\" src=\"data:image/svg+xml;base64,", p->n);
        base64(b, p->svg, p->svg_len);
        bn_str_adds(b, "\"></div>");
    }
    bn_str_adds(b, "<figcaption>");
    numbers(b, p);
    bn_str_adds(b, "</figcaption></figure>\n");
}

static void group_curves(struct bn_str *b, const struct bn_sweep *s,
                         const struct bn_ranking *r, int group, int curves,
                         struct bn_str *notes)
{
    struct figures f = { .s = s };
    struct bn_err err;
    size_t all = 0;

    collect(&f, r, group, curves);
    for (size_t i = 0; i < r->n; i++)
        all += r->v[i].group == group && r->v[i].last.reached >= 0;
    bn_str_addf(b, "<h3>Curves of group %d</h3>\n", group + 1);
    if (f.nplots == 0)
        bn_str_adds(b, "<p>No metrics yet.</p>\n");
    else if (bn_plot(f.plots, f.nplots, &err) < 0) {
        bn_str_addf(notes, "no pictures: %s\n", err.text);
        bn_str_adds(b, "<p>There are no pictures: gnuplot could not draw "
                       "them. The numbers are below.</p>\n");
    }
    if (f.n < all)
        bn_str_addf(b, "<p>Of the best %zu of %zu points.</p>\n", f.n, all);
    bn_str_adds(b, "<div class=\"figures\">\n");
    for (size_t i = 0; i < f.nplots; i++)
        figure(b, &f.plots[i]);
    bn_str_adds(b, "</div>\n");
    release(&f);
}

/* --- The page --------------------------------------------------------------------- */

static void summary(struct bn_str *b, const struct bn_sweep *s,
                    const struct bn_ranking *r)
{
    size_t count[BN_NSTATE] = { 0 };
    for (size_t i = 0; i < r->n; i++)
        count[r->v[i].state]++;
    bn_str_addf(b, "<p>%zu points:", r->n);
    for (int k = 0; k < BN_NSTATE; k++)
        if (count[k] > 0)
            bn_str_addf(b, " %zu %s", count[k],
                        bn_state_name((enum bn_state)k));
    bn_str_adds(b, ".</p>\n<ul>\n");
    for (size_t i = 0; i < r->n; i++) {
        if (r->v[i].place != 1 || r->v[i].state == BN_STATE_STOPPED)
            continue;
        bn_str_addf(b, "<li>Best of <a href=\"#group-%d\">group %d</a>: <b>",
                    r->v[i].group + 1, r->v[i].group + 1);
        escape(b, s->points[r->v[i].point].name);
        bn_str_adds(b, "</b></li>\n");
    }
    bn_str_adds(b, "</ul>\n");
}

void bn_report_html(const struct bn_sweep *s, const struct bn_ranking *r,
                    int curves, struct bn_str *out, struct bn_str *notes)
{
    char when[64];
    time_t now = time(NULL);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", gmtime(&now));

    bn_str_adds(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta "
                     "charset=\"utf-8\"><meta name=\"viewport\" content="
                     "\"width=device-width, initial-scale=1\"><title>Sweep ");
    escape(out, s->name);
    bn_str_addf(out, "</title>\n<style>%s</style></head>\n<body><a "
                     "class=\"skip\" href=\"#main\">To the ranking</a>\n"
                     "<header><h1>Sweep ", style);
    escape(out, s->name);
    bn_str_addf(out, "</h1><p>Report of %s</p></header>\n<main id=\"main\">"
                     "\n", when);
    summary(out, s, r);
    for (int g = 0; g < r->ngroups; g++) {
        group_table(out, s, r, g);
        gen_table(out, s, r, g);
        group_curves(out, s, r, g, curves, notes);
    }
    reasons(out, r);
    bn_str_adds(out, "</main></body></html>\n");
}
