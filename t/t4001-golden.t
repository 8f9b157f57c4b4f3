#!/bin/sh
test_description='12-step SFT and ORPO runs equal the float64 trajectories'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require_shared
bn_require PYTHON "no python3" python3 --version

golden=$BN_SHARED/golden
model=$BN_SHARED/inputs/models/stories260K-hf
traj="python3 $BN_SRCDIR/t/golden/trajectory.py"
BURNISH_CACHE=$PWD/cache
export golden model traj BURNISH_CACHE

# trajectory TASK RUN: train run number RUN of the golden file and compare
trajectory()
{
    $traj yaml "$golden/$1-stories260K.json" "$2" "$model" "$1.jsonl" \
        "$1-$2" >"$1-$2.yaml" &&
    burnish-train "$1-$2.yaml" &&
    $traj check "$golden/$1-stories260K.json" "$2" "$1-$2"
}

test_expect_success 'the rows are written as text' '
    $traj data "$golden/sft-stories260K.json" sft.jsonl &&
    $traj data "$golden/orpo-stories260K.json" orpo.jsonl
'
for run in 0 1; do
    test_expect_success "sft, run $run" "trajectory sft $run"
done
for run in 0 1 2 3 4; do
    test_expect_success "orpo, run $run" "trajectory orpo $run"
done

# The same steps by other ways through the program.
test_expect_success 'recomputed activations give the same trajectory' '
    for how in attention full; do
        burnish-train --set activation_recompute=$how \
            --set output_dir=re-$how orpo-0.yaml &&
        $traj check "$golden/orpo-stories260K.json" 0 re-$how || return 1
    done
'
test_expect_success 'four micro-batches of two give the same trajectory' '
    burnish-train --set per_device_train_batch_size=2 \
        --set gradient_accumulation_steps=4 --set output_dir=acc \
        orpo-0.yaml &&
    $traj check "$golden/orpo-stories260K.json" 0 acc
'
test_expect_success 'a wrong beta is noticed' '
    burnish-train --set beta=0.11 --set output_dir=wrong orpo-0.yaml &&
    test_must_fail $traj check "$golden/orpo-stories260K.json" 0 wrong
'
test_expect_success 'a wrong warm-up is noticed' '
    burnish-train --set warmup_first=one --set output_dir=warm sft-0.yaml &&
    test_must_fail $traj check "$golden/sft-stories260K.json" 0 warm
'
test_done
