#!/bin/sh
# shellcheck disable=SC2016
test_description='greedy answers on an emulated GPU are the golden ones'
. "${BN_SRCDIR:-$(dirname "$0")/..}/t/tlib.sh"
bn_require SHARED "no $BN_SHARED/golden" test -d "$BN_SHARED/golden"
bn_require PYTHON "no python3" python3 --version

model=$BN_SHARED/inputs/models/stories260K-hf
generate=$BN_BUILDDIR/src/cmd/burnish-generate-emu

cat >golden.py <<'PYTHON'
import json, os, sys
rows = json.load(open(os.environ["BN_SHARED"] + "/golden/generate.json"))["rows"]
if sys.argv[1] == "rows":
    for r in rows:
        print(json.dumps({"prompt": r["prompt_text"]}))
else:
    got = [json.loads(line) for line in sys.stdin]
    assert [g["ids"] for g in got] == [r["new"] for r in rows]
PYTHON

test_expect_success 'alone and in batches' '
    python3 golden.py rows >golden.jsonl &&
    for n in 1 4; do
        "$generate" --device cuda --model "$model" --ignore-eos \
            --batch-size $n --max-new-tokens 40 --input golden.jsonl >out &&
        python3 golden.py check <out || return 1
    done
'
test_expect_success 'what is drawn there is what the CPU draws, in any company' '
    while read -r options; do
        draw="--model $model --max-new-tokens 12 --ignore-eos --seed 11
            --input golden.jsonl $options" &&
        "$generate" --device cpu $draw >want &&
        for n in 1 3; do
            "$generate" --device cuda --batch-size $n $draw >got &&
            test_cmp want got || return 1
        done
    done <<-EOT
	--temperature 1
	--temperature 0.8 --top-k 20 --repetition-penalty 1.2
	--temperature 1.3 --top-p 0.8 --min-p 0.01
	--repetition-penalty 1.5
	EOT
'
# 30 tokens of a vocabulary of 512 would be 60 KiB of logits a row.
test_expect_success 'logits do not travel: tokens do' '
    "$generate" --device cuda --model "$model" --ignore-eos \
        --max-new-tokens 30 --temperature 1 --input golden.jsonl \
        >out 2>log &&
    rows=$(wc -l <out) &&
    sed -n "s/.*, \([0-9.]*\) MiB from it.*/\1/p" log >mib &&
    test -s mib &&
    awk -v rows=$rows "{ exit !(\$1 * 1024 * 1024 <= rows * 30 * 4 + 6000) }" mib
'
test_expect_success 'a slot sent to the CPU draws the same' '
    draw="--model $model --max-new-tokens 8 --temperature 1 --seed 3
        --input golden.jsonl" &&
    "$generate" --device cuda $draw >want &&
    BURNISH_CUDA_HOST=sample "$generate" --device cuda $draw >got 2>log &&
    test_cmp want got && grep "ran on the CPU .*: sample [0-9]" log
'
test_expect_success 'a device of another name is refused' '
    test_expect_code 64 "$generate" --device gpu --model "$model" a 2>err &&
    grep "device: .gpu. is none of auto|cpu|cuda" err
'
test_done
