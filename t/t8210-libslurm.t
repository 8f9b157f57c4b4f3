#!/bin/sh
# Many jobs go through libslurm; Slurm must see what sbatch would have sent.
test_description='jobs submitted through libslurm are those of sbatch'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
bn_cluster MaxJobCount=40
bn_sweep_bin
grep -q "define HAVE_SLURM 1" "$BN_BUILDDIR/config.h" ||
    bn_missing LIBSLURM "built without libslurm"

{
    printf '%s\n' "output_dir: out dir" "time: 1:30:00" "nodes: 2" \
        "tasks_per_node: 2" "cpus_per_task: 3" "gpus_per_node: 2" "mem: 2G" \
        "tokenize: no" "partition: low" "exclusive: true" \
        "sbatch: [--hold, \"--comment=a b\"]"
    bn_base
    echo "list: [{name: ok1}, {name: ok2}, {name: ok3}, {name: ok4}]"
} >e.yaml
# what Slurm knows of one of the jobs, less what must differ
shown()
{
    scontrol show job "$(squeue -h -o "%A %j" | sed -n "s/ .*\.ok4$//p")" |
        sed 's/JobId=[0-9]*//; s/slurm-[0-9]*.out/slurm-ID.out/; s/SubmitTime=[^ ]*//; s/LastSchedEval=[^ ]*//; s/Priority=[0-9]*//'
}

test_expect_success 'scontrol shows no difference' '
    BURNISH_LOG=debug burnish sweep submit e.yaml 2>err && shown >lib.txt &&
    grep "submitting through libslurm" err &&
    scancel $(squeue -h -o %A) && bn_wait 20 test -z "$(squeue -h)" &&
    BURNISH_SLURM=sbatch burnish sweep submit e.yaml && shown >sbatch.txt &&
    scancel $(squeue -h -o %A) && bn_wait 20 test -z "$(squeue -h)" &&
    grep "Comment=a b" lib.txt && grep "gres:gpu:2" lib.txt &&
    test_cmp sbatch.txt lib.txt
'

test_expect_success 'the jobs see the same environment' '
    sed "s/^sbatch: .*/environment: {BN_X: \"1\"}/; s/^output_dir.*/output_dir: out2/" e.yaml >run.yaml &&
    cp "$BN_SRCDIR/t/slurm/rank.sh" rank.sh &&
    sed "s/^phase step.*/&\nenv | grep -E \"^(SLURM|CUDA|OMP|BN_)\" | grep -vE \"(ID|PORT|PID|GTIDS|TASK_|JOB_NODELIST|NODEID|NODENAME|LAUNCH|ADDR|SRUN|STEP|CPU_BIND|TIME|NODELIST|JOB_NAME|TOPOLOGY)\" | sort >\"\$dir\/env.\$rank\"/" rank.sh >"$bn_dir/bin/burnish-train" &&
    states() { burnish sweep status --json run.yaml | jq -r "[.points[].state] | join(\" \")"; } &&
    is_done() { test "$(states)" = "done done done done"; } &&
    burnish sweep submit run.yaml && bn_wait 60 is_done &&
    mv out2 lib &&
    BURNISH_SLURM=sbatch burnish sweep submit run.yaml && bn_wait 60 is_done &&
    for rank in 0 3; do
        test_cmp out2/ok2/env.$rank lib/ok2/env.$rank || return 1
    done &&
    grep "OMP_NUM_THREADS=3" lib/ok2/env.0
'

# several are on their way when Slurm refuses the first
test_expect_success 'when Slurm takes no more, each job that it took is recorded' '
    seq 1 40 | sed "s/.*/{name: many&}/" | paste -sd, | sed "s/.*/list: [&]/" >list &&
    sed "s/^list: .*//; s/^output_dir.*/output_dir: many/" e.yaml | cat - list >many.yaml &&
    test_expect_code 75 burnish sweep submit many.yaml 2>err &&
    grep "no more jobs for now, from .*/many/many[0-9]*/job.sbatch. on: submit again" err &&
    squeue -h -o "%A %j" | sed "s/ .*\.many/ many/" | sort >queued &&
    jq -r "\"\(.job) \(.point)\"" many/.burnish/jobs.jsonl | sort >recorded &&
    test_cmp queued recorded && test "$(wc -l <queued)" -gt 4 &&
    test "$(cut -d " " -f 2 queued | sort -u | wc -l)" = "$(wc -l <queued)" &&
    test_expect_code 64 burnish sweep submit many.yaml 2>err &&
    grep "Slurm takes no more jobs for now (it keeps MaxJobCount" err &&
    scancel $(squeue -h -o %A)
'

test_done
