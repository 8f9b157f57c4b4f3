#!/bin/sh
# Build the kernels for the GPU of this machine, compare them with their
# references on it, and measure them and whole steps: one table at the end,
# logs in a folder.
#
#     jobs/gpu-check.sh [OUT]          (OUT: a new folder; default gpu-check)
#
# Needs CUDA 13 (nvcc) and a C compiler. Used when there: compute-sanitizer,
# $PYTHON (python3) with torch (peers), cmocka, and a build tree in $BUILD
# (default build), or what jobs/gpu/carry.sh made of one elsewhere, with
# burnish-train for the golden trajectories (for which python3 and the files in
# $BN_SHARED, default ../shared, are needed), and burnish and
# nvidia-cuda-mps-control for burnish mps. Each part that cannot run says so.
# Takes 4 to 7 minutes on 16 cores and writes 6.4 GB of weights into OUT
# meanwhile; after $LIMIT seconds (460) nothing new is begun, and what is left
# undone fails.
#
# EMU=build: a rehearsal on a machine without a GPU. The same sources, by the
# host's compiler and over the emulator, with small shapes; figures mean nothing.
# EMU=tree: the same with the programs that the build tree has.
set -u
src=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-gpu-check}
build=${BUILD:-$src/build}
test ! -d "$build" || build=$(cd "$build" && pwd)
cuda=${CUDA_HOME:-/usr/local/cuda}
nvcc=${NVCC:-$cuda/bin/nvcc}
cc=${CC:-cc}
cxx=${CXX:-c++}
python=${PYTHON:-python3}
arch=${NVCC_ARCH:--arch=native}
emu=${EMU:-}
jobs=${JOBS:-$(nproc)}
limit=${LIMIT:-460}
begin=$(date +%s)
slow=1
test -z "$emu" || slow=20
failed=0
tests="norm layers train attn sample score slopes"

die()
{
    echo "gpu-check: $1" >&2
    exit 64
}
# part NAME STATUS LOG: what ran, and whether it was right
part()
{
    if test "$2" = 0; then
        echo "ok    $1" >>"$out/summary"
    else
        echo "FAIL  $1 (see $out/$3)" >>"$out/summary"
        failed=1
    fi
}
skip()
{
    echo "skip  $1: $2" >>"$out/summary"
}
# within SECONDS COMMAND...: for so long at most, and not beyond the limit
within()
{
    most=$(($1 * slow)) left=$((begin + limit - $(date +%s)))
    shift
    test $left -gt 0 || { echo "no time is left" >&2; return 124; }
    timeout $((left < most ? left : most)) "$@"
}
# each NAME SECONDS TOOL...: every test program under a tool (or none), all at
# once; NAME-TEST.log and .rc are left
each()
{
    each_name=$1 each_most=$2
    shift 2
    for t in $tests; do
        (
            within "$each_most" "$@" "$out/$t" >"$out/$each_name-$t.log" 2>&1
            echo $? >"$out/$each_name-$t.rc"
        ) &
    done
}
# parts NAME TEXT: what each() came to
parts()
{
    for t in $tests; do
        part "$2 of $t" "$(cat "$out/$1-$t.rc")" "$1-$t.log"
    done
}

mkdir -p "$out/obj" || die "cannot make $out"
out=$(cd "$out" && pwd)
case $src$out in
*[[:space:]]*) die "blanks in the name of '$src' or '$out'" ;;
esac
trap 'rm -f "$out/weights"' EXIT
: >"$out/summary"
if test -z "$emu"; then
    command -v "$nvcc" >/dev/null ||
        die "no nvcc ($nvcc): set NVCC or CUDA_HOME"
    nvidia-smi >"$out/device.log" 2>&1 || die "no GPU: nvidia-smi fails"
fi

# --- build: everything at once, objects named by their path
echo '#define _GNU_SOURCE 1' >"$out/config.h"
flags="-std=gnu17 -O2 -g -fopenmp -I$out -I$src/src -I$src"
test -n "$emu" && flags="$flags -DBN_EMU" || flags="$flags -isystem $cuda/include"
# has HEADER: can it be included?
has()
{
    echo "#include <$1>" | $cc -include stdarg.h -include stddef.h \
        -include setjmp.h -include stdint.h -E - >/dev/null 2>&1
}
cmocka=-lcmocka
has cmocka.h || cmocka=
{ has cmocka.h && has jansson.h; } || flags="$flags -isystem $src/jobs/gpu"
commands=$out/commands
: >"$commands"
# compile FILE SUFFIX FLAGS
compile()
{
    o=$out/obj/$(echo "${1#"$src"/}" | tr / -)$2.o
    echo "$cc $flags $3 -c $1 -o $o" >>"$commands"
}
if test -n "$emu"; then
    cu="$cxx -x c++ -std=c++17 -O1 -DBN_EMU -fno-exceptions -fno-rtti \
-ffp-contract=off"
else
    cu="$nvcc -std=c++17 -O2 $arch -lineinfo"
fi
# the largest first
for f in "$src"/kernels/cuda/attn*.cu "$src"/kernels/cuda/[!a]*.cu \
    "$src"/kernels/cuda/a[!t]*.cu; do
    echo "$cu -I$src/src -I$src -c $f -o $out/obj/cu-$(basename "$f").o" \
        >>"$commands"
done
for f in arena blocks clock dtype err log mem progress rng str thread times; do
    compile "$src/src/base/$f.c" "" ""
done
for f in "$src"/kernels/ref/*.c; do
    compile "$f" "" ""
done
compile "$src/kernels/cpu/dispatch.c" "" ""
isas="base:"
test "$(uname -m)" = x86_64 && isas="$isas v3:-march=x86-64-v3 \
v4:-march=x86-64-v4 v4bf16:-march=x86-64-v4,-mavx512bf16"
for f in "$src"/kernels/cpu/*.c; do
    test "$(basename "$f")" = dispatch.c && continue
    for isa in $isas; do
        compile "$f" "-${isa%%:*}" "-DBN_ISA=${isa%%:*} -fno-math-errno \
-fno-trapping-math $(echo "${isa#*:}" | tr , ' ')"
    done
done
if test -n "$emu"; then
    for f in copy fibre graph launch memory names runtime sched; do
        compile "$src/kernels/emu/$f.c" "" ""
    done
    products=cuda_emu_gemm
else
    products=cuda_lt
fi
for f in dev cpu gemm onednn cuda_dev cuda_slots cuda_call cuda_host cuda_loan \
    cuda_graph $products; do
    compile "$src/src/ops/$f.c" "" ""
done
compile "$src/jobs/gpu/hash.c" "" ""
for f in tensor/convert comm/comm comm/comm_self comm/fold mesh/mesh mesh/split data/batch \
    loss/orpo loss/sft loss/registry optim/adamw optim/reduce model/acts \
    model/adapt model/cache model/forward model/head model/init model/layer \
    model/lora model/params model/rope model/seq model/shard \
    model/weights; do
    compile "$src/src/$f.c" "" ""
done
for f in gpu $tests; do
    compile "$src/kernels/cuda/test/$f.c" "" ""
done
compile "$src/src/ops/bench/cuda.c" "" ""
compile "$src/src/train/bench/cuda_step.c" "" ""
start=$(date +%s)
rc=0
test "$emu" = tree ||
    xargs -P "$jobs" -I{} sh -c '{}' <"$commands" >"$out/build.log" 2>&1 || rc=1
# link OBJECT... PROGRAM
link()
{
    objects=
    while test $# -gt 1; do
        objects="$objects $out/obj/$1.c.o"
        shift
    done
    # shellcheck disable=SC2086
    $cc $objects $libs -o "$out/$1" >>"$out/build.log" 2>&1 || rc=1
}
if test "$emu" = tree; then
    for t in $tests; do
        cp "$build/kernels/cuda/test/$t.t" "$out/$t" || rc=1
    done
    cp "$build/src/ops/bench/bench-cuda-emu" "$out/bench-cuda" || rc=1
    cp "$build/src/train/bench/bench-cuda-step-emu" "$out/bench-cuda-step" ||
        rc=1
elif test $rc = 0; then
    rm -f "$out/libcheck.a"
    find "$out/obj" -name '*.o' ! -name '*-test-*' ! -name '*-bench-*' \
        -exec ar cr "$out/libcheck.a" {} +
    libs="$out/libcheck.a $cmocka -fopenmp -lpthread -lm"
    test -n "$emu" || libs="$out/libcheck.a $cmocka -L$cuda/lib64 \
-Wl,-rpath,$cuda/lib64 -lcublasLt -lcudart -lstdc++ -fopenmp -lpthread -lm"
    for t in $tests; do
        link kernels-cuda-test-"$t" kernels-cuda-test-gpu "$t"
    done
    link src-ops-bench-cuda bench-cuda
    link src-train-bench-cuda_step bench-cuda-step
fi
part "build ($(($(date +%s) - start)) s)" $rc build.log
test $rc = 0 || { cat "$out/summary"; tail -n 20 "$out/build.log"; exit 1; }

# --- right?
# A rehearsal leaves out what every `make check` does: the longer tests.
test -n "$emu" && tests=sample
each kernels 120
wait
parts kernels "kernels against the reference,"
if test -z "$emu" && test -x "$build/burnish-train" &&
    test -d "${BN_SHARED:-$src/../shared}" &&
    python3 --version >/dev/null 2>&1; then
    for dtype in float32 bfloat16; do
        within 60 sh "$src/jobs/gpu/golden.sh" "$src" "$build" \
            "$out/golden-$dtype" $dtype >"$out/golden-$dtype.log" 2>&1
        part "golden trajectory, $dtype" $? "golden-$dtype.log"
    done
else
    skip "golden trajectories" \
        "no $build/burnish-train, no golden files or no python3"
fi
# one GPU for two processes
if command -v nvidia-cuda-mps-control >/dev/null &&
    "$build/burnish" mps --help >/dev/null 2>&1; then
    program=$out/sample
    test -z "$emu" || program=true
    within 60 sh "$src/jobs/gpu/mps.sh" "$build/burnish" "$program" \
        >"$out/mps.log" 2>&1
    part "two processes under burnish mps" $? mps.log
else
    skip "burnish mps" "no $build/burnish, or no nvidia-cuda-mps-control"
fi

# --- fast? Alone on the machine.
smoke=
test -n "$emu" && smoke=--smoke
# bench NAME SECONDS FILE COMMAND...: figures go to the end of FILE
bench()
{
    bench_name=$1 most=$2 to=$3
    shift 3
    within "$most" "$@" >>"$out/$to" 2>"$out/$bench_name.log"
    part "$bench_name" $? "$bench_name.log"
}
: >"$out/ours"
: >"$out/peer"
# shellcheck disable=SC2086
bench bench 100 ours "$out/bench-cuda" $smoke
# shellcheck disable=SC2086
bench steps 90 ours "$out/bench-cuda-step" $smoke "$out/weights"
# shellcheck disable=SC2086
bench first-step 60 ours "$out/bench-cuda-step" $smoke \
    --first "$(date +%s.%N)" "$out/weights"
want='sys.exit(not torch.cuda.is_available())'
test -n "$emu" && want=
if "$python" -c "import torch, sys; $want" 2>/dev/null; then
    test -n "$emu" ||
        bench torch 100 peer "$python" "$src/jobs/gpu/torch-bars.py"
    # shellcheck disable=SC2086
    bench torch-first-step 60 peer "$python" "$src/jobs/gpu/torch-steps.py" \
        $smoke --first "$(date +%s.%N)" "$out/weights"
    # shellcheck disable=SC2086
    bench torch-steps 150 peer "$python" "$src/jobs/gpu/torch-steps.py" \
        $smoke "$out/weights"
else
    skip "peers" "no PyTorch with CUDA"
fi
rm -f "$out/weights"
awk -f "$src/jobs/gpu/bars.awk" "$out/ours" "$out/peer" >"$out/bars"
alike=$?
short=$(grep -c ' short$' "$out/bars")
test -n "$emu" || part "bars ($short short of their targets)" \
    $((short > 0)) bars
if test -s "$out/peer"; then
    part "losses of steps beside PyTorch's" $alike bars
fi

# --- in bounds, in order? With the time that is left, which is why it is last.
sanitizer=$cuda/bin/compute-sanitizer
if test -z "$emu" && test -x "$sanitizer"; then
    for tool in memcheck racecheck; do
        each $tool 150 "$sanitizer" --tool $tool --error-exitcode 9
    done
    wait
    for tool in memcheck racecheck; do
        parts $tool $tool
    done
else
    skip "memcheck and racecheck" "no $sanitizer"
fi
cat "$out/summary"
cat "$out/bars"
echo "gpu-check: $(($(date +%s) - begin)) s"
exit $failed
