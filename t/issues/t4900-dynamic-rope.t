#!/bin/sh
test_description='dynamic RoPE turns a row by its own length, whatever lies beside it'
. "${BN_SRCDIR:-$(dirname "$0")/../..}/t/tlib.sh"
bn_require_runs

# A model for 24 positions, and plain ones with the base that dynamic RoPE has
# at 20 and at 60: theta (factor L / 24 - factor + 1)^(d / (d - 2)), d = 8.
python3 - "$BN_SRCDIR/t" <<'EOT'
import json
import sys
sys.path.insert(0, sys.argv[1])
import tiny

tiny.world(".")


def model(name, theta, scaling):
    tiny.model(name)
    c = json.load(open(name + "/config.json"))
    c.update(max_position_embeddings=24, rope_theta=theta,
             rope_scaling=scaling)
    json.dump(c, open(name + "/config.json", "w"))


model("dynamic", 1e4, {"rope_type": "dynamic", "factor": 3.0})
model("plain-20", 1e4, None)
model("plain-60", 1e4 * (3 * 60 / 24 - 2) ** (8 / 6), None)
for n in (20, 60):
    row = {"ids": [3 + (5 * i * i + i) % 90 for i in range(n)]}
    tiny.jsonl(f"{n}.jsonl", [row])
text = [{"text": f"{i:02}" + tiny.words(i, 20)[:57]} for i in range(8)]
tiny.jsonl("train.jsonl", text)
pair = {"prompt": "abcdefghij", "chosen": "k" * 50, "rejected": "lm"}
tiny.jsonl("pairs.jsonl", [pair])
tiny.jsonl("longer.jsonl", [{"text": tiny.words(1, 40)[:120]}])
EOT

score()
{
    burnish-train --score "$1.jsonl" --set model_name_or_path="$2" \
        --set max_length="$3" run.yaml
}
# like A B: the same numbers, to rounding
like()
{
    python3 - "$1" "$2" <<'EOT'
import re
import sys
a, b = ([float(x) for x in re.findall(r"-?[0-9]+(?:\.[0-9e+-]+)?",
                                     open(f).read())] for f in sys.argv[1:])
assert len(a) == len(b) > 3, (len(a), len(b))
worst = max(abs(x - y) / max(1, abs(y)) for x, y in zip(a, b))
print("#", worst)
assert worst < 2e-5, worst
EOT
}

test_expect_success 'a row that fits turns as without scaling' '
    score 20 dynamic 20 >a && score 20 plain-20 20 >b && like a b &&
    score 20 dynamic 500 >a && like a b
'
test_expect_success 'a longer one by its length, whatever the run allows' '
    score 60 plain-60 60 >b && score 60 dynamic 60 >a && like a b &&
    score 60 dynamic 500 >a && like a b
'
test_expect_success 'so do rows of both lengths at once' '
    { score 20 plain-20 60; score 60 plain-60 60; } >b &&
    cat 20.jsonl 60.jsonl >both.jsonl && score both dynamic 500 >a &&
    sed -i "s/\"row\":[0-9]*/\"row\":1/" a b && like a b
'
test_expect_success 'a short answer turns with the longer one to its prompt' '
    score pairs plain-60 80 >b && score pairs dynamic 80 >a && like a b
'
test_expect_success 'training: a longer row elsewhere changes nothing' '
    for m in plain-60 dynamic; do
        burnish-train --set model_name_or_path=$m --set output_dir=$m.out \
            --set train_file=train.jsonl --set max_length=200 \
            --set eval_file=longer.jsonl --set eval_strategy=epoch \
            --set max_steps=4 --set save_strategy=no run.yaml || return 1
        grep "\"kind\":\"train\"" $m.out/metrics.jsonl |
            sed "s/.*\"loss\":\([^,]*\),.*\"grad_norm\":\([^,]*\),.*/\1 \2/" \
            >$m.loss
    done && test $(wc -l <dynamic.loss) -eq 4 &&
    like dynamic.loss plain-60.loss
'
test_done
