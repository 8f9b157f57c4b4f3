/* 128-bit content hashes (XXH3): they find accidents, not attackers. */
#ifndef BN_BASE_HASH_H
#define BN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct bn_hash {
    uint64_t hi, lo;
};
enum { BN_HASH_HEX = 33 };

struct bn_hash bn_hash_bytes(const void *data, size_t len);
/* 32 hex digits and a NUL at 'out'; returns 'out'. */
char *bn_hash_hex(struct bn_hash h, char out[BN_HASH_HEX]);

/* Incremental. bn_hasher_end frees the hasher. */
struct bn_hasher;
struct bn_hasher *bn_hasher_begin(void);
void bn_hasher_add(struct bn_hasher *h, const void *data, size_t len);
/* Adds the length too, so that ("ab","c") and ("a","bc") differ. */
void bn_hasher_adds(struct bn_hasher *h, const char *s);
struct bn_hash bn_hasher_end(struct bn_hasher *h);

#endif
