/* bench-ckpt DIR [MIB]: one save, load or copy of a state of that size, or
 * what it is held against, for every word on standard input; prints the bytes
 * of the state first, and then the seconds of each. Driven by bench.py.
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

enum { LAYERS = 4, HIDDEN = 512 };

struct bench {
    const char *dir;
    struct bn_model_config cfg;
    struct bn_params ps;
    struct bn_arena state, copy;
    float *part[3], *to[3];
    struct bn_dev *dev;
    size_t bytes;
    double seconds; /* of the last one */
};

static void must(int rc, const struct bn_err *err)
{
    if (rc < 0) {
        bn_error("%s", err->text);
        exit(1);
    }
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

static void save(struct bench *x)
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
    x->seconds = bn_now() - t0;
    json_decref(loop);
    free(tmp);
}

static void write_raw(struct bench *x)
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
    x->seconds = bn_now() - t0;
    free(path);
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

/* Both, whichever is to be read: the memory of the other's pages, which was in
 * use a moment ago, is faster to have than what a virtual machine has not
 * touched for long. */
static void forget_all(const struct bench *x)
{
    char *checkpoint = bn_path_join(x->dir, "checkpoint-1");

    forget(checkpoint, "state-pp0-tp0-dp0.bin");
    forget(x->dir, "raw");
    free(checkpoint);
}

/* As a resumed run does, with every checksum, until all of it is in memory;
 * with 'placed' until it is where the trainer has it, which is there already.
 */
static void load_checkpoint(struct bench *x, bool cold, bool placed)
{
    const struct bn_ckpt_state to = {x->to[0], x->to[1], x->to[2]};

    char *path = bn_path_join(x->dir, "checkpoint-1");
    struct bn_ckpt_stage g;
    struct bn_err err;

    if (cold)
        forget_all(x);
    double t0 = bn_now();
    struct bn_ckpt *c = bn_ckpt_open(path, &err);

    must(c != NULL ? 0 : -1, &err);
    must(bn_ckpt_stage(&g, c, &x->ps, 0, x->ps.elems, 1, 0, NULL, &err),
         &err);
    if (!placed)
        x->seconds = bn_now() - t0;
    must(bn_ckpt_place_stage(&g, &to, x->dev, &err), &err);
    if (placed)
        x->seconds = bn_now() - t0;
    bn_ckpt_unstage(&g);
    bn_ckpt_close(c);
    if (memcmp(x->to[0], x->state.base, x->bytes) != 0)
        must(bn_fail(&err, BN_ERR_BUG, "other bytes came back"), &err);
    memset(x->copy.base, 0, x->bytes);
    free(path);
}

static void load(struct bench *x)
{
    load_checkpoint(x, true, false);
}

static void load_warm(struct bench *x)
{
    load_checkpoint(x, false, false);
}

static void restore(struct bench *x)
{
    load_checkpoint(x, true, true);
}

static void restore_warm(struct bench *x)
{
    load_checkpoint(x, false, true);
}

/* Into memory that is there already. */
static void read_warm(struct bench *x)
{
    char *path = bn_path_join(x->dir, "raw");
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
    x->seconds = bn_now() - t0;
    free(path);
}

static void read_raw(struct bench *x)
{
    forget_all(x);
    read_warm(x);
}

/* What training stops for in each save. */
static void snapshot(struct bench *x)
{
    double t0 = bn_now();

    for (int k = 0; k < 3; k++)
        x->dev->op.to_host(x->dev, x->to[k], BN_F32, x->part[k], BN_F32,
                           x->ps.elems);
    x->seconds = bn_now() - t0;
}

static void copy(struct bench *x)
{
    double t0 = bn_now();

    memcpy(x->copy.base, x->state.base, x->bytes);
    x->seconds = bn_now() - t0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct bench *);
    } all[] = {{"save", save}, {"write", write_raw}, {"load", load},
               {"read", read_raw}, {"load-warm", load_warm},
               {"restore", restore}, {"restore-warm", restore_warm},
               {"read-warm", read_warm}, {"pause", snapshot},
               {"copy", copy}};
    struct bench x = {.dir = argc > 1 ? argv[1] : "."};
    char word[32];

    set_up(&x, argc > 2 ? (size_t)atoi(argv[2]) : 512);
    printf("%zu\n", x.bytes);
    fflush(stdout);
    while (scanf("%31s", word) == 1) {
        size_t i = 0;

        while (i < BN_COUNT(all) && strcmp(all[i].name, word) != 0)
            i++;
        if (i == BN_COUNT(all)) {
            bn_error("no '%s' here", word);
            return 1;
        }
        all[i].run(&x);
        printf("%.9f\n", x.seconds);
        fflush(stdout);
    }
    bn_dev_destroy(x.dev);
    return 0;
}
