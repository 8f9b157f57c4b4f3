#!/bin/sh
# Successive halving where Slurm starts and preempts the points.
test_description='scheduler: asha under sequential, array and jobs, preempted'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
bn_cluster
bn_sweep_bin real
BURNISH_CACHE=$PWD/cache OMP_WAIT_POLICY=passive
export BURNISH_CACHE OMP_WAIT_POLICY

bn_pairs 400 >pairs.jsonl
# sweep NAME LAUNCH [KEYS]: the second point is better than the first, the
# third hardly moves
sweep()
{
    {
        printf '%s\n' "output_dir: $1" "launch: $2" "time: 30" \
            "partition: low" "tokenize: now" "scheduler: asha" \
            "asha_rungs: [100, 200]" "asha_reduction: 2" "$3"
        bn_base
        printf '%s\n' "  num_threads: 1" "  eval_split: 0.1" \
            "  eval_strategy: steps" "  eval_steps: 100" \
            "  save_strategy: steps" "  save_steps: 500" \
            "  lr_scheduler_type: constant" "list:" \
            "  - {name: p1, learning_rate: 1e-5}" \
            "  - {name: p2, learning_rate: 1e-3}" \
            "  - {name: p3, learning_rate: 1e-7}"
    } | sed 's/max_steps: 10/max_steps: 700/' >"$1.yaml"
}
states_are() { test "$(burnish sweep status --json "$1.yaml" | jq -r '[.points[].state] | join(" ")')" = "$2"; }
settled() { burnish sweep status --json "$1.yaml" | jq -e '[.points[].state] | all(. == "done" or . == "stopped")' >/dev/null; }
job() { burnish sweep status --json "$1.yaml" | jq -r ".points[] | select(.name == \"$2\") | .job"; }
starts() { grep -c "^start" "$1/history"; }
step_of() { sed -n 's/.*"step":\([0-9]*\).*/\1/p' "$1/phase.0" 2>/dev/null || echo 0; }
past() { test "$(step_of "$1")" -gt "$2" && grep -q '"phase":"step"' "$1/phase.0"; }

test_expect_success 'the undisturbed sweep, launched here' '
    sweep calm local && burnish sweep submit calm.yaml &&
    states_are calm "done done stopped" &&
    test "$(jq -c "[.step, .rank, .of, .stop]" calm/p3/asha.jsonl)" = "[100,3,3,true]" &&
    test "$(jq -c "[.step, .rank, .of, .stop]" calm/p2/asha.jsonl | xargs)" = "[100,1,2,false] [200,1,2,false]"
'

test_expect_success 'sequential, preempted between two rungs: the same verdicts and bytes' '
    sweep turn sequential "exclusive: true
nodes: 1" && burnish sweep submit turn.yaml && id=$(job turn p2) &&
    bn_wait 120 past turn/p2 110 &&
    timeout 120 srun -p high -N2 --exclusive true && bn_job_go $id &&
    bn_wait 240 states_are turn "done done stopped" &&
    test $(starts turn/p2) = 2 && test $(starts turn/p1) = 1 && test $(starts turn/p3) = 1 &&
    grep "^end .* 75$" turn/p2/history && grep "^end .* 0 0$" turn/p3/history &&
    for p in p1 p2 p3; do
        test_cmp calm/$p/asha.jsonl turn/$p/asha.jsonl &&
        cmp calm/$p/model/model.safetensors turn/$p/model/model.safetensors || return 1
    done &&
    burnish sweep status turn.yaml >out && cat out >&2 &&
    grep "p3: stopped at step 100 by asha, rank 3 of 3" out
'

test_expect_success 'an array and jobs of their own: each verdict is the rule, nobody is requeued' '
    sweep row array && sweep each jobs &&
    burnish sweep submit row.yaml && burnish sweep submit each.yaml &&
    for s in row each; do
        bn_wait 240 settled $s &&
        for p in p1 p2 p3; do
            test $(starts $s/$p) = 1 &&
            jq -e ".stop == (.rank > ([.of / 2 | floor, 1] | max))" $s/$p/asha.jsonl >/dev/null &&
            if tail -n 1 $s/$p/asha.jsonl | jq -e .stop; then
                state=stopped
            else
                state=done
            fi &&
            test "$(burnish sweep status --json $s.yaml | jq -r ".points[] | select(.name == \"$p\") | .state")" = $state ||
                return 1
        done &&
        tail -n 1 $s/p2/asha.jsonl | jq -e ".stop == false" &&
        test $(ls $s/.burnish/asha/*/100 | wc -l) = 3 || return 1
    done && test -z "$(squeue -h)"
'

test_done
