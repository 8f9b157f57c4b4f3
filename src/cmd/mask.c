#include "config.h"
#include "cmd/mask.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* What a secret looks like; "$1" stays. In order. */
static const struct {
    const char *pattern, *instead;
} rules[] = {
    {"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?"
     "(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\\z)",
     "[masked]"},
    /* scheme://user:password@host */
    {"([a-z][a-z0-9+.-]*://)[^/\\s@\"']+@", "$1[masked]@"},
    {"(\\bbearer\\s+)[a-z0-9._~+/=-]{8,}", "$1[masked]"},
    /* the key's name has the word somewhere */
    {"([\\w.-]*(?:secret|passw|passphrase|credential)[\\w.-]*"
     "[\"']?\\s*[:=]\\s*)"
     "(?:\"(?:[^\"\\\\]|\\\\.)*\"|'[^']*'|[^\\s,;&\"'}]+)",
     "$1[masked]"},
    /* the key's name ends in it: not tokenizer, num_tokens, eos_token */
    {"((?<![\\w-])(?!(?:eos|bos|pad|unk|sep|mask|stop|cls|image)_token)"
     "(?:[\\w.-]*[_.-])?(?:token|api_?key|access_?key(?:_?id)?|auth_?key|"
     "private_?key|authorization|auth|jwt|cookie|signature|sig)"
     "[\"']?\\s*[:=]\\s*)"
     "(?:\"(?:[^\"\\\\]|\\\\.)*\"|'[^']*'|[^\\s,;&\"'}]+)",
     "$1[masked]"},
    /* shapes */
    {"\\b(?:hf_[a-z0-9]{8,}|gh[pousr]_[a-z0-9]{16,}|github_pat_\\w{20,}|"
     "glpat-[\\w-]{16,}|sk-[\\w-]{16,}|nvapi-[\\w-]{16,}|"
     "xox[abprs]-[a-z0-9-]{10,}|akia[0-9a-z]{16}|aiza[\\w-]{30,}|"
     "eyj[\\w-]{8,}\\.[\\w-]{8,}\\.[\\w-]*)",
     "[masked]"},
};

/* One rule over the whole text. Returns how many it changed. */
static int apply(const char *pattern, const char *instead, struct bn_str *s)
{
    int why, count;
    size_t at, len = 2 * s->len + 4096;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_CASELESS | PCRE2_DOTALL, &why, &at,
                                   NULL);
    char *buf = bn_malloc(len);

    count = pcre2_substitute(re, (PCRE2_SPTR)s->s, s->len, 0,
                             PCRE2_SUBSTITUTE_GLOBAL, NULL, NULL,
                             (PCRE2_SPTR)instead, PCRE2_ZERO_TERMINATED,
                             (PCRE2_UCHAR *)buf, &len);
    if (count != 0) {
        bn_str_clear(s);
        /* A text that cannot be searched is not shown. */
        if (count > 0)
            bn_str_add(s, buf, len);
        else
            bn_str_adds(s, "[masked: too long to be searched]\n");
    }
    free(buf);
    pcre2_code_free(re);
    return count > 0 ? count : count < 0;
}

int bn_mask(struct bn_str *out, const char *s, size_t n)
{
    struct bn_str text = {0};
    int count = 0;

    bn_str_add(&text, s, n);
    for (size_t i = 0; i < BN_COUNT(rules) && text.len > 0; i++)
        count += apply(rules[i].pattern, rules[i].instead, &text);
    if (text.len > 0)
        bn_str_add(out, text.s, text.len);
    bn_str_release(&text);
    return count;
}

bool bn_mask_env_ok(const char *name)
{
    static const char *const whole[] = {
        "PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ",
        "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING",
        "CUDA_DEVICE_MAX_CONNECTIONS", "NVIDIA_VISIBLE_DEVICES",
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",
    };
    static const char *const begins[] = {"SLURM_", "OMP_", "BURNISH_",
                                         "NCCL_", "UCX_", "OMPI_MCA_",
                                         "PMIX_MCA_", "MALLOC_", "KMP_"};
    static const char *const never[] = {"TOKEN", "SECRET", "PASS", "KEY",
                                        "JWT", "CRED", "AUTH", "COOKIE"};

    for (size_t i = 0; i < BN_COUNT(never); i++)
        if (strstr(name, never[i]) != NULL)
            return false;
    for (size_t i = 0; i < BN_COUNT(whole); i++)
        if (strcmp(name, whole[i]) == 0)
            return true;
    for (size_t i = 0; i < BN_COUNT(begins); i++)
        if (bn_str_starts(name, begins[i]))
            return true;
    return false;
}
