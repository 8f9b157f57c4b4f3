/* The checksum of a shard: of its pieces, so that several threads can take it
 * (doc/formats/checkpoint.md).
 */
#ifndef BN_CKPT_TREE_H
#define BN_CKPT_TREE_H

#include <stddef.h>

#include "base/hash.h"

enum { BN_CKPT_PIECE = 1 << 20 }; /* bytes; the last one may be shorter */

/* How many pieces a file of so many bytes has. */
size_t bn_ckpt_pieces(size_t bytes);
/* XXH3-128 over the XXH3-128 of each of n pieces in order, of 16 bytes, the
 * most significant first. */
struct bn_hash bn_ckpt_tree(const struct bn_hash *piece, size_t n);

#endif
