/* What `make bench-text` times: the encoder alone, on texts in memory.
 *
 *   bench-encode TOKENIZER TEXTS speed THREADS PASSES
 *       prints: bytes, ids, seconds of the first pass (of computing, if
 *       there is one thread), least seconds of the others, least seconds of
 *       computing of the others
 *   bench-encode TOKENIZER TEXTS ids OUT
 *       writes the number of ids and the ids of every text as 32-bit words
 *   bench-encode TOKENIZER TEXTS words OTHER
 *       prints: kind, bytes, nanoseconds a byte, the least of several
 *       encoders, of TEXTS ("normal") and of words without a break. Each
 *       encoder has met OTHER before, texts of another language, and meets
 *       what is timed for the first time: all of it is in memory and nothing
 *       of it is remembered. Each meets another random word.
 *
 * TEXTS is a file of texts, each ended by a NUL byte.
 */
#include "config.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "text/tokenizer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Seconds this process has computed: what other processes take does not
 * count. For one thread only. */
static double cpu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct text {
    const char *s;
    size_t n;
};

/* What a thread writes to, on cache lines of its own. */
struct worker {
    char apart[64];
    struct bn_encoder *encoder;
    struct bn_ids ids;
    size_t nids;
    char apart_too[64];
};

struct bench {
    struct bn_tokenizer *t;
    struct text *text;
    size_t n, cap, bytes;
    int threads;
    struct worker worker[64];
    atomic_size_t next; /* the first text that no thread has taken */
};

static int die(const struct bn_err *err)
{
    fprintf(stderr, "bench-encode: %s\n", err->text);
    exit(err->code);
}

static void split_texts(struct bench *b, const struct bn_map *m)
{
    size_t at = 0;

    while (at < m->len) {
        const char *end = memchr(m->data + at, '\0', m->len - at);
        size_t n = end != NULL ? (size_t)(end - m->data) - at : m->len - at;

        bn_grow(&b->text, &b->cap, b->n + 1, sizeof(*b->text));
        b->text[b->n++] = (struct text){m->data + at, n};
        b->bytes += n;
        at += n + 1;
    }
}

/* Encode texts, a few at a time, until none are left: shares of one size
 * would not take one time, and the slowest would be measured. */
static void share(void *arg, int k)
{
    enum { FEW = 16 };
    struct bench *b = arg;
    struct worker *w = &b->worker[k];
    struct bn_err err;

    w->nids = 0;
    for (;;) {
        size_t from = atomic_fetch_add(&b->next, FEW), to = from + FEW;

        if (from >= b->n)
            break;
        for (size_t i = from; i < to && i < b->n; i++) {
            w->ids.n = 0;
            if (bn_encode(w->encoder, b->text[i].s, b->text[i].n, false,
                          &w->ids, &err) < 0)
                die(&err);
            w->nids += w->ids.n;
        }
    }
}

static void speed(struct bench *b, int passes)
{
    double first = 0, least = 1e30, least_cpu = 1e30;
    size_t nids = 0;

    for (int p = 0; p <= passes; p++) {
        double t0 = bn_now(), c0 = cpu_now();

        atomic_store(&b->next, 0);
        bn_parallel(b->threads, share, b);
        double s = bn_now() - t0, c = cpu_now() - c0;
        least_cpu = p > 0 && c < least_cpu ? c : least_cpu;
        if (p == 0)
            first = b->threads == 1 ? c : s;
        else if (s < least)
            least = s;
    }
    for (int k = 0; k < b->threads; k++)
        nids += b->worker[k].nids;
    printf("%zu %zu %.6f %.6f %.6f\n", b->bytes, nids, first, least,
           least_cpu);
}

static void write_ids(struct bench *b, const char *path)
{
    FILE *f = fopen(path, "wb");
    struct worker *w = &b->worker[0];
    struct bn_err err;

    for (size_t i = 0; f != NULL && i < b->n; i++) {
        struct bn_ids *ids = &w->ids;

        ids->n = 0;
        if (bn_encode(w->encoder, b->text[i].s, b->text[i].n, false, ids,
                      &err) < 0)
            die(&err);
        int32_t n = (int32_t)ids->n;
        fwrite(&n, 4, 1, f);
        if (n > 0)
            fwrite(ids->v, 4, ids->n, f);
    }
    if (f == NULL || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

/* A word of 'n' bytes with no place to break, another one for each seed. */
static char *long_word(const char *kind, size_t n, uint64_t seed)
{
    char *s = bn_malloc(n + 4);
    size_t at = 0;

    for (uint64_t i = 0; at < n; i++) {
        uint64_t r = bn_rng_u64(1, seed, i);

        if (strcmp(kind, "repeated") == 0)
            s[at++] = (char)('a' + seed % 26);
        else if (strcmp(kind, "period") == 0)
            s[at++] = (char)('a' + ((uint64_t)"abcabd"[i % 6] + seed) % 26);
        else if (strcmp(kind, "random") == 0)
            s[at++] = (char)('a' + r % 26);
        else
            at += (size_t)bn_utf8_put(s + at, 0xac00 + (uint32_t)(r % 11172));
    }
    s[n - n % 3] = '\0';
    return s;
}

/* Nanoseconds a byte of these texts, for an encoder that met only 'other'. */
static double first_time(struct bench *b, const struct bench *other,
                         const struct text *text, size_t n)
{
    struct bn_encoder *e = bn_encoder_create(b->t);
    struct bn_ids *ids = &b->worker[0].ids;
    const struct text *all[] = {other->text, text};
    size_t count[] = {other->n, n}, bytes = 0;
    struct bn_err err;
    double t0 = 0;

    for (int k = 0; k < 2; k++) {
        t0 = cpu_now();
        for (size_t i = 0; i < count[k]; i++) {
            ids->n = 0;
            if (bn_encode(e, all[k][i].s, all[k][i].n, false, ids, &err) < 0)
                die(&err);
        }
    }
    double t = cpu_now() - t0;
    for (size_t i = 0; i < n; i++)
        bytes += text[i].n;
    bn_encoder_destroy(e);
    return t * 1e9 / (double)bytes;
}

enum { ENCODERS = 7 };

static void words(struct bench *b, const struct bench *other)
{
    static const char *const kinds[] = {"repeated", "period", "random",
                                        "hangul"};
    static const size_t sizes[] = {64 << 10, 256 << 10, 1 << 20};
    double least = 1e30;

    for (int k = 0; k < ENCODERS; k++) {
        double t = first_time(b, other, b->text, b->n);

        least = t < least ? t : least;
    }
    printf("normal %zu %.3f\n", b->bytes, least);
    for (size_t k = 0; k < BN_COUNT(kinds); k++)
        for (size_t i = 0; i < BN_COUNT(sizes); i++) {
            struct text word = {0};

            least = 1e30;
            for (uint64_t seed = 0; seed < ENCODERS; seed++) {
                char *s = long_word(kinds[k], sizes[i], seed);

                word = (struct text){s, strlen(s)};
                double t = first_time(b, other, &word, 1);
                least = t < least ? t : least;
                free(s);
            }
            printf("%s %zu %.3f\n", kinds[k], word.n, least);
        }
}

static void compare_words(struct bench *b, const char *path)
{
    struct bench other = {0};
    struct bn_map m = {0};
    struct bn_err err;

    if (bn_map_open(&m, path, &err) < 0)
        die(&err);
    split_texts(&other, &m);
    words(b, &other);
    free(other.text);
    bn_map_close(&m);
}

int main(int argc, char **argv)
{
    struct bench b = {.threads = 1};
    struct bn_map m = {0};
    struct bn_err err;

    if (argc < 5) {
        fprintf(stderr, "usage: bench-encode TOKENIZER TEXTS "
                        "speed THREADS PASSES | ids OUT | words OTHER\n");
        return BN_ERR_USAGE;
    }
    b.t = bn_tokenizer_open(argv[1], &err);
    if (b.t == NULL || bn_map_open(&m, argv[2], &err) < 0)
        die(&err);
    split_texts(&b, &m);
    if (strcmp(argv[3], "speed") == 0 && argc > 5)
        b.threads = atoi(argv[4]);
    if (b.threads < 1 || b.threads > 64)
        b.threads = 1;
    for (int k = 0; k < b.threads; k++)
        b.worker[k].encoder = bn_encoder_create(b.t);
    if (strcmp(argv[3], "speed") == 0 && argc > 5)
        speed(&b, atoi(argv[5]));
    else if (strcmp(argv[3], "ids") == 0 && argc > 4)
        write_ids(&b, argv[4]);
    else
        compare_words(&b, argv[4]);
    for (int k = 0; k < b.threads; k++) {
        bn_encoder_destroy(b.worker[k].encoder);
        bn_ids_release(&b.worker[k].ids);
    }
    free(b.text);
    bn_map_close(&m);
    bn_tokenizer_close(b.t);
    return 0;
}
