#!/bin/sh
# Build the kernels for the GPU of this machine, compare them with their
# references on it, and measure them: one table at the end, logs in a folder.
#
#     jobs/gpu-check.sh [OUT]          (OUT: a new folder; default gpu-check)
#
# Needs CUDA 13 (nvcc) and a C compiler. Used when there: compute-sanitizer,
# python3 with torch (peers), cmocka, and a configured build tree in $BUILD
# (default build) with burnish-train for the golden trajectories. Each part
# that cannot run says so. Takes 3 to 6 minutes on 16 cores.
set -u
src=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-gpu-check}
build=${BUILD:-$src/build}
cuda=${CUDA_HOME:-/usr/local/cuda}
nvcc=${NVCC:-$cuda/bin/nvcc}
cc=${CC:-cc}
arch=${NVCC_ARCH:--arch=native}
jobs=$(nproc)
failed=0

die()
{
    echo "gpu-check: $1" >&2
    exit 64
}
# part NAME: what ran, and whether it was right
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

command -v "$nvcc" >/dev/null || die "no nvcc ($nvcc): set NVCC or CUDA_HOME"
mkdir -p "$out/obj" || die "cannot make $out"
out=$(cd "$out" && pwd)
: >"$out/summary"
nvidia-smi >"$out/device.log" 2>&1 || die "no GPU: nvidia-smi fails"

# --- build: everything at once, objects named by their path
echo '#define _GNU_SOURCE 1' >"$out/config.h"
flags="-std=gnu17 -O2 -g -fopenmp -I$out -I$src/src -I$src -isystem $cuda/include"
cmocka=-lcmocka
if ! echo '#include <cmocka.h>' | $cc -include stdarg.h -include stddef.h \
    -include setjmp.h -include stdint.h -E - >/dev/null 2>&1; then
    flags="$flags -isystem $src/jobs/gpu"
    cmocka=
fi
commands=$out/commands
: >"$commands"
# compile FILE SUFFIX FLAGS
compile()
{
    o=$out/obj/$(echo "${1#"$src"/}" | tr / -)$2.o
    echo "$cc $flags $3 -c $1 -o $o" >>"$commands"
}
for f in "$src"/kernels/cuda/*.cu; do
    echo "$nvcc -std=c++17 -O2 $arch -lineinfo -I$src/src -I$src \
-c $f -o $out/obj/cu-$(basename "$f").o" >>"$commands"
done
for f in arena clock dtype err log mem progress rng str thread; do
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
for f in dev cpu gemm onednn cuda_dev cuda_slots cuda_host cuda_loan cuda_lt
do
    compile "$src/src/ops/$f.c" "" ""
done
for f in gpu norm layers train attn; do
    compile "$src/kernels/cuda/test/$f.c" "" ""
done
compile "$src/src/ops/bench/cuda.c" "" ""
start=$(date +%s)
xargs -P "$jobs" -I{} sh -c '{}' <"$commands" >"$out/build.log" 2>&1
rc=$?
if test $rc = 0; then
    rm -f "$out/libcheck.a"
    ar cr "$out/libcheck.a" "$out"/obj/cu-*.o "$out"/obj/src-base-*.o \
        "$out"/obj/kernels-ref-*.o "$out"/obj/kernels-cpu-*.o \
        "$out"/obj/src-ops-[a-z_]*.c.o
    libs="$out/libcheck.a $cmocka -L$cuda/lib64 -Wl,-rpath,$cuda/lib64 \
-lcublasLt -lcudart -lstdc++ -fopenmp -lpthread -lm"
    for t in norm layers train attn; do
        # shellcheck disable=SC2086
        $cc "$out/obj/kernels-cuda-test-$t.c.o" \
            "$out/obj/kernels-cuda-test-gpu.c.o" $libs -o "$out/$t" \
            >>"$out/build.log" 2>&1 || rc=1
    done
    # shellcheck disable=SC2086
    $cc "$out/obj/src-ops-bench-cuda.c.o" $libs -o "$out/bench-cuda" \
        >>"$out/build.log" 2>&1 || rc=1
fi
part "build ($(($(date +%s) - start)) s)" $rc build.log
test $rc = 0 || { cat "$out/summary"; tail -n 20 "$out/build.log"; exit 1; }

# --- right?
for t in norm layers train attn; do
    timeout 120 "$out/$t" >"$out/$t.log" 2>&1
    part "kernels of $t against the reference" $? "$t.log"
done
sanitizer=$cuda/bin/compute-sanitizer
if test -x "$sanitizer"; then
    for tool in memcheck racecheck; do
        for t in norm layers train attn; do
            timeout 120 "$sanitizer" --tool $tool --error-exitcode 9 \
                "$out/$t" >"$out/$tool-$t.log" 2>&1
            part "$tool of $t" $? "$tool-$t.log"
        done
    done
else
    skip "memcheck and racecheck" "no $sanitizer"
fi
if test -x "$build/burnish-train" && test -d "${BN_SHARED:-$src/../shared}"
then
    for dtype in float32 bfloat16; do
        sh "$src/jobs/gpu/golden.sh" "$src" "$build" "$out/golden-$dtype" \
            $dtype >"$out/golden-$dtype.log" 2>&1
        part "golden trajectory, $dtype" $? "golden-$dtype.log"
    done
else
    skip "golden trajectories" "no $build/burnish-train, or no golden files"
fi

# --- fast?
timeout 180 "$out/bench-cuda" >"$out/ours" 2>"$out/bench.log"
part "benchmark" $? bench.log
: >"$out/peer"
if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' \
    2>/dev/null; then
    timeout 180 python3 "$src/jobs/gpu/torch-bars.py" >"$out/peer" \
        2>"$out/torch.log"
    part "PyTorch's figures" $? torch.log
else
    skip "peers" "no PyTorch with CUDA"
fi
awk -f "$src/jobs/gpu/bars.awk" "$out/ours" "$out/peer" >"$out/bars"
cat "$out/summary"
cat "$out/bars"
exit $failed
