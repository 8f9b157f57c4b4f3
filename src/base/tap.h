/* What every unit test includes: cmocka with TAP output. Use as
 *     int main(void)
 *     {
 *         const struct CMUnitTest tests[] = { cmocka_unit_test(f), ... };
 *         return BN_TAP_RUN(tests);
 *     }
 */
#ifndef BN_BASE_TAP_H
#define BN_BASE_TAP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define BN_TAP_RUN(tests)                                                     \
    (cmocka_set_message_output(CM_OUTPUT_TAP),                                \
     cmocka_run_group_tests(tests, NULL, NULL))

#endif
