/* The first row of the files that tells decides what all of them are. */
#include "config.h"
#include "data/write.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Parse record i of a chunk; NULL or what is wrong. */
const char *bn_chunk_row(const struct bn_chunk *c, size_t i,
                         const char *const name[BN_COL_COUNT],
                         struct bn_row *row, struct bn_str *scratch,
                         char *why)
{
    const struct bn_record *rec = &c->rec[i];
    const char *s = c->buf + rec->at;

    if (rec->len > BN_ROW_MAX)
        return "longer than 32 MiB";
    return c->head != NULL
               ? bn_row_csv(s, rec->len, c->head, row, scratch, why)
               : bn_row_json(s, rec->len, name, row, scratch, why);
}

/* A model that never sees a stop token in its answers never learns to
 * stop. */
static void check_stop(struct bn_recipe *r, const struct bn_row *row)
{
    struct bn_maker *m = bn_maker_create(r);
    struct bn_made x = {0};
    bool stops = false;

    if (bn_maker_row(m, row, &x) == BN_KEPT && !x.cut) {
        const struct bn_ids *a = x.chosen.n > 0 ? &x.chosen : &x.ids;

        for (size_t i = 0; i < a->n; i++) {
            if (a == &x.chosen || x.mask[i])
                stops |= bn_tokenizer_is_special(r->t, a->v[i]);
        }
        if (!stops) {
            char *was = r->notes;

            r->notes = bn_asprintf("%sthe first answer holds no special token"
                                   " to learn to stop at\n", was);
            free(was);
        }
    }
    bn_made_release(&x);
    bn_maker_destroy(m);
}

/* The first of some records, from a good one on, whose columns make a shape:
 * a row that lacks a value may come first. 'from' if there is none. */
static size_t telling(const struct bn_recipe *r, const struct bn_chunk *c,
                      size_t from, struct bn_str *scratch)
{
    enum { TRIES = 100 };
    struct bn_row row;
    char why[200];

    for (size_t i = from; i < c->nrec && i < from + TRIES; i++)
        if (c->rec[i].len > 0
            && bn_chunk_row(c, i, r->name, &row, scratch, why) == NULL
            && bn_recipe_knows(r, &row))
            return i;
    return from;
}

int bn_recipe_from_files(struct bn_recipe *r,
                         const struct bn_data_files *files,
                         struct bn_err *err)
{
    struct bn_reader *reader = bn_reader_open(files, r->name);
    struct bn_chunk c = {0};
    struct bn_str scratch = {0}, keys = {0};
    struct bn_row row;
    char why[200], first[300] = "";
    int rc;

    for (;;) {
        const char *bad = "";
        size_t i = 0;

        rc = bn_reader_next(reader, &c, err);
        if (rc <= 0)
            break;
        for (; i < c.nrec && bad != NULL; i++) {
            if (c.rec[i].len == 0)
                continue;
            bad = bn_chunk_row(&c, i, r->name, &row, &scratch, why);
            if (bad != NULL && *first == '\0')
                snprintf(first, sizeof(first), "; first: %s:%llu: %s",
                         files->v[c.file].path,
                         (unsigned long long)c.rec[i].line, bad);
        }
        if (bad != NULL)
            continue;
        i = telling(r, &c, i - 1, &scratch);
        bn_chunk_row(&c, i, r->name, &row, &scratch, why);
        const struct bn_record *rec = &c.rec[i];
        if (c.head != NULL)
            bn_str_adds(&keys, c.head->names);
        else
            bn_row_keys(c.buf + rec->at, rec->len, &keys, why);
        rc = bn_recipe_detect(r, &row, keys.len > 0 ? keys.s : "(none)", err);
        if (rc < 0)
            bn_err_prefix(err, "%s:%llu", files->v[c.file].path,
                          (unsigned long long)rec->line);
        else
            check_stop(r, &row);
        goto out;
    }
    if (rc == 0)
        rc = bn_fail(err, BN_ERR_DATA, "'%s'%s: no row of data%s",
                     files->v[0].path, files->n > 1 ? " and others" : "",
                     first);
out:
    bn_str_release(&keys);
    bn_str_release(&scratch);
    bn_chunk_release(&c);
    bn_reader_close(reader);
    return rc;
}
