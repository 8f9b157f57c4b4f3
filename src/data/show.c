/* Token sets for people to look at. */
#include "config.h"
#include "data/data.h"

#include <inttypes.h>

/* Append ids[from..to) as text. Byte-level tokens may cut characters: the
 * whole run is decoded at once. */
static int add_run(const int32_t *ids, size_t n, const struct bn_tokenizer *t,
                   const char *open, const char *close, struct bn_str *out,
                   struct bn_err *err)
{
    bn_str_adds(out, open);
    if (bn_decode(t, ids, n, false, out, err) < 0)
        return -1;
    bn_str_adds(out, close);
    return 0;
}

int bn_tokens_show(const struct bn_tokens *ts, uint64_t i,
                   const struct bn_tokenizer *t, bool colour,
                   struct bn_str *out, struct bn_err *err)
{
    const char *open = colour ? "\033[32m" : "[[";
    const char *close = colour ? "\033[0m" : "]]";
    struct bn_example ex;

    bn_tokens_get(ts, i, &ex);
    bn_str_addf(out, "example %" PRIu64 ", ", i);
    bn_tokens_where(ts, i, out);
    if (bn_tokens_group(ts) == 3) {
        bn_str_addf(out, ": prompt %d tokens, chosen %d, rejected %d\n", ex.n,
                    ex.nchosen, ex.nrejected);
        if (add_run(ex.ids, (size_t)ex.n, t, "", "", out, err) < 0
            || add_run(ex.chosen, (size_t)ex.nchosen, t, open, close, out,
                       err) < 0)
            return -1;
        bn_str_adds(out, "\n--- rejected:\n");
        if (add_run(ex.rejected, (size_t)ex.nrejected, t, open, close, out,
                    err) < 0)
            return -1;
        bn_str_addc(out, '\n');
        return 0;
    }
    int targets = 0;
    for (int k = 0; k < ex.n; k++)
        targets += ex.mask[k];
    bn_str_addf(out, ": %d tokens, %d of them learnt\n", ex.n, targets);
    for (int k = 0, end; k < ex.n; k = end) {
        for (end = k + 1; end < ex.n && ex.mask[end] == ex.mask[k];)
            end++;
        if (add_run(ex.ids + k, (size_t)(end - k), t,
                    ex.mask[k] ? open : "", ex.mask[k] ? close : "", out, err)
            < 0)
            return -1;
    }
    bn_str_addc(out, '\n');
    return 0;
}

void bn_tokens_report(const struct bn_tokens *ts, struct bn_str *out)
{
    const struct bn_tokens_stats *s = bn_tokens_stats(ts);
    char size[32];

    bn_str_addf(out, "shape     %s\n", bn_tokens_statement(ts));
    bn_str_addf(out, "rows      %" PRIu64 " read (%s), %" PRIu64 " kept, %"
                PRIu64 " of them cut\n", s->rows, bn_str_bytes(size, s->bytes),
                s->drops[BN_KEPT], s->cut);
    for (int d = BN_KEPT + 1; d < BN_DROP_COUNT; d++) {
        if (s->drops[d] > 0)
            bn_str_addf(out, "dropped   %" PRIu64 " (%.2g %%): %s\n",
                        s->drops[d],
                        100 * (double)s->drops[d] / (double)s->rows,
                        bn_drop_name(d));
    }
    bn_str_addf(out, "tokens    %" PRIu64 ", %" PRIu64 " of them %s; longest "
                "sequence %" PRIu64 "\n", s->tokens, s->targets,
                bn_tokens_group(ts) == 3 ? "in answers" : "learnt",
                s->longest);
    for (const char *p = bn_tokens_notes(ts); *p != '\0';) {
        size_t n = 0;

        while (p[n] != '\n' && p[n] != '\0')
            n++;
        bn_str_addf(out, "note      %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
    bn_str_addf(out, "cache     %s (%s)\n", bn_tokens_path(ts),
                bn_tokens_was_cached(ts) ? "found" : "made");
}
