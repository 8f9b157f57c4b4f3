/* cublasLt, loaded when the first handle is made: its own constructors take
 * as long as all else that a rank does before its first step, and a rank
 * without a GPU would pay for them as well. Each function that cuda_lt.c uses
 * is here by its name and hands on to the library's.
 */
#include "config.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LIBRARY "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

/* The library's own. */
static struct {
    __typeof__(&cublasLtCreate) create;
    __typeof__(&cublasLtDestroy) destroy;
    __typeof__(&cublasLtGetStatusString) text;
    __typeof__(&cublasLtMatmul) matmul;
    __typeof__(&cublasLtMatmulAlgoGetHeuristic) heuristic;
    __typeof__(&cublasLtMatmulDescCreate) desc_create;
    __typeof__(&cublasLtMatmulDescDestroy) desc_destroy;
    __typeof__(&cublasLtMatmulDescSetAttribute) desc_set;
    __typeof__(&cublasLtMatmulPreferenceCreate) pref_create;
    __typeof__(&cublasLtMatmulPreferenceDestroy) pref_destroy;
    __typeof__(&cublasLtMatmulPreferenceSetAttribute) pref_set;
    __typeof__(&cublasLtMatrixLayoutCreate) layout_create;
    __typeof__(&cublasLtMatrixLayoutDestroy) layout_destroy;
} lt;

static const struct {
    const char *name;
    void *at; /* a pointer to a function */
} wanted[] = {
    {"cublasLtCreate", &lt.create},
    {"cublasLtDestroy", &lt.destroy},
    {"cublasLtGetStatusString", &lt.text},
    {"cublasLtMatmul", &lt.matmul},
    {"cublasLtMatmulAlgoGetHeuristic", &lt.heuristic},
    {"cublasLtMatmulDescCreate", &lt.desc_create},
    {"cublasLtMatmulDescDestroy", &lt.desc_destroy},
    {"cublasLtMatmulDescSetAttribute", &lt.desc_set},
    {"cublasLtMatmulPreferenceCreate", &lt.pref_create},
    {"cublasLtMatmulPreferenceDestroy", &lt.pref_destroy},
    {"cublasLtMatmulPreferenceSetAttribute", &lt.pref_set},
    {"cublasLtMatrixLayoutCreate", &lt.layout_create},
    {"cublasLtMatrixLayoutDestroy", &lt.layout_destroy},
};

/* Why it could not be loaded; empty: it was, or nobody has tried. */
static char reason[256];

/* The thread that makes a device's handle calls it, before all others. */
static int load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), *f = library;

    for (size_t i = 0; f != NULL && i < sizeof(wanted) / sizeof(*wanted);
         i++) {
        f = dlsym(library, wanted[i].name);
        memcpy(wanted[i].at, &f, sizeof(f));
    }
    if (f != NULL)
        return 0;
    const char *why = dlerror();

    strncpy(reason, why != NULL ? why : LIBRARY " lacks a function",
            sizeof(reason) - 1);
    memset(&lt, 0, sizeof(lt));
    return -1;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    return lt.create != NULL || load() == 0 ? lt.create(handle)
                                            : CUBLAS_STATUS_NOT_INITIALIZED;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return lt.text != NULL ? lt.text(status) : reason;
}

/* --- Behind a handle, so the library is there ------------------------------ */

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return lt.destroy(handle);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle,
                              cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la,
                              const void *b, cublasLtMatrixLayout_t lb,
                              const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *d,
                              cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *work,
                              size_t bytes, cudaStream_t stream)
{
    return lt.matmul(handle, desc, alpha, a, la, b, lb, beta, c, lc, d, ld,
                     algo, work, bytes, stream);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t pref, int most,
    cublasLtMatmulHeuristicResult_t found[], int *n)
{
    return lt.heuristic(handle, desc, a, b, c, d, pref, most, found, n);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    return lt.desc_create(desc, compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return lt.desc_destroy(desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t key,
    const void *value, size_t bytes)
{
    return lt.desc_set(desc, key, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    return lt.pref_create(p);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    return lt.pref_destroy(p);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t key,
    const void *value, size_t bytes)
{
    return lt.pref_set(p, key, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    return lt.layout_create(layout, type, rows, cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return lt.layout_destroy(layout);
}
