/* libFuzzer over every reader of bytes from outside; built by 'make fuzz',
 * which needs clang. The first byte chooses the reader. Every byte of every
 * tensor that a reader accepts is then read.
 */
#include "config.h"
#include "format/gguf.h"
#include "format/llama2c.h"
#include "format/safetensors.h"
#include "format/torch.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t len);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t len)
{
    static int (*const readers[])(struct bn_tensors *, const void *, size_t,
                                  const char *, struct bn_err *) = {
        bn_safetensors_parse, bn_torch_parse, bn_gguf_parse,
        bn_llama2c_parse};
    struct bn_tensors ts = {0};
    struct bn_err err;
    volatile unsigned sum = 0;

    if (len < 1
        || readers[data[0] % 4](&ts, data + 1, len - 1, "fuzz", &err) < 0)
        return 0;
    for (size_t i = 0; i < ts.n; i++) {
        const unsigned char *p = ts.item[i].data;
        size_t n = (size_t)ts.item[i].count
                   * bn_dtype_size(ts.item[i].dtype);

        for (size_t k = 0; k < n; k++)
            sum += p[k];
    }
    bn_tensors_close(&ts);
    return 0;
}
