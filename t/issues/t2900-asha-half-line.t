#!/bin/sh
test_description='half a verdict at the end of asha.jsonl does not spoil the next one'
. "${BN_SRCDIR:-$(dirname "$0")/../..}/t/tlib.sh"
bn_require_runs

python3 "$BN_SRCDIR/t/tiny.py" .
cat >>run.yaml <<EOT
run_name: only
eval_split: 0.2
eval_strategy: steps
eval_steps: 2
save_steps: 2
asha_dir: rungs
asha_rungs: [2, 4]
EOT
sed -i 's/^max_steps.*/max_steps: 6/' run.yaml

test_expect_success 'a run with two verdicts' '
    burnish-train run.yaml && test $(wc -l <out/asha.jsonl) -eq 2 &&
    cp out/asha.jsonl want
'
test_expect_success 'killed in the middle of the second: it is written anew' '
    rm -r out/checkpoint-4 out/checkpoint-6 out/model &&
    truncate -s -20 out/asha.jsonl &&
    burnish-train run.yaml 2>err && grep "after step 2" err &&
    test_cmp want out/asha.jsonl
'
test_expect_success 'and can be read when the run is started again' '
    rm -r out/checkpoint-6 out/model && burnish-train run.yaml 2>err &&
    grep "after step 4" err && test_cmp want out/asha.jsonl
'
test_done
