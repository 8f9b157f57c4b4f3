#include "config.h"

#include "sweep/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

static const enum bn_column shown[] = { BN_COL_NLL,    BN_COL_ODDS,
                                        BN_COL_ACCURACY, BN_COL_LOSS,
                                        BN_COL_MARGIN };

/* Columns of the table, by task. */
static size_t columns(const struct bn_ranking *r, enum bn_column *c)
{
    size_t n = 0;
    for (size_t i = 0; i < BN_COUNT(shown); i++)
        if (r->orpo || shown[i] == BN_COL_LOSS || r->ranks[shown[i]])
            c[n++] = shown[i];
    return n;
}

static void cell_text(const struct bn_last *l, enum bn_column c, char *out,
                      size_t size)
{
    if (l->step < 0 || l->cell[c] == BN_CELL_ABSENT)
        snprintf(out, size, "-");
    else if (l->cell[c] == BN_CELL_NONFINITE)
        snprintf(out, size, "nan");
    else
        snprintf(out, size, "%.5g", l->value[c]);
}

static void place_text(const struct bn_ranked *x, char out[16])
{
    if (x->place > 0)
        snprintf(out, 16, "%d", x->place);
    else
        strcpy(out, "-");
}

static int name_width(const struct bn_sweep *s)
{
    int width = 5;
    for (size_t i = 0; i < s->n; i++)
        if ((int)strlen(s->points[i].name) > width)
            width = (int)strlen(s->points[i].name);
    return width;
}

static const char *short_name(enum bn_column c)
{
    static const char *const name[BN_NCOL] = {
        "LOSS", "NLL", "LOG-ODDS", "ACCURACY", "MARGIN", "RATE", "GRAD",
        "SPEED",
    };
    return name[c];
}

/* --- Generations ---------------------------------------------------------------- */

/* Shown beside the ranking, which they take no part in. */
static void gen_table(const struct bn_sweep *s, const struct bn_ranking *r,
                      int width, struct bn_str *out)
{
    if (!bn_ranking_has_gen(r))
        return;
    bn_str_addf(out, "\n%-*s", width, "GENERATIONS");
    for (int k = 0; k < BN_NGEN; k++)
        bn_str_addf(out, " %16s", bn_gen_key(k) + strlen("gen_"));
    bn_str_addc(out, '\n');
    for (size_t i = 0; i < r->n; i++) {
        const struct bn_last *l = &r->v[i].last;

        if (!l->has_gen)
            continue;
        bn_str_addf(out, "%-*s", width, s->points[r->v[i].point].name);
        for (int k = 0; k < BN_NGEN; k++)
            if (l->gen[k] == BN_CELL_FINITE)
                bn_str_addf(out, " %16.4g", l->gen_value[k]);
            else
                bn_str_addf(out, " %16s", "-");
        bn_str_addc(out, '\n');
    }
}

/* --- Text ----------------------------------------------------------------------- */

void bn_report_text(const struct bn_sweep *s, const struct bn_ranking *r,
                    struct bn_str *out)
{
    enum bn_column col[BN_NCOL];
    size_t nc = columns(r, col);
    int width = name_width(s), group = -1;

    for (size_t i = 0; i < r->n; i++) {
        const struct bn_ranked *x = &r->v[i];
        char text[32], place[16];
        if (x->group != group) {
            group = x->group;
            char *title = bn_group_title(s, r, group);
            bn_str_addf(out, "%s%s\n", i ? "\n" : "", title);
            free(title);
            bn_str_addf(out, "%4s  %-*s %8s", "RANK", width, "POINT", "STEP");
            for (size_t k = 0; k < nc; k++)
                bn_str_addf(out, " %9s%s", short_name(col[k]),
                            r->ranks[col[k]] ? "*" : " ");
            bn_str_adds(out, "  STATE\n");
        }
        place_text(x, place);
        bn_str_addf(out, "%4s  %-*s", place, width,
                    s->points[x->point].name);
        if (x->last.step >= 0)
            bn_str_addf(out, " %8ld", x->last.step);
        else
            bn_str_addf(out, " %8s", "-");
        for (size_t k = 0; k < nc; k++) {
            cell_text(&x->last, col[k], text, sizeof(text));
            bn_str_addf(out, " %9s ", text);
        }
        bn_str_adds(out, "  ");
        bn_ranked_words(x, out);
        bn_str_addc(out, '\n');
    }
    gen_table(s, r, width, out);
    bn_str_adds(out, "\n* columns of the last evaluation that rank; place is "
                     "the mean of the places in them\n");
    for (size_t k = 0; k < nc; k++)
        bn_str_addf(out, "%s: %s\n", bn_column_key(col[k]),
                    bn_rank_reason(r, col[k]));
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].state == BN_STATE_STOPPED) {
            bn_str_adds(out, "points that asha stopped come after all that it "
                             "did not: their numbers are of an earlier "
                             "step\n");
            break;
        }
    if (r->ngroups > 1)
        bn_str_adds(out, "points with other data or lengths are ranked apart: "
                         "their numbers do not compare\n");
}

/* --- CSV ---------------------------------------------------------------------- */

/* RFC 4180. */
static void csv_field(struct bn_str *out, const char *s)
{
    if (s[strcspn(s, ",\"\r\n")] == '\0') {
        bn_str_adds(out, s);
        return;
    }
    bn_str_addc(out, '"');
    for (; *s; s++) {
        if (*s == '"')
            bn_str_addc(out, '"');
        bn_str_addc(out, *s);
    }
    bn_str_addc(out, '"');
}

/* Figures of generations, where there are any; then their intervals. */
static void gen_csv_head(const struct bn_ranking *r, struct bn_str *out)
{
    if (!bn_ranking_has_gen(r))
        return;
    for (int k = 0; k < BN_NGEN; k++)
        bn_str_addf(out, ",eval_%s", bn_gen_key(k));
    for (int k = 0; k < BN_NGEN; k++)
        bn_str_addf(out, ",eval_%s_low,eval_%s_high", bn_gen_key(k),
                    bn_gen_key(k));
}

static void gen_csv(const struct bn_ranking *r, const struct bn_last *l,
                    struct bn_str *out)
{
    if (!bn_ranking_has_gen(r))
        return;
    for (int k = 0; k < BN_NGEN; k++)
        if (l->gen[k] == BN_CELL_FINITE)
            bn_str_addf(out, ",%.10g", l->gen_value[k]);
        else
            bn_str_addc(out, ',');
    for (int k = 0; k < BN_NGEN; k++)
        if (l->gen_bounded[k])
            bn_str_addf(out, ",%.10g,%.10g", l->gen_low[k], l->gen_high[k]);
        else
            bn_str_adds(out, ",,");
}

void bn_report_csv(const struct bn_sweep *s, const struct bn_ranking *r,
                   struct bn_str *out)
{
    bn_str_adds(out, "group,rank,point,state,step");
    for (int c = 0; c <= BN_COL_MARGIN; c++)
        bn_str_addf(out, ",eval_%s", bn_column_key(c));
    gen_csv_head(r, out);
    bn_str_adds(out, ",settings,remark\r\n");
    for (size_t i = 0; i < r->n; i++) {
        const struct bn_ranked *x = &r->v[i];
        const struct bn_point *p = &s->points[x->point];
        bn_str_addf(out, "%d,", x->group + 1);
        if (x->place > 0)
            bn_str_addf(out, "%d", x->place);
        bn_str_addc(out, ',');
        csv_field(out, p->name);
        bn_str_addf(out, ",%s,", bn_state_name(x->state));
        if (x->last.step >= 0)
            bn_str_addf(out, "%ld", x->last.step);
        for (int c = 0; c <= BN_COL_MARGIN; c++) {
            bn_str_addc(out, ',');
            if (x->last.step >= 0 && x->last.cell[c] == BN_CELL_FINITE)
                bn_str_addf(out, "%.10g", x->last.value[c]);
            else if (x->last.cell[c] == BN_CELL_NONFINITE)
                bn_str_adds(out, "nan");
        }
        gen_csv(r, &x->last, out);
        char *set = bn_point_settings(p);
        bn_str_addc(out, ',');
        csv_field(out, set);
        bn_str_addc(out, ',');
        csv_field(out, x->remark);
        bn_str_adds(out, "\r\n");
        free(set);
    }
}

/* --- The winner ------------------------------------------------------------------ */

char *bn_report_best(const struct bn_sweep *s, const struct bn_ranking *r,
                     int group, struct bn_err *err)
{
    const struct bn_ranked *best = NULL;
    for (size_t i = 0; i < r->n && best == NULL; i++)
        if (r->v[i].group == group && r->v[i].place == 1)
            best = &r->v[i];
    if (best == NULL) {
        bn_fail(err, BN_ERR_DATA, "no point of '%s' can be ranked yet",
                s->path);
        return NULL;
    }
    if (best->state == BN_STATE_STOPPED) {
        bn_fail(err, BN_ERR_DATA, "every point of '%s' that can be ranked was "
                "stopped early by asha: there is no winner", s->path);
        return NULL;
    }
    const struct bn_point *pt = &s->points[best->point];
    const struct bn_yaml *full = bn_sweep_full(s);
    size_t extra = full ? full->n : 1, n = 0;
    struct bn_setting *set = BN_NEWN(struct bn_setting, pt->n + extra + 2);
    char *dir = bn_path_join(s->dir, "best");
    struct bn_yaml out = { .kind = BN_YAML_SCALAR, .text = dir,
                           .quoted = true, .at = { s->path, 0, 0 } };
    struct bn_yaml name = out, epochs = out;
    name.text = s->name;
    epochs.text = "-1";
    epochs.quoted = false;

    for (size_t i = 0; i < pt->n; i++)
        set[n++] = pt->settings[i];
    for (size_t i = 0; full && i < full->n; i++)
        set[n++] = (struct bn_setting){ full->key[i]->text, full->item[i] };
    if (full == NULL)
        set[n++] = (struct bn_setting){ "max_steps", &epochs };
    set[n++] = (struct bn_setting){ "output_dir", &out };
    set[n++] = (struct bn_setting){ "run_name", &name };
    struct bn_run_parts parts = { .base = bn_sweep_base(s), .settings = set,
                                  .nsettings = n };
    struct bn_problems p = { 0 };
    struct bn_run *run = bn_run_make(&parts, &p);
    char *yaml = NULL, *text = NULL;
    if (run) {
        yaml = bn_run_yaml(run);
        text = bn_asprintf("# full run of point %s, the best of sweep %s\n%s",
                           pt->name, s->name, yaml);
    } else {
        bn_fail(err, BN_ERR_USAGE, "%s:%d: %s",
                p.v[0].at.file ? p.v[0].at.file : s->path, p.v[0].at.line,
                p.v[0].text);
    }
    bn_run_free(run);
    bn_problems_release(&p);
    free(yaml);
    free(dir);
    free(set);
    return text;
}
