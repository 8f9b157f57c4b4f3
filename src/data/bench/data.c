/* What `make bench-data` times: a JSONL file to a committed cache, against
 * the encoder alone on the same texts in memory.
 *
 *   bench-data TOKENIZER FILE.jsonl THREADS ROUNDS [EVAL_SPLIT [TASK]]
 *
 * FILE has rows of {"text": ...}, or for TASK preference of prompt, chosen
 * and rejected, of which the encoder alone sees nothing. Prints: bytes of
 * text, rows, ids, least seconds of encoding alone, least seconds of the
 * whole way. The two are timed in turn.
 */
#include "config.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"
#include "data/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    const char *s;
    size_t n;
};

struct bench {
    struct bn_tokenizer *t;
    struct text *text;
    size_t n, cap, bytes;
    int threads;
    double encode[64];
};

static int die(const struct bn_err *err)
{
    fprintf(stderr, "bench-data: %s\n", err->text);
    exit(err->code);
}

static void load(struct bench *b, const char *path)
{
    struct bn_map m;
    struct bn_err err;
    size_t at = 0;

    if (bn_map_open(&m, path, &err) < 0)
        die(&err);
    while (at < m.len) {
        const char *nl = memchr(m.data + at, '\n', m.len - at);
        size_t n = nl != NULL ? (size_t)(nl - m.data) - at : m.len - at;
        json_t *o = bn_json_parse(m.data + at, n, path, &err);

        if (o == NULL)
            die(&err);
        json_t *v = json_object_get(o, "text");
        size_t len = json_string_length(v);
        char *s = bn_strndup(v != NULL ? json_string_value(v) : "", len);
        bn_grow(&b->text, &b->cap, b->n + 1, sizeof(*b->text));
        b->text[b->n++] = (struct text){s, len};
        b->bytes += len;
        json_decref(o);
        at += n + 1;
    }
    bn_map_close(&m);
}

static void encode(void *arg, int index)
{
    struct bench *b = arg;
    struct bn_encoder *e = bn_encoder_create(b->t);
    struct bn_ids ids = {0};
    struct bn_err err;
    double start = bn_now();

    for (size_t i = (size_t)index; i < b->n; i += (size_t)b->threads) {
        ids.n = 0;
        if (bn_encode(e, b->text[i].s, b->text[i].n, false, &ids, &err) < 0)
            die(&err);
    }
    b->encode[index] = bn_now() - start;
    bn_ids_release(&ids);
    bn_encoder_destroy(e);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct bn_err err;
    char dir[] = "/tmp/bn-bench-XXXXXX";
    double least[2] = {1e9, 1e9};
    uint64_t tokens = 0;

    if (argc < 5 || mkdtemp(dir) == NULL)
        return 64;
    b.t = bn_tokenizer_open(argv[1], &err);
    if (b.t == NULL)
        die(&err);
    load(&b, argv[2]);
    b.threads = atoi(argv[3]);
    for (int round = 0; round < atoi(argv[4]); round++) {
        struct bn_data_opts o;
        struct bn_tokens *train, *eval;
        const char *file = argv[2];
        double start = bn_now();

        bn_parallel(b.threads, encode, &b);
        double took = bn_now() - start;
        least[0] = took < least[0] ? took : least[0];
        bn_remove_tree(dir, NULL);
        bn_data_opts_init(&o);
        o.files = &file;
        o.nfiles = 1;
        o.max_length = 0;
        o.add_eos = false;
        o.task = argc > 6 && strcmp(argv[6], "preference") == 0
                     ? BN_DATA_PREFERENCE
                     : BN_DATA_SFT;
        o.cache_dir = dir;
        o.threads = b.threads;
        o.quiet = true;
        o.eval_split = argc > 5 ? atof(argv[5]) : 0;
        start = bn_now();
        if (bn_tokens_make(&train, &eval, &o, b.t, &err) < 0)
            die(&err);
        took = bn_now() - start;
        least[1] = took < least[1] ? took : least[1];
        tokens = bn_tokens_stats(train)->tokens;
        bn_tokens_close(train);
        bn_tokens_close(eval);
    }
    printf("%zu %zu %" PRIu64 " %.6f %.6f\n", b.bytes, b.n, tokens, least[0],
           least[1]);
    bn_remove_tree(dir, NULL);
    for (size_t i = 0; i < b.n; i++)
        free((void *)(uintptr_t)b.text[i].s);
    free(b.text);
    bn_tokenizer_close(b.t);
    return 0;
}
