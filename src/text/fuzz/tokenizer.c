/* libFuzzer: a tokenizer.json, a NUL byte, and a text to encode with it. */
#include "config.h"
#include "base/log.h"
#include "text/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void encode(const struct bn_tokenizer *t, const char *s, size_t n)
{
    struct bn_encoder *e = bn_encoder_create(t);
    struct bn_ids ids = {0}, again = {0};
    struct bn_str text = {0};
    struct bn_err err;

    if (bn_encode(e, s, n, true, &ids, &err) == 0) {
        /* Once more: from the cache. */
        if (bn_encode(e, s, n, true, &again, &err) < 0 || again.n != ids.n
            || (ids.n > 0
                && memcmp(ids.v, again.v, ids.n * sizeof(*ids.v)) != 0))
            abort();
        if (bn_decode(t, ids.v, ids.n, true, &text, &err) < 0
            && err.code != BN_ERR_DATA)
            abort();
    }
    bn_encoder_destroy(e);
    bn_ids_release(&ids);
    bn_ids_release(&again);
    bn_str_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = n > 0 ? memchr(data, 0, n) : NULL;
    size_t json = end != NULL ? (size_t)(end - data) : n;
    int fd = memfd_create("tokenizer.json", 0);
    struct bn_err err = {0};
    char path[64];

    bn_log_set_level(BN_LOG_ERROR);
    if (fd < 0 || write(fd, data, json) != (ssize_t)json)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct bn_tokenizer *t = bn_tokenizer_open(path, &err);
    close(fd);
    if (t == NULL && (err.code != BN_ERR_DATA || err.text[0] == '\0'))
        abort();
    if (t != NULL && end != NULL)
        encode(t, (const char *)end + 1, n - json - 1);
    bn_tokenizer_close(t);
    return 0;
}
