/* Stands in for src/base/hash.c, which wants a library that a GPU machine may
 * lack: names of tensors become streams of random numbers, and any hash does
 * for that. FNV-1a, 64 bits, from two starting points.
 */
#include "config.h"
#include "base/hash.h"

static uint64_t fnv(uint64_t h, const unsigned char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

struct bn_hash bn_hash_bytes(const void *data, size_t len)
{
    return (struct bn_hash){fnv(0xcbf29ce484222325u, data, len),
                            fnv(0x9e3779b97f4a7c15u, data, len)};
}
