#include "config.h"
#include "train/rows.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHORT = 240, /* of the list in a message, whose reason must fit too */
    LINE = 1000, /* of the log */
};

/* The examples of the micro-batches, each once, into out[]; or how many. */
static size_t examples(const struct bn_micro *m, int n, uint64_t *out)
{
    size_t count = 0;

    for (int i = 0; i < n; i++) {
        const struct bn_batch *b = &m[i].whole;

        for (int k = 0; k < b->nseq; k++) {
            if (k > 0 && b->seq[k].example == b->seq[k - 1].example)
                continue;
            if (out != NULL)
                out[count] = (uint64_t)b->seq[k].example;
            count++;
        }
    }
    return count;
}

/* Add places of ex[from..n) while the text is at most 'max' long, but one at
 * least. Returns the first that is not in it. */
static size_t add(const struct bn_tokens *set, const uint64_t *ex, size_t from,
                  size_t n, size_t max, struct bn_str *out)
{
    for (size_t i = from; i < n; i++) {
        size_t was = out->len;

        bn_str_adds(out, i > from ? ", " : "");
        bn_tokens_where(set, ex[i], out);
        if (out->len > max && i > from) {
            out->len = was;
            out->s[was] = '\0';
            return i;
        }
    }
    return n;
}

static void log_all(const struct bn_tokens *set, const uint64_t *ex, size_t n,
                    const char *what)
{
    struct bn_str line = {0};

    for (size_t i = 0; i < n; bn_str_clear(&line)) {
        i = add(set, ex, i, n, LINE, &line);
        bn_info("rows of %s: %s", what, line.s);
    }
    bn_str_release(&line);
}

/* The head names an example by its number in the set; people find it by its
 * place. */
static void place_example(const struct bn_tokens *set, struct bn_err *err)
{
    static const char of[] = "of example ";
    char *at = strstr(err->text, of), *end;
    struct bn_str s = {0};

    if (at == NULL)
        return;
    unsigned long long i = strtoull(at + strlen(of), &end, 10);
    if (i >= bn_tokens_count(set))
        return;
    bn_str_addf(&s, "%.*sof ", (int)(at - err->text), err->text);
    bn_tokens_where(set, i, &s);
    bn_str_adds(&s, end);
    bn_fail(err, err->code, "%s", s.s);
    bn_str_release(&s);
}

int bn_rows_blame(const struct bn_tokens *set, const struct bn_micro *m,
                  int n, const char *what, struct bn_err *err)
{
    size_t count = examples(m, n, NULL);
    uint64_t *ex = BN_NEWN(uint64_t, count + 1);
    struct bn_str list = {0};

    examples(m, n, ex);
    size_t told = add(set, ex, 0, count, SHORT, &list);
    if (told < count) {
        log_all(set, ex, count, what);
        bn_str_addf(&list, " and %zu more, above", count - told);
    }
    place_example(set, err);
    bn_err_prefix(err, "%s (%s)", what, list.s != NULL ? list.s : "");
    bn_str_release(&list);
    free(ex);
    return -1;
}
