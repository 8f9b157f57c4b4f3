#!/bin/sh
test_description='ranks find each other through PMIx, or stand alone'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/mpi.sh"
bn_mpi
rank=$BN_BUILDDIR/src/boot/test/rank

# refused COMMAND...: with class usage, in one line that says how to start
refused() {
    "$@" >out 2>err
    test $? -eq 64 && test_must_be_empty out &&
    grep "start it with 'srun --mpi=pmix'" err
}

test_expect_success 'alone, a rank is a world of one' '
    "$rank" >out && echo "rank 0 of 1, local 0 of 1: four" >want &&
    test_cmp want out
'
for n in 1 2 5; do
    test_expect_success "$n ranks of mpirun meet and get rank 0's bytes" '
        bn_ranks $n "$rank" >out && sort out >sorted &&
        for r in $(seq 0 $((n - 1))); do
            echo "rank $r of $n, local $r of $n: four"
        done >want &&
        test_cmp want sorted
    '
done
test_expect_success 'a task of several without PMIx is refused' '
    refused env SLURM_NTASKS=4 "$rank" && grep "SLURM_NTASKS is 4" err &&
    refused env OMPI_COMM_WORLD_SIZE=2 "$rank" &&
    SLURM_NTASKS=1 "$rank"
'
test_expect_success 'a launcher that disagrees with PMIx is refused' '
    bn_ranks 1 sh -c "OMPI_COMM_WORLD_SIZE=4 \"$rank\"; echo \$?" >out 2>err &&
    echo 64 >want && test_cmp want out &&
    grep "OMPI_COMM_WORLD_SIZE is 4 but PMIx says 1 ranks" err &&
    bn_ranks 1 sh -c "OMPI_COMM_WORLD_RANK=3 \"$rank\"; echo \$?" >out 2>err &&
    test_cmp want out && grep "but PMIx says rank 0" err
'
test_expect_success "an allocation's numbers do not count under mpirun" '
    SLURM_NTASKS=7 SLURM_PROCID=5 bn_ranks 2 "$rank"
'
test_expect_success 'a rank that does not come is named at the deadline' '
    test_must_fail bn_ranks 3 "$rank" 3 late 1 8 2>err &&
    grep "error: boot: rank 1 did not come in 3 s" err &&
    ! grep "rank 0 did" err && ! grep "rank 2 did" err
'
test_done
