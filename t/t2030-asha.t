#!/bin/sh
# The real trainer, one point after the other: what asha stops, and that an
# independent reading of the metrics comes to the same.
test_description='scheduler: asha, launched here'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
bn_require JQ "no jq" command -v jq
PATH=$BN_BUILDDIR:$PATH
BURNISH_TEMPLATES=$BN_SRCDIR/templates BURNISH_CACHE=$PWD/cache
OMP_WAIT_POLICY=passive
export PATH BURNISH_TEMPLATES BURNISH_CACHE OMP_WAIT_POLICY

# sweep NAME REDUCTION RATE...: a point a learning rate, rungs at 5 and 10
sweep()
{
    sw_name=$1 sw_by=$2
    shift 2
    {
        printf '%s\n' "output_dir: $sw_name" "launch: local" "tokenize: now" \
            "scheduler: asha" "asha_rungs: [5, 10]" "asha_reduction: $sw_by"
        bn_base
        printf '%s\n' "  eval_split: 0.25" "  eval_strategy: steps" \
            "  eval_steps: 5" "  per_device_train_batch_size: 4" \
            "  lr_scheduler_type: constant" "  save_steps: 5" "list:"
        sw_i=0
        for sw_rate; do
            sw_i=$((sw_i + 1))
            echo "  - {name: p$sw_i, learning_rate: $sw_rate}"
        done
    } | sed 's/max_steps: 10/max_steps: 20/' >"$sw_name.yaml"
}
states() { burnish sweep status --json "$1.yaml" | jq -r '[.points[].state] | join(" ")'; }

# oracle SWEEP REDUCTION N: verdicts from metrics alone, as asha.jsonl has them
oracle()
{
    for i in $(seq "$3"); do
        jq -r "select(.kind == \"eval\") | \"$i \(.step) \(.eval_nll_loss)\"" \
            "$1/p$i/metrics.jsonl"
    done | awk -v by="$2" '
        $2 != 5 && $2 != 10 { next }
        {
            n = ++count[$2]; seen[$2, n] = $3; rank = 1
            for (k = 1; k < n; k++) rank += (seen[$2, k] < $3)
            keep = int(n / by); if (keep < 1) keep = 1
            print "p" $1, $2, rank, n, (rank > keep ? "true" : "false")
        }'
}
verdicts()
{
    for i in $(seq "$2"); do
        jq -r "\"p$i \(.step) \(.rank) \(.of) \(.stop)\"" "$1/p$i/asha.jsonl"
    done
}

test_expect_success 'points are stopped by the rule, and say so' '
    sweep race 2 1e-3 1e-7 1e-6 3e-3 1e-2 2e-7 &&
    burnish sweep submit race.yaml 2>err && cat err >&2 &&
    oracle race 2 6 >want && verdicts race 6 >got && test_cmp want got &&
    grep true got && grep "10 .* false" got &&
    for i in 1 2 3 4 5 6; do
        last=$(tail -n 1 race/p$i/asha.jsonl | jq -r "if .stop then .step else 20 end") &&
        test "$(jq -r "select(.kind == \"end\") | .step" race/p$i/metrics.jsonl)" = $last &&
        test -s race/p$i/model/model.safetensors || return 1
    done &&
    test "$(states race)" = "done stopped stopped $(for i in 4 5 6; do
        tail -n 1 race/p$i/asha.jsonl | jq -r "if .stop then \"stopped\" else \"done\" end"
    done | xargs)" &&
    burnish sweep status race.yaml >out && cat out >&2 &&
    grep "p2: stopped at step 5 by asha, rank 2 of 2" out &&
    burnish sweep status --json race.yaml |
        jq -e ".points[1].stopped == {step: 5, rank: 2, of: 2}"
'

test_expect_success 'a stopped point is done: neither submitted nor tried again' '
    burnish sweep submit race.yaml >out && cat out &&
    grep "0 points run, 0 in the queue already, 6 done already" out &&
    burnish sweep retry --failed race.yaml >out && grep "0 points run" out
'

test_expect_success 'however good it was, it is behind what ran to the end' '
    cp -r race fake && sed "s/^output_dir.*/output_dir: fake/; s/^name.*//" race.yaml >fake.yaml &&
    sed -i "s|/race/|/fake/|g" fake/p*/run.yaml &&
    jq -c "if .kind == \"eval\" then .eval_nll_loss = 0.001 | .eval_log_odds_chosen = 99 | .[\"eval_rewards/accuracies\"] = 1 else . end" \
        race/p2/metrics.jsonl >fake/p2/metrics.jsonl &&
    burnish sweep report fake.yaml >out && cat out >&2 &&
    burnish sweep report --csv fake.yaml | tr -d "\r" >csv && cat csv &&
    test $(grep "^1,1," csv | cut -d, -f4) = "done" &&
    worst=$(grep ",done," csv | cut -d, -f2 | sort -n | tail -n 1) &&
    best=$(grep ",stopped," csv | cut -d, -f2 | sort -n | head -n 1) &&
    test $best -gt $worst && test $(grep "^1,$best," csv | cut -d, -f3) = p2 &&
    grep "p2 .*  stopped at step 5 by asha, rank 2 of 2" out &&
    grep "points that asha stopped come after all that it did not" out &&
    grep "stopped at step 5 by asha, rank 2 of 2" fake/report.html &&
    burnish sweep report --best fake.yaml >best.yaml &&
    ! grep "^asha" best.yaml && ! grep "point p2" best.yaml
'

test_expect_success 'where all that can be ranked was stopped there is no winner' '
    rm fake/p1/metrics.jsonl &&
    for i in 4 5 6; do
        test "$(tail -n 1 race/p$i/asha.jsonl | jq .stop)" = true || rm fake/p$i/metrics.jsonl || return 1
    done &&
    test_expect_code 65 burnish sweep report --best fake.yaml 2>err &&
    grep "stopped early by asha: there is no winner" err
'

test_expect_success 'without asha the run goes on, and its bytes are those of before' '
    sweep plain 2 1e-3 1e-7 && sed -i "/^scheduler/d; /^asha/d" plain.yaml &&
    burnish sweep submit plain.yaml && test "$(states plain)" = "done done" &&
    ! test -e plain/p1/asha.jsonl && ! test -e plain/.burnish/asha &&
    (cd race/p1/model && sha256sum *) >want && (cd plain/p1/model && sha256sum *) >got &&
    test_cmp want got
'

test_expect_success 'a verdict is kept by a run that is killed after it' '
    sweep kept 2 1e-3 1e-7 1e-6 && burnish sweep submit kept.yaml &&
    tail -n 1 kept/p2/asha.jsonl | jq -e .stop &&
    cp kept/p2/asha.jsonl want && rm -r kept/p2/model &&
    burnish-train kept/p2/run.yaml 2>err && cat err >&2 &&
    test_cmp want kept/p2/asha.jsonl && test -s kept/p2/model/model.safetensors &&
    test "$(jq -r "select(.kind == \"train\") | .step" kept/p2/metrics.jsonl | sort -n | tail -n 1)" = 5 &&
    rm -r kept/p2/checkpoint-* kept/p2/model && ls kept/p2 &&
    burnish-train kept/p2/run.yaml 2>err &&
    test_cmp want kept/p2/asha.jsonl && ls kept/.burnish/asha/*/5 >names &&
    test $(wc -l <names) = 3
'

test_expect_success 'a changed point takes back what it had published' '
    sed "s/learning_rate: 1e-3/learning_rate: 2e-7/" kept.yaml >new.yaml &&
    burnish sweep submit new.yaml p1 &&
    test $(ls kept/.burnish/asha/*/5 | grep -c "^p1@") = 1 &&
    test "$(jq -c "[.step, .of]" kept/p1/asha.jsonl | head -n 1)" = "[5,3]"
'

test_expect_success 'points of other data or lengths run in a race of their own' '
    sweep apart 2 1e-3 1e-7 && sed -i "s/name: p2, /name: p2, max_length: 600, /" apart.yaml &&
    burnish sweep submit apart.yaml && test "$(states apart)" = "done done" &&
    test $(ls apart/.burnish/asha | wc -l) = 2
'

test_expect_success 'rungs that cannot be are refused, with their place' '
    sweep bad 2 1e-3 && sed -i "s/^asha_rungs.*/asha_rungs: [5, 12, 40]/" bad.yaml &&
    test_expect_code 64 burnish sweep check bad.yaml 2>err && cat err >&2 &&
    grep "bad.yaml:5:[0-9]*: asha_rungs: 12 is not a multiple of eval_steps (5)" err &&
    sed -i "s/^asha_rungs.*/asha_rungs: [5, 20]/" bad.yaml &&
    test_expect_code 64 burnish sweep check bad.yaml 2>err &&
    grep "20 is not below max_steps (20)" err &&
    sed -i "/^scheduler/d" bad.yaml &&
    test_expect_code 64 burnish sweep check bad.yaml 2>err &&
    grep "asha_rungs has no effect without scheduler: asha" err &&
    sweep bad 2 1e-3 && sed -i "/^asha_rungs/d" bad.yaml &&
    test_expect_code 64 burnish sweep check bad.yaml 2>err &&
    grep "scheduler asha needs asha_rungs" err &&
    sweep bad 2 1e-3 && echo "rank_by: learning_rate" >>bad.yaml &&
    test_expect_code 64 burnish sweep check bad.yaml 2>err &&
    grep "asha_metric: .learning_rate. is not measured" err
'

test_done
