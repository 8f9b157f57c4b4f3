#!/bin/sh
test_description='without a GPU, device: cuda is refused and auto says so'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require SHARED "no $BN_SHARED/golden" test -d "$BN_SHARED/golden"
bn_require PYTHON "no python3" python3 --version
test ! -e /dev/nvidia0 || { skip_all='there is a GPU'; test_done; }

golden=$BN_SHARED/golden
model=$BN_SHARED/inputs/models/stories260K-hf
traj="python3 $BN_SRCDIR/t/golden/trajectory.py"
BURNISH_CACHE=$PWD/cache
export golden model traj BURNISH_CACHE

test_expect_success 'the run is written' '
    $traj data "$golden/sft-stories260K.json" sft.jsonl &&
    $traj yaml "$golden/sft-stories260K.json" 0 "$model" sft.jsonl \
        out >sft.yaml
'
test_expect_success 'device: cuda ends with 64 and one clear line' '
    test_expect_code 64 burnish-train --set device=cuda sft.yaml 2>err &&
    grep "error: device: cuda: no CUDA device: " err
'
test_expect_success 'device: auto takes the CPU and says so' '
    burnish-train --check --set device=auto sft.yaml 2>auto &&
    grep "device: auto: no CUDA device: .*; using the CPU" auto
'
test_done
