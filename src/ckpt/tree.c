#include "config.h"
#include "ckpt/tree.h"

size_t bn_ckpt_pieces(size_t bytes)
{
    return bytes / BN_CKPT_PIECE + (bytes % BN_CKPT_PIECE != 0);
}

static void put(unsigned char *to, uint64_t v)
{
    for (int i = 7; i >= 0; i--, v >>= 8)
        to[i] = (unsigned char)v;
}

struct bn_hash bn_ckpt_tree(const struct bn_hash *piece, size_t n)
{
    struct bn_hasher *h = bn_hasher_begin();
    unsigned char text[16];

    for (size_t i = 0; i < n; i++) {
        put(text, piece[i].hi);
        put(text + 8, piece[i].lo);
        bn_hasher_add(h, text, sizeof(text));
    }
    return bn_hasher_end(h);
}
