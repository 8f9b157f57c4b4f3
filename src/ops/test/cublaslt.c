/* cublasLt loaded late: what the library does without a GPU, through us. */
#include "config.h"
#include "base/tap.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* Whether a library of that name is mapped into this process. */
static int mapped(const char *name)
{
    char line[4096];
    FILE *f = fopen("/proc/self/maps", "r");
    int found = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL)
        found |= strstr(line, name) != NULL;
    fclose(f);
    return found;
}

/* What the library itself says of an attribute; it is not one of ours. */
static void expect(const char *getter, void *of, int key, const void *want,
                   size_t bytes)
{
    void *lib = dlopen("libcublasLt.so." TEXT(CUBLAS_VER_MAJOR),
                       RTLD_NOW | RTLD_NOLOAD);
    void *f = lib != NULL ? dlsym(lib, getter) : NULL;
    cublasStatus_t (*get)(void *, int, void *, size_t, size_t *);
    char got[8];
    size_t n = 0;

    assert_non_null(f);
    memcpy(&get, &f, sizeof(get));
    assert_int_equal(get(of, key, got, bytes, &n), 0);
    assert_int_equal(n, bytes);
    assert_memory_equal(got, want, bytes);
    dlclose(lib);
}

static void test_late(void **state)
{
    cublasLtHandle_t lt = NULL;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layout;
    cublasLtMatmulPreference_t pref;
    const cublasOperation_t t = CUBLAS_OP_T;
    const uint64_t bytes = 1 << 20, cols = 24;

    (void)state;
    assert_false(mapped("libcublasLt"));
    cublasStatus_t st = cublasLtCreate(&lt);
    if (!mapped("libcublasLt")) {
        print_message("# %s\n", cublasLtGetStatusString(st));
        skip(); /* built here, and run where the toolkit is not */
    }
    assert_string_equal(cublasLtGetStatusString(CUBLAS_STATUS_SUCCESS),
                        "success");
    assert_string_equal(cublasLtGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED),
                        "the requested functionality is not supported");
    /* descriptions live on the host */
    assert_int_equal(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F,
                                              CUDA_R_32F), 0);
    assert_int_equal(cublasLtMatmulDescSetAttribute(
                         desc, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof(t)), 0);
    assert_int_equal(cublasLtMatmulDescSetAttribute(
                         desc, CUBLASLT_MATMUL_DESC_TRANSA, &t, 0),
                     CUBLAS_STATUS_INVALID_VALUE);
    expect("cublasLtMatmulDescGetAttribute", desc,
           CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof(t));
    assert_int_equal(cublasLtMatmulDescDestroy(desc), 0);
    assert_int_equal(cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 8,
                                                cols, 8), 0);
    expect("cublasLtMatrixLayoutGetAttribute", layout,
           CUBLASLT_MATRIX_LAYOUT_COLS, &cols, sizeof(cols));
    assert_int_equal(cublasLtMatrixLayoutDestroy(layout), 0);
    assert_int_equal(cublasLtMatmulPreferenceCreate(&pref), 0);
    assert_int_equal(cublasLtMatmulPreferenceSetAttribute(
                         pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                         &bytes, sizeof(bytes)), 0);
    expect("cublasLtMatmulPreferenceGetAttribute", pref,
           CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes));
    assert_int_equal(cublasLtMatmulPreferenceDestroy(pref), 0);
    if (st == CUBLAS_STATUS_SUCCESS)
        assert_int_equal(cublasLtDestroy(lt), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_late)};

    return BN_TAP_RUN(tests);
}
