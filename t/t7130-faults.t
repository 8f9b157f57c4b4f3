#!/bin/sh
test_description='a full or broken disk at any call of a save costs no older checkpoint'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/ranks/lib.sh"
bn_require CC "no C compiler" cc --version
bn_small_runs
cc -shared -fPIC -o faults.so "$BN_SRCDIR/t/ranks/faults.c" -ldl || exit 1
ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
export ASAN_OPTIONS

sed 's/^max_steps.*/max_steps: 4/; s/^save_strategy.*/save_strategy: steps/; s/^eval_steps.*/eval_steps: 9/; s/max_length: 160/max_length: 110/' \
    sft.yaml >fault.yaml
echo 'save_steps: 2' >>fault.yaml

test_expect_success 'a run with two checkpoints' '
    burnish-train --set output_dir=ref fault.yaml
'

# fault NUMBER ERRNO: go on from step 2; the calls of the save of step 4 are
# counted. Sets rc.
fault() {
    rm -rf faulty && mkdir faulty && cp -r ref/checkpoint-2 faulty/ &&
    cp ref/metrics.jsonl faulty/ &&
    LD_PRELOAD=./faults.so BN_FAULT=$1 BN_FAULT_ERRNO=$2 \
        BN_FAULT_LOG=fault.log burnish-train \
        --set output_dir=faulty fault.yaml 2>err
    rc=$?
}
# every ERRNO CLASS TEXT: each call in turn, until none is left to fail
every() {
    n=1
    while :; do
        fault $n $1
        if grep -q "^none" fault.log; then
            test $rc -eq 0 && break
            return 1
        fi
        echo "call $n: $(cat fault.log) $(grep "^error" err)"
        test $rc -eq $2 && grep "^error: .*faulty.*$3" err &&
        burnish ckpt verify faulty/checkpoint-2 &&
        { ! test -e faulty/checkpoint-4 ||
            burnish ckpt verify faulty/checkpoint-4; } &&
        ! ls faulty | grep tmp || return 1
        n=$((n + 1))
    done
    echo "$n calls" && test $n -gt 15
}
test_expect_success 'ENOSPC' 'every 28 65 "No space left"'
test_expect_success 'EIO' 'every 5 75 "Input/output error"'
test_expect_success 'after it the run goes on to the same bytes' '
    fault 9 28 && test $rc -eq 65 &&
    burnish-train --set output_dir=faulty fault.yaml &&
    cmp ref/checkpoint-4/state-pp0-tp0-dp0.bin \
        faulty/checkpoint-4/state-pp0-tp0-dp0.bin
'
test_expect_success 'two ranks: the one whose disk is full ends both alike' '
    rm -rf both && mkdir both &&
    test_must_fail bn_ranks 2 sh -c "
        test \$OMPI_COMM_WORLD_RANK = 1 && export LD_PRELOAD=./faults.so
        BN_FAULT=2 BN_FAULT_ERRNO=28 exec burnish-train --set output_dir=both \
            --set per_device_train_batch_size=2 fault.yaml" 2>err &&
    grep "rank 1/2: error: cannot .*both/tmp.checkpoint-2/state-pp0-tp0-dp1.bin.*No space" err &&
    test "$(cat both/exit-class)" = 65 && ! ls both | grep checkpoint
'
test_done
