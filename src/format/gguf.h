/* GGUF, versions 2 and 3, little-endian. In the file:
 *
 *   "GGUF", u32 version, u64 tensors, u64 pairs
 *   pairs: string key, u32 type, value; strings are u64 length and bytes,
 *          arrays u32 type, u64 count, values
 *   tensors: string name, u32 dimensions, u64 extents (fastest first),
 *          u32 type, u64 offset
 *   padding to general.alignment (32), then the data, each tensor aligned so
 */
#ifndef BN_FORMAT_GGUF_H
#define BN_FORMAT_GGUF_H

#include "format/tensors.h"

/* Read a GGUF file. ts->meta is an object of its key-value pairs (arrays as
 * lists; strings byte for byte, which may not be UTF-8). Dimensions are
 * given slowest first, as everywhere in Burnish. F32, F16, BF16, F64 and
 * integer tensors stay in the mapping; Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K,
 * Q5_K and Q6_K become F32 in memory ('quant' names the type). Other types
 * are refused by name. Names are the file's. '*ts' must be empty; on failure
 * it still is. Local; uses all CPUs.
 */
int bn_gguf_open(struct bn_tensors *ts, const char *path,
                 struct bn_err *err);
/* The same of bytes in memory named 'name'; they must outlive the set. */
int bn_gguf_parse(struct bn_tensors *ts, const void *data, size_t len,
                  const char *name, struct bn_err *err);

/* One quantised type: blocks of 'elems' values in 'bytes' bytes. */
struct bn_quant {
    const char *name;
    int id; /* in the file */
    int elems, bytes;
    void (*dequantize)(float *out, const unsigned char *block);
};
/* The type of that id; NULL if it is not known. */
const struct bn_quant *bn_quant_find(int id);

#endif
