/* bench-ckpt DIR [MIB]: a durable save against a raw write and fsync of the
 * same bytes in the same directory, loading against a raw read, and the pause
 * of a background save against memcpy; interleaved, minimum of several.
 *     bench NAME RATIO target T ours A peer B UNIT
 * A ratio is of speeds: 1 is as fast as the peer. Exit 1 if one is short.
 */
#include "config.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/ckpt.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS = 5, LAYERS = 4, HIDDEN = 512 };

struct bench {
    const char *dir;
    struct bn_model_config cfg;
    struct bn_params ps;
    struct bn_arena state, copy;
    float *part[3], *to[3];
    struct bn_dev *dev;
    size_t bytes;
    int failures;
};

static void must(int rc, const struct bn_err *err)
{
    if (rc < 0) {
        bn_error("%s", err->text);
        exit(1);
    }
}

static double best(double a, double b)
{
    return a == 0 || b < a ? b : a;
}

/* Seconds of ours and of the peer's, for 'bytes'. */
static void report(struct bench *x, const char *name, double ours,
                   double peer, double target)
{
    double mb = (double)x->bytes / 1e6, ratio = peer / ours;

    printf("bench %s %.3f target %.3f ours %.0f peer %.0f MB/s\n", name,
           ratio, target, mb / ours, mb / peer);
    x->failures += ratio < target;
}

static void set_up(struct bench *x, size_t mib)
{
    struct bn_part part;
    struct bn_err err;

    x->cfg = (struct bn_model_config){
        .family = BN_LLAMA, .hidden_size = HIDDEN, .layers = LAYERS,
        .intermediate_size = 2 * HIDDEN, .heads = 8, .kv_heads = 8,
        .head_dim = 64, .max_position = 512, .rms_eps = 1e-5,
        .init_std = 0.02, .rope = {.theta = 10000}, .bos = -1, .pad = -1,
        .dtype = -1};
    size_t want = (mib << 20) / 12; /* parameters; the rest are ids */
    size_t layers = (size_t)LAYERS * HIDDEN * HIDDEN * 10;
    x->cfg.vocab_size =
        (int)((want > layers ? want - layers : 1000) / (2 * HIDDEN)) + 1;
    part = bn_part_whole(&x->cfg);
    must(bn_params_init(&x->ps, &x->cfg, &part, &err), &err);
    x->bytes = 12 * x->ps.elems;
    must(bn_arena_init(&x->state, "state", x->bytes, &err), &err);
    must(bn_arena_init(&x->copy, "copy", x->bytes, &err), &err);
    bn_arena_touch(&x->state);
    bn_arena_touch(&x->copy);
    for (int k = 0; k < 3; k++) {
        x->part[k] = (float *)(void *)x->state.base + (size_t)k * x->ps.elems;
        x->to[k] = (float *)(void *)x->copy.base + (size_t)k * x->ps.elems;
    }
    for (size_t i = 0; i < 3 * x->ps.elems; i++)
        x->part[0][i] = (float)(i % 1021) * 0.001f;
    x->dev = bn_dev_cpu(0, &err);
    must(x->dev != NULL ? 0 : -1, &err);
}

static double save(struct bench *x)
{
    char *tmp = bn_ckpt_tmp(x->dir, 1);
    struct bn_ckpt_shard s = {.part = x->ps.part, .count = x->ps.elems};
    const float *const data[3] = {x->part[0], x->part[1], x->part[2]};
    json_t *loop = json_pack("{s:i}", "step", 1);
    struct bn_err err;
    double t0 = bn_now();

    must(bn_ckpt_begin(tmp, &err), &err);
    must(bn_ckpt_write_shard(tmp, &s, data, &err), &err);
    const struct bn_ckpt_of of = {.cfg = &x->cfg};
    must(bn_ckpt_commit(tmp, x->dir, 1, &s, 1, &of, "", loop, &err),
         &err);
    double t = bn_now() - t0;
    json_decref(loop);
    free(tmp);
    return t;
}

static double raw_write(struct bench *x)
{
    char *path = bn_path_join(x->dir, "raw");
    struct bn_err err;
    double t0 = bn_now();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    must(fd < 0 ? bn_fail(&err, BN_ERR_DATA, "cannot create %s", path) : 0,
         &err);
    must(bn_write_all(fd, x->state.base, x->bytes, path, &err), &err);
    if (fsync(fd) < 0 || close(fd) < 0)
        must(bn_fail(&err, BN_ERR_DATA, "cannot sync %s", path), &err);
    double t = bn_now() - t0;
    free(path);
    return t;
}

/* As after a restart: nothing of the file in memory. */
static void forget(const char *dir, const char *name)
{
    char *path = bn_path_join(dir, name);
    int fd = open(path, O_RDONLY);

    if (fd < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        bn_warn("cannot drop '%s' from the cache", path);
    close(fd);
    free(path);
}

static double load(struct bench *x)
{
    char *path = bn_path_join(x->dir, "checkpoint-1");

    forget(path, "state-pp0-tp0-dp0.bin");
    struct bn_err err;
    double t0 = bn_now();
    struct bn_ckpt *c = bn_ckpt_open(path, 1, 0, &err);

    must(c != NULL ? 0 : -1, &err);
    must(bn_ckpt_read_host(c, &x->ps, 0, x->ps.elems, x->to, 3, &err), &err);
    bn_ckpt_close(c);
    double t = bn_now() - t0;
    if (memcmp(x->copy.base, x->state.base, x->bytes) != 0)
        must(bn_fail(&err, BN_ERR_BUG, "other bytes came back"), &err);
    free(path);
    return t;
}

static double raw_read(struct bench *x)
{
    char *path = bn_path_join(x->dir, "raw");

    forget(x->dir, "raw");
    double t0 = bn_now();
    int fd = open(path, O_RDONLY);
    size_t at = 0;

    while (at < x->bytes) {
        ssize_t n = read(fd, x->copy.base + at,
                         x->bytes - at < (8 << 20) ? x->bytes - at : 8 << 20);

        if (n <= 0)
            exit(1);
        at += (size_t)n;
    }
    close(fd);
    free(path);
    return bn_now() - t0;
}

static double snapshot(struct bench *x)
{
    double t0 = bn_now();

    for (int k = 0; k < 3; k++)
        x->dev->op.to_host(x->dev, x->to[k], BN_F32, x->part[k], BN_F32,
                           x->ps.elems);
    return bn_now() - t0;
}

static double raw_copy(struct bench *x)
{
    double t0 = bn_now();

    memcpy(x->copy.base, x->state.base, x->bytes);
    return bn_now() - t0;
}

int main(int argc, char **argv)
{
    struct bench x = {.dir = argc > 1 ? argv[1] : "."};
    double s = 0, w = 0, l = 0, r = 0, c = 0, m = 0;

    set_up(&x, argc > 2 ? (size_t)atoi(argv[2]) : 512);
    for (int i = 0; i < ROUNDS; i++) {
        s = best(s, save(&x));
        w = best(w, raw_write(&x));
        l = best(l, load(&x));
        r = best(r, raw_read(&x));
        c = best(c, snapshot(&x));
        m = best(m, raw_copy(&x));
    }
    report(&x, "ckpt-save", s, w, 0.90);
    report(&x, "ckpt-load", l, r, 0.85);
    report(&x, "ckpt-pause", c, m, 1 / 1.2);
    bn_dev_destroy(x.dev);
    return x.failures > 0;
}
