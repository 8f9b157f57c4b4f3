#!/bin/sh
test_description='several emulated GPUs over NCCL train as one CPU does'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/ranks/lib.sh"
bn_small_runs

emu=$BN_BUILDDIR/src/cmd/burnish-train-emu
few="max_steps=2 warmup_steps=1 eval_steps=2 max_length=64"
orpo="$few max_length=96 max_prompt_length=40"

# alike N NAME TASK SETS...: on N emulated GPUs as on one CPU
alike()
{
    n=$1 name=$2 task=$3
    shift 3
    test $task = sft && sets=$few || sets=$orpo
    bn_trainer=$emu bn_train $n $task-$name $task $sets device=cuda \
        strict_device=true "$@" &&
    ! grep "ran on the CPU" $task-$name.err &&
    $compare $task-1 $task-$name 2
}

test_expect_success 'one CPU' '
    bn_train 1 sft-1 sft $few && bn_train 1 orpo-1 orpo $orpo
'
while read -r n name task sets; do
    test_expect_success "$n GPUs: $task, $name" 'alike $n $name $task $sets'
done <<EOT
2 dp2 sft $batch=2
2 dp2 orpo $batch=2
2 dp2-zero2 sft $batch=2 zero_stage=2
2 tp2 sft $tp=2
2 pp2 orpo $pp=2
2 cp2 sft $cp=2
4 dp2-tp2 orpo $tp=2 $batch=2
2 tp2-sequence sft $tp=2 sequence_parallel=true
EOT
test_expect_success 'sums on a stream of their own, a layer at a time: the same bits' '
    for set in reduce_bucket_size=1 overlap_grad_reduce=false; do
        test $set = reduce_bucket_size=1 && gather=true || gather=false
        bn_trainer=$emu bn_train 2 bits-$set orpo $orpo device=cuda $batch=2 \
            $set overlap_param_gather=$gather || return 1
    done &&
    $compare --bits bits-reduce_bucket_size=1 bits-overlap_grad_reduce=false 2 &&
    $compare orpo-1 bits-reduce_bucket_size=1 2
'
test_expect_success 'a layout gives the same bits every time' '
    bn_trainer=$emu bn_train 4 again orpo $orpo device=cuda $tp=2 $batch=2 &&
    $compare --bits orpo-dp2-tp2 again 2 &&
    cmp orpo-dp2-tp2/model/model.safetensors again/model/model.safetensors
'
test_expect_success 'and those of MPI' '
    bn_train 2 mpi sft $few $batch=2 && $compare mpi sft-dp2 2
'
test_expect_success 'a checkpoint of two GPUs is resumed on two CPUs' '
    saving="$few $batch=2 save_strategy=steps save_steps=1" &&
    bn_trainer=$emu bn_train 2 resumed sft $saving device=cuda &&
    rm -r resumed/checkpoint-2 resumed/model &&
    bn_train 2 resumed sft $saving resume=auto &&
    grep "step 1" resumed.err && $compare sft-1 resumed 2
'

test_expect_success 'a signal to one of two in a step ends the run after it, and it goes on to the bit' '
    long="$few $tp=2 $batch=1 gradient_accumulation_steps=8" &&
    bn_trainer=$emu bn_train 2 calm sft $long device=cuda &&
    grep "^rank 0/2:   gpu_scratch  *device  *66\.0 MiB  *66\.0 MiB " calm.err &&
    rm -rf term && {
        bn_trainer=$emu bn_train 2 term sft $long device=cuda &
        job=$!
    } &&
    n=0 && until grep -s -q "\"phase\":\"step\"" term/phase.1; do
        sleep 0.1 && n=$((n + 1)) && test $n -lt 600 || return 1
    done &&
    kill -TERM "$(sed "s/.*\"pid\":\([0-9]*\).*/\1/" term/phase.1)" &&
    { wait $job; test $? -ne 0; } && test "$(cat term/exit-class)" = 75 &&
    test -d term/checkpoint-1 &&
    bn_trainer=$emu bn_train 2 term sft $long device=cuda &&
    grep "after step 1" term.err && $compare --bits calm term 2 &&
    cmp calm/model/model.safetensors term/model/model.safetensors
'

# The rank is killed in its steps; mpirun leaves the other one alone.
test_expect_success 'a rank that is killed ends the other one, which names it' '
    { BN_RANKS_LIMIT=100 bn_ranks 2 --enable-recovery "$emu" \
        --set output_dir=killed --set device=cuda --set max_length=64 \
        --set max_steps=500 sft.yaml 2>killed.err & } &&
    i=0 &&
    until grep "\"phase\":\"step\",\"step\":[1-9]" killed/phase.1; do
        i=$((i + 1)) && test $i -lt 300 && sleep 0.2 || return 1
    done &&
    kill -9 $(sed "s/.*\"pid\":\([0-9]*\).*/\1/" killed/phase.1) &&
    { wait $! || :; } &&
    grep "rank 0/2: error: .*rank 1 is gone" killed.err &&
    echo 75 >want && test_cmp want killed/exit-class
'
test_done
