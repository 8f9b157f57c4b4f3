#!/bin/sh
# The real trainer, preempted for real.
test_description='a sweep preempted twice ends with the bytes of an undisturbed one'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
bn_cluster
bn_sweep_bin real
BURNISH_CACHE=$PWD/cache
export BURNISH_CACHE

bn_pairs 400 >pairs.jsonl
for name in calm preempted; do
    {
        printf '%s\n' "output_dir: $name" "launch: array" "time: 30" \
            "exclusive: true" "nodes: 1" "partition: low" "tokenize: job"
        bn_base
        printf '%s\n' "  logging_steps: 100" "  eval_split: 0.1" \
            "  eval_strategy: steps" "  eval_steps: 500" \
            "  save_strategy: steps" "  save_steps: 500" \
            "grid: {beta: [0.1, 0.5]}"
    } | sed 's/max_steps: 10/max_steps: 1500/' >$name.yaml
done
states_are() { test "$(burnish sweep status --json "$1.yaml" | jq -r '[.points[].state] | join(" ")')" = "$2"; }
job() { burnish sweep status --json "$1.yaml" | jq -r ".points[] | select(.name == \"$2\") | .job"; }
step_of() { sed -n 's/.*"step":\([0-9]*\).*/\1/p' "preempted/beta=$1/phase.0" 2>/dev/null || echo 0; }
# past BETA STEP STARTS: it has been started so often and passed the step
past()
{
    test "$(grep -c "^start" "preempted/beta=$1/history")" = "$3" &&
        test "$(step_of "$1")" -gt "$2" && burnish sweep status --json preempted.yaml |
        jq -e ".points[] | select(.name == \"beta=$1\") | .phase == \"step\"" >/dev/null
}
waits() { bn_job_is "$(job preempted "beta=$1")" PENDING; }

test_expect_success 'the undisturbed sweep, tokenized in a job before it' '
    burnish sweep submit calm.yaml &&
    bn_wait 240 states_are calm "done done" &&
    grep -l "" calm/logs/tokenize-*.out &&
    ls cache
'

test_expect_success 'the other one, preempted twice' '
    burnish sweep submit preempted.yaml &&
    for round in 1 2; do
        at=$((round * 150)) &&
        bn_wait 120 past 0.1 $at $round && bn_wait 120 past 0.5 $at $round &&
        timeout 120 srun -p high -N2 --exclusive true &&
        for beta in 0.1 0.5; do
            bn_wait 60 waits $beta &&
            scontrol update JobId=$(job preempted beta=$beta) StartTime=now+3 ||
                return 1
        done || return 1
    done &&
    bn_wait 240 states_are preempted "done done" &&
    burnish sweep status preempted.yaml >out && cat out >&2 &&
    test $(grep -c "^start" preempted/beta=0.1/history) = 3 &&
    test $(grep -c "^start" preempted/beta=0.5/history) = 3
'

test_expect_success 'models and metrics are the same bytes' '
    for beta in 0.1 0.5; do
        (cd calm/beta=$beta/model && sha256sum *) >want &&
        (cd preempted/beta=$beta/model && sha256sum *) >got &&
        test_cmp want got &&
        grep safetensors got || return 1
        for s in calm preempted; do
            jq -cS "select(.kind == \"eval\") | [.step, .eval_loss, .eval_nll_loss]" \
                $s/beta=$beta/metrics.jsonl >$s.evals || return 1
        done
        test_cmp calm.evals preempted.evals || return 1
    done &&
    ! cmp -s calm/beta=0.1/model/model.safetensors calm/beta=0.5/model/model.safetensors
'

test_expect_success 'both are ranked alike' '
    for s in calm preempted; do
        burnish sweep report --csv $s.yaml >$s.csv || return 1
    done &&
    test_cmp calm.csv preempted.csv && grep "^1,1,beta" calm.csv
'

test_done
