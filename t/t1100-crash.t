#!/bin/sh
test_description='what a process says when it dies of a fault'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require PYTHON "no python3" python3 -c ""
bn_prereq ADDR2LINE "no addr2line (Debian: binutils)" addr2line --version
fault=$BN_BUILDDIR/src/base/test/fault
# A sanitizer reports these itself, unless it is told not to.
ASAN_OPTIONS=$ASAN_OPTIONS:handle_segv=0:handle_sigbus=0:handle_sigfpe=0
ASAN_OPTIONS=$ASAN_OPTIONS:handle_sigill=0:handle_abort=0:use_sigaltstack=0
export ASAN_OPTIONS
limit=$(ulimit -H -c)
ulimit -S -c 0

# dies STATUS HOW ARG...: the report in err
dies() {
    want=$1
    shift
    test_expect_code "$want" sh -c '"$@" 2>err; exit $?' - "$@"
}
# where: the function of the fault as addr2line finds it by the report
where() {
    sh -c "$(sed -n 's/.*resolve with: //p' err)" >lines && cat lines
}

for kind in '' -fixed; do
    test_expect_success ADDR2LINE "segv$kind: signal, place, stack" '
        dies 139 $fault$kind segv &&
        grep "^crash: SIGSEGV (address not mapped, at 0x0), pid [0-9]*, thread [0-9]*, on " err &&
        grep "^crash: rank 0 of 1, phase step, step 12, micro-batch 3 of 8$" err &&
        where && sed -n 1p lines | grep "^store at .*fault.c:$(grep -n "fault: segv" "$BN_SRCDIR/src/base/test/fault.c" | cut -d: -f1)$" &&
        sed -n 2p lines | grep "^main at .*fault.c:$(grep -n "rc = zero + store" "$BN_SRCDIR/src/base/test/fault.c" | cut -d: -f1)$"
    '
done
test_expect_success ADDR2LINE 'fpe' '
    dies 136 $fault fpe && grep "SIGFPE (division by zero" err &&
    where && sed -n 1p lines | grep "^divide at .*fault.c:"
'
test_expect_success ADDR2LINE 'abort' '
    dies 134 $fault abort && grep "SIGABRT" err && where && grep "^main at .*fault.c" lines
'
test_expect_success 'bus: a file that was cut' '
    dies 135 $fault bus cut && grep "SIGBUS (no memory or file behind" err
'
test_expect_success ADDR2LINE 'a stack that overflowed' '
    dies 139 $fault deep && where && sed -n 1p lines | grep "^deep at "
'
test_expect_success ADDR2LINE 'a call of nowhere: its caller' '
    dies 139 $fault nowhere && where && grep "^main at " lines
'
test_expect_success ADDR2LINE 'another thread' '
    dies 139 $fault thread && where && sed -n 1p lines | grep "^store at " &&
    sed -n 2p lines | grep "^thread at "
'
test_expect_success 'the report is a file, too; an old one is removed' '
    mkdir dir && echo old >dir/crash.0 && dies 139 $fault segv x dir &&
    grep "^crash: " err >want && test_cmp want dir/crash.0 &&
    test_expect_code 2 $fault none x dir && test_must_fail test -e dir/crash.0
'
test_expect_success 'no core: why, and how to get one' '
    dies 139 $fault segv &&
    if grep -q "^|" /proc/sys/kernel/core_pattern; then
        grep "^crash: core: " err
    else
        grep "^crash: core: none: .ulimit -c. is 0; say .ulimit -c unlimited" err
    fi
'
test "$limit" = unlimited && case $(cat /proc/sys/kernel/core_pattern) in
*[\|/%]*) ;;
*) test_set_prereq CORE ;;
esac
test_expect_success CORE 'a core: it is where the report says' '
    mkdir cores &&
    (cd cores && ulimit -S -c unlimited && dies 139 $fault segv) &&
    file=$(sed -n "s/^crash: core: .\(.*\). on this node$/\1/p" cores/err) &&
    test -s "$file" && rm "$file"
'

python3 "$BN_SRCDIR/t/tiny.py" .
BURNISH_CACHE=$PWD/cache
export BURNISH_CACHE
test_expect_success 'burnish-train: phase and step, in the run folder, status kept' '
    test_expect_code 139 python3 "$BN_SRCDIR/t/resume.py" stop SEGV records:5 \
        out --set max_steps=100000 run.yaml 2>err &&
    grep "^crash: SIGSEGV (sent by a process, pid [0-9]*), pid " err &&
    grep "^crash: rank 0 of 1, phase step, step [1-9][0-9]*" err &&
    grep "burnish-train(+0x" err && grep "phase step" out/crash.0
'
. "$BN_SRCDIR/t/mpi.sh"
bn_prereq MPI "no MPI, PMIx or mpirun" sh -c \
    'grep -q "^#define HAVE_MPI 1" "$0" && grep -q "^#define HAVE_PMIX 1" "$0" && command -v mpirun' \
    "$BN_BUILDDIR/config.h"
test_have_prereq MPI || test_done
bn_mpi
test_expect_success 'of several ranks the one that died says which it is' '
    {
        bn_ranks 2 burnish-train --set output_dir=two \
            --set max_steps=1000000 run.yaml 2>err &
        job=$!
    } &&
    n=0 && until grep -s -q "\"phase\":\"step\"" two/phase.1; do
        sleep 0.1 && n=$((n + 1)) && test $n -lt 600 || return 1
    done &&
    kill -BUS "$(sed "s/.*\"pid\":\([0-9]*\).*/\1/" two/phase.1)" &&
    ! wait $job &&
    grep "rank 1/2: crash: SIGBUS (sent by a process" err &&
    grep "rank 1/2: crash: rank 1 of 2, phase step, step [0-9]" err &&
    grep "rank 1/2: crash: core: " err && test -s two/crash.1 &&
    test_must_fail grep "rank 0/2: crash" err
'
test_done
