#!/bin/sh
test_description='burnish-run(5) says what --help-keys says'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"

# shellcheck disable=SC2034
page=$BN_BUILDDIR/doc/burnish-run.5
bn_prereq GROFF 'no groff' command -v groff
bn_prereq MANDOC 'no mandoc' command -v mandoc

test_expect_success 'every key has its paragraph' '
    "$BN_BUILDDIR/src/cmd/conf-check" --help-keys |
        sed -n "s/^  \([a-z_0-9.]*\): .*/\1/p" >want &&
    test "$(wc -l <want)" -gt 90 &&
    sed -n "/^\.TP$/{n;s/^\.B //p;}" "$page" >got &&
    test_cmp want got
'
test_expect_success GROFF 'roff has no complaint' '
    groff -man -ww -Tascii -z "$page" 2>err && test_must_be_empty err
'
test_expect_success MANDOC 'mandoc has no complaint' '
    mandoc -Tlint -W warning "$page"
'
test_done
