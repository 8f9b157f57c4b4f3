#!/bin/sh
test_description='what generated answers are like, with confidence intervals'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require PYTHON "no python3" python3 -c ""
BURNISH_CACHE=$PWD/cache
PYTHONDONTWRITEBYTECODE=1
export BURNISH_CACHE PYTHONDONTWRITEBYTECODE
evaluate="python3 $BN_SRCDIR/t/generate/evaluate.py"
python3 "$BN_SRCDIR/t/tiny.py" .
# Two things to learn by heart, so that some answers match and end.
python3 - <<EOT
import json
rows = [{"prompt": p, "completion": c} for p, c in
        (("red: ", "a stone"), ("blue: ", "a quiet river")) * 12]
with open("heart.jsonl", "w") as f:
    f.writelines(json.dumps(r) + "\n" for r in rows)
EOT
sed -n 1,2p heart.jsonl >rows.jsonl
cat sft.jsonl >>rows.jsonl
generate="burnish-generate --model out/model --max-new-tokens 24 --threads 1"

test_expect_success 'a run that learns two answers' '
    burnish-train --set train_file=heart.jsonl --set max_steps=150 \
        --set learning_rate=0.01 run.yaml &&
    $generate --input rows.jsonl --reference completion --evaluate figures.json \
        >answers.jsonl && cat answers.jsonl
'
test_expect_success 'every figure and its interval, as code of its own finds them' '
    $evaluate answers.jsonl figures.json rows.jsonl completion
'
test_expect_success 'some match, some do not; the interval is around the share' '
    python3 - <<-\EOT
	import json
	f = json.load(open("figures.json"))
	x = [f["eval_gen_exact_match" + k] for k in ("_low", "", "_high")]
	print(x)
	assert 0 < x[0] < x[1] < x[2] < 1 and x[1] >= 2 / 26
	assert f["eval_gen_length"] > 0
	EOT
'
test_expect_success 'sampled answers that never end, without references' '
    $generate --input rows.jsonl --ignore-eos --temperature 1 --seed 3 \
        --evaluate long.json >long.jsonl && $evaluate long.jsonl long.json &&
    grep "\"eval_gen_eos_rate\":0," long.json &&
    test_must_fail grep exact_match long.json
'
test_expect_success '--record: an evaluation of the run, at its last step' '
    cp -R out run1 && $generate --input rows.jsonl --reference completion --record run1 >/dev/null &&
    tail -n 1 run1/metrics.jsonl >last && python3 - <<-\EOT
	import json
	r, f = json.load(open("last")), json.load(open("figures.json"))
	assert r["kind"] == "eval" and r["step"] == 150, r
	assert all(r[k] == v for k, v in f.items())
	assert set(r) - set(f) == {"step", "epoch", "time", "kind"}
	EOT
'
test_expect_success 'what cannot be compared or recorded is refused' '
    test_expect_code 64 $generate --reference completion "x: " &&
    test_expect_code 64 $generate --input rows.jsonl --reference completion &&
    test_expect_code 65 $generate --input rows.jsonl --reference nothing \
        --evaluate x.json 2>err && grep "rows.jsonl.*1.*.nothing. must be there" err &&
    test_must_fail test -e x.json && mkdir empty &&
    test_expect_code 65 $generate --input rows.jsonl --record empty
'
test_done
