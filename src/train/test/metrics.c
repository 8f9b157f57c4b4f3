#include "config.h"
#include "train/metrics.h"
#include "train/tb.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "metrics-test.XXXXXX";
static char *path;

static int setup(void **state)
{
    (void)state;
    return bn_remove_tree(path, NULL);
}

static void write_steps(int64_t first, int64_t last)
{
    struct bn_err err;
    struct bn_metrics *m = bn_metrics_open(path, NULL, 0, &err);

    assert_non_null(m);
    for (int64_t i = first; i <= last; i++) {
        struct bn_metric v[] = {{"loss", 0.1 * (double)i},
                                {"grad_norm", 1e-7}};

        assert_int_equal(bn_metrics_write(m, BN_METRICS_TRAIN, i,
                                          (double)i / 8, v, 2, &err), 0);
    }
    assert_int_equal(bn_metrics_sync(m, &err), 0);
    bn_metrics_close(m);
}

static void append(const char *text)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);

    assert_int_equal(bn_write_all(fd, text, strlen(text), path, NULL), 0);
    close(fd);
}

static int count(void *arg, const json_t *o, int64_t step, size_t at,
                 size_t end, struct bn_err *err)
{
    int64_t *n = arg;

    (void)err;
    assert_int_equal(step, *n + 1); /* none missing, none twice */
    assert_true(end > at && json_object_get(o, "loss") != NULL);
    (*n)++;
    return 0;
}

static int64_t steps_in_file(void)
{
    int64_t n = 0;
    struct bn_err err;

    assert_int_equal(bn_metrics_scan(path, count, &n, &err), 0);
    return n;
}

static void records_have_one_schema(void **state)
{
    struct bn_err err;
    struct bn_metrics *m = bn_metrics_open(path, NULL, 0, &err);
    struct bn_metric v[] = {{"loss", 0.1}, {"grad_norm", NAN},
                            {"rewards/chosen", -1.0 / 3}, {"x", INFINITY}};
    size_t len;

    (void)state;
    assert_int_equal(bn_metrics_write(m, BN_METRICS_TRAIN, 3, 0.25, v, 4,
                                      &err), 0);
    assert_int_equal(bn_metrics_write(m, BN_METRICS_EVAL, 3, 0.25, v, 4,
                                      &err), 0);
    assert_int_equal(bn_metrics_write(m, BN_METRICS_END, 3, 0.25, NULL, 0,
                                      &err), 0);
    bn_metrics_close(m);
    char *text = bn_file_read(path, 10000, &len, &err);
    char *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1;
    assert_true(bn_str_starts(text, "{\"step\":3,\"epoch\":0.25,\"time\":"));
    assert_non_null(strstr(text, ",\"kind\":\"train\",\"loss\":0.1,"
                                 "\"rewards/chosen\":-0.3333333333333333,"
                                 "\"nonfinite\":[\"grad_norm\",\"x\"]}\n"));
    assert_non_null(strstr(second, "\"kind\":\"eval\",\"eval_loss\":0.1,"
                                   "\"eval_rewards/chosen\":"));
    assert_non_null(strstr(second, "[\"eval_grad_norm\",\"eval_x\"]}\n"));
    assert_true(bn_str_ends(third, ",\"kind\":\"end\"}\n"));
    free(text);
}

/* Cut to 'step' and any number of records. */
static int cut(int64_t step, struct bn_err *err)
{
    int64_t records = INT64_MAX;

    return bn_metrics_truncate(path, step, &records, err);
}

static void truncate_cuts_back(void **state)
{
    struct bn_err err;
    int64_t records;

    (void)state;
    assert_int_equal(cut(5, &err), 0); /* absent */
    assert_false(bn_exists(path));
    write_steps(1, 8);
    assert_int_equal(cut(9, &err), 0);
    assert_int_equal(steps_in_file(), 8);
    assert_int_equal(cut(5, &err), 0);
    assert_int_equal(steps_in_file(), 5);
    write_steps(6, 7);
    assert_int_equal(steps_in_file(), 7);
    records = 6; /* a seventh was written after the checkpoint */
    assert_int_equal(bn_metrics_truncate(path, 7, &records, &err), 0);
    assert_int_equal(steps_in_file(), 6);
    records = 9;
    assert_int_equal(bn_metrics_truncate(path, 5, &records, &err), 0);
    assert_int_equal(records, 5);
    assert_int_equal(cut(0, &err), 0);
    assert_int_equal(steps_in_file(), 0);
}

static void half_lines_are_cut(void **state)
{
    static const char *const tail[] = {"{", "{\"step\":6,\"ep", "x\n",
                                       "{\"loss\":1}\n", "[1]\n"};
    struct bn_err err;

    (void)state;
    for (size_t i = 0; i < BN_COUNT(tail); i++) {
        bn_remove_tree(path, NULL);
        write_steps(1, 5);
        append(tail[i]);
        assert_int_equal(cut(9, &err), 0);
        write_steps(6, 6);
        assert_int_equal(steps_in_file(), 6);
    }
}

static void broken_middle_is_an_error(void **state)
{
    struct bn_err err;
    size_t before, after;

    (void)state;
    write_steps(1, 2);
    append("{\"step\":\n");
    write_steps(3, 4);
    free(bn_file_read(path, 10000, &before, &err));
    assert_int_equal(cut(9, &err), -1);
    assert_int_equal(err.code, BN_ERR_DATA);
    assert_non_null(strstr(err.text, "metrics.jsonl line 3"));
    free(bn_file_read(path, 10000, &after, &err));
    assert_int_equal(before, after);
}

/* A file size limit stands for a full disk: the write stops half way. */
static void full_disk_leaves_whole_lines(void **state)
{
    struct rlimit old, low;
    struct bn_err err;
    struct bn_metric v = {"loss", 1};
    size_t len;

    (void)state;
    write_steps(1, 3);
    free(bn_file_read(path, 10000, &len, &err));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    low = (struct rlimit){len + 20, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    struct bn_metrics *m = bn_metrics_open(path, NULL, 0, &err);
    int rc = bn_metrics_write(m, BN_METRICS_TRAIN, 4, 1, &v, 1, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(rc, -1);
    assert_non_null(strstr(err.text, path));
    bn_metrics_close(m);
    assert_int_equal(steps_in_file(), 3);
    write_steps(4, 4);
    assert_int_equal(steps_in_file(), 4);
}

static void failing_sink_stops_nothing(void **state)
{
    struct bn_err err;
    struct bn_metric v = {"loss", 1};

    (void)state;
    struct bn_metrics *m =
        bn_metrics_open(path, "/dev/null/tensorboard", 0, &err);
    assert_non_null(m);
    assert_int_equal(bn_metrics_write(m, BN_METRICS_TRAIN, 1, 1, &v, 1,
                                      &err), 0);
    bn_metrics_close(m);
    assert_null(bn_metrics_open("/dev/null/x", NULL, 0, &err));
}

/* The sink's file reaches the limit, the records do not. */
static void sink_may_fail_later(void **state)
{
    struct rlimit old, low;
    struct bn_err err;
    char *events = bn_asprintf("%s/tb", dir);

    (void)state;
    struct bn_metrics *m = bn_metrics_open(path, events, 7, &err);
    assert_non_null(m);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    low = (struct rlimit){75, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &low);
    int rc = bn_metrics_write(m, BN_METRICS_TRAIN, 1, 1, NULL, 0, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(rc, 0);
    assert_int_equal(bn_metrics_write(m, BN_METRICS_TRAIN, 2, 1, NULL, 0,
                                      &err), 0);
    bn_metrics_close(m);
    free(events);
}

static void event_files_do_not_meet(void **state)
{
    struct bn_err err;
    char *events = bn_asprintf("%s/tb2", dir);
    size_t n = 0;

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct bn_tb *tb = bn_tb_open(events, 0, &err);

        assert_non_null(tb);
        bn_tb_close(tb);
    }
    DIR *d = opendir(events);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        n += e->d_name[0] != '.';
    closedir(d);
    assert_int_equal(n, 5);
    free(events);
}

static void crc_is_castagnoli(void **state)
{
    unsigned char zero[32] = {0};

    (void)state;
    assert_int_equal(bn_crc32c("123456789", 9), 0xe3069283); /* check value */
    assert_int_equal(bn_crc32c(zero, 32), 0x8a9136aa); /* RFC 3720, B.4 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(records_have_one_schema, setup),
        cmocka_unit_test_setup(truncate_cuts_back, setup),
        cmocka_unit_test_setup(half_lines_are_cut, setup),
        cmocka_unit_test_setup(broken_middle_is_an_error, setup),
        cmocka_unit_test_setup(full_disk_leaves_whole_lines, setup),
        cmocka_unit_test_setup(failing_sink_stops_nothing, setup),
        cmocka_unit_test_setup(sink_may_fail_later, setup),
        cmocka_unit_test(event_files_do_not_meet),
        cmocka_unit_test(crc_is_castagnoli),
    };

    if (mkdtemp(dir) == NULL)
        return 1;
    path = bn_asprintf("%s/metrics.jsonl", dir);
    int rc = BN_TAP_RUN(tests);
    bn_remove_tree(dir, NULL);
    free(path);
    return rc;
}
