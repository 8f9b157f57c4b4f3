/* Successive halving: the rule against a simulation written out by hand, and
 * what files keep of it. */
#include "config.h"
#include "train/asha.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/tap.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char top[] = "asha-test.XXXXXX";

/* --- The rule --------------------------------------------------------------- */

/* Runs as they come to one rung. 'best' marks those that go on: worked out
 * with pencil and paper from the sentence in the header. */
struct arrival {
    double value;
    int rank;
    bool stop;
};

static void play(const struct arrival *a, size_t n, bool rises, int reduction)
{
    double seen[16];

    for (size_t i = 0; i < n; i++) {
        struct bn_asha_verdict v;

        bn_asha_rule(&v, a[i].value, seen, i, rises, reduction);
        assert_int_equal(v.of, i + 1);
        assert_int_equal(v.rank, a[i].rank);
        assert_int_equal(v.stop, a[i].stop);
        seen[i] = a[i].value;
    }
}

static void by_hand(void **state)
{
    /* a loss, halved: 1 of 1..3, 2 of 4..5, 3 of 6..7, 4 of 8 go on */
    static const struct arrival halves[] = {
        {0.50, 1, false}, /* the first has nobody beside it */
        {0.70, 2, true},
        {0.40, 1, false},
        {0.45, 2, false}, /* 2 of 4 */
        {0.60, 4, true},
        {0.48, 3, false}, /* 3 of 6 */
        {NAN, 7, true},
        {0.45, 2, false}, /* equals share a rank: 0.40 alone is better */
    };
    /* an accuracy, by thirds: 1 of 1..5, 2 of 6..8, 3 of 9 go on */
    static const struct arrival thirds[] = {
        {0.2, 1, false}, {0.1, 2, true},  {0.5, 1, false},
        {0.4, 2, true},  {0.9, 1, false}, {0.6, 2, false},
        {0.55, 3, true}, {0.3, 6, true},  {0.58, 3, false},
    };
    /* nothing but NaN: nobody goes on, first or not */
    static const struct arrival nans[] = {{NAN, 1, true}, {INFINITY, 1, true},
                                          {1.0, 1, false}, {NAN, 2, true}};

    (void)state;
    play(halves, BN_COUNT(halves), false, 2);
    play(thirds, BN_COUNT(thirds), true, 3);
    play(nans, BN_COUNT(nans), false, 4);
}

static int ascending(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;

    return (d > 0) - (d < 0);
}

/* By sorting: it goes on if it is no worse than the last that may. */
static void by_sorting(void **state)
{
    enum { N = 200 };
    double all[N], sorted[N];

    (void)state;
    for (int reduction = 2; reduction <= 5; reduction++)
        for (int i = 0; i < N; i++) {
            struct bn_asha_verdict v;
            int n = i + 1, keep = n / reduction;

            /* few distinct values, so that many are equal */
            all[i] = floor(50 * bn_rng_uniform(7, (uint64_t)reduction,
                                               (uint64_t)i));
            memcpy(sorted, all, sizeof(*all) * (size_t)n);
            qsort(sorted, (size_t)n, sizeof(*sorted), ascending);
            bn_asha_rule(&v, all[i], all, (size_t)i, false, reduction);
            assert_int_equal(v.stop,
                             all[i] > sorted[keep > 0 ? keep - 1 : 0]);
        }
}

/* --- Files ------------------------------------------------------------------- */

static char rung_10[] = "10", rung_20[] = "20";
static char *rungs[] = {rung_10, rung_20};
static char metric[] = "nll_loss";

static struct bn_run run_of(char *name)
{
    struct bn_run r = {0};

    r.run_name = name;
    r.output_dir = bn_path_join(top, name);
    r.asha.asha_dir = bn_path_join(top, ".burnish/asha/g");
    r.asha.asha_rungs = (struct bn_run_list){rungs, 2};
    r.asha.asha_reduction = 2;
    r.asha.asha_metric = metric;
    assert_int_equal(bn_mkdirs(r.output_dir, NULL), 0);
    return r;
}

static void drop_run(struct bn_run *r)
{
    free(r->output_dir);
    free(r->asha.asha_dir);
}

static int entries(const char *dir)
{
    char *path = bn_path_join(top, dir);
    DIR *d = opendir(path);
    int n = 0;

    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    free(path);
    return n;
}

static void expect(struct bn_run *r, long step, double value, int rank, int of,
                   bool stop)
{
    struct bn_asha_verdict v, last;
    struct bn_err err;

    assert_int_equal(bn_asha_judge(&v, r, step, value, &err), 0);
    assert_int_equal(v.step, step);
    assert_int_equal(v.rank, rank);
    assert_int_equal(v.of, of);
    assert_int_equal(v.stop, stop);
    assert_int_equal(bn_asha_last(&last, r->output_dir, &err), 1);
    assert_int_equal(last.rank, rank);
    assert_int_equal(last.of, of);
}

static void a_verdict_stands(void **state)
{
    char a[] = "a", b[] = "b@1", c[] = "c";
    struct bn_run ra = run_of(a), rb = run_of(b), rc = run_of(c);
    struct bn_asha_verdict v;
    struct bn_err err;

    (void)state;
    assert_true(bn_asha_is_rung(&ra, 10));
    assert_false(bn_asha_is_rung(&ra, 15));
    assert_int_equal(bn_asha_last(&v, ra.output_dir, &err), 0);
    expect(&ra, 10, 0.5, 1, 1, false);
    expect(&rb, 10, 0.4, 1, 2, false);
    expect(&rc, 10, 0.6, 3, 3, true);
    /* killed, and here again: 'a' would be second of three now */
    expect(&ra, 10, 0.5, 1, 1, false);
    assert_int_equal(entries(".burnish/asha/g/10"), 3);
    /* another rung is another race */
    expect(&ra, 20, 0.3, 1, 1, false);
    drop_run(&ra);
    drop_run(&rb);
    drop_run(&rc);
}

static void a_value_that_is_not_finite(void **state)
{
    char a[] = "a";
    struct bn_run r = run_of(a);
    struct bn_asha_verdict v;
    struct bn_err err;

    (void)state;
    expect(&r, 10, NAN, 1, 1, true);
    assert_int_equal(bn_asha_last(&v, r.output_dir, &err), 1);
    assert_true(isnan(v.value) && v.stop);
    drop_run(&r);
}

static void a_run_that_starts_anew(void **state)
{
    char a[] = "a", b[] = "a=1";
    struct bn_run ra = run_of(a), rb = run_of(b);
    char *root = bn_path_join(top, ".burnish/asha");
    char *mine = bn_path_join(ra.output_dir, "asha.jsonl");
    struct bn_err err;

    (void)state;
    expect(&ra, 10, 0.1, 1, 1, false);
    expect(&ra, 20, 0.1, 1, 1, false);
    assert_int_equal(bn_asha_forget(root, "a", &err), 0);
    assert_int_equal(entries(".burnish/asha/g/10"), 0);
    assert_int_equal(entries(".burnish/asha/g/20"), 0);
    /* what it was does not count any more, nor does its name's likeness */
    expect(&rb, 10, 0.2, 1, 1, false);
    assert_int_equal(bn_remove_tree(mine, &err), 0);
    expect(&ra, 10, 0.9, 2, 2, true);
    /* nor is a value left behind when a later one is published */
    assert_int_equal(bn_remove_tree(mine, &err), 0);
    expect(&ra, 10, 0.05, 1, 2, false);
    assert_int_equal(entries(".burnish/asha/g/10"), 2);
    assert_int_equal(bn_asha_forget("nowhere", "a", &err), 0);
    free(root);
    free(mine);
    drop_run(&ra);
    drop_run(&rb);
}

static void broken_verdicts(void **state)
{
    static const char text[] =
        "{\"step\":10,\"value\":1,\"rank\":1,\"of\":1,\"stop\":false}\n"
        "{\"step\":20,\"val";
    char a[] = "a";
    struct bn_run r = run_of(a);
    char *mine = bn_path_join(r.output_dir, "asha.jsonl");
    struct bn_asha_verdict v;
    struct bn_err err;

    (void)state;
    assert_int_equal(bn_file_write(mine, text, strlen(text), &err), 0);
    assert_int_equal(bn_asha_last(&v, r.output_dir, &err), 1);
    assert_int_equal(v.step, 10);
    /* the next verdict takes the place of the half line, not its tail */
    expect(&r, 20, 0.5, 1, 1, false);
    assert_int_equal(bn_asha_last(&v, r.output_dir, &err), 1);
    assert_int_equal(v.step, 20);
    assert_true(v.value == 0.5);
    assert_int_equal(bn_file_write(mine, "x\n", 2, &err), 0);
    assert_int_equal(bn_asha_last(&v, r.output_dir, &err), -1);
    assert_int_equal(err.code, BN_ERR_DATA);
    assert_non_null(strstr(err.text, "asha.jsonl"));
    free(mine);
    drop_run(&r);
}

static int empty(void **state)
{
    (void)state;
    return bn_remove_tree(top, NULL) == 0 ? bn_mkdirs(top, NULL) : -1;
}

static int enter(void **state)
{
    (void)state;
    return mkdtemp(top) != NULL ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    return bn_remove_tree(top, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(by_sorting),
        cmocka_unit_test_setup(a_verdict_stands, empty),
        cmocka_unit_test_setup(a_value_that_is_not_finite, empty),
        cmocka_unit_test_setup(a_run_that_starts_anew, empty),
        cmocka_unit_test_setup(broken_verdicts, empty),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, enter, leave);
}
