#!/bin/sh
test_description='a run that never gets better than it began ends with the best that it saved'
. "${BN_SRCDIR:-$(dirname "$0")/../..}/t/tlib.sh"
bn_require_runs
python3 "$BN_SRCDIR/t/tiny.py" .
sed 's/"completion": "/&An /' sft.jsonl >eval.jsonl
cat >>run.yaml <<EOT
eval_file: eval.jsonl
eval_strategy: steps
eval_steps: 2
eval_on_start: true
save_strategy: steps
save_steps: 2
load_best_model_at_end: true
greater_is_better: true
EOT
sed -i "s/^max_steps.*/max_steps: 6/" run.yaml

# The step of the greatest eval_loss of those behind the one given: learning is
# wrong by that metric.
best() {
    python3 - "$1" <<'EOT'
import json
import sys
e = [json.loads(x) for x in open("out/metrics.jsonl")]
e = [r for r in e if r["kind"] == "eval" and r["step"] > int(sys.argv[1])]
print(max(e, key=lambda r: r["eval_loss"])["step"])
EOT
}
test_expect_success 'the best evaluation is that at the start' '
    burnish-train run.yaml 2>err && test "$(best -1)" = 0
'
test_expect_success 'the model is of the best checkpoint' '
    step=$(best 0) && ls out && burnish ckpt export out/checkpoint-$step want &&
    cmp want/model.safetensors out/model/model.safetensors
'
test_expect_success 'nor does early stopping wait for what it was at the start' '
    burnish-train --set output_dir=early --set early_stopping_patience=1 \
        run.yaml 2>err && cat err && test -f early/model/config.json
'
test_done
