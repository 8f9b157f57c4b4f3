#!/bin/sh
# Build and run every test:
#
#     jobs/check.sh [--dir DIR] [CONFIGURE OPTION...]
#
# Installs the Debian packages that are missing (says which), builds in DIR
# (default: build-check), runs `make check`, and ends with a line
# "N passed, N failed, N skipped". BURNISH_TEST_REQUIRE lists what must not be
# skipped (doc/HACKING.md).
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=jobs/lib.sh
. "$top/jobs/lib.sh"

dir=$top/build-check
if test "${1-}" = --dir; then
    dir=$2
    shift 2
fi
# shellcheck disable=SC2086 # lists of words
bn_install $bn_build_packages $bn_text_packages $bn_test_packages
bn_build "$dir" "$@"
sed -n '/^configure:/,$p' "$dir/configure.out"

(cd "$dir" && make -j2 check) >"$dir/check.out" 2>&1
rc=$?
grep -E '^(FAIL|ERROR|SKIP|XPASS):' "$dir/check.out"
count()
{
    sed -n "s/^# $1: *//p" "$dir/check.out" | awk '{ n += $1 } END { print n + 0 }'
}
passed=$(($(count PASS) + $(count XFAIL)))
failed=$(($(count FAIL) + $(count ERROR) + $(count XPASS)))
skipped=$(count SKIP)
if test $rc -ne 0; then
    test $failed -gt 0 || failed=1
    find "$dir" -name '*.trs' -exec \
        grep -lE '^:test-result: (FAIL|ERROR|XPASS)' {} + |
        while read -r trs; do
            echo "--- ${trs%.trs}.log"
            tail -n 60 "${trs%.trs}.log"
        done
fi
echo "$passed passed, $failed failed, $skipped skipped"
exit $rc
