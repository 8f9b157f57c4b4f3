#!/bin/sh
test_description='collectives of GPUs: values, order, deadlines, lost ranks'
# Over a stand-in for NCCL between emulated devices (src/comm/test/nccl_mpi.c)
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/mpi.sh"
bn_mpi
rank=$BN_BUILDDIR/src/comm/test/rank-nccl

test_expect_success 'alone' '
    "$rank" ops >out && echo "rank 0 of 1: ok" >want && test_cmp want out
'
for n in 2 3 4 8; do
    for memory in host device; do
        test_expect_success "every operation on $memory memory, $n ranks" '
            if test $memory = device; then
                BN_RANK_DEVICE=1 bn_ranks $n "$rank" ops >out
            else
                bn_ranks $n "$rank" ops >out
            fi &&
            sort out >sorted &&
            for r in $(seq 0 $((n - 1))); do
                echo "rank $r of $n: ok"
            done >want &&
            test_cmp want sorted
        '
    done
done
test_expect_success 'planted: a sum that leaves out a rank is found' '
    test_must_fail bn_ranks 3 "$rank" drop 1 2>err &&
    grep "error: sum of 1 is wrong" err && ! grep "control" err
'
BN_RANK_DEVICE=1
export BN_RANK_DEVICE
test_expect_success 'a rank that never comes to the start is named' '
    test_must_fail bn_ranks 3 "$rank" absent 1 30 5 2>err &&
    grep "error: boot: rank .*1.* did not come in 5 s" err
'
test_expect_success 'one that stays away from the making of NCCL too' '
    test_must_fail bn_ranks 3 "$rank" unmade 1 30 3 2>err &&
    grep "start of NCCL: rank 1 (step 41) did not come in 3 s" err &&
    ! grep "rank 0 (step" err && ! grep "rank 2 (step" err
'
test_expect_success 'a rank that does not come to a call, with its phase' '
    test_must_fail bn_ranks 3 "$rank" late 1 6 3 2>err &&
    grep "allreduce: rank 1 (step 41) did not come in 3 s" err &&
    ! grep "rank 0 (step" err && ! grep "rank 2 (step" err
'
test_expect_success 'a slow one is only spoken of' '
    bn_ranks 3 "$rank" late 1 32 60 2>err &&
    grep "rank 0/3: warn: allreduce: waiting for rank 1 (step 41) for 30 s" err &&
    grep "rank 2/3: warn: allreduce: waiting for rank 1 (step 41) for 30 s" err &&
    ! grep "error:" err
'
test_expect_success 'a rank that is killed in a sum is named at once' '
    { BN_RANKS_LIMIT=60 bn_ranks 3 --enable-recovery "$rank" die 1 2>err || : ; } &&
    grep "rank 0/3: error: rank .*1[ ,].*gone: .* waited in .*" err &&
    grep "rank 2/3: error: rank .*1[ ,].*gone: .* waited in .*" err
'
test_expect_success 'also where NCCL notices nothing' '
    { BN_NCCL_DEAF=1 BN_RANKS_LIMIT=60 bn_ranks 3 --enable-recovery \
        "$rank" die 1 2>err || : ; } &&
    grep "rank 0/3: error: rank .*1[ ,].*gone: .* waited in allreduce" err &&
    grep "rank 2/3: error: rank .*1[ ,].*gone: .* waited in allreduce" err
'
test_expect_success 'a rank that says it failed ends the others alike' '
    { BN_RANKS_LIMIT=60 bn_ranks 3 --enable-recovery "$rank" told 1 2>err || : ; } &&
    grep "rank 0/3: error: rank 1 failed: a NaN (after" err &&
    grep "rank 2/3: error: rank 1 failed: a NaN (after" err
'
test_done
