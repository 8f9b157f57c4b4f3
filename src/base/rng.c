#include "config.h"
#include "base/rng.h"

#include <math.h>

uint64_t bn_rng_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint64_t x0 = index, x1 = stream, key = seed;

    for (int round = 0; round < 10; round++) {
        unsigned __int128 p = (unsigned __int128)x0 * 0xd2b74407b1ce6e93u;

        x0 = (uint64_t)(p >> 64) ^ key ^ x1;
        x1 = (uint64_t)p;
        key += 0x9e3779b97f4a7c15u;
    }
    return x0;
}

double bn_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)(bn_rng_u64(seed, stream, index) >> 11) * 0x1p-53;
}

double bn_rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    double u = bn_rng_uniform(seed, stream, 2 * index);
    double v = bn_rng_uniform(seed, stream, 2 * index + 1);

    return sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
}

uint64_t bn_rng_permute(uint64_t seed, uint64_t stream, uint64_t n,
                        uint64_t i)
{
    int half = 1;
    uint64_t mask;

    while (half < 32 && (uint64_t)1 << (2 * half) < n)
        half++;
    mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t l = i >> half, r = i & mask;

        for (uint64_t round = 0; round < 6; round++) {
            uint64_t f = bn_rng_u64(seed, stream * 8 + round, r) & mask;
            uint64_t next = l ^ f;

            l = r;
            r = next;
        }
        i = l << half | r;
    } while (i >= n);
    return i;
}
