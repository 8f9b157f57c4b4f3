#include "config.h"

#include "sweep/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

enum { TAIL = 65536 };

static const char *const keys[BN_NCOL] = {
    "loss",           "nll_loss",        "log_odds_chosen",
    "rewards/accuracies", "rewards/margins", "learning_rate",
    "grad_norm",      "tokens_per_second",
};

static const char *const gen_keys[BN_NGEN] = {
    "gen_length",     "gen_eos_rate",   "gen_repetition_4",
    "gen_distinct_1", "gen_distinct_2", "gen_exact_match",
};

const char *bn_gen_key(int k)
{
    return gen_keys[k];
}

const char *bn_column_key(enum bn_column c)
{
    return keys[c];
}

/* A record, or NULL if the line is none. */
static json_t *parse(const char *line, size_t len, bool *eval, double *step)
{
    struct bn_err err;
    const char *kind = NULL;
    json_t *o = bn_json_parse(line, len, "", &err);

    if (o && (bn_json_num(o, "", "step", step, NULL) <= 0
              || bn_json_str(o, "", "kind", &kind, NULL) <= 0)) {
        json_decref(o);
        return NULL;
    }
    *eval = o && strcmp(kind, "eval") == 0;
    return o;
}

static enum bn_cell cell_of(const json_t *o, const char *name, bool eval,
                            double *value)
{
    char key[64] = "eval_";
    strcpy(key + (eval ? 5 : 0), name);
    if (bn_json_num(o, "", key, value, NULL) > 0)
        return BN_CELL_FINITE;
    const json_t *list = json_object_get(o, "nonfinite"), *item;
    size_t i;
    json_array_foreach((json_t *)list, i, item)
        if (json_is_string(item)
            && strcmp(json_string_value(item), key) == 0)
            return BN_CELL_NONFINITE;
    return BN_CELL_ABSENT;
}

static enum bn_cell cell(const json_t *o, int column, bool eval,
                         double *value)
{
    return cell_of(o, keys[column], eval, value);
}

static bool bound_of(const json_t *o, int k, const char *end, double *value)
{
    char key[48];

    snprintf(key, sizeof(key), "%s_%s", gen_keys[k], end);
    return cell_of(o, key, true, value) == BN_CELL_FINITE;
}

/* Whether it is a record of generations, which has no loss: the newest one
 * counts. */
static bool generations(const json_t *o, struct bn_last *last)
{
    if (json_object_get(o, "eval_gen_examples") == NULL)
        return false;
    for (int k = 0; k < BN_NGEN && !last->has_gen; k++) {
        last->gen[k] = cell_of(o, gen_keys[k], true, &last->gen_value[k]);
        last->gen_bounded[k] = last->gen[k] == BN_CELL_FINITE
                               && bound_of(o, k, "low", &last->gen_low[k])
                               && bound_of(o, k, "high", &last->gen_high[k]);
    }
    last->has_gen = true;
    return true;
}

/* Lines of text[0..len) from the last to the first, until the last
 * evaluation is found. */
static bool scan_back(const char *text, size_t len, struct bn_last *last)
{
    while (len > 0) {
        size_t end = len;
        while (len > 0 && text[len - 1] != '\n')
            len--;
        bool eval;
        double step;
        json_t *o = parse(text + len, end - len, &eval, &step);
        if (o == NULL && end > len)
            last->broken++;
        if (o && last->reached < 0)
            last->reached = (long)step;
        if (o && eval && !generations(o, last)) {
            last->step = (long)step;
            for (int k = 0; k < BN_NCOL; k++)
                last->cell[k] = cell(o, k, true, &last->value[k]);
            json_decref(o);
            return true;
        }
        json_decref(o);
        if (len > 0)
            len--; /* over the line feed */
    }
    return false;
}

void bn_last_read(const char *path, struct bn_last *last)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t share = TAIL;

    memset(last, 0, sizeof(*last));
    last->step = last->reached = -1;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (bool found = false; !found; share *= 16) {
        size_t size = (size_t)st.st_size;
        size_t n = share < size ? share : size, skip = 0;
        char *buf = bn_malloc(n + 1);
        ssize_t got = pread(fd, buf, n, (off_t)(size - n));
        if (got < (ssize_t)n) {
            free(buf);
            break;
        }
        memset(last, 0, sizeof(*last));
        last->step = last->reached = -1;
        while (n < size && skip < n && buf[skip++] != '\n')
            ;
        last->half = buf[n - 1] != '\n';
        size_t end = n;
        while (end > skip && buf[end - 1] != '\n')
            end--;
        if (end > skip)
            found = scan_back(buf + skip, end - skip - 1, last);
        free(buf);
        if (n == size)
            break;
    }
    close(fd);
}

static void add(struct bn_curve *c, double step, double value)
{
    if (c->n == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 64;
        c->step = bn_realloc(c->step, c->cap, sizeof(double));
        c->value = bn_realloc(c->value, c->cap, sizeof(double));
    }
    c->step[c->n] = step;
    c->value[c->n++] = value;
}

void bn_curves_read(const char *path, struct bn_curves *c)
{
    struct bn_map m;
    struct bn_err err;

    memset(c, 0, sizeof(*c));
    if (bn_map_open(&m, path, &err) < 0)
        return;
    const char *p = m.data, *end = m.data + m.len, *nl;
    while (p < end && (nl = memchr(p, '\n', (size_t)(end - p))) != NULL) {
        bool eval;
        double step, value;
        json_t *o = parse(p, (size_t)(nl - p), &eval, &step);
        for (int k = 0; o && k < BN_NCOL; k++)
            if (cell(o, k, eval, &value) == BN_CELL_FINITE)
                add(eval ? &c->eval[k] : &c->train[k], step, value);
        json_decref(o);
        p = nl + 1;
    }
    bn_map_close(&m);
}

void bn_curves_release(struct bn_curves *c)
{
    for (int k = 0; k < BN_NCOL; k++) {
        free(c->train[k].step);
        free(c->train[k].value);
        free(c->eval[k].step);
        free(c->eval[k].value);
    }
    memset(c, 0, sizeof(*c));
}
