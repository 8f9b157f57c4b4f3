/* The ranking as text, CSV, one HTML file, and the winner's full run. */
#ifndef BN_SWEEP_REPORT_H
#define BN_SWEEP_REPORT_H

#include "base/str.h"
#include "sweep/rank.h"

void bn_report_text(const struct bn_sweep *s, const struct bn_ranking *r,
                    struct bn_str *out);
void bn_report_csv(const struct bn_sweep *s, const struct bn_ranking *r,
                   struct bn_str *out);

/* One self-contained page: tables, and curves as pictures (SVG) with their
 * numbers in tables beside them. Curves are of the best 'curves' points of
 * each group. Without gnuplot there are no pictures, and 'notes' says so. */
void bn_report_html(const struct bn_sweep *s, const struct bn_ranking *r,
                    int curves, struct bn_str *out, struct bn_str *notes);

/* The run of the winner of 'group' with the keys of 'full' in the sweep file
 * over it (without: max_steps -1, so that num_train_epochs counts), and
 * output_dir DIR/best; malloc'ed. NULL: class data if nothing is ranked,
 * class usage if such a run is not valid. */
char *bn_report_best(const struct bn_sweep *s, const struct bn_ranking *r,
                     int group, struct bn_err *err);

/* --- plot.c ------------------------------------------------------------------ */

struct bn_series {
    const char *name;
    const struct bn_curve *curve;
};
struct bn_plot {
    const char *title, *ylabel;
    bool log;
    const struct bn_series *series;
    size_t n;
    char *svg; /* result, malloc'ed */
    size_t svg_len;
};
/* Draw all plots with one gnuplot. */
int bn_plot(struct bn_plot *plots, size_t n, struct bn_err *err);

#endif
