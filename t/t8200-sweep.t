#!/bin/sh
# Real sbatch, squeue, srun and scontrol; the trainer is a stand-in
# (t/slurm/rank.sh) that ends as each test needs.
test_description='burnish sweep on Slurm: submit, requeue, retry, cancel'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
bn_cluster
bn_sweep_bin

# sweep NAME LAUNCH KEYS POINT...: a sweep file NAME.yaml
sweep()
{
    sw_name=$1 sw_launch=$2 sw_keys=$3
    shift 3
    {
        printf '%s\n' "output_dir: $sw_name dir" "launch: $sw_launch" \
            "time: 5" "tasks_per_node: 2" "tokenize: no" "partition: low"
        test -z "$sw_keys" || printf '%s\n' "$sw_keys"
        bn_base
        printf '%s\n' "list:"
        for sw_point; do
            echo "  - {name: $sw_point}"
        done
    } >"$sw_name.yaml"
}

starts() { grep -c "^start" "$1/history"; }
states_are() { test "$(burnish sweep status --json "$1.yaml" | jq -r '[.points[].state] | join(" ")')" = "$2"; }
# job SWEEP POINT: its job id
job() { burnish sweep status --json "$1.yaml" | jq -r ".points[] | select(.name == \"$2\") | .job"; }
# let a requeued task go once it waits
go()
{
    bn_wait 60 bn_job_is "$1" PENDING REQUEUED COMPLETED FAILED &&
    { bn_job_is "$1" COMPLETED FAILED || scontrol update JobId="$1" StartTime=now+3; }
}

test_expect_success 'each point ends for itself, and failures are told apart' '
    sweep one array "" ok1 bad ok2 mute ok3 &&
    burnish sweep submit one.yaml >out &&
    grep "5 points submitted" out &&
    bn_wait 90 states_are one "done failed done failed done" &&
    burnish sweep status one.yaml >out && cat out >&2 &&
    grep "bad: class 64 (usage), rank 1: no such key \"x\"" out &&
    grep "5 points: 3 done 2 failed" out &&
    for p in ok1 bad ok2 mute ok3; do
        test $(starts "one dir/$p") = 1 || return 1
    done &&
    test -z "$(squeue -h)"
'

test_expect_success 'submitting again takes only what failed' '
    burnish sweep submit one.yaml >out &&
    grep "2 points submitted, 0 in the queue already, 3 done already" out &&
    bn_wait 90 states_are one "done failed done failed done" &&
    test $(starts "one dir/ok1") = 1 && test $(starts "one dir/bad") = 2 &&
    burnish sweep retry --failed one.yaml ok1 mute >out &&
    grep "1 points submitted" out &&
    bn_wait 90 states_are one "done failed done failed done" &&
    test $(starts "one dir/mute") = 3 && test $(starts "one dir/bad") = 2
'

test_expect_success 'a changed point runs anew, its old folder kept' '
    sed "s/{name: ok2}/{name: ok2, beta: 0.7}/" one.yaml >two.yaml &&
    burnish sweep status two.yaml >out && grep "^ok2 *done\*" out &&
    burnish sweep submit two.yaml ok1 ok2 ok3 >out &&
    grep "1 points submitted, 0 in the queue already, 2 done already" out &&
    bn_wait 60 states_are two "done failed done failed done" &&
    test $(starts "one dir/ok2") = 1 && grep "beta: 0.7" "one dir/ok2/run.yaml" &&
    test -s "one dir/.burnish/old/ok2-"*/metrics.jsonl
'

test_expect_success 'only class 75 is requeued: an array task by its own id' '
    sweep again array "limit: 2" again1 ok1 ok2 again2 &&
    burnish sweep submit again.yaml &&
    id=$(job again ok1) && id=${id%_*} &&
    for round in 1 2; do
        for t in 0 3; do
            bn_wait 90 sh -c "test \$(grep -c ^end \"again dir/again$((t / 3 + 1))/history\") -ge $round" &&
            go ${id}_$t || return 1
        done
    done &&
    bn_wait 90 states_are again "done done done done" &&
    test $(starts "again dir/ok1") = 1 && test $(starts "again dir/ok2") = 1 &&
    test $(starts "again dir/again1") = 3 &&
    burnish sweep status again.yaml >out && grep "^again1 .* 2  ${id}_0" out &&
    grep "^ok1 .* 0  ${id}_1" out
'

test_expect_success 'requeues are bounded' '
    sweep bound jobs "max_requeues: 1" again &&
    burnish sweep submit bound.yaml &&
    id=$(job bound again) &&
    bn_wait 60 grep -q "^end" "bound dir/again/history" && go $id &&
    bn_wait 60 states_are bound failed &&
    test $(starts "bound dir/again") = 2 &&
    grep "not requeued: it has been 1 times, the limit" "bound dir/again/slurm-$id.out"
'

test_expect_success 'the warning before a time limit reaches the ranks' '
    sweep limit jobs "" slow && sed -i "s/^time: 5/time: 2/" limit.yaml &&
    burnish sweep submit limit.yaml &&
    id=$(job limit slow) &&
    bn_wait 90 grep -q "^end .* 75$" "limit dir/slow/history" && go $id &&
    bn_wait 60 states_are limit "done" &&
    test $(starts "limit dir/slow") = 2
'

test_expect_success 'a preempted point checkpoints, is requeued and goes on' '
    sweep pre jobs "exclusive: true
nodes: 2" slow &&
    burnish sweep submit pre.yaml &&
    id=$(job pre slow) &&
    bn_wait 60 grep -q "\"step\":4" "pre dir/slow/phase.3" &&
    timeout 90 srun -p high -N2 --exclusive true &&
    go $id &&
    bn_wait 60 states_are pre "done" &&
    grep "^end .* 75$" "pre dir/slow/history" &&
    test $(starts "pre dir/slow") = 2
'

test_expect_success 'a node failure is requeued' '
    sweep node jobs "" slow && sed -i "s/^partition.*/&\nsbatch: [--nodelist=n2]/" node.yaml &&
    burnish sweep submit node.yaml &&
    id=$(job node slow) &&
    bn_wait 60 grep -q "\"step\":4" "node dir/slow/phase.1" &&
    "$bn_cluster_sh" node "$bn_dir" n2 kill &&
    bn_wait 90 bn_job_is $id PENDING &&
    burnish sweep status node.yaml >out && grep "^slow *pending" out &&
    "$bn_cluster_sh" node "$bn_dir" n2 start &&
    go $id &&
    bn_wait 90 states_are node "done" &&
    ! grep "^end .* 75$" "node dir/slow/history"
'

test_expect_success 'silent ranks are named; a busy point is not submitted twice' '
    sweep busy jobs "" hang ok &&
    burnish sweep submit busy.yaml &&
    bn_wait 60 states_are busy "running done" &&
    sleep 2 &&
    burnish sweep status --silent 1.5 busy.yaml >out && cat out >&2 &&
    grep "hang: 1 of 2 ranks silent, rank 0 since" out &&
    burnish sweep submit busy.yaml >out &&
    grep "0 points submitted, 1 in the queue already, 1 done already" out &&
    sed "s/{name: hang}/{name: hang, beta: 0.7}/" busy.yaml >changed.yaml &&
    test_expect_code 64 burnish sweep submit changed.yaml 2>err &&
    grep "point hang has changed while its job .* is in the queue: cancel it first" err
'

test_expect_success 'cancel ends its jobs and no others' '
    other=$(sbatch --parsable --wrap "sleep 100") &&
    burnish sweep cancel busy.yaml >out && grep "1 jobs cancelled" out &&
    bn_wait 30 states_are busy "cancelled done" &&
    bn_job_is $other RUNNING && scancel $other
'

test_expect_success 'one submit at a time' '
    exec 8>"busy dir/.burnish/lock" && flock 8 &&
    test_expect_code 75 burnish sweep submit busy.yaml 2>err &&
    exec 8>&- &&
    grep "another submit of this sweep is under way" err
'

test_expect_success 'points in turn in one allocation' '
    sweep turn sequential "" ok1 bad slow ok2 &&
    burnish sweep submit turn.yaml &&
    id=$(job turn slow) && test $(job turn ok1) = $id &&
    bn_wait 60 grep -q "\"step\":4" "turn dir/slow/phase.1" &&
    timeout 90 srun -p high -N2 --exclusive true &&
    go $id &&
    bn_wait 90 states_are turn "done failed done done" &&
    test $(starts "turn dir/ok1") = 1 && test $(starts "turn dir/slow") = 2
'

test_expect_success 'names that could break a script are refused, values quoted' '
    long=$(printf %0300d 0) &&
    for name in "a b" "\"a\$(touch pwned)\"" "\"a\\nb\"" "\"a;b\"" "../x" $long logs; do
        sweep bad jobs "" ok1 && sed -i "/^list/,\$d" bad.yaml &&
        printf "list:\n  - name: %s\n" "$name" >>bad.yaml &&
        test_expect_code 64 burnish sweep submit bad.yaml 2>err &&
        grep "bad.yaml:[0-9]*:[0-9]*: point name" err || return 1
    done &&
    sweep quoted array "environment: {BN_X: \"a b \$(touch pwned) \\\"q\\\" '"'"'s\"}" ok &&
    burnish sweep submit quoted.yaml && bn_wait 60 states_are quoted "done" &&
    ! test -e pwned && ! test -e "bad dir"
'

test_done
