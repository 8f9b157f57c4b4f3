/* libFuzzer over chat templates: the input is a template, rendered for one
 * fixed conversation, or, from its first NUL on, JSON variables for it. The
 * spans must lie in the text, in order.
 */
#include "config.h"
#include "text/chat.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t len);

static const char fixed[] =
    "[{\"role\": \"system\", \"content\": \"Be \\uac00 <b>\"},"
    " {\"role\": \"user\", \"content\": \"a, b\", \"n\": [1, 2.5, null]},"
    " {\"role\": \"assistant\", \"content\": \"c\", \"tool_calls\": "
    "[{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": true}}}]}]";

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t len)
{
    char *source = malloc(len + 1);
    struct bn_err err;
    struct bn_str out = {0};
    struct bn_span *span = NULL;
    size_t n = 0, at = 0;

    memcpy(source, data, len);
    source[len] = '\0';
    size_t used = strlen(source);
    struct bn_chat *c = bn_chat_create(source, "fuzz", &err);
    if (c != NULL) {
        json_t *messages = json_loads(fixed, 0, NULL);
        json_t *extra = used < len
                            ? json_loadb(source + used + 1, len - used - 1,
                                         JSON_ALLOW_NUL, NULL) : NULL;
        struct bn_chat_args args = {
            .messages = messages, .bos_token = "<s>",
            .extra = json_is_object(extra) ? extra : NULL};

        if (bn_chat_render(c, &args, &out, &span, &n, &err) == 0) {
            for (size_t i = 0; i < n; i++) {
                if (span[i].begin < at || span[i].end < span[i].begin
                    || span[i].end > out.len)
                    abort();
                at = span[i].end;
            }
            if (bn_utf8_check(out.s, out.len) < out.len)
                abort();
            free(span);
        }
        json_decref(messages);
        json_decref(extra);
    }
    bn_chat_destroy(c);
    bn_str_release(&out);
    free(source);
    return 0;
}
