#!/bin/sh
# Build and run every test:
#
#     jobs/check.sh [--all] [CONFIGURE OPTION...]
#
# Installs the Debian packages that are missing (says which), builds in
# build-check, runs `make check`, and ends with a line
# "N passed, N failed, N skipped". --all: also look at a report's page in a
# browser, build with clang, sanitizers and no optional library and run the
# unit tests so, run the fuzz targets for a minute each, and build, test and
# install from a source archive.
# BURNISH_TEST_REQUIRE lists what must not be skipped (doc/HACKING.md).
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=jobs/lib.sh
. "$top/jobs/lib.sh"

passed=0 failed=0 skipped=0

# count WORD FILE: the sum of the lines "# WORD: N"
count()
{
    sed -n "s/^# $1: *//p" "$2" | awk '{ n += $1 } END { print n + 0 }'
}

# tests DIR TARGET [MAKE ARGUMENT...]: run tests, add up, show what failed
tests()
{
    dir=$1 log=$1/$2.out
    shift
    began=$(date +%s)
    (cd "$dir" && make -j3 -k "$@") >"$log" 2>&1
    rc=$?
    grep -E '^(FAIL|ERROR|SKIP|XPASS):' "$log"
    bad=$(($(count FAIL "$log") + $(count ERROR "$log") + $(count XPASS "$log")))
    if test $rc -ne 0 && test $bad -eq 0; then
        bad=1
        tail -n 40 "$log"
    fi
    if test $bad -gt 0; then
        find "$dir" -name '*.trs' -exec \
            grep -lE '^:test-result: (FAIL|ERROR|XPASS)' {} + |
            while read -r trs; do
                echo "--- ${trs%.trs}.log"
                tail -n 60 "${trs%.trs}.log"
            done
    fi
    passed=$((passed + $(count PASS "$log") + $(count XFAIL "$log")))
    skipped=$((skipped + $(count SKIP "$log")))
    failed=$((failed + bad))
    echo "# $*: $(count PASS "$log") passed, $bad failed," \
        "$(count SKIP "$log") skipped in $(($(date +%s) - began)) s"
}

# one NAME COMMAND...: a step that counts as one test
one()
{
    name=$1 log=$top/build-check/$1.out
    shift
    began=$(date +%s)
    if "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
        echo "# $name: passed in $(($(date +%s) - began)) s"
    else
        failed=$((failed + 1))
        tail -n 60 "$log"
        echo "# $name: failed"
    fi
}

all=
if test "${1-}" = --all; then
    all=yes
    shift
fi
# shellcheck disable=SC2086 # lists of words
bn_install $bn_build_packages $bn_text_packages $bn_test_packages \
    ${all:+$bn_page_packages}

bn_build "$top/build-check" "$@"
sed -n '/^configure:/,$p' "$top/build-check/configure.out"
tests "$top/build-check" check

if test -n "$all"; then
    plain="--without-cuda --without-mpi --without-pmix --without-onednn"
    plain="$plain --without-slurm"
    # shellcheck disable=SC2086 # a list of words
    bn_build "$top/build-clang" CC=clang CXX=clang++ --enable-werror \
        --enable-sanitizers $plain
    tests "$top/build-clang" check-unit
    one fuzz-smoke make -j2 -C "$top/build-check" fuzz-smoke
    one distcheck make -j2 -C "$top/build-check" distcheck \
        DISTCHECK_CONFIGURE_FLAGS="$plain" \
        AM_MAKEFLAGS=TESTS=src/loss/test/loss.t
fi
echo "$passed passed, $failed failed, $skipped skipped"
test $failed -eq 0
