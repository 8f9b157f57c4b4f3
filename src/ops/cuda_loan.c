/* Loans of device memory to the host, and which slots make them. */
#include "config.h"
#include "ops/cuda_loan.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void copy(struct bn_dev *d, void *dst, const void *src, struct block b,
                 enum cudaMemcpyKind kind)
{
    cudaStream_t stream = bn_cuda_of(d)->stream;
    cudaError_t e;

    if (d->failed || b.rows == 0 || b.width == 0)
        return;
    if (b.rows == 1) /* of any length: a pitch is below 2 GiB */
        e = cudaMemcpyAsync(dst, src, b.width, kind, stream);
    else
        e = cudaMemcpy2DAsync(dst, b.pitch, src, b.pitch, b.width, b.rows,
                              kind, stream);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(stream);
    if (e != cudaSuccess)
        bn_cuda_failed(d, e, "copy for a slot that runs on the CPU");
}

void *bn_loan_lend(struct loan *l, const void *dev, struct block b, bool back)
{
    int i = 0;

    if (dev == NULL)
        return NULL;
    while (i < l->n && l->item[i].dev != dev)
        i++;
    if (i == l->n) {
        l->item[i].dev = dev;
        l->n++;
    }
    if (l->item[i].host == NULL || l->item[i].b.width < b.width) {
        free(l->item[i].host);
        l->item[i].host = bn_malloc(b.rows * b.pitch + b.width);
        l->item[i].b = b;
        copy(l->d, l->item[i].host, dev, b, cudaMemcpyDeviceToHost);
    }
    l->item[i].back |= back;
    return l->item[i].host;
}

void *bn_loan_again(const struct loan *l, const void *dev)
{
    for (int i = 0; i < l->n; i++)
        if (l->item[i].dev == dev)
            return l->item[i].host;
    return NULL;
}

void bn_loan_end(struct loan *l)
{
    struct bn_err err;

    if (bn_dev_check(l->cpu, &err) < 0)
        bn_dev_fail(l->d, err.code, "%s", err.text);
    for (int i = 0; i < l->n; i++) {
        if (l->item[i].back)
            copy(l->d, (void *)(uintptr_t)l->item[i].dev, l->item[i].host,
                 l->item[i].b, cudaMemcpyHostToDevice);
        free(l->item[i].host);
    }
}

static const char *const slots[] = {
    "cast", "linear", "linear_f32", "linear_dx", "linear_dw", "bias_grad",
    "embed", "embed_grad", "rmsnorm", "rmsnorm_grad", "headnorm",
    "headnorm_grad", "rope", "attn", "attn_grad", "swiglu", "swiglu_grad",
    "add", "dropout", "gather", "scatter", "head_stats", "head_grad", "score_logp",
    "score_sums", "score_spread", "loss", "sample", "sqnorm", "clip_scale",
    "adamw"};

/* Is the word of n characters at p this one? */
static bool is_word(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}

bool bn_cuda_forced(const struct bn_dev *d, const char *slot)
{
    const char *p = bn_cuda_of(d)->forced;

    while (p != NULL && *p != '\0') {
        size_t n = strcspn(p, " ");

        if (is_word(p, n, slot))
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

int bn_cuda_check_names(const char *names, struct bn_err *err)
{
    for (const char *p = names; *p != '\0';) {
        size_t n = strcspn(p, " "), i = 0;

        while (n > 0 && i < BN_COUNT(slots) && !is_word(p, n, slots[i]))
            i++;
        if (i == BN_COUNT(slots))
            return bn_fail(err, BN_ERR_USAGE,
                           "BURNISH_CUDA_HOST: no slot '%.*s'", (int)n, p);
        p += n + (p[n] == ' ');
    }
    return 0;
}
