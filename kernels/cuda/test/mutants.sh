#!/bin/sh
# A test of the tests: each kernel with a planted fault must be found wrong.
cd "${BN_BUILDDIR:-.}/kernels/cuda/test" || exit 99
echo 1..8
n=0
# try MUTANT TEST: TEST of the program must fail
try() {
    n=$((n + 1))
    ./mutant-"$1" >mutant-"$1".out 2>&1
    rc=$?
    if test $rc -ne 0 && grep -q "^not ok .*$2" mutant-"$1".out; then
        echo "ok $n - $1 is found by $2"
        rm -f mutant-"$1".out
    else
        echo "not ok $n - $1 passes $2 (exit $rc)"
    fi
}
try barrier test_rmsnorm
try look test_sample
try mask test_edges
try race test_edges
try row test_rmsnorm
try scale test_edges
try stage test_score
try wait test_edges
