#include "config.h"
#include "base/arena.h"
#include "base/blocks.h"
#include "base/core.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/rng.h"
#include "base/signal.h"
#include "base/str.h"
#include "base/tap.h"
#include "base/thread.h"
#include "base/times.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void err_keeps_errno_and_marks_loss(void **state)
{
    struct bn_err err = {0};
    char big[1000];

    (void)state;
    errno = ENOENT;
    assert_int_equal(bn_fail(&err, BN_ERR_DATA, "cannot open '%s'", "a\nb"),
                     -1);
    assert_int_equal(errno, ENOENT);
    assert_string_equal(err.text, "cannot open 'a?b'");
    memset(big, 'a', sizeof(big));
    big[sizeof(err.text) - 1] = '\0'; /* fits exactly */
    bn_fail(&err, BN_ERR_BUG, "%s", big);
    assert_int_equal(err.text[sizeof(err.text) - 2], 'a');
    big[sizeof(err.text) - 1] = 'a';
    big[sizeof(err.text)] = '\0'; /* one byte too long */
    bn_fail(&err, BN_ERR_BUG, "%s", big);
    assert_int_equal(err.text[sizeof(err.text) - 2], '+');
    bn_fail(&err, BN_ERR_DATA, "inner");
    bn_err_prefix(&err, "file %d", 3);
    assert_string_equal(err.text, "file 3: inner");
    bn_err_prefix(&err, "%s", big); /* the reason is what stays */
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_non_null(strstr(err.text, "aa+: file 3: inner"));
    bn_fail(&err, BN_ERR_BUG, "%s", big);
    bn_err_prefix(&err, "%s", big);
    assert_non_null(strstr(err.text, "aa+: aa"));
    assert_string_equal(err.text + sizeof(err.text) - 4, "aa+");
    assert_int_equal(bn_fail(NULL, BN_ERR_BUG, "nobody listens"), -1);
}

/* What is said of a core file for a pattern and a limit. */
static const char *core_text(const char *pattern, unsigned long long limit,
                             bool expected)
{
    static char text[1000];
    struct bn_safe b = {.s = text, .cap = sizeof(text) - 1};

    assert_int_equal(bn_core_explain_as(&b, 11, pattern, limit), expected);
    text[b.n] = '\0';
    return text;
}

static void core_files_are_explained(void **state)
{
    char want[300];

    (void)state;
    assert_non_null(strstr(core_text("core", 0, false), "'ulimit -c' is 0"));
    snprintf(want, sizeof(want), "core: '/tmp/c.11.%d.%%.base", getpid());
    assert_memory_equal(core_text("/tmp/c.%s.%p.%%.%e", 1 << 20, true), want,
                        strlen(want));
    assert_non_null(strstr(core_text("/nowhere/core.%p", 1 << 20, false),
                           "folder '/nowhere' cannot be written"));
    assert_non_null(strstr(core_text("", 1 << 20, false), "is empty"));
    assert_non_null(strstr(core_text("|/nowhere/helper %p", 0, false),
                           "'/nowhere/helper', which is not there"));
    assert_non_null(strstr(core_text("|/bin/sh %p", 0, true), "'/bin/sh'"));
    snprintf(want, sizeof(want), "coredumpctl info %d", getpid());
    assert_non_null(strstr(core_text("|/lib/systemd/systemd-coredump %P", 0,
                                     true), want));
}

static void safe_text_is_cut_at_its_end(void **state)
{
    char room[8] = "#######";
    struct bn_safe b = {.s = room, .cap = 5};

    (void)state;
    bn_safe_int(&b, -12);
    bn_safe_hex(&b, 0xbeef);
    assert_int_equal(b.n, 5);
    assert_string_equal(room, "-120x##");
}

/* Of memory that is only mapped nothing is touched; then what was. */
static void pages_are_counted_as_they_are(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGE_SIZE), n = 1500 * page;
    struct bn_block_sum sum;
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    (void)state;
    assert_true(p != MAP_FAILED);
    madvise(p, n, MADV_NOHUGEPAGE);
    bn_block_add("test", p, n, true);
    bn_block_sum("test", &sum);
    assert_int_equal(sum.allocated, n);
    assert_int_equal(sum.touched, 0);
    for (size_t i = 0; i < n; i += 3 * page) /* every third */
        p[i + 5] = 1;
    assert_int_equal(bn_pages_touched(p, n), n / 3);
    /* Half of a touched page, two that are not, and a byte of the next. */
    assert_int_equal(bn_pages_touched(p + page / 2, page * 5 / 2 + 1),
                     page / 2 + 1);
    bn_block_add("test", p + 1, 100, false);
    bn_block_sum("test", &sum);
    assert_int_equal(sum.peak, n + 100);
    assert_int_equal(sum.touched, n / 3 + 100);
    bn_block_drop(p + 1);
    bn_block_drop(NULL);
    bn_block_drop(p);
    bn_block_sum("test", &sum);
    assert_int_equal(sum.allocated, 0);
    assert_int_equal(sum.peak, n + 100);
    munmap(p, n);
}

/* What 'f' says on standard error, into 'text'. */
static void heard(void (*f)(void), char *text, size_t size)
{
    FILE *out = tmpfile();
    int was = dup(STDERR_FILENO);

    assert_non_null(out);
    assert_true(was >= 0 && dup2(fileno(out), STDERR_FILENO) >= 0);
    f();
    dup2(was, STDERR_FILENO);
    close(was);
    ssize_t n = pread(fileno(out), text, size - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    fclose(out);
}

static void at_times(void)
{
    bn_progress_begin("work", 0, 100, 0.2);
    bn_progress_update(10, "too early");
    usleep(300000);
    bn_progress_update(20, "7 rows/s");
    bn_progress_update(30, "too early again");
    bn_progress_update(100, "8 rows/s");
    bn_progress_end();
    bn_progress_update(1, "after the end");
}

/* Where there is no terminal: a line once an interval, and the last state. */
static void progress_is_a_line_at_times(void **state)
{
    char text[400];

    (void)state;
    heard(at_times, text, sizeof(text));
    assert_string_equal(text, "work  20% 20/100 0:00<0:01 7 rows/s\n"
                              "work 100% 100/100 0:00<0:00 8 rows/s\n");
}

static void gone_on_with(void)
{
    bn_progress_begin("work", 90, 100, 0);
    usleep(400000);
    bn_progress_update(91, "a");
    bn_progress_end();
    bn_progress_begin("work", 100, 100, 0);
    bn_progress_end();
}

/* The time left is that of what is left: 9 times what 1 took. */
static void progress_goes_on_from_where_it_was(void **state)
{
    char text[400];

    (void)state;
    heard(gone_on_with, text, sizeof(text));
    assert_memory_equal(text, "work  91% 91/100 0:00<0:0", 25);
    assert_true(text[25] >= '3'); /* 3.6 s, on an idle machine */
    assert_non_null(strstr(text, "\nwork 100% 100/100 0:00<0:00 \n"));
}

static void one_in_the_other(void)
{
    bn_progress_begin("outer", 0, 10, 0);
    bn_progress_update(1, "a");
    bn_progress_begin("inner", 0, 2, 0);
    bn_progress_update(1, "b");
    bn_progress_end();
    bn_progress_update(2, "c");
    bn_progress_end();
    bn_progress_update(3, "after the end");
}

static void progress_is_shown_again_after_another(void **state)
{
    char text[400];

    (void)state;
    heard(one_in_the_other, text, sizeof(text));
    assert_string_equal(text, "outer  10% 1/10 0:00<0:00 a\n"
                              "inner  50% 1/2 0:00<0:00 b\n"
                              "inner  50% 1/2 0:00<0:00 b\n"
                              "outer  20% 2/10 0:00<0:00 c\n"
                              "outer  20% 2/10 0:00<0:00 c\n");
}

/* The child says by its end what the signals did. */
static void a_second_interrupt_ends_a_process(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        int status, sigs[2] = {SIGINT, SIGTERM};
        pid_t pid = fork();

        if (pid == 0) {
            bn_signals_catch();
            raise(sigs[first]);
            if (bn_stop_signal() != sigs[first])
                _exit(1);
            if (first == 1)
                raise(SIGINT);
            if (bn_stop_signal() != sigs[first])
                _exit(2);
            raise(SIGINT);
            _exit(3);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    }
}

/* nohup(1) has it ignored, and so it stays. */
static void a_hangup_stops_unless_it_was_ignored(void **state)
{
    (void)state;
    for (int ignored = 0; ignored < 2; ignored++) {
        int status;
        pid_t pid = fork();

        if (pid == 0) {
            signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL);
            bn_signals_catch();
            raise(SIGHUP);
            _exit(bn_stop_signal());
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), ignored ? 0 : SIGHUP);
    }
}

static void times_add_up(void **state)
{
    double s[BN_TIMES], sum = 0, wall;

    (void)state;
    bn_times_begin();
    usleep(2000);
    assert_int_equal(bn_times_enter(BN_TIME_FORWARD), BN_TIME_START);
    assert_int_equal(bn_times_enter_comm(), BN_TIME_FORWARD);
    usleep(3000);
    bn_times_enter(BN_TIME_EVAL);
    assert_int_equal(bn_times_enter_comm(), BN_TIME_EVAL);
    usleep(1000);
    wall = bn_times_get(s);
    for (int k = 0; k < BN_TIMES; k++)
        sum += s[k];
    assert_true(fabs(sum - wall) < 1e-9);
    assert_true(s[BN_TIME_START] >= 0.002 && s[BN_TIME_COMM] >= 0.003
                && s[BN_TIME_EVAL] >= 0.001 && s[BN_TIME_SAVE] == 0);
}

static void utf8_is_strict(void **state)
{
    static const char *const bad[] = {
        "\xc0\x80",         /* overlong NUL */
        "\xe0\x80\xaf",     /* overlong */
        "\xed\xa0\x80",     /* surrogate */
        "\xf4\x90\x80\x80", /* above U+10FFFF */
        "\xff",
        "\x80",
        "\xe2\x82", /* cut */
    };
    char buf[4];
    uint32_t cp;

    (void)state;
    for (size_t i = 0; i < BN_COUNT(bad); i++)
        assert_int_equal(bn_utf8_get(bad[i], strlen(bad[i]), &cp), 0);
    for (uint32_t c = 0; c <= 0x10ffff; c += c < 0x3000 ? 1 : 97) {
        if (c >= 0xd800 && c < 0xe000)
            continue;
        int n = bn_utf8_put(buf, c);
        assert_int_equal(bn_utf8_get(buf, (size_t)n, &cp), n);
        assert_int_equal(cp, c);
    }
    assert_int_equal(bn_utf8_check("abcdefghijk\xff", 12), 11);
    assert_int_equal(bn_utf8_check("abcdefgh\xea\xb0\x80", 11), 11);
}

static void strings(void **state)
{
    static const char *const keys[] = {"learning_rate", "beta", "max_length"};
    struct bn_str b = {0};
    char out[32];

    (void)state;
    bn_str_addf(&b, "%d-%s", 7, "x");
    bn_str_add_json(&b, "a\"\n\x01\xff", 5);
    assert_string_equal(b.s, "7-x\"a\\\"\\n\\u0001\xef\xbf\xbd\"");
    bn_str_release(&b);
    assert_string_equal(bn_str_nearest("learnign_rate", keys, 3), keys[0]);
    assert_null(bn_str_nearest("weight_decay", keys, 3));
    assert_string_equal(bn_str_bytes(out, 1536), "1.50 KiB");
}

static void files(void **state)
{
    char dir[] = "/tmp/bn-base-XXXXXX";
    struct bn_err err = {0};
    struct bn_map m;
    char *sub, *path, *text;
    size_t len;

    (void)state;
    assert_non_null(mkdtemp(dir));
    sub = bn_path_join(dir, "a/b");
    assert_int_equal(bn_mkdirs(sub, &err), 0);
    assert_int_equal(bn_mkdirs(sub, &err), 0);
    path = bn_path_join(sub, "f");
    assert_int_equal(bn_file_write(path, "hello", 5, &err), 0);
    assert_int_equal(bn_map_open(&m, path, &err), 0);
    assert_int_equal(m.len, 5);
    bn_map_close(&m);
    text = bn_file_read(path, 10, &len, &err);
    assert_string_equal(text, "hello");
    free(text);
    assert_null(bn_file_read(path, 4, &len, &err));
    assert_int_equal(bn_map_open(&m, sub, &err), -1);
    assert_non_null(strstr(err.text, "not a regular file"));
    char *to_none = bn_path_join(dir, "link");
    assert_int_equal(symlink("nowhere", to_none), 0);
    assert_false(bn_exists(to_none));
    assert_true(bn_is_listed(to_none) && bn_is_listed(path));
    assert_int_equal(bn_map_open(&m, to_none, &err), -1);
    assert_non_null(strstr(err.text, "link': it is a link to what is not"));
    assert_int_equal(err.code, BN_ERR_DATA);
    free(to_none);
    /* A write that cannot happen leaves the old file and no temporary. */
    char *under = bn_path_join(path, "g");
    assert_int_equal(bn_file_write(under, "x", 1, &err), -1);
    free(under);
    assert_int_equal(bn_remove_tree(dir, &err), 0);
    assert_false(bn_exists(dir));
    assert_int_equal(bn_remove_tree(dir, &err), 0);
    free(path);
    free(sub);
}

static void json_errors_have_a_place(void **state)
{
    struct bn_err err = {0};
    int64_t i = 5;
    json_t *o;

    (void)state;
    assert_null(bn_json_parse("{\"a\":1,\n\"a\":2}", 15, "x.json", &err));
    assert_non_null(strstr(err.text, "x.json:2:"));
    o = bn_json_parse("{\"a\":4.0,\"b\":\"s\",\"c\":null}", 26, "x", &err);
    assert_non_null(o);
    assert_int_equal(bn_json_int(o, "x", "a", &i, &err), 1);
    assert_int_equal(i, 4);
    assert_int_equal(bn_json_int(o, "x", "c", &i, &err), 0);
    assert_int_equal(bn_json_int(o, "x", "b", &i, &err), -1);
    assert_string_equal(err.text, "x: 'b' must be an integer");
    json_decref(o);
}

static void rng_is_a_function_and_a_permutation(void **state)
{
    double sum = 0, sq = 0;

    (void)state;
    for (uint64_t n = 1; n < 300; n += n < 10 ? 1 : 37) {
        char *seen = bn_calloc(n, 1);

        for (uint64_t i = 0; i < n; i++) {
            uint64_t j = bn_rng_permute(7, n, n, i);

            assert_true(j < n);
            assert_int_equal(seen[j], 0);
            seen[j] = 1;
        }
        free(seen);
    }
    for (uint64_t i = 0; i < 100000; i++) {
        double x = bn_rng_normal(1, 2, i);

        sum += x;
        sq += x * x;
    }
    assert_true(fabs(sum / 1e5) < 0.015);
    assert_true(fabs(sq / 1e5 - 1) < 0.02);
    assert_true(bn_rng_u64(1, 2, 3) == bn_rng_u64(1, 2, 3));
    assert_true(bn_rng_u64(1, 2, 3) != bn_rng_u64(2, 2, 3));
}

static void arena_counts_a_plan(void **state)
{
    struct bn_arena plan, a;
    struct bn_err err = {0};

    (void)state;
    bn_arena_plan(&plan, "plan");
    bn_arena_get(&plan, 100);
    bn_arena_get(&plan, 1);
    assert_int_equal(plan.used, 192);
    assert_int_equal(bn_arena_init(&a, "real", plan.used, &err), 0);
    assert_int_equal(bn_arena_resident(&a), 0);
    char *p = bn_arena_get(&a, 100);
    assert_int_equal((uintptr_t)p % BN_ARENA_ALIGN, 0);
    bn_arena_touch(&a);
    assert_true(bn_arena_resident(&a) == a.size);
    bn_arena_release(&a);
}

static void add_index(void *arg, int i)
{
    __atomic_fetch_add((int *)arg, i, __ATOMIC_RELAXED);
}

static void threads_all_run(void **state)
{
    int sum = 0;

    (void)state;
    bn_parallel(5, add_index, &sum);
    assert_int_equal(sum, 10);
    assert_true(bn_cpu_count() >= 1);
    assert_true(bn_memory_limit() > 0);
}

/* Who asks first: the caller, Slurm, OpenMP's variable, the machine. */
static void threads_to_compute(void **state)
{
    int ranks = 2 * (int)sysconf(_SC_NPROCESSORS_ONLN);

    (void)state;
    unsetenv("SLURM_CPUS_PER_TASK");
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(bn_compute_threads(0, 1), bn_cpu_count());
    if (bn_cpu_count() == sysconf(_SC_NPROCESSORS_ONLN))
        assert_int_equal(bn_compute_threads(0, ranks), 1);
    setenv("OMP_NUM_THREADS", "3,2", 1);
    assert_int_equal(bn_compute_threads(0, ranks), 3);
    setenv("SLURM_CPUS_PER_TASK", "5", 1);
    assert_int_equal(bn_compute_threads(0, ranks), 5);
    assert_int_equal(bn_compute_threads(7, ranks), 7);
    unsetenv("SLURM_CPUS_PER_TASK");
    setenv("OMP_NUM_THREADS", "many", 1);
    assert_int_equal(bn_compute_threads(0, 1), bn_cpu_count());
    unsetenv("OMP_NUM_THREADS");
}

static void hashes(void **state)
{
    char a[BN_HASH_HEX], b[BN_HASH_HEX];
    struct bn_hasher *h = bn_hasher_begin();

    (void)state;
    bn_hasher_add(h, "ab", 2);
    bn_hasher_add(h, "c", 1);
    bn_hash_hex(bn_hasher_end(h), a);
    bn_hash_hex(bn_hash_bytes("abc", 3), b);
    assert_string_equal(a, b);
    assert_string_equal(b, "06b05ab6733a618578af5f94892f3950");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_keeps_errno_and_marks_loss),
        cmocka_unit_test(core_files_are_explained),
        cmocka_unit_test(safe_text_is_cut_at_its_end),
        cmocka_unit_test(pages_are_counted_as_they_are),
        cmocka_unit_test(progress_is_a_line_at_times),
        cmocka_unit_test(progress_goes_on_from_where_it_was),
        cmocka_unit_test(progress_is_shown_again_after_another),
        cmocka_unit_test(a_second_interrupt_ends_a_process),
        cmocka_unit_test(a_hangup_stops_unless_it_was_ignored),
        cmocka_unit_test(times_add_up),
        cmocka_unit_test(utf8_is_strict),
        cmocka_unit_test(strings),
        cmocka_unit_test(files),
        cmocka_unit_test(json_errors_have_a_place),
        cmocka_unit_test(rng_is_a_function_and_a_permutation),
        cmocka_unit_test(arena_counts_a_plan),
        cmocka_unit_test(threads_all_run),
        cmocka_unit_test(threads_to_compute),
        cmocka_unit_test(hashes),
    };

    return BN_TAP_RUN(tests);
}
