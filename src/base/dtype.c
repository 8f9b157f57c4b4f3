#include "config.h"
#include "base/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[BN_NDTYPE] = {
    [BN_F32] = {"F32", 4},         [BN_BF16] = {"BF16", 2},
    [BN_F16] = {"F16", 2},         [BN_F64] = {"F64", 8},
    [BN_F8_E4M3] = {"F8_E4M3", 1}, [BN_F8_E5M2] = {"F8_E5M2", 1},
    [BN_I8] = {"I8", 1},           [BN_U8] = {"U8", 1},
    [BN_I16] = {"I16", 2},         [BN_U16] = {"U16", 2},
    [BN_I32] = {"I32", 4},         [BN_U32] = {"U32", 4},
    [BN_I64] = {"I64", 8},         [BN_U64] = {"U64", 8},
    [BN_BOOL] = {"BOOL", 1},
};

size_t bn_dtype_size(enum bn_dtype t)
{
    return types[t].size;
}

const char *bn_dtype_name(enum bn_dtype t)
{
    return types[t].name;
}

int bn_dtype_from_name(const char *name)
{
    for (int i = 0; i < BN_NDTYPE; i++)
        if (strcmp(types[i].name, name) == 0)
            return i;
    return -1;
}
