# shellcheck shell=sh
# For tests with several ranks on this machine: source after tlib.sh, then
#
#     bn_mpi                    # or the test is skipped
#     bn_ranks N COMMAND...     # under a limit of 120 s
#
# Nothing of a surrounding job may reach the ranks.
bn_mpi()
{
    bn_require MPI "built without MPI or PMIx" \
        sh -c 'grep -q "^#define HAVE_MPI 1" "$0" && grep -q "^#define HAVE_PMIX 1" "$0"' \
        "$BN_BUILDDIR/config.h"
    bn_require MPI "no mpirun" command -v mpirun
    for bn_var in $(env | sed -n 's/^\(\(SLURM\|PMIX\|OMPI\)_[A-Za-z0-9_]*\)=.*/\1/p'); do
        unset "$bn_var"
    done
    # one thread a rank: many ranks share few cores
    OMP_NUM_THREADS=1
    export OMP_NUM_THREADS
}

bn_ranks()
{
    bn_n=$1
    shift
    timeout -k 5 "${BN_RANKS_LIMIT:-120}" mpirun --allow-run-as-root \
        --oversubscribe --bind-to none -n "$bn_n" "$@"
}

# The nodes of the private cluster are one host, where Open MPI's shared
# memory segments of both would have the same names.
bn_mpi_two_nodes()
{
    OMPI_MCA_btl=self,tcp
    OMPI_MCA_btl_tcp_if_include=lo
    export OMPI_MCA_btl OMPI_MCA_btl_tcp_if_include
}
