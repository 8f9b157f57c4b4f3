/* Holes, quoting, and every shipped template with values that try to break
 * out of it: the expanded script is parsed by bash, read back as sbatch
 * would, and run, with a folder of functions that print what they are given.
 */
#include "config.h"

#include "base/tap.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sweep/child.h"
#include "sweep/template.h"

static const char nasty[] = "/a b/$(touch pwned)`touch pwned`/\"q\";&|<>*?~#";

static char *expand(const char *text, const struct bn_hole *h, size_t n,
                    struct bn_err *err)
{
    struct bn_str out = { 0 };
    if (bn_template_expand(text, "t", h, n, &out, err) < 0) {
        assert_int_equal(out.len, 0);
        bn_str_release(&out);
        return NULL;
    }
    return bn_str_take(&out);
}

static void test_holes(void **state)
{
    (void)state;
    struct bn_hole h[] = { { "A", BN_HOLE_WORD, "x y" },
                           { "B", BN_HOLE_BLOCK, "one\ntwo\n" } };
    struct bn_err err;
    char *s = expand("#!/bin/sh\n# keys: A B\n#SBATCH --job-name=@A@\n"
                     "@B@\necho p/@A@/q a@b @\n",
                     h, 2, &err);
    assert_string_equal(s, "#!/bin/sh\n#SBATCH --job-name='x y'\none\ntwo\n"
                           "echo p/'x y'/q a@b @\n");
    free(s);

    static const struct {
        const char *text, *error;
    } bad[] = {
        { "# keys: A\necho @C@ @A@\n", "t:2: nothing fills @C@; keys are: A B" },
        { "# keys: A C\necho @A@\n", "t:1: nothing fills @C@; keys are: A B" },
        { "# keys: A B\necho @A@\n",
          "t: B is in the '# keys:' line but @B@ is nowhere" },
        { "# keys: B\n@B@\necho @A@\n",
          "t:3: @A@ is not in the '# keys:' line above" },
        { "# keys: A\necho \"@A@\"\n",
          "t:2: @A@ stands inside quotes; its value brings its own" },
        { "# keys: A\necho '@A@'\n",
          "t:2: @A@ stands inside quotes; its value brings its own" },
        { "# keys: A\n# see @A@\n",
          "t:2: a hole in a comment fills nothing" },
        { "# keys: B\necho @B@\n",
          "t:2: @B@ stands for whole lines and must be alone on its line" },
    };
    for (size_t i = 0; i < BN_COUNT(bad); i++) {
        assert_null(expand(bad[i].text, h, 2, &err));
        assert_string_equal(err.text, bad[i].error);
        assert_int_equal(err.code, BN_ERR_USAGE);
    }
}

static void test_quoting(void **state)
{
    (void)state;
    struct bn_str b = { 0 };
    struct bn_err err;

    assert_int_equal(bn_quote_shell(&b, "it's", &err), 0);
    assert_string_equal(b.s, "'it'\\''s'");
    bn_str_clear(&b);
    assert_int_equal(bn_quote_shell(&b, "", &err), 0);
    assert_string_equal(b.s, "''");
    bn_str_clear(&b);
    assert_int_equal(bn_quote_shell(&b, "a/b-1.2=3", &err), 0);
    assert_string_equal(b.s, "a/b-1.2=3");
    assert_int_equal(bn_quote_shell(&b, "a\nb", &err), -1);
    assert_int_equal(bn_quote_shell(&b, "a\x7f", &err), -1);
    assert_int_equal(bn_quote_sbatch(&b, "a'b", &err), -1);
    assert_int_equal(bn_quote_sbatch(&b, "a\\b", &err), -1);
    bn_str_clear(&b);
    assert_int_equal(bn_quote_sbatch(&b, "a \"b\" # $(x)", &err), 0);
    assert_string_equal(b.s, "'a \"b\" # $(x)'");
    bn_str_release(&b);
}

static void test_directives(void **state)
{
    (void)state;
    struct bn_directives d;
    struct bn_err err;

    assert_int_equal(bn_directives_read(&d,
        "#!/bin/sh\n#SBATCH --time=5 -J 'a b' --requeue # --x=y\n"
        "# note\n\n#SBATCH --output='/p q'/%j\necho\n#SBATCH --late=1\n",
        &err), 0);
    assert_int_equal(d.n, 4);
    assert_string_equal(bn_directives_get(&d, "time"), "5");
    assert_string_equal(bn_directives_get(&d, "J"), "a b");
    assert_string_equal(bn_directives_get(&d, "requeue"), "");
    assert_string_equal(bn_directives_get(&d, "output"), "/p q/%j");
    assert_null(bn_directives_get(&d, "late"));
    bn_directives_release(&d);
    assert_int_equal(bn_directives_read(&d, "#!/bin/sh\n#SBATCH stray\n",
                                        &err), -1);
    assert_string_equal(err.text,
                        "line 2: 'stray' is not an option of sbatch");
    assert_int_equal(bn_directives_read(&d, "echo\n", &err), -1);
}

static void test_bash(void **state)
{
    (void)state;
    struct bn_err err;
    const char *paths[] = { "good.sh", "bad.sh", "good.sh" };

    assert_int_equal(bn_file_write("good.sh", "echo 'x'\n", 9, &err), 0);
    assert_int_equal(bn_file_write("bad.sh", "echo 'x\n", 8, &err), 0);
    assert_int_equal(bn_scripts_parse(paths, 1, &err), 0);
    assert_int_equal(bn_scripts_parse(paths, 3, &err), -1);
    assert_non_null(strstr(err.text, "bad.sh is not a valid script"));
    unlink("good.sh");
    unlink("bad.sh");
}

/* Functions with the names of job.sh that print their arguments. */
static const char lib[] =
    "bn_nccl() { :; }\nbn_requeue() { :; }\nbn_left() { echo 9999; }\n"
    "bn_finished() { return 1; }\nbn_class=0\n"
    "burnish() { test \"$1\" = mps || printf '%s\\n' \"got $2\"; }\n"
    "bn_run() { printf '%s\\n' \"got $1\"; }\n"
    "bn_main() { printf '%s\\n' \"got $1\"; }\n";

static void run_template(const char *path)
{
    struct bn_err err;
    struct bn_hole h[] = {
        { "NAME", BN_HOLE_WORD, "n $(touch pwned)" },
        { "TIME", BN_HOLE_WORD, "00:10:00" },
        { "LOG", BN_HOLE_WORD, "/a b/$(touch pwned)\"/%A_%a.out" },
        { "ARRAY", BN_HOLE_WORD, "0-9%3" },
        { "NODES", BN_HOLE_WORD, "2" },
        { "TASKS", BN_HOLE_WORD, "8" },
        { "CPUS", BN_HOLE_WORD, "9" },
        { "GPUS", BN_HOLE_WORD, "8" },
        { "OPTIONS", BN_HOLE_BLOCK, "#SBATCH --partition=low\n" },
        { "SETUP", BN_HOLE_BLOCK, "bn_prefix=()\n" },
        { "LIB", BN_HOLE_WORD, "./lib file's.sh" },
        { "DIR", BN_HOLE_WORD, nasty },
        { "LIST", BN_HOLE_WORD, "./list $(touch pwned)" },
    };
    size_t len;
    char *text = bn_file_read(path, 1 << 20, &len, &err);
    assert_non_null(text);
    char *script = expand(text, h, BN_COUNT(h), &err);
    if (script == NULL)
        fail_msg("%s: %s", path, err.text);
    free(text);

    struct bn_directives d;
    assert_int_equal(bn_directives_read(&d, script, &err), 0);
    assert_string_equal(bn_directives_get(&d, "job-name"), h[0].value);
    assert_string_equal(bn_directives_get(&d, "output"), h[2].value);
    assert_string_equal(bn_directives_get(&d, "time"), "00:10:00");
    assert_string_equal(bn_directives_get(&d, "partition"), "low");
    assert_string_equal(bn_directives_get(&d, "open-mode"), "append");
    assert_string_equal(bn_directives_get(&d, "signal"), "USR1@120");
    assert_non_null(bn_directives_get(&d, "requeue"));
    bn_directives_release(&d);

    assert_int_equal(bn_file_write("x.sh", script, strlen(script), &err), 0);
    const char *one = "x.sh";
    assert_int_equal(bn_scripts_parse(&one, 1, &err), 0);
    const char *argv[] = { "bash", "x.sh", NULL };
    const char *env[] = { "SLURM_ARRAY_TASK_ID=0", "SLURM_JOB_NUM_NODES=1",
                          NULL };
    struct bn_child c = { .argv = argv, .env = env, .timeout = 20 };
    assert_int_equal(bn_child_run(&c, &err), 0);
    char *want = bn_asprintf("got %s\n", nasty);
    if (strcmp(c.out.s, want) != 0)
        fail_msg("%s printed '%s', '%s'", path, c.out.s, c.err.s);
    assert_int_equal(c.status, 0);
    assert_int_not_equal(access("pwned", F_OK), 0);
    bn_child_release(&c);
    free(want);
    free(script);
}

static void test_shipped(void **state)
{
    (void)state;
    struct bn_err err;
    char *list = bn_asprintf("%s\n", nasty);
    char *pattern = bn_asprintf("%s/templates/*.sbatch.in",
                                getenv("BN_SRCDIR"));
    glob_t g;

    assert_int_equal(bn_file_write("lib file's.sh", lib, strlen(lib), &err),
                     0);
    assert_int_equal(bn_file_write("list $(touch pwned)", list, strlen(list),
                                   &err), 0);
    assert_int_equal(glob(pattern, 0, NULL, &g), 0);
    assert_true(g.gl_pathc >= 7);
    for (size_t i = 0; i < g.gl_pathc; i++)
        run_template(g.gl_pathv[i]);
    globfree(&g);
    free(pattern);
    free(list);
}

static void test_child(void **state)
{
    (void)state;
    struct bn_err err;
    const char *cat[] = { "cat", NULL };
    char big[300000];
    memset(big, 'x', sizeof(big));
    struct bn_child c = { .argv = cat, .input = big,
                          .input_len = sizeof(big), .timeout = 20 };
    assert_int_equal(bn_child_must(&c, &err), 0);
    assert_int_equal(c.out.len, sizeof(big));
    bn_child_release(&c);

    const char *slow[] = { "sleep", "100", NULL };
    struct bn_child s = { .argv = slow, .timeout = 0.1 };
    assert_int_equal(bn_child_run(&s, &err), -1);
    assert_true(s.timed_out);
    assert_int_equal(err.code, BN_ERR_AGAIN);
    bn_child_release(&s);

    const char *env[] = { "BN_X=a b", NULL };
    const char *sh[] = { "sh", "-c", "echo $BN_X; echo why >&2; exit 3",
                         NULL };
    struct bn_child e = { .argv = sh, .env = env };
    assert_int_equal(bn_child_must(&e, &err), -1);
    assert_string_equal(err.text, "'sh' failed with status 3: why");
    assert_string_equal(e.out.s, "a b\n");
    bn_child_release(&e);

    const char *none[] = { "no-such-program-here", NULL };
    struct bn_child m = { .argv = none };
    assert_int_equal(bn_child_run(&m, &err), -1);
    bn_child_release(&m);
}

static int enter(void **state)
{
    (void)state;
    static char dir[] = "/tmp/bn-template.XXXXXX";
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    char *dir = getcwd(NULL, 0);
    int rc = bn_remove_tree(dir, NULL);
    free(dir);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holes),      cmocka_unit_test(test_quoting),
        cmocka_unit_test(test_directives), cmocka_unit_test(test_bash),
        cmocka_unit_test(test_shipped),    cmocka_unit_test(test_child),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, enter, leave);
}
