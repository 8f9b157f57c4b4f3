#!/bin/sh
test_description='ranks of srun, over two nodes: boot, collectives, a lost rank'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/mpi.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
bn_mpi
bn_cluster
rank=$BN_BUILDDIR/src/boot/test/rank

test_expect_success 'four ranks on two nodes' '
    timeout 60 srun -N2 -n4 --ntasks-per-node=2 --mpi=pmix "$rank" >out &&
    sort out >sorted &&
    printf "rank %s of 4, local %s of 2: four\n" 0 0 1 1 2 0 3 1 >want &&
    test_cmp want sorted
'
test_expect_success 'tasks without PMIx are refused, and told what to do' '
    test_must_fail timeout 60 srun -n2 --mpi=none "$rank" >out 2>err &&
    test_must_be_empty out &&
    grep "is 2 but no PMIx server.*srun --mpi=list" err
'
test_expect_success 'a rank that does not come is named at the deadline' '
    ! timeout 60 srun -N2 -n4 --ntasks-per-node=2 --mpi=pmix \
        "$rank" 4 late 2 9 2>err &&
    grep "error: boot: rank 2 did not come in 4 s" err
'

comm=$BN_BUILDDIR/src/comm/test/rank
bn_mpi_two_nodes
test_expect_success 'collectives over two nodes' '
    timeout 60 srun -N2 -n4 --ntasks-per-node=2 --mpi=pmix "$comm" ops >out &&
    sort out >sorted &&
    printf "rank %s of 4: ok\n" 0 1 2 3 >want &&
    test_cmp want sorted
'
test_expect_success 'a rank that is killed is named by the others' '
    ! timeout 60 srun -N2 -n4 --ntasks-per-node=2 --mpi=pmix "$comm" die 1 \
        2>err &&
    grep "rank [023]/4: error: rank 1 is gone" err
'
test_done
