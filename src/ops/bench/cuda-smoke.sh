#!/bin/sh
# The benchmark of a GPU runs through, on the emulator with small sizes.
echo 1..1
n=$("${BN_BUILDDIR:-.}/src/ops/bench/bench-cuda-emu" --smoke |
    grep -c '^measure [a-z_0-9]* [0-9.e+-]* [GT][A-Z]*[BP]/s$')
if test "$n" = 30; then
    echo "ok 1 - 30 figures"
else
    echo "not ok 1 - $n figures, not 30"
fi
