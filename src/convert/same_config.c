#include "config.h"
#include "convert/verify.h"
#include "base/mem.h"

#include <math.h>
#include <stddef.h>

static const struct {
    const char *key;
    size_t at;
    bool real;
} fields[] = {
#define INT(key, member)                                                      \
    {key, offsetof(struct bn_model_config, member), false}
#define REAL(key, member)                                                     \
    {key, offsetof(struct bn_model_config, member), true}
    INT("hidden_size", hidden_size),
    INT("intermediate_size", intermediate_size),
    INT("num_hidden_layers", layers),
    INT("num_attention_heads", heads),
    INT("num_key_value_heads", kv_heads),
    INT("head_dim", head_dim),
    INT("vocab_size", vocab_size),
    REAL("rms_norm_eps", rms_eps),
    REAL("rope_theta", rope.theta),
#undef INT
#undef REAL
};

static double value(const struct bn_model_config *c, size_t i)
{
    const char *at = (const char *)c + fields[i].at;

    return fields[i].real ? *(const double *)(const void *)at
                          : *(const int *)(const void *)at;
}

static int differ(const char *key, double a, const char *where_a, double b,
                  const char *where_b, struct bn_err *err)
{
    return bn_fail(err, BN_ERR_DATA, "%s says '%s' %g, but %s says %g",
                   where_a, key, a, where_b, b);
}

int bn_config_same(const struct bn_model_config *a, const char *where_a,
                   const struct bn_model_config *b, const char *where_b,
                   struct bn_err *err)
{
    for (size_t i = 0; i < BN_COUNT(fields); i++) {
        double x = value(a, i), y = value(b, i);

        /* GGUF keeps single precision */
        if (!(fabs(x - y) <= 1e-6 * fabs(x)))
            return differ(fields[i].key, x, where_a, y, where_b, err);
    }
    if (a->rope.type != b->rope.type)
        return bn_fail(err, BN_ERR_DATA, "%s says RoPE of type '%s', but %s "
                       "says '%s'", where_a, bn_rope_name(a->rope.type),
                       where_b, bn_rope_name(b->rope.type));
    if (a->rope.type != BN_ROPE_DEFAULT
        && !(fabs(a->rope.factor - b->rope.factor) <= 1e-6 * a->rope.factor))
        return differ("factor", a->rope.factor, where_a, b->rope.factor,
                      where_b, err);
    if (a->tie_embeddings != b->tie_embeddings)
        return differ("tie_word_embeddings", a->tie_embeddings, where_a,
                      b->tie_embeddings, where_b, err);
    return 0;
}
