#!/bin/sh
test_description='a test that needs something absent says SKIP, or fails'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"

# run REQUIRED BODY: a script of its own, in a folder of its own
run() {
    mkdir -p inner &&
    cat >inner/t9999-inner.t <<EOT
#!/bin/sh
test_description=inner
. "$BN_SRCDIR/t/tlib.sh"
$2
test_expect_success 'last' 'true'
test_done
EOT
    env -u SHARNESS_TEST_DIRECTORY -u SHARNESS_TEST_SRCDIR \
        BN_BUILDDIR="$PWD/inner" BURNISH_TEST_REQUIRE="$1" \
        sh inner/t9999-inner.t
}

test_expect_success 'what is there is no reason to skip' '
    run "" "bn_require WORD reason true" >out && grep "^ok 1 - last" out
'
test_expect_success 'absent: skipped with the reason' '
    run "" "bn_require WORD \"no such thing\" false" >out &&
    grep "^1..0 # SKIP no such thing" out
'
test_expect_success 'absent but required: failed' '
    test_must_fail run "OTHER WORD" "bn_require WORD reason false" >out &&
    grep "^not ok 1 - WORD is required: reason" out
'
test_expect_success 'single tests are skipped, or failed, by the word' '
    body="bn_prereq WORD reason false; test_expect_success WORD first false" &&
    run "" "$body" >out && grep "^ok 1 # skip first" out &&
    test_must_fail run WORD "$body" >out && grep "^not ok 1 - WORD is required" out
'
test_expect_success 'a failing test fails the script' '
    test_must_fail run "" "test_expect_success first false" >out &&
    grep "^not ok 1 - first" out
'
test_done
