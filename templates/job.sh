# shellcheck shell=bash disable=SC2154
# What every batch script of a sweep shares: threads, NCCL, cleaning, one run
# under srun, and what to do with the class that it ended with. A copy lies
# in the sweep's folder, so that a job never changes under way.
#
# Set by the script before it comes here: bn_bin (folder of the programs),
# bn_requeues (how often a job may be requeued), bn_core (ulimit -c),
# bn_prefix (array: words to put before the program, such as a container's).

PATH=$bn_bin:$PATH

# An array task must be named by its own id: the first one's SLURM_JOB_ID is
# the id of the whole array, and requeueing that would stop all the others.
if test -n "$SLURM_ARRAY_TASK_ID"; then
    bn_job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
else
    bn_job=$SLURM_JOB_ID
fi

# One pool of threads, as wide as the CPUs of the task.
OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
MKL_NUM_THREADS=$OMP_NUM_THREADS
OPENBLAS_NUM_THREADS=$OMP_NUM_THREADS
# srun does not take this over from sbatch (since Slurm 22.05)
SRUN_CPUS_PER_TASK=$OMP_NUM_THREADS
export PATH OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS
export SRUN_CPUS_PER_TASK

ulimit -c "$bn_core" 2>/dev/null
if test "$bn_core" != 0; then
    echo "core files: up to '$bn_core' blocks as" \
        "$(cat /proc/sys/kernel/core_pattern)"
    echo "(a name without a slash lands in the run's folder; | is a program)"
fi

# A signal for the job's processes must not end this shell: it has to say
# what becomes of the job. (Not '': ranks would inherit being deaf.)
trap : TERM INT USR1

bn_say()
{
    echo "$(date '+%F %T') job $bn_job: $*"
}

# bn_nccl one|many: GPUs of one node talk over NVLink; of many, over what
# NCCL finds. A value set by the sweep's environment stays. Algorithm and
# protocol are pinned because they decide the order of sums: left to NCCL, they
# change with the size of a message and with the machine, and so do the bits of
# a run that is repeated or resumed (burnish-train sets the same by itself).
bn_nccl()
{
    export NCCL_ALGO=${NCCL_ALGO:-Ring}
    export NCCL_PROTO=${NCCL_PROTO:-Simple}
    export NCCL_BUFFSIZE=${NCCL_BUFFSIZE:-134217728}
    export NCCL_P2P_LEVEL=${NCCL_P2P_LEVEL:-NVL}
    if test "$1" = one; then
        export NCCL_IB_DISABLE=${NCCL_IB_DISABLE:-1}
    fi
}

# End what is left of jobs that are over, on every node of this one.
bn_clean()
{
    if test "${SLURM_JOB_NUM_NODES:-1}" = 1; then
        burnish clean --yes
    else
        srun --mpi=none --ntasks="$SLURM_JOB_NUM_NODES" \
            --ntasks-per-node=1 --cpus-per-task=1 burnish clean --yes
    fi
}

# Requeue this job unless it has been often enough. The shell ends after it.
bn_requeue()
{
    local n=${SLURM_RESTART_COUNT:-0}
    # Ranks cannot tell scancel from preemption: both are a TERM. In the
    # grace time of a preemption the job still runs; one that Slurm ends
    # already is cancelled, or requeued by Slurm itself.
    if ! scontrol show job "$bn_job" | grep -q 'JobState=RUNNING'; then
        bn_say "not requeued here: Slurm is ending it"
        return 1
    fi
    if test "$n" -ge "$bn_requeues"; then
        bn_say "not requeued: it has been $n times, the limit of the sweep"
        return 1
    fi
    bn_say "requeue number $((n + 1)) of at most $bn_requeues"
    scontrol requeue "$bn_job"
}

# Seconds that this job may still run.
bn_left()
{
    local end
    end=$(squeue -h -j "$bn_job" -o %e 2>/dev/null | head -n 1)
    end=$(date -d "$end" +%s 2>/dev/null) || end=$(($(date +%s) + 86400))
    echo $((end - $(date +%s)))
}

# Whether the run in DIR ended well since it was last submitted.
bn_finished()
{
    awk '$1 == "submit" { rc = "" } $1 == "end" { rc = $4 }
        END { exit rc != "0" }' "$1/history" 2>/dev/null
}

# bn_run DIR: the run in DIR, resumed where it was. Returns its exit status,
# with its class in bn_class: the first rank that failed says why in
# exit-class, since srun reports the ranks that it killed for that.
# DIR/history gets a line at each start and end.
bn_run()
{
    local dir=$1 rc lock
    bn_class=75
    exec {lock}>"$dir/lock"
    if ! flock -n "$lock"; then
        bn_say "$dir is in use by another job"
        return 75
    fi
    bn_clean
    rm -f "$dir/exit-class"
    echo "start $(date +%s) $bn_job ${SLURM_RESTART_COUNT:-0}" \
        "$SLURM_JOB_NODELIST" >>"$dir/history"
    bn_say "start of $dir on $SLURM_JOB_NODELIST"
    srun --mpi=pmix --kill-on-bad-exit=1 \
        "${bn_prefix[@]}" burnish-train "$dir/run.yaml" {lock}>&-
    rc=$?
    bn_class=$(cat "$dir/exit-class" 2>/dev/null)
    test $rc = 0 && bn_class=0
    echo "end $(date +%s) $bn_job $rc ${bn_class:-none}" >>"$dir/history"
    bn_say "end of $dir: status $rc, class ${bn_class:-none}"
    bn_clean
    exec {lock}>&-
    return $rc
}

# bn_main DIR: all that a job of one run does.
bn_main()
{
    local rc
    bn_run "$1"
    rc=$?
    test "$bn_class" = 75 && bn_requeue
    exit $rc
}
