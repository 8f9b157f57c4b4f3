/* Token sets in the cache: the same by any number of threads, splits, keys,
 * and processes that share, die or hold a lock.
 */
#include "config.h"
#include "data/test/sets.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* 'n' rows of text that differ. */
static char *many(size_t n)
{
    struct bn_str b = {0};

    for (size_t i = 0; i < n; i++)
        bn_str_addf(&b, "{\"text\":\"row %zu %.*s\"}\n", i, (int)(i % 90),
                    "abababababababababababababababababababababababababababab"
                    "ababababababababababababababababab");
    return bn_str_take(&b);
}

static char *contents(const char *dir, const char *name, size_t *n)
{
    char *path = bn_path_join(dir, name);
    char *s = bn_file_read(path, 1 << 30, n, &err);

    if (s == NULL)
        fail_msg("%s", err.text);
    free(path);
    return s;
}

static void test_threads(void **state)
{
    static const char *const name[] = {"ids.bin", "mask.bin", "train.idx",
                                       "eval.idx", "meta.json"};
    char *data = many(100000), *dir[2] = {0}, *cache[2] = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        given("many.jsonl", data);
        cache[i] = bn_path_join(test_dir, i ? "cache4" : "cache1");
        o.cache_dir = cache[i];
        o.threads = i ? 4 : 1;
        o.eval_split = 0.1;
        make_with(tok_bos);
        dir[i] = bn_strdup(bn_tokens_path(set));
        assert_false(bn_tokens_was_cached(set));
        assert_int_equal(bn_tokens_count(set), 90000);
        assert_int_equal(bn_tokens_count(held), 10000);
    }
    for (size_t i = 0; i < BN_COUNT(name); i++) {
        size_t n[2];
        char *a = contents(dir[0], name[i], &n[0]);
        char *b = contents(dir[1], name[i], &n[1]);

        assert_int_equal(n[0], n[1]);
        assert_memory_equal(a, b, n[0]);
        free(a);
        free(b);
    }
    make_with(tok_bos);
    assert_true(bn_tokens_was_cached(set));
    for (int i = 0; i < 2; i++) {
        free(dir[i]);
        free(cache[i]);
    }
    free(data);
}

static uint64_t digest(const struct bn_tokens *ts, uint64_t i)
{
    struct bn_example ex;

    bn_tokens_get(ts, i, &ex);
    return bn_hash_bytes(ex.ids, (size_t)ex.n * sizeof(*ex.ids)).lo;
}

/* Names with 'part' in a directory of the cache. */
static int entries(const char *dir, const char *part)
{
    char *path = bn_path_join(test_dir, dir);
    DIR *d = opendir(path);
    int n = 0;

    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL;
         e = readdir(d))
        n += e->d_name[0] != '.' && strstr(e->d_name, part) != NULL;
    if (d != NULL)
        closedir(d);
    free(path);
    return n;
}

static void test_split(void **state)
{
    struct bn_str b = {0};

    (void)state;
    for (int i = 0; i < 1000; i++) /* every row twice */
        bn_str_addf(&b, "{\"text\":\"r%d\"}\n", i % 500);
    given("s.jsonl", b.s);
    o.eval_split = 0.05;
    make_with(tok);
    assert_int_equal(bn_tokens_count(held), 50);
    assert_int_equal(bn_tokens_count(set), 950);
    for (uint64_t i = 0; i < 50; i++) {
        for (uint64_t j = 0; j < 950; j++)
            assert_int_not_equal(digest(held, i), digest(set, j));
    }
    uint64_t first = digest(held, 0);
    o.split_seed = 1;
    make_with(tok);
    assert_int_equal(bn_tokens_count(held), 50);
    assert_int_not_equal(digest(held, 0), first);
    bn_str_release(&b);
    given("s.jsonl", "{\"text\":\"one\"}\n");
    make_with(tok);
    assert_int_equal(bn_tokens_count(set), 1);
    o.eval_split = 0.1;
    refused("none is left to train on", BN_ERR_DATA);
    char *other = test_file("other.jsonl", "{\"text\":\"held\"}\n", 16);
    o.eval_split = 0;
    o.eval_files = (const char *const *)&other;
    o.neval_files = 1;
    make_with(tok);
    is(set, 0, "oNE!$");
    is(held, 0, "hELD!$");
    free(other);
}

/* Files as somebody made them: what both hold is for evaluation alone. */
static void test_held(void **state)
{
    static const char both[] = "{\"text\":\"held\"}\n{\"text\":\"one\"}\n"
                               "{\"text\":\"on\"}\n{\"text\":\"one\"}\n";
    static const char none[] = "{\"text\":\"held\"}\n{\"text\":\"eno\"}\n";
    struct bn_hash with;

    (void)state;
    given("o.jsonl", "{\"text\":\"two\"}\n{\"text\":\"one\"}\n"
                     "{\"text\":\"a longer one\"}\n{\"text\":\"one\"}\n");
    char *other = test_file("lap.jsonl", both, sizeof(both) - 1);
    o.eval_files = (const char *const *)&other;
    o.neval_files = 1;
    o.max_dropped_fraction = 0; /* of which these are none */
    make_with(tok);
    assert_int_equal(bn_tokens_count(held), 4);
    assert_int_equal(bn_tokens_count(set), 2);
    assert_int_equal(drops(BN_DROP_HELD), 2);
    is(set, 0, "tWO!$");
    is(set, 1, "a! LONGER! ONE!$");
    with = bn_tokens_hash(set);
    free(other);
    other = test_file("lap.jsonl", none, sizeof(none) - 1);
    make_with(tok);
    assert_int_equal(bn_tokens_count(set), 4);
    assert_int_equal(drops(BN_DROP_HELD), 0);
    assert_false(bn_tokens_hash(set).lo == with.lo);
    free(other);
}

/* The first of two rows is in an evaluation file, too. */
static void first_is_held(enum bn_data_task task, const char *rows)
{
    char *other = test_file("one.jsonl", rows, strcspn(rows, "\n") + 1);

    given("o.jsonl", rows);
    o.task = task;
    o.eval_files = (const char *const *)&other;
    o.neval_files = 1;
    make_with(tok);
    assert_int_equal(drops(BN_DROP_HELD), 1);
    assert_int_equal(bn_tokens_count(set), 1);
    free(other);
}

static void test_held_of_other_shapes(void **state)
{
    (void)state;
    first_is_held(BN_DATA_SFT,
                  "{\"prompt\":\"x\",\"completion\":\"b\"}\n"
                  "{\"prompt\":\"x\",\"completion\":\"cc\"}\n");
    first_is_held(BN_DATA_PREFERENCE,
                  "{\"prompt\":\"x\",\"chosen\":\"b\",\"rejected\":\"c\"}\n"
                  "{\"prompt\":\"x\",\"chosen\":\"c\",\"rejected\":\"b\"}\n");
}

static void test_key(void **state)
{
    char *was;

    (void)state;
    given("k.jsonl", "{\"text\":\"abc\"}\n");
    make_with(tok);
    was = bn_strdup(bn_tokens_path(set));
    make_with(tok);
    assert_true(bn_tokens_was_cached(set));
    o.max_length = 2;
    make_with(tok);
    assert_false(bn_tokens_was_cached(set));
    assert_string_not_equal(was, bn_tokens_path(set));
    o.max_length = 1024;
    make_with(tok_bos);
    assert_string_not_equal(was, bn_tokens_path(set));
    /* another file of the same size, at once, under the same name */
    given("k.jsonl", "{\"text\":\"xyz\"}\n");
    make_with(tok);
    assert_string_not_equal(was, bn_tokens_path(set));
    is(set, 0, "xYZ!$");
    given("other-name.jsonl", "{\"text\":\"abc\"}\n");
    make_with(tok);
    assert_true(bn_tokens_was_cached(set));
    assert_string_equal(was, bn_tokens_path(set));
    /* damage is seen */
    char *path = bn_path_join(was, "ids.bin");
    assert_int_equal(truncate(path, 4), 0);
    refused("has 4 bytes where 12 should be", BN_ERR_DATA);
    free(path);
    free(was);
    /* a file this young may change without a trace: its hash is not kept */
    assert_int_equal(entries("files", ""), 0);
}

/* A lock whose process number is in use again, by another process. */
static void test_reused_pid(void **state)
{
    char boot[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    struct stat ns;

    (void)state;
    assert_int_equal(fscanf(f, "%63s", boot), 1);
    fclose(f);
    assert_int_equal(stat("/proc/self/ns/pid", &ns), 0);
    given("r.jsonl", "{\"text\":\"reused\"}\n");
    make_with(tok);
    char *dir = bn_strdup(bn_tokens_path(set)), host[128] = "";
    gethostname(host, sizeof(host) - 1);
    bn_remove_tree(dir, NULL);
    char *path = bn_asprintf("%s.lock", dir);
    char *text = bn_asprintf("%s %ld 1 %s %lu\n", host, (long)getpid(), boot,
                             (unsigned long)ns.st_ino);
    assert_int_equal(bn_file_write(path, text, strlen(text), &err), 0);
    o.wait_seconds = 5;
    make_with(tok);
    assert_false(bn_tokens_was_cached(set));
    /* one that another machine holds is waited for */
    bn_remove_tree(dir, NULL);
    free(text);
    text = bn_asprintf("elsewhere 1 1 %s 1\n", boot);
    assert_int_equal(bn_file_write(path, text, strlen(text), &err), 0);
    o.wait_seconds = 0.3;
    refused("for process 1 on elsewhere to tokenize", BN_ERR_AGAIN);
    unlink(path);
    free(text);
    free(path);
    free(dir);
}

/* Start a process that makes the set of 'o' and exits 0 (made), 1 (found) or
 * 2. */
static pid_t start(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct bn_tokens *a, *b;
        int rc = bn_tokens_make(&a, &b, &o, tok, &err);

        _exit(rc < 0 ? 2 : bn_tokens_was_cached(a));
    }
    return pid;
}

static void test_two_processes(void **state)
{
    char *data = many(200000);
    pid_t pid[3];
    int made = 0;

    (void)state;
    given("two.jsonl", data);
    o.threads = 1;
    for (int i = 0; i < 3; i++)
        pid[i] = start();
    for (int i = 0; i < 3; i++) {
        int status;

        waitpid(pid[i], &status, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
        made += WEXITSTATUS(status) == 0;
    }
    assert_int_equal(made, 1);
    make_with(tok);
    assert_true(bn_tokens_was_cached(set));
    free(data);
}

static void test_killed(void **state)
{
    char *data = many(400000);
    int status;

    (void)state;
    given("kill.jsonl", data);
    o.threads = 1;
    pid_t pid = start();
    for (int i = 0; i < 2000 && entries("tokens", "tmp") != 1; i++)
        usleep(1000);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(entries("tokens", "lock"), 1);
    assert_int_equal(entries("tokens", "tmp"), 1);
    make_with(tok);
    assert_false(bn_tokens_was_cached(set));
    assert_int_equal(bn_tokens_count(set), 400000);
    assert_int_equal(entries("tokens", "lock"), 0);
    assert_int_equal(entries("tokens", "tmp"), 0);
    free(data);
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_held_of_other_shapes),
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_reused_pid),
        cmocka_unit_test(test_two_processes),
        cmocka_unit_test(test_killed),
    };

    return BN_TAP_RUN(tests);
}

int main(void)
{
    return sets_run(run);
}
