# shellcheck shell=sh
# For tests on the private cluster: source after tlib.sh, then
#
#     bn_cluster [LINE...]      # starts it for this test, or skips
#
# It ends with the test, whatever happens; its logs are printed if a test
# failed.
bn_cluster_sh=$BN_SRCDIR/t/slurm/cluster.sh

bn_cluster()
{
    PATH=$PATH:/usr/sbin
    bn_require ROOT "slurmd needs root" test "$(id -u)" = 0
    for bn_prog in munged slurmctld slurmd sbatch srun; do
        bn_require SLURM "no $bn_prog" command -v "$bn_prog"
    done
    bn_require SLURM "Slurm has no PMIx plugin" \
        test -n "$(ls /usr/lib/*/slurm*/mpi_pmix*.so /usr/lib*/slurm/mpi_pmix*.so 2>/dev/null)"
    bn_dir=$(mktemp -d "${TMPDIR:-/tmp}/bnc.XXXXXX") || exit 1
    trap bn_cluster_exit EXIT
    trap 'exit 1' INT TERM HUP
    "$bn_cluster_sh" start "$bn_dir" "$@" || {
        echo "Bail out! no private cluster"
        exit 1
    }
    export SLURM_CONF="$bn_dir/slurm.conf"
    # of an allocation that the tests themselves may run in
    for bn_var in $(env | sed -n 's/^\(\(SLURM\|SBATCH\|PMIX\)_[A-Z_]*\)=.*/\1/p'); do
        test "$bn_var" = SLURM_CONF || unset "$bn_var"
    done
}

bn_cluster_exit()
{
    bn_code=$?
    trap - EXIT
    test "${test_failure:-1}" = 0 || "$bn_cluster_sh" logs "$bn_dir"
    "$bn_cluster_sh" stop "$bn_dir"
    rm -rf "$bn_dir"
    (exit $bn_code)
    die
}

# bn_wait SECONDS COMMAND...: until COMMAND succeeds; 1 if it does not in time.
bn_wait()
{
    bn_end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        test "$(date +%s)" -lt "$bn_end" || {
            echo "timed out waiting for: $*" >&2
            return 1
        }
        sleep 0.3
    done
}

# The state of a job in words, such as RUNNING, PENDING, COMPLETED.
bn_job_state()
{
    scontrol show job "$1" 2>/dev/null \
        | sed -n 's/^ *JobState=\([A-Z_]*\) .*/\1/p' | head -n 1
}

# bn_job_is JOB STATE...: for bn_wait
bn_job_is()
{
    bn_state=$(bn_job_state "$1")
    shift
    for bn_want in "$@"; do
        test "$bn_state" = "$bn_want" && return 0
    done
    return 1
}

# A requeued job waits two minutes; let it go in three seconds. (At once
# would be too early: slurmd refuses a job that it killed this very second.)
bn_job_go()
{
    bn_wait 60 bn_job_is "$1" PENDING \
        && scontrol update "JobId=$1" StartTime=now+3
}
