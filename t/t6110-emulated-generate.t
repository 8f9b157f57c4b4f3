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
test_expect_success 'a device of another name is refused' '
    test_expect_code 64 "$generate" --device gpu --model "$model" a 2>err &&
    grep "device: .gpu. is none of auto|cpu|cuda" err
'
test_done
