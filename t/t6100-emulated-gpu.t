#!/bin/sh
test_description='a run on an emulated GPU equals the float64 trajectories'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require SHARED "no $BN_SHARED/golden" test -d "$BN_SHARED/golden"
bn_require PYTHON "no python3" python3 --version

golden=$BN_SHARED/golden
model=$BN_SHARED/inputs/models/stories260K-hf
traj="python3 $BN_SRCDIR/t/golden/trajectory.py"
train=$BN_BUILDDIR/src/cmd/burnish-train-emu
BURNISH_CACHE=$PWD/cache
short='--set max_steps=1 --set warmup_steps=0'
export golden model traj train short BURNISH_CACHE

# prepare TASK: the run file of the first golden run of that task
prepare()
{
    $traj data "$golden/$1-stories260K.json" "$1.jsonl" &&
    $traj yaml "$golden/$1-stories260K.json" 0 "$model" "$1.jsonl" \
        "$1" >"$1.yaml"
}

test_expect_success 'the runs are written' '
    prepare sft && prepare orpo
'
for task in sft orpo; do
    test_expect_success "$task, every operation by a kernel" "
        \$train --set device=cuda --strict-device $task.yaml 2>$task.err &&
        ! grep 'ran on the CPU' $task.err &&
        \$traj check \"\$golden/$task-stories260K.json\" 0 $task
    "
done
test_expect_success 'what is sent to the CPU is counted at the end' '
    BURNISH_CUDA_HOST="attn rope" $train --set device=cuda \
        --set output_dir=host $short sft.yaml 2>host.err &&
    grep "ran on the CPU instead of device 0 .*: rope [0-9]*, attn [0-9]*" \
        host.err
'
test_expect_success 'and named once, with shapes and caller, at debug' '
    BURNISH_LOG=debug BURNISH_CUDA_HOST="attn" $train --set device=cuda \
        --set output_dir=debug $short sft.yaml 2>debug.err &&
    grep -c "debug: attn (F32 .*heads of 8) runs on the CPU, called from" \
        debug.err >count && test "$(cat count)" = 1
'
test_expect_success 'and an error under strict_device' '
    test_expect_code 64 env BURNISH_CUDA_HOST="swiglu" $train \
        --set device=cuda --set strict_device=true --set output_dir=strict \
        $short sft.yaml 2>strict.err &&
    grep "swiglu (F32 .*) has no kernel on rank 0, device 0" strict.err
'
test_done
