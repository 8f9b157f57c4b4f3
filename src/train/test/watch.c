#include "config.h"
#include "base/tap.h"
#include "base/file.h"
#include "base/mem.h"
#include "train/phase.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char dir[64];
static const struct bn_boot_info me = {.rank = 0, .size = 3,
                                       .local_size = 3,
                                       .launch = "step.1/0"};

static void publish(int rank, const char *launch, const char *rest)
{
    char *path = bn_asprintf("%s/phase.%d", dir, rank);
    char *text = bn_asprintf("{\"rank\":%d,\"size\":3,\"launch\":\"%s\",%s}\n",
                             rank, launch, rest);

    assert_int_equal(bn_file_write(path, text, strlen(text), NULL), 0);
    free(text);
    free(path);
}

static void rest(double seconds)
{
    struct timespec t = {.tv_nsec = (long)(seconds * 1e9)};

    nanosleep(&t, NULL);
}

static void test_where(void **state)
{
    char out[BN_WATCH_WHERE];
    struct bn_watch w;

    (void)state;
    bn_phase_watch(&w, dir, &me, 60);
    w.where(w.arg, 1, out);
    assert_string_equal(out, "");
    publish(1, "step.1/0", "\"phase\":\"load\",\"step\":0");
    w.where(w.arg, 1, out);
    assert_string_equal(out, "load");
    publish(1, "step.1/0", "\"phase\":\"step\",\"step\":7");
    w.where(w.arg, 1, out);
    assert_string_equal(out, "step 7");
    publish(1, "step.1/1", "\"phase\":\"step\",\"step\":7");
    w.where(w.arg, 1, out); /* another start's */
    assert_string_equal(out, "");
}

static void test_failed(void **state)
{
    struct bn_watch w;
    struct bn_err err;

    (void)state;
    bn_phase_watch(&w, dir, &me, 60);
    publish(1, "step.0/0", "\"phase\":\"failed\",\"step\":0,\"class\":65,"
            "\"error\":\"bad row\"");
    assert_int_equal(w.failed(w.arg, 1, &err), 0);
    publish(1, "step.1/0", "\"phase\":\"failed\",\"step\":3,\"class\":65,"
            "\"error\":\"bad row\"");
    assert_int_equal(w.failed(w.arg, 1, &err), -1);
    assert_int_equal(err.code, BN_ERR_DATA);
    assert_string_equal(err.text, "rank 1 failed: bad row");
    assert_int_equal(w.failed(w.arg, 2, &err), 0); /* not there yet */
}

/* A file that never moves, and one that does. */
static void test_silence(void **state)
{
    struct bn_watch w;
    struct bn_err err;
    char *path = bn_asprintf("%s/phase.2", dir);
    int rc = 0;

    (void)state;
    bn_phase_watch(&w, dir, &me, 0.4);
    publish(1, "step.1/0", "\"phase\":\"step\",\"step\":4");
    publish(2, "step.1/0", "\"phase\":\"step\",\"step\":4");
    for (int i = 0; i < 8 && rc == 0; i++) {
        assert_int_equal(w.failed(w.arg, 2, &err), 0);
        rc = w.failed(w.arg, 1, &err);
        rest(0.1);
        utimensat(AT_FDCWD, path, NULL, 0);
    }
    assert_int_equal(rc, -1);
    assert_int_equal(err.code, BN_ERR_AGAIN);
    assert_non_null(strstr(err.text, "rank 1 has shown no life for"));
    assert_non_null(strstr(err.text, "step 4"));
    free(path);
}

static void test_own_file(void **state)
{
    char *path = bn_asprintf("%s/exit-class", dir), *text;
    struct bn_err err = {BN_ERR_NUMERIC, "a NaN"};
    struct bn_watch w;
    size_t len;

    (void)state;
    bn_phase_begin(dir, &me);
    bn_phase_set("load", 0);
    bn_phase_watch(&w, dir, &me, 60);
    assert_int_equal(w.failed(w.arg, 0, NULL), 0);
    bn_phase_fail(&err);
    err.code = BN_ERR_DATA;
    bn_phase_fail(&err); /* the first counts */
    text = bn_file_read(path, 100, &len, NULL);
    assert_string_equal(text, "71\n");
    assert_int_equal(w.failed(w.arg, 0, &err), -1);
    assert_int_equal(err.code, BN_ERR_NUMERIC);
    bn_phase_end();
    free(text);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_failed),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_own_file),
    };

    snprintf(dir, sizeof(dir), "/tmp/bn-watch.%ld", (long)getpid());
    if (mkdir(dir, 0777) < 0)
        return 1;
    int rc = BN_TAP_RUN(tests);
    bn_remove_tree(dir, NULL);
    return rc;
}
