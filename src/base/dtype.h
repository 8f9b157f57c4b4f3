/* Element types of tensors, in memory and in files. */
#ifndef BN_BASE_DTYPE_H
#define BN_BASE_DTYPE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum bn_dtype {
    BN_F32,
    BN_BF16,
    BN_F16,
    BN_F64,
    BN_F8_E4M3,
    BN_F8_E5M2,
    BN_I8,
    BN_U8,
    BN_I16,
    BN_U16,
    BN_I32,
    BN_U32,
    BN_I64,
    BN_U64,
    BN_BOOL,
    BN_NDTYPE
};

size_t bn_dtype_size(enum bn_dtype t);
/* The safetensors name: "F32", "BF16", "F8_E4M3", ... */
const char *bn_dtype_name(enum bn_dtype t);
/* The type of that name; -1 when there is none. */
int bn_dtype_from_name(const char *name);

#ifdef __cplusplus
}
#endif

#endif
