#!/bin/sh
# AddressSanitizer sees what kernels do beside their memory.
cd "${BN_BUILDDIR:-.}/kernels/emu/test" || exit 99
ASAN_OPTIONS=detect_leaks=0:abort_on_error=0
export ASAN_OPTIONS
echo 1..3
if ./past fine >past.out 2>&1; then
    echo "ok 1 - the last element may be touched"
else
    echo "not ok 1 - the last element may be touched"
fi
n=1
for what in end shared; do
    n=$((n + 1))
    ./past $what >past.out 2>&1
    rc=$?
    if test $rc -ne 0 && grep -q "ERROR: AddressSanitizer: .*poison" past.out
    then
        echo "ok $n - the one behind the $what is not"
    else
        echo "not ok $n - the one behind the $what is not (exit $rc)"
    fi
done
rm -f past.out
