/* The part of cmocka's interface that the kernel tests use, for a GPU machine
 * that has no cmocka: jobs/gpu-check.sh puts this folder on the include path
 * only there. A failed test ends, the next one begins.
 */
#ifndef BN_JOBS_GPU_CMOCKA_H
#define BN_JOBS_GPU_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
};

enum cm_message_output { CM_OUTPUT_TAP };

/* One for all files of a program, whichever defines it. */
__attribute__((weak)) jmp_buf bn_test_end;

#define cmocka_unit_test(f)                                                   \
    {                                                                         \
        #f, f                                                                 \
    }
#define cmocka_set_message_output(form) ((void)(form))
#define cmocka_run_group_tests(tests, setup, teardown)                        \
    bn_run_tests(tests, sizeof(tests) / sizeof((tests)[0]))

static inline void bn_test_fail(const char *file, int line, const char *fmt,
                                ...)
{
    va_list ap;

    printf("# %s:%d: ", file, line);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    longjmp(bn_test_end, 1);
}
#define fail_msg(...) bn_test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define assert_true(c)                                                        \
    do {                                                                      \
        if (!(c))                                                             \
            fail_msg("%s", #c);                                               \
    } while (0)
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_null(p) assert_true((p) == NULL)
#define assert_int_equal(a, b)                                                \
    do {                                                                      \
        long long bn_a = (long long)(a), bn_b = (long long)(b);               \
                                                                              \
        if (bn_a != bn_b)                                                     \
            fail_msg("%s is %lld, not %lld", #a, bn_a, bn_b);                 \
    } while (0)
#define assert_string_equal(a, b) assert_true(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, n) assert_true(memcmp(a, b, n) == 0)

static inline int bn_run_tests(const struct CMUnitTest *t, size_t n)
{
    int failed = 0;

    printf("1..%zu\n", n);
    for (size_t i = 0; i < n; i++) {
        void *state = NULL;

        if (setjmp(bn_test_end) == 0) {
            t[i].test_func(&state);
            printf("ok %zu - %s\n", i + 1, t[i].name);
        } else {
            printf("not ok %zu - %s\n", i + 1, t[i].name);
            failed++;
        }
        fflush(stdout);
    }
    return failed;
}

#endif
