#!/bin/sh
test_description='what a run took, asked at any time; signals in the middle of a step'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/mpi.sh"
bn_require PYTHON "no python3" python3 -c ""
BURNISH_CACHE=$PWD/cache
PYTHONDONTWRITEBYTECODE=1
export BURNISH_CACHE PYTHONDONTWRITEBYTECODE
resume="python3 $BN_SRCDIR/t/resume.py"
observe="python3 $BN_SRCDIR/t/observe.py"
python3 "$BN_SRCDIR/t/tiny.py" .
python3 - "$BN_SRCDIR/t" <<EOT
import sys
sys.path.insert(0, sys.argv[1])
import tiny
tiny.jsonl("many.jsonl", tiny.sft_rows(4000))
EOT
# two steps of 2000 micro-batches: seconds each
sed -e 's/sft.jsonl/many.jsonl/' -e 's/^max_steps.*/max_steps: 2/' run.yaml >long.yaml
cat >>long.yaml <<EOT
gradient_accumulation_steps: 2000
EOT
sed -i 's/^per_device_train_batch_size.*/per_device_train_batch_size: 1/' long.yaml

test_expect_success 'activities add up to the time that passed' '
    begin=$(date +%s.%N) &&
    burnish-train --set max_steps=30 run.yaml 2>err && end=$(date +%s.%N) &&
    $observe times out/metrics.jsonl "$(echo "$end - $begin" | bc)"
'
test_expect_success 'memory: allocated as burnish plan says' '
    burnish plan --json run.yaml >plan.json &&
    $observe plan out/metrics.jsonl plan.json
'
test_expect_success 'and with bfloat16, evaluation and a longer row' '
    sed -n 3p many.jsonl >eval.jsonl &&
    burnish-train --set output_dir=bf16 --set dtype=bfloat16 \
        --set eval_file=eval.jsonl --set eval_strategy=epoch run.yaml &&
    burnish plan --json --set dtype=bfloat16 --set eval_file=eval.jsonl \
        --set eval_strategy=epoch run.yaml >plan.json &&
    $observe plan bf16/metrics.jsonl plan.json
'
test_expect_success 'the end of a run says it to people' '
    grep "^report: phase save, step 30$" err &&
    grep "^  memory  *domain  *planned  *allocated  *touched  *peak$" err &&
    grep "^  weights  *host " err && grep "^  time: .* + backward " err &&
    grep "^  operations off their device: none$" err &&
    grep "^  MFU = FLOP/s / (1 rank x .*) = [0-9.]* %; a rank.s peak: .* on 1 thread, as measured$" err
'
test_expect_success 'two steps that nobody disturbs' '
    burnish-train --set output_dir=calm long.yaml
'
test_expect_success 'SIGUSR2 in the middle of a step: a report, and the same bits' '
    test_expect_code 0 $resume stop USR2 phase:step usr2 \
        --set output_dir=usr2 long.yaml 2>err &&
    grep -n "^report: phase step, step 0$" err &&
    test $(grep -c "^report: " err) = 2 &&
    $resume same calm usr2
'
test_expect_success 'SIGUSR2 again and again, in evaluation too' '
    set -- --set eval_file=eval.jsonl --set eval_strategy=steps \
        --set eval_steps=1 --set max_steps=40 &&
    burnish-train --set output_dir=quiet "$@" run.yaml &&
    rm -f err && # of the test before: it says that steps have begun
    { burnish-train --set output_dir=noisy "$@" run.yaml 2>err & pid=$!; } &&
    n=0 && until grep -s -q "^steps:" err; do
        sleep 0.01 && n=$((n + 1)) && test $n -lt 3000 || return 1
    done
    while kill -USR2 $pid 2>/dev/null; do sleep 0.02; done
    wait $pid && test $(grep -c "^report: " err) -ge 2 &&
    $resume same quiet noisy
'
test_expect_success 'SIGTERM in the middle of a step drops it, and the run ends as it would' '
    test_expect_code 75 $resume stop TERM phase:step term \
        --set output_dir=term long.yaml 2>err &&
    grep "^signal 15: step 0 is saved, 0\.[0-9]* s after the signal$" err &&
    test -d term/checkpoint-0 &&
    burnish-train --set output_dir=term long.yaml 2>err &&
    grep "^resumed from .term/checkpoint-0. after step 0" err &&
    $resume same calm term
'
test_expect_success 'SIGUSR1, after the first of the two steps' '
    test_expect_code 75 $resume stop USR1 records:1 usr1 \
        --set output_dir=usr1 long.yaml 2>err &&
    grep "^signal 10: step 1 is saved, 0\.[0-9]* s after" err &&
    burnish-train --set output_dir=usr1 long.yaml && $resume same calm usr1
'
test_expect_success 'the evaluation before the first step is not made again after a drop' '
    set -- --set eval_file=eval.jsonl --set eval_on_start=true \
        --set eval_strategy=steps --set eval_steps=2 &&
    burnish-train --set output_dir=start "$@" long.yaml &&
    test_expect_code 75 $resume stop TERM phase:step start-term \
        --set output_dir=start-term "$@" long.yaml &&
    test -d start-term/checkpoint-0 &&
    burnish-train --set output_dir=start-term "$@" long.yaml &&
    $resume same start start-term
'

bn_prereq MPI "no MPI, PMIx or mpirun" sh -c \
    'grep -q "^#define HAVE_MPI 1" "$0" && grep -q "^#define HAVE_PMIX 1" "$0" && command -v mpirun' \
    "$BN_BUILDDIR/config.h"
test_have_prereq MPI || test_done
bn_mpi
# hit SIGNAL RANK DIR: send it once this rank is in a step
hit() {
    n=0
    until grep -s -q '"phase":"step"' "$3/phase.$2"; do
        sleep 0.05
        n=$((n + 1))
        test $n -lt 1200 || return 1
    done
    kill "-$1" "$(sed 's/.*"pid":\([0-9]*\).*/\1/' "$3/phase.$2")"
}
# many N DIR SETS...: long.yaml on N ranks, in the background; its job is $job
many() {
    many_n=$1 many_out=$2
    shift 2
    bn_ranks "$many_n" burnish-train --set output_dir="$many_out" "$@" \
        long.yaml 2>"$many_out.err" &
    job=$!
}
half=gradient_accumulation_steps=1000
for layout in dp2 tp2 cp2 pp2 zero2; do
    case $layout in
    dp2) sets="--set $half" ;;
    tp2) sets="--set tensor_parallel_size=2" ;;
    cp2) sets="--set context_parallel_size=2" ;;
    pp2) sets="--set pipeline_parallel_size=2" ;;
    zero2) sets="--set $half --set zero_stage=2" ;;
    esac
    test_expect_success "$layout: a signal to one of two ranks, in a step" '
        many 2 $layout $sets && wait $job &&
        many 2 $layout-term $sets && hit TERM 1 $layout-term &&
        { wait $job; test $? -ne 0; } &&
        test "$(cat $layout-term/exit-class)" = 75 &&
        grep "stopped by signal 15 after step 0" $layout-term.err &&
        test -d $layout-term/checkpoint-0 &&
        many 2 $layout-term $sets && wait $job &&
        $resume same $layout $layout-term
    '
done
test_expect_success 'SIGUSR2 to one of two ranks: its report, then that of all' '
    many 2 two --set $half && hit USR2 1 two && wait $job &&
    grep "^rank 1/2: report: phase step, step 0$" two.err &&
    grep "^rank 0/2: report: phase step, step 0, the most of any rank$" \
        two.err &&
    grep "^rank 0/2:   comm  *host  *3.25 MiB  *3.25 MiB" two.err &&
    $resume same dp2 two
'
test_expect_success 'sharded gradients are counted as gradients' '
    burnish plan --json --ranks 2 --set $half --set zero_stage=2 long.yaml >plan.json &&
    $observe plan zero2/metrics.jsonl plan.json
'
emu=$BN_BUILDDIR/src/cmd/burnish-train-emu
bn_prereq EMU "no emulated GPU" test -x "$emu"
test_expect_success EMU 'operations off their device, with shapes and counts' '
    BURNISH_CUDA_HOST=rmsnorm "$emu" --set device=cuda --set max_steps=1 \
        --set output_dir=emu run.yaml 2>err &&
    grep "^  ran on the CPU instead of the GPU (rank 0): rmsnorm (first .*) 5 times$" err &&
    grep "^  weights  *device " err && grep "^  staging  *pinned " err
'
test_done
