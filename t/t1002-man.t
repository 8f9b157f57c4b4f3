#!/bin/sh
test_description='manual pages say what --help and --help-keys say'
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
# items PAGE [SECTION]: its paragraphs' first words
items()
{
    awk -v section="$2" '
        /^\.SH / { on = section == "" || $0 == ".SH " section }
        on && take { sub(/^\.B /, ""); sub(/ .*/, ""); gsub(/\\-/, "-"); print }
        { take = $0 == ".TP" }' "$BN_BUILDDIR/doc/$1"
}
# options PROGRAM [COMMAND]: those of its help
options() { "$BN_BUILDDIR/$1" ${2:+"$2"} --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'; }

test_expect_success 'every option of every program and command' '
    for p in burnish-train burnish-generate; do
        options $p >want && test -s want &&
        items $p.1 DESCRIPTION >got && test_cmp want got || return 1
    done &&
    commands=$("$BN_BUILDDIR/burnish" --help | sed -n "/^  --/q; s/^  \([a-z]*\) .*/\1/p") &&
    test $(echo "$commands" | wc -l) -ge 10 &&
    for c in $commands; do
        options burnish $c >want && test -s want &&
        items burnish.1 "BURNISH $(echo $c | tr a-z A-Z)" | grep "^--" >got &&
        test_cmp want got || return 1
    done
'
test_expect_success 'the keys of a sweep file' '
    items burnish.1 "BURNISH SWEEP" >got &&
    for key in output_dir launch max_requeues rank_by; do
        grep -qx $key got || return 1
    done
'
test_expect_success GROFF 'roff has no complaint' '
    for p in burnish.1 burnish-train.1 burnish-generate.1 burnish-run.5; do
        groff -man -ww -Tascii -z "$BN_BUILDDIR/doc/$p" 2>err &&
        test_must_be_empty err || return 1
    done
'
test_expect_success MANDOC 'mandoc has no complaint' '
    for p in burnish.1 burnish-train.1 burnish-generate.1 burnish-run.5; do
        mandoc -Tlint -W warning "$BN_BUILDDIR/doc/$p" || return 1
    done
'
test_done
