#!/bin/sh
# Two ranks on two nodes, preempted for real.
test_description='two ranks preempted twice end with the bytes of undisturbed ones'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
. "$BN_SRCDIR/t/mpi.sh"
bn_mpi
bn_cluster
bn_mpi_two_nodes
bn_sweep_bin real
BURNISH_CACHE=$PWD/cache OMP_WAIT_POLICY=passive
export BURNISH_CACHE OMP_WAIT_POLICY

bn_pairs 200 >pairs.jsonl
for name in calm preempted; do
    {
        printf '%s\n' "output_dir: $name" "launch: jobs" "time: 30" \
            "exclusive: true" "nodes: 2" "tasks_per_node: 1" \
            "partition: low" "tokenize: now"
        bn_base
        printf '%s\n' "  logging_steps: 50" "  eval_split: 0.1" \
            "  eval_strategy: steps" "  eval_steps: 200" \
            "  save_strategy: steps" "  save_steps: 200" \
            "  per_device_train_batch_size: 2" "list: [{name: p}]"
    } | sed 's/max_steps: 10/max_steps: 800/' >$name.yaml
done
state_is() { test "$(burnish sweep status --json "$1.yaml" | jq -r '.points[0].state')" = "$2"; }
step_of() { sed -n 's/.*"step":\([0-9]*\).*/\1/p' "preempted/p/phase.$1" 2>/dev/null || echo 0; }
# past STEP STARTS: both ranks have passed the step in this start
past()
{
    test "$(grep -c "^start" preempted/p/history)" = "$2" || return 1
    for rank in 0 1; do
        grep -q '"phase":"step"' preempted/p/phase.$rank &&
            test "$(step_of $rank)" -gt "$1" || return 1
    done
}

test_expect_success 'the undisturbed run, of two ranks' '
    burnish sweep submit calm.yaml && bn_wait 240 state_is calm "done" &&
    jq -e ".size == 2" calm/p/phase.1
'

test_expect_success 'the other one, preempted twice on both nodes' '
    burnish sweep submit preempted.yaml &&
    id=$(burnish sweep status --json preempted.yaml | jq -r ".points[0].job") &&
    for round in 1 2; do
        bn_wait 120 past $((round * 100)) $round &&
        timeout 120 srun -p high -N2 --exclusive true &&
        bn_job_go $id || return 1
    done &&
    bn_wait 240 state_is preempted "done" &&
    test $(grep -c "^start" preempted/p/history) = 3 &&
    test $(grep -c "^end .* 75$" preempted/p/history) = 2
'

test_expect_success 'model and metrics are the same bytes' '
    (cd calm/p/model && sha256sum *) >want &&
    (cd preempted/p/model && sha256sum *) >got && test_cmp want got &&
    grep safetensors got &&
    for s in calm preempted; do
        jq -cS "with_entries(select(.key | test(\"^time|^memory/|second|runtime|flops|mfu\") | not))" \
            $s/p/metrics.jsonl >$s.metrics || return 1
    done &&
    test_cmp calm.metrics preempted.metrics && test $(grep -c "\"eval\"" calm.metrics) = 4
'

test_done
