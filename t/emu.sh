# For tests of whole runs on the emulated GPU: golden trajectories.
bn_require SHARED "no $BN_SHARED/golden" test -d "$BN_SHARED/golden"
bn_require PYTHON "no python3" python3 --version

traj="python3 $BN_SRCDIR/t/golden/trajectory.py"
train=$BN_BUILDDIR/src/cmd/burnish-train-emu
BURNISH_CACHE=$PWD/cache
export traj train BURNISH_CACHE

# bn_emu_runs TASK: train every golden run of that task as TASK0, TASK1, ..,
# each a test. Leaves TASK.jsonl and the run files TASK0.yaml, ..
bn_emu_runs()
{
    gold=$BN_SHARED/golden/$1-stories260K.json
    export gold
    test_expect_success "$1: the data of the golden runs" "
        \$traj data \"\$gold\" $1.jsonl
    "
    runs=$(python3 -c 'import json, sys
print(len(json.load(open(sys.argv[1]))["runs"]))' "$gold") || exit 1
    i=0
    while test $i -lt "$runs"; do
        test_expect_success "$1 $i, every operation by a kernel" "
            \$traj yaml \"\$gold\" $i \
                \"\$BN_SHARED/inputs/models/stories260K-hf\" $1.jsonl $1$i \
                >$1$i.yaml &&
            \$train --set device=cuda --strict-device $1$i.yaml 2>$1$i.err &&
            ! grep 'ran on the CPU' $1$i.err &&
            \$traj check \"\$gold\" $i $1$i
        "
        i=$((i + 1))
    done
}

# bn_emu_bf16 TASK STEPS: the first golden run of that task in bf16, after
# bn_emu_runs. A step takes the emulator two to three times as long as in fp32,
# so there are but a few: those of the warm-up, where the learning rate does not
# follow from how many there are.
bn_emu_bf16()
{
    test_expect_success "$1 0 in bf16, $2 steps, every operation by a kernel" "
        \$train --set device=cuda --strict-device --set dtype=bfloat16 \
            --set max_steps=$2 --set output_dir=$1-bf16 $10.yaml \
            2>$1-bf16.err &&
        ! grep 'ran on the CPU' $1-bf16.err &&
        \$traj near \"\$gold\" 0 $1-bf16 $2
    "
}
