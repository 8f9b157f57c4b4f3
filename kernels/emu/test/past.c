/* Accesses that only AddressSanitizer sees at once, with which this is built:
 * behind an allocation but before the guard page, behind a shared array.
 *
 *     past fine|end|shared
 */
#include "config.h"
#include "kernels/emu/runtime.h"
#include "kernels/emu/test/lang.h"

#include <string.h>

int main(int argc, char **argv)
{
    enum { N = 125 }; /* 500 bytes: 12 more before the page */
    const char *what = argc > 1 ? argv[1] : "";
    bool shared = strcmp(what, "shared") == 0; /* which has 128 */
    void *y = NULL;
    int rc;

    if (cudaMalloc(&y, (shared ? 128 : N) * sizeof(float)) != cudaSuccess)
        return 99;
    if (shared)
        rc = try_fault(PAST_SHARED, y, 1);
    else
        rc = try_fault(PAST_END, y, strcmp(what, "end") == 0 ? N : N - 1);
    if (rc == 0)
        rc = cudaFree(y) == cudaSuccess ? 0 : 98;
    return rc;
}
