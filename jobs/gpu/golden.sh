#!/bin/sh
# The golden trajectories of SFT and ORPO on a GPU.
# Usage: golden.sh SRC BUILD FOLDER float32|bfloat16
src=$1 build=$2 dir=$3 dtype=$4
shared=${BN_SHARED:-$src/../shared}
golden=$shared/golden
mkdir -p "$dir" && cd "$dir" || exit 1
BURNISH_CACHE=$PWD/cache
export BURNISH_CACHE
# What carry.sh brought along, and what this machine has.
libs=$build/lib:${CUDA_HOME:-/usr/local/cuda}/lib64
libs=$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
for task in sft orpo; do
    traj="python3 $src/t/golden/trajectory.py"
    $traj data "$golden/$task-stories260K.json" $task.jsonl &&
    $traj yaml "$golden/$task-stories260K.json" 0 \
        "$shared/inputs/models/stories260K-hf" $task.jsonl $task \
        >$task.yaml &&
    LD_LIBRARY_PATH=$libs "$build/burnish-train" --set device=cuda \
        --set dtype="$dtype" --strict-device $task.yaml || exit 1
    # In bf16 the losses are near the trajectory's, not on it.
    case $dtype in
    float32) $traj check "$golden/$task-stories260K.json" 0 $task ;;
    *) python3 "$src/jobs/gpu/near.py" "$golden/$task-stories260K.json" \
        $task/metrics.jsonl ;;
    esac || exit 1
done
