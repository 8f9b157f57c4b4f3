#include "config.h"
#include "base/hash.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* With it the library takes what the processor can, instead of SSE2. */
#ifdef HAVE_XXH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

struct bn_hasher {
    XXH3_state_t *state;
};

struct bn_hash bn_hash_bytes(const void *data, size_t len)
{
    XXH128_hash_t h = XXH3_128bits(data, len);

    return (struct bn_hash){h.high64, h.low64};
}

char *bn_hash_hex(struct bn_hash h, char out[BN_HASH_HEX])
{
    snprintf(out, BN_HASH_HEX, "%016" PRIx64 "%016" PRIx64, h.hi, h.lo);
    return out;
}

struct bn_hasher *bn_hasher_begin(void)
{
    struct bn_hasher *h = BN_NEW(struct bn_hasher);

    h->state = XXH3_createState();
    XXH3_128bits_reset(h->state);
    return h;
}

void bn_hasher_add(struct bn_hasher *h, const void *data, size_t len)
{
    XXH3_128bits_update(h->state, data, len);
}

void bn_hasher_adds(struct bn_hasher *h, const char *s)
{
    uint64_t n = strlen(s);

    bn_hasher_add(h, &n, sizeof(n));
    bn_hasher_add(h, s, n);
}

struct bn_hash bn_hasher_end(struct bn_hasher *h)
{
    XXH128_hash_t d = XXH3_128bits_digest(h->state);

    XXH3_freeState(h->state);
    free(h);
    return (struct bn_hash){d.high64, d.low64};
}
