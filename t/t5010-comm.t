#!/bin/sh
test_description='collectives of several ranks: values, order, lost ranks'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/mpi.sh"
bn_mpi
rank=$BN_BUILDDIR/src/comm/test/rank

test_expect_success 'alone' '
    "$rank" ops >out && echo "rank 0 of 1: ok" >want && test_cmp want out
'
for n in 2 3 4 8; do
    test_expect_success "every operation, $n ranks and groups of them" '
        bn_ranks $n "$rank" ops >out && sort out >sorted &&
        for r in $(seq 0 $((n - 1))); do
            echo "rank $r of $n: ok"
        done >want &&
        test_cmp want sorted
    '
done
test_expect_success 'planted: a sum that leaves out a rank is found' '
    test_must_fail bn_ranks 3 "$rank" drop 1 2>err &&
    grep "error: sum of 1 is wrong" err && ! grep "control" err
'
test_expect_success 'a rank that does not come is named, with its phase' '
    test_must_fail bn_ranks 3 "$rank" late 1 6 3 2>err &&
    grep "allreduce: rank 1 (step 41) did not come in 3 s" err &&
    ! grep "rank 0 (step" err && ! grep "rank 2 (step" err
'
test_expect_success 'after 30 s of waiting the others say for whom, and where it is' '
    bn_ranks 3 "$rank" late 1 32 60 2>err &&
    grep "rank 0/3: warn: allreduce: waiting for rank 1 (step 41) for 30 s" err &&
    grep "rank 2/3: warn: allreduce: waiting for rank 1 (step 41) for 30 s" err
'
test_expect_success 'a rank that is killed is named at once by the others' '
    { BN_RANKS_LIMIT=20 bn_ranks 3 --enable-recovery "$rank" die 1 2>err || : ; } &&
    grep "rank 0/3: error: rank 1 is gone: its process [0-9]* ended" err &&
    grep "rank 2/3: error: rank 1 is gone: its process [0-9]* ended" err
'
test_expect_success 'a rank that says it failed ends the others alike' '
    { BN_RANKS_LIMIT=20 bn_ranks 3 --enable-recovery "$rank" told 1 2>err || : ; } &&
    grep "rank 0/3: error: rank 1 failed: a NaN (after [12]" err &&
    grep "rank 2/3: error: rank 1 failed: a NaN (after [12]" err
'
test_done
