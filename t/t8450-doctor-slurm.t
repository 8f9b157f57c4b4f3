#!/bin/sh
test_description='burnish doctor in an allocation of two nodes: PMIx end to end'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
. "$BN_SRCDIR/t/mpi.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
bn_mpi
bn_cluster
bn_mpi_two_nodes

test_expect_success 'four ranks of srun --mpi=pmix meet' '
    timeout 120 salloc --quiet -N2 --ntasks-per-node=2 burnish doctor >page
    rc=$? && cat page && test $rc -le 1 &&
    grep "^OK    slurm  *slurm.*, with PMIx$" page &&
    grep "^OK    pmix  *srun --mpi=pmix: 4 ranks on [12] nodes* met in" page
'
test_expect_success 'outside of an allocation it says how it is tried' '
    burnish doctor >page; grep "^WARN  pmix  *srun --mpi=pmix.*not tried" page &&
    grep -- "-> in an allocation it is tried: salloc" page
'
test_expect_success 'PMIx that does not work: FAIL' '
    mkdir bin && printf "#!/bin/sh\ncase \$1 in --mpi=pmix) shift; exec /usr/bin/srun --mpi=none \"\$@\" ;; *) exec /usr/bin/srun \"\$@\" ;; esac\n" >bin/srun && chmod +x bin/srun &&
    test_expect_code 65 env PATH="$PWD/bin:$PATH" timeout 120 salloc --quiet -N2 \
        --ntasks-per-node=2 burnish doctor --timeout 40 >page &&
    grep "^FAIL  pmix  *srun --mpi=pmix does not work end to end: .*no PMIx server" page
'
test_done
