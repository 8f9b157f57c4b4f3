#!/bin/sh
# The private cluster that the other t8 tests stand on.
test_description='a private Slurm cluster: steps, GPUs, requeue, node failure'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
bn_cluster

test_expect_success 'srun starts ranks on both nodes through PMIx' '
    srun --mpi=list 2>&1 | grep -w pmix &&
    timeout 60 srun -N2 -n4 --ntasks-per-node=2 --mpi=pmix \
        sh -c "echo \$PMIX_RANK \$SLURMD_NODENAME" >out &&
    sort out >sorted &&
    printf "%s\n" "0 n1" "1 n1" "2 n2" "3 n2" >want &&
    test_cmp want sorted
'

test_expect_success 'GPUs are handed out as real ones are' '
    timeout 60 srun --gpus-per-node=8 -n2 \
        sh -c "echo \$CUDA_VISIBLE_DEVICES" >out &&
    printf "0,1,2,3,4,5,6,7\n0,1,2,3,4,5,6,7\n" >want &&
    test_cmp want out &&
    timeout 60 srun --gpus-per-task=1 -n2 \
        sh -c "echo \$CUDA_VISIBLE_DEVICES" >out &&
    printf "0\n1\n" >want && sort out >sorted &&
    test_cmp want sorted
'

cat >job.sh <<\END
#!/bin/sh
#SBATCH --nodes=2 --exclusive --requeue --open-mode=append --output=job.out
echo "start ${SLURM_RESTART_COUNT:-0}"
test -n "$SLURM_RESTART_COUNT" && exit 0
srun --mpi=pmix sh -c 'trap "exit 75" TERM; sleep 120 & wait'
echo "srun $?"
scontrol requeue "$SLURM_JOB_ID"
END

test_expect_success 'the high partition preempts the low one by requeue' '
    id=$(sbatch --parsable job.sh) &&
    bn_wait 60 grep "start 0" job.out &&
    bn_wait 60 squeue -h -s -j $id -o %i &&
    sleep 1 &&
    timeout 60 srun -p high -N2 --exclusive true &&
    bn_job_go $id &&
    bn_wait 60 bn_job_is $id COMPLETED &&
    grep "^srun 75" job.out && grep "^start 1" job.out
'

test_expect_success 'a job on a node that dies is requeued' '
    sed "s/exit 75/true/; /scontrol/d" job.sh >job2.sh &&
    id=$(sbatch --parsable --output=job2.out --exclude=n2 --nodes=1 job2.sh) &&
    bn_wait 60 grep "start 0" job2.out &&
    sleep 1 &&
    "$bn_cluster_sh" node "$bn_dir" n1 kill &&
    bn_wait 60 bn_job_is $id PENDING &&
    "$bn_cluster_sh" node "$bn_dir" n1 start &&
    bn_job_go $id &&
    bn_wait 90 bn_job_is $id COMPLETED &&
    grep "^start 1" job2.out
'

test_expect_success 'two clusters run side by side, and each ends alone' '
    other=$(mktemp -d "${TMPDIR:-/tmp}/bnc.XXXXXX") &&
    "$bn_cluster_sh" start "$other" &&
    SLURM_CONF=$other/slurm.conf timeout 60 srun -N2 hostname &&
    SLURM_CONF=$other/slurm.conf sbatch -N2 --wrap "sleep 1000" &&
    sleep 1 &&
    "$bn_cluster_sh" stop "$other" &&
    while read -r name pid born; do
        ! grep -qs "$other" "/proc/$pid/cmdline" || return 1
    done <"$other/pids" &&
    rm -rf "$other" &&
    timeout 60 srun -N2 hostname
'

test_done
