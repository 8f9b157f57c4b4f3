/* Random numbers that are functions of their arguments: no hidden state, so
 * that a resumed run and any division of the work see the same ones.
 */
#ifndef BN_BASE_RNG_H
#define BN_BASE_RNG_H

#include <stdint.h>

/* 64 random bits of (seed, stream, index): Philox 2x64-10 (Salmon et al.,
 * "Parallel random numbers: as easy as 1, 2, 3", 2011). */
uint64_t bn_rng_u64(uint64_t seed, uint64_t stream, uint64_t index);
/* Uniform in [0, 1), 53 bits. */
double bn_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index);
/* Standard normal (Box-Muller over two draws of the index). */
double bn_rng_normal(uint64_t seed, uint64_t stream, uint64_t index);
/* Where element i of 0..n-1 goes under the permutation named by (seed,
 * stream): a bijection computed in O(1) memory (a Feistel network with
 * cycle walking). n >= 1, i < n. */
uint64_t bn_rng_permute(uint64_t seed, uint64_t stream, uint64_t n,
                        uint64_t i);

#endif
