/* The files of a token set, written front to back. */
#include "config.h"
#include "data/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { IDS, MASK, INDEX, HASH };

int bn_writer_open(struct bn_writer *w, const char *dir,
                   const struct bn_recipe *r, struct bn_err *err)
{
    bool split = r->o->eval_split > 0, pairs = r->o->task != BN_DATA_SFT;
    const char *name[4] = {"ids.bin", pairs ? NULL : "mask.bin",
                           split ? "all.idx" : "train.idx",
                           split ? "hash" : NULL};

    *w = (struct bn_writer){.dir = dir};
    w->meta.group = pairs ? 3 : 1;
    for (int i = 0; i < 4; i++)
        w->file[i].fd = -1;
    for (int i = 0; i < 4; i++) {
        if (name[i] == NULL)
            continue;
        w->file[i].path = bn_path_join(dir, name[i]);
        w->file[i].fd = open(w->file[i].path,
                             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->file[i].fd < 0)
            return bn_fail(err, bn_err_from_errno(errno), "cannot create "
                           "'%s': %s", w->file[i].path, strerror(errno));
    }
    return 0;
}

static int put(struct bn_writer *w, int i, const void *data, size_t len,
               struct bn_err *err)
{
    if (w->file[i].fd < 0 || len == 0)
        return 0;
    return bn_write_all(w->file[i].fd, data, len, w->file[i].path, err);
}

static void add_stats(struct bn_tokens_stats *to,
                      const struct bn_tokens_stats *s)
{
    to->rows += s->rows;
    for (int d = 0; d < BN_DROP_COUNT; d++)
        to->drops[d] += s->drops[d];
    to->cut += s->cut;
    to->tokens += s->tokens;
    to->targets += s->targets;
    if (s->longest > to->longest)
        to->longest = s->longest;
}

int bn_writer_add(struct bn_writer *w, struct bn_part *p, struct bn_err *err)
{
    struct bn_tokens_meta *m = &w->meta;
    const char *line = p->nbad > 0 ? p->bad.s : "";

    for (size_t i = 0; i < p->n; i++)
        p->entry[i].start += m->nids;
    if (put(w, IDS, p->ids.v, p->ids.n * sizeof(*p->ids.v), err) < 0
        || put(w, MASK, p->mask, p->ids.n, err) < 0
        || put(w, INDEX, p->entry, p->n * sizeof(*p->entry), err) < 0
        || put(w, HASH, p->hash, p->n * sizeof(*p->hash), err) < 0)
        return -1;
    m->nids += p->ids.n;
    m->part[0].count += p->n;
    if (p->longest > m->part[0].longest)
        m->part[0].longest = p->longest;
    add_stats(&m->stats, &p->stats);
    for (; *line != '\0' && w->nbad < BN_SHOW_BAD; w->nbad++) {
        size_t n = strcspn(line, "\n") + 1;

        bn_str_add(&w->bad, line, n);
        line += n;
    }
    return 0;
}

static int close_file(struct bn_writer *w, int i, struct bn_err *err)
{
    int fd = w->file[i].fd;

    if (fd < 0)
        return 0;
    if (fsync(fd) < 0)
        return bn_fail(err, bn_err_from_errno(errno), "cannot fsync '%s': %s",
                       w->file[i].path, strerror(errno));
    w->file[i].fd = -1;
    if (close(fd) < 0)
        return bn_fail(err, bn_err_from_errno(errno), "cannot close '%s': %s",
                       w->file[i].path, strerror(errno));
    return 0;
}

int bn_writer_finish(struct bn_writer *w, const struct bn_recipe *r,
                     const struct bn_data_files *files, uint64_t bytes,
                     struct bn_err *err)
{
    struct bn_tokens_meta *m = &w->meta;
    const char *first = w->bad.len > 0 ? w->bad.s : "";
    int rc;

    m->stats.bytes = bytes;
    m->statement = bn_strdup(r->statement);
    m->notes = bn_asprintf("%s%s", first, r->notes);
    if (bn_tokens_check(&m->stats, r->o->max_dropped_fraction, files, first,
                        err) < 0)
        return -1;
    for (int i = 0; i < 4; i++) {
        if (close_file(w, i, err) < 0)
            return -1;
    }
    rc = r->o->eval_split > 0
             ? bn_tokens_split(m, w->dir, r->o->eval_split, err)
             : 0;
    return rc < 0 ? -1 : bn_tokens_meta_write(m, w->dir, files, err);
}

void bn_writer_release(struct bn_writer *w)
{
    for (int i = 0; i < 4; i++) {
        if (w->file[i].fd >= 0)
            close(w->file[i].fd);
        free(w->file[i].path);
    }
    bn_tokens_meta_release(&w->meta);
    bn_str_release(&w->bad);
}
